"""Ground truth of a simulated subsystem, for scoring alone: only `wiring` and tests may import this module.

A workload is anomalous when the noiseless model, judged against its noiseless plain sibling, says so. What a mechanism
costs a workload is the severity that is left when every *other* mechanism is cured, that is, when the quantity behind
it is made ideal. An anomaly is credited to the one mechanism that costs its workload most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeVar

from collie.detect.bounds import Bound, Bounds, Calibration
from collie.detect.judge import Thresholds, judge
from collie.detect.measurement import HostMeasurement, Measurement
from collie.detect.symptom import Verdict
from collie.search.anomaly import Anomaly
from collie.simulator.mechanism import Mechanism
from collie.simulator.model import evaluate
from collie.simulator.specification import specification
from collie.simulator.subsystem import RelaxedOrdering, Subsystem, SubsystemFile
from collie.workloads.plan import HOST_A, HOST_B
from collie.workloads.space import Space
from collie.workloads.workload import Workload

S = TypeVar("S", bound=Subsystem)

_AMPLE: Final = 1 << 40

Changes = Mapping[str, Mapping[str, Any]]

CURES: Final[Mapping[Mechanism, Changes]] = {
    Mechanism.RECEIVE_WQE_PREFETCH: {"receive_wqe_cache": {"prefetch_wqes": _AMPLE}},
    Mechanism.READ_SLOW_PATH: {"engine": {"read_bulk_packets": _AMPLE}},
    Mechanism.TRANSLATION_CACHE: {"translation_cache": {"entries": _AMPLE}},
    Mechanism.CONTEXT_CACHE: {"context_cache": {"entries": _AMPLE}},
    Mechanism.STRICT_ORDERING: {"settings": {"relaxed_ordering": RelaxedOrdering.FORCED}},
    Mechanism.LOOPBACK_INCAST: {"loopback": {"rate_limited": True}},
}
"""The quantity behind each mechanism, and the value at which it limits nothing."""


def cured(subsystem: S, mechanisms: Iterable[Mechanism]) -> S:
    """Return a subsystem in which some mechanisms limit nothing."""
    for mechanism in mechanisms:
        for part, changes in CURES[mechanism].items():
            subsystem = subsystem.with_part(part, **changes)
    return subsystem


@dataclass(frozen=True, slots=True)
class Score:
    """How a search did.

    Attributes:
        mechanisms: of each anomaly, by its id; None for a false one.
        planted: mechanisms that the subsystem has.
        found, missed: those of them.
        false: confirmed anomalies that ground truth calls normal.
    """

    mechanisms: Mapping[str, str | None]
    planted: tuple[str, ...]
    found: tuple[str, ...]
    missed: tuple[str, ...]
    false: int


def planted(subsystem: SubsystemFile) -> tuple[Mechanism, ...]:
    """Return the mechanisms that a subsystem file has witnesses for."""
    return tuple(witness.mechanism for witness in subsystem.witnesses)


class Truth:
    """What is true of one subsystem.

    Args:
        subsystem: the file.
        space: gives the plain values of siblings.
    """

    def __init__(self, subsystem: SubsystemFile, space: Space) -> None:
        self._subsystem = subsystem
        self._whole = _judge_of(subsystem, space)
        self._alone = {
            mechanism: _judge_of(cured(subsystem, set(Mechanism) - {mechanism}), space) for mechanism in Mechanism
        }
        self._without = {mechanism: _judge_of(cured(subsystem, [mechanism]), space) for mechanism in Mechanism}

    def verdict(self, workload: Workload) -> Verdict:
        """Judge a workload without noise."""
        return self._whole(workload)

    def costs(self, workload: Workload) -> dict[Mechanism, float]:
        """Return the severity that each mechanism causes by itself; those that cause none are left out."""
        severities = {mechanism: alone(workload).severity for mechanism, alone in self._alone.items()}
        return {mechanism: severity for mechanism, severity in severities.items() if severity > 0}

    def mechanism(self, workload: Workload) -> Mechanism | None:
        """Return the mechanism that costs a workload most; None when it is normal, or when nothing explains it."""
        whole = self._whole(workload)
        if not whole.is_anomalous:
            return None
        costs = self.costs(workload)
        if costs:
            return max(costs, key=lambda mechanism: costs[mechanism])
        # Several mechanisms cause it only together: the one whose cure helps most.
        helped = {name: whole.severity - without(workload).severity for name, without in self._without.items()}
        best = max(helped, key=lambda name: helped[name])
        return best if helped[best] > 0 else None

    def score(self, anomalies: Iterable[Anomaly]) -> Score:
        """Compare what was found with what is planted."""
        mechanisms: dict[str, str | None] = {}
        false = 0
        for anomaly in anomalies:
            credited = self.mechanism(anomaly.workload)
            mechanisms[anomaly.id] = credited.value if credited else None
            false += not self.verdict(anomaly.workload).is_anomalous
        names = tuple(mechanism.value for mechanism in planted(self._subsystem))
        found = tuple(name for name in names if name in mechanisms.values())
        return Score(mechanisms, names, found, tuple(name for name in names if name not in found), false)


def _judge_of(subsystem: Subsystem, space: Space) -> Callable[[Workload], Verdict]:
    bounds = Bounds(lambda workload: specification(subsystem, workload), Calibration(), space)

    @lru_cache(maxsize=10_000)
    def verdict(workload: Workload) -> Verdict:
        if not bounds.known(workload):
            sibling = bounds.sibling(workload)
            measured = _measure(subsystem, sibling)
            bounds.learn(
                sibling,
                {
                    host.host: Bound(host.delivered_bps, host.delivered_pps, "plain sibling")
                    for host in measured.hosts
                    if host.delivered_bps is not None and host.delivered_pps is not None
                },
            )
        return judge(workload, _measure(subsystem, workload), bounds.tightest(workload), Thresholds())

    return verdict


def _measure(subsystem: Subsystem, workload: Workload) -> Measurement:
    """What a noiseless run shows, as far as a verdict needs it."""
    state = evaluate(subsystem, workload)
    hosts = tuple(
        HostMeasurement(
            name,
            delivered_bps=state.delivered_bps(host) if state.receives(host) else None,
            delivered_pps=state.delivered_pps(host) if state.receives(host) else None,
            tx_pause_ratio=state.pause_ratio(host),
            rx_pause_ratio=state.pause_ratio(1 - host),
            loss_ratio=state.loss_ratio(host),
        )
        for host, name in enumerate((HOST_A, HOST_B))
    )
    return Measurement(hosts, window_seconds=1.0)
