"""Control verbs that the agents made beside the traffic. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from collie.readings.samples import AgentSample, EngineTotals
from collie.workloads.workload import Workload

_SHORT_RATIO = 0.05
"""Share of the control verbs that a host may miss without a word."""

_KINDS: Mapping[str, tuple[str, Callable[[EngineTotals], int]]] = {
    "new_mrs_per_second": ("registered and deregistered {} regions", lambda engine: engine.new_mrs),
    "new_qps_per_second": ("created and destroyed {} queue pairs", lambda engine: engine.new_qps),
}
"""What a host did, and how many, by the field with the rate."""


def notes(workload: Workload, window: Mapping[str, Sequence[AgentSample]]) -> tuple[str, ...]:
    """Name the hosts that made fewer control verbs than the workload asks for.

    The device or its driver was slower. The traffic beside them had what the measurement says.
    """
    found = []
    for role, samples in window.items():
        first, last = (samples[0], samples[-1]) if len(samples) > 1 else (None, None)
        if first is None or last is None or first.engine is None or last.engine is None:
            continue
        for field, (did, count) in _KINDS.items():
            asked = workload.get(field)
            made = (count(last.engine) - count(first.engine)) / max(last.clock - first.clock, 1e-9)
            if made < (1.0 - _SHORT_RATIO) * asked:
                found.append(f"host {role} {did.format(f'{made:,.0f}')} a second, not {asked:,} ({field})")
    return tuple(found)
