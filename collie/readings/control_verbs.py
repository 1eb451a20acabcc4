"""Control verbs that the agents made beside the traffic. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from errno import errorcode

from collie.readings.samples import AgentSample, EngineTotals
from collie.workloads.plan import hosts
from collie.workloads.workload import CONTROL_VERBS, Workload

_SHORT_RATIO = 0.05
"""Share of the control verbs that a host may miss without a word."""
_SHORT = 4
"""Number of them that it may miss: the engines of a host count whole ones, each from its own moment on."""

_KINDS: Mapping[str, tuple[str, Callable[[EngineTotals], int]]] = {
    "new_mrs_per_second": ("registered and deregistered {} regions", lambda engine: engine.new_mrs),
    "new_qps_per_second": ("created and destroyed {} queue pairs", lambda engine: engine.new_qps),
    "new_ahs_per_second": ("created and destroyed {} address handles", lambda engine: engine.new_ahs),
    "qp_errors_per_second": ("brought a queue pair back from {} errors", lambda engine: engine.qp_errors),
}
assert tuple(_KINDS) == CONTROL_VERBS
"""What a host did, and how many, by the field with the rate."""

Window = Mapping[str, Sequence[AgentSample]]


def notes(workload: Workload, window: Window) -> tuple[str, ...]:
    """Name the hosts that made fewer control verbs than the workload asks for.

    The device or its driver was slower. The traffic beside them had what the measurement says.
    """
    found = []
    for role, first, last in _engines(workload, window):
        seconds = max(window[role][-1].clock - window[role][0].clock, 1e-9)
        for field, (did, count) in _KINDS.items():
            asked, made = workload.get(field), count(last) - count(first)
            if asked * seconds - made > max(_SHORT, _SHORT_RATIO * asked * seconds):
                did = "took the CPU time of {}" if workload.control_verbs_imitated else did
                found.append(f"host {role} {did.format(f'{made / seconds:,.0f}')} a second, not {asked:,} ({field})")
    return tuple(found)


def problems(workload: Workload, window: Window) -> tuple[str, ...]:
    """Name the hosts where a control verb failed, so that none follow and the run is not what was asked for."""
    return tuple(
        f"host {role} makes no control verbs any more: {errorcode.get(last.control_verb_errno, 'an error')}"
        for role, _, last in _engines(workload, window)
        if last.control_verb_errno
    )


def most_errors_per_second(workload: Workload, samples: Sequence[AgentSample]) -> float:
    """Return how fast an error counter of a host can rise because of the errors that its agent made in the window.

    Counters and samples are read at moments of their own, so a few more can be counted than made.
    """
    first, last = samples[0], samples[-1]
    has_errors = workload.qp_errors_per_second and not workload.control_verbs_imitated
    if not has_errors or first.engine is None or last.engine is None:
        return 0.0
    made = last.engine.qp_errors - first.engine.qp_errors
    return (made * (1.0 + _SHORT_RATIO) + _SHORT) / max(last.clock - first.clock, 1e-9)


def _engines(workload: Workload, window: Window) -> Iterator[tuple[str, EngineTotals, EngineTotals]]:
    """Yield first and last totals of the workload's hosts. A host with a victim alone makes no control verbs."""
    for role in hosts(workload):
        samples = window.get(role, ())
        if len(samples) > 1 and (first := samples[0].engine) and (last := samples[-1].engine):
            yield role, first, last
