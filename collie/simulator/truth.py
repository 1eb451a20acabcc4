"""Ground truth of a simulated subsystem, only for scoring: only `wiring` and tests can import this module.

The verdict compares the noiseless model of a workload with that of its plain sibling on hardware with every mechanism
cured, because a mechanism can affect plain traffic, too. The mechanism that causes the highest severity when every
*other* one is cured gets the credit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from collie.campaign.summary import Score
from collie.detect.bounds import Bound, Bounds, Calibration
from collie.detect.judge import judge
from collie.detect.measurement import Latency, Measurement
from collie.detect.symptom import Verdict
from collie.detect.thresholds import Thresholds
from collie.search.anomaly import Anomaly
from collie.simulator.capabilities import unsupported_reason
from collie.simulator.cures import cured
from collie.simulator.draws import draw
from collie.simulator.hardware import Subsystem
from collie.simulator.latency import latencies
from collie.simulator.mechanism import Mechanism
from collie.simulator.model import SteadyState, evaluate, evaluate_many
from collie.simulator.specification import specification
from collie.simulator.subsystem import SubsystemFile
from collie.simulator.testbed import noiseless_hosts, noiseless_latency
from collie.workloads.constraint import VERBS
from collie.workloads.plan import sinks
from collie.workloads.setup import SetUp
from collie.workloads.space import Space
from collie.workloads.workload import Workload

Severities = NDArray[np.float64]
"""By workload, 0 where it is normal."""

SetUps = Sequence[SetUp | None]
"""The set-up of each workload. Empty or None: its own."""


def planted(subsystem: SubsystemFile) -> tuple[Mechanism, ...]:
    """Return the mechanisms with a witness in a subsystem file."""
    return tuple(witness.mechanism for witness in subsystem.witnesses)


class Credits(NamedTuple):
    """Ground truth about many workloads.

    Attributes:
        costs: severity that each mechanism causes alone, a row per `Mechanism` and a column per workload.
        credited: the mechanism with the largest cost, None for a normal workload.
    """

    severities: NDArray[np.float64]
    costs: NDArray[np.float64]
    credited: list[Mechanism | None]


class Truth:
    """Ground truth of one subsystem with the settings of its file. `space` gives the plain values of siblings."""

    def __init__(self, subsystem: SubsystemFile, space: Space) -> None:
        hardware = self._hardware = subsystem.hardware
        self._space, self._witnesses, self._planted = space, subsystem.witnesses, planted(subsystem)
        reference = _Reference(cured(hardware, Mechanism), space)

        def judge_of(*mechanisms: Mechanism) -> _Judge:
            return _Judge(cured(hardware, mechanisms), reference)

        self._whole = judge_of()
        self._healthy = judge_of(*Mechanism)
        self._alone = {name: judge_of(*(set(Mechanism) - {name})) for name in Mechanism}
        self._without = {name: judge_of(name) for name in Mechanism}

    def verdict(self, workload: Workload, on: SetUp | None = None) -> Verdict:
        """Judge a workload without noise, on a set-up of its own or as a phase of another one."""
        return self._whole.verdict(workload, on)

    def severities(self, workloads: Sequence[Workload], on: SetUps = ()) -> NDArray[np.float64]:
        """Return the severity of each workload, 0 if it is normal. Much faster than one by one."""
        return self._whole.severities(workloads, on)

    def severities_alone(self, mechanism: Mechanism, workloads: Sequence[Workload]) -> NDArray[np.float64]:
        """Return the severity of each workload with every other mechanism cured."""
        return self._alone[mechanism].severities(workloads, ())

    def costs(self, workload: Workload) -> dict[Mechanism, float]:
        """Return the severity that each mechanism causes alone. Mechanisms that cause none are left out."""
        rest = self._healthy.verdict(workload, None).severity
        severities = {name: alone.verdict(workload, None).severity - rest for name, alone in self._alone.items()}
        return {name: severity for name, severity in severities.items() if severity > 0}

    def mechanism(self, workload: Workload, on: SetUp | None = None) -> Mechanism | None:
        """Return the mechanism that costs a workload most, or None."""
        return self.mechanisms([workload], [on])[0]

    def mechanisms(self, workloads: Sequence[Workload], on: SetUps = ()) -> list[Mechanism | None]:
        """Return `mechanism` of each workload."""
        return self.credits(workloads, on).credited

    def credits(self, workloads: Sequence[Workload], on: SetUps = ()) -> Credits:
        """Return the severity, the costs and the mechanism of each workload, as a phase of its set-up in `on`."""
        names = list(Mechanism)
        credited: list[Mechanism | None] = [None] * len(workloads)
        costs = np.zeros((len(names), len(workloads)))
        whole = self.severities(workloads, on) if workloads else np.zeros(0)
        anomalous = np.flatnonzero(whole)
        if not anomalous.size:
            return Credits(whole, costs, credited)
        suspects = [workloads[index] for index in anomalous.tolist()]
        theirs = [on[index] for index in anomalous.tolist()] if on else ()
        alone = np.array([self._alone[name].severities(suspects, theirs) for name in names])
        costs[:, anomalous] = np.maximum(0.0, alone - self._healthy.severities(suspects, theirs))
        for index in anomalous.tolist():
            gains = costs[:, index]
            if gains.max() <= 0:
                # No mechanism causes the anomaly alone, so the one whose cure helps most is credited.
                one, its = [workloads[index]], on[index : index + 1]
                cured_severities = [self._without[name].severities(one, its)[0] for name in names]
                gains = whole[index] - np.array(cured_severities)
            best = int(gains.argmax())
            credited[index] = names[best] if gains[best] > 0 else None
        return Credits(whole, costs, credited)

    def obstacle(self, workload: Workload) -> str | None:
        """Return why this device, or every device, cannot run a workload. None if this device can."""
        broken = (text for rule in VERBS if (text := rule.check(workload)))
        return next(broken, None) or unsupported_reason(self._hardware, workload)

    def outside(self, workload: Workload) -> str | None:
        """Return why the space does not hold a workload, or None."""
        return "; ".join(text for _, text in self._space.complaints(workload)) or None

    @cached_property
    def shown(self) -> frozenset[Mechanism]:
        """The mechanisms that the witnesses show in the space. If a planted one is missing, drawn points count, too."""
        inside = [each for each in self._witnesses if not (self.obstacle(each.trigger) or self.outside(each.trigger))]
        found = {*self.mechanisms([each.trigger for each in inside], [each.on for each in inside])}
        if not found.issuperset(self._planted):
            found.update(self.mechanisms(draw(self._hardware, self._space)))
        return frozenset(mechanism for mechanism in found if mechanism)

    def score(self, anomalies: Iterable[Anomaly]) -> Score:
        """Compare the anomalies of a search with the planted mechanisms that show in the space."""
        anomalies = list(anomalies)
        credited = self.mechanisms([each.workload for each in anomalies], [each.set_up for each in anomalies])
        mechanisms = {
            anomaly.id: mechanism.value if mechanism else None
            for anomaly, mechanism in zip(anomalies, credited, strict=True)
        }
        own = {mechanisms[anomaly.id] for anomaly in anomalies if anomaly.same_as is None}
        to_the_end = {mechanisms[anomaly.id] for anomaly in anomalies if anomaly.same_as is None and anomaly.complete}
        seen = set(mechanisms.values())
        names = tuple(mechanism.value for mechanism in self._planted if mechanism in self.shown or mechanism in seen)
        return Score(
            mechanisms,
            planted=names,
            found=tuple(name for name in names if name in own),
            explained=tuple(name for name in names if name in to_the_end),
            missed=tuple(name for name in names if name not in own),
            false=sum(not self.verdict(each.workload, each.set_up).is_anomalous for each in anomalies),
            absent=tuple(mechanism.value for mechanism in self._planted if mechanism not in names),
            joined=sum(anomaly.same_as is not None for anomaly in anomalies),
            hidden=tuple(name for name in names if name in seen - own),
            merged_wrong=_wrong_joins(anomalies, mechanisms),
        )


def _wrong_joins(
    anomalies: Iterable[Anomaly], mechanisms: Mapping[str, str | None]
) -> dict[str, tuple[str | None, str | None]]:
    """Return both mechanisms of each anomaly that is joined to one with a different mechanism."""
    wrong = {}
    for anomaly in anomalies:
        own, other = mechanisms[anomaly.id], anomaly.same_as
        if other is not None and other in mechanisms and mechanisms[other] != own:
            wrong[anomaly.id] = own, mechanisms[other]
    return wrong


class _Reference:
    """Bounds from the noiseless plain siblings of healthy hardware."""

    def __init__(self, healthy: Subsystem, space: Space) -> None:
        self._healthy = healthy
        self._bounds = Bounds(lambda workload: specification(healthy, workload), Calibration(), space)

    def bounds(self, workloads: Sequence[Workload]) -> list[Bound]:
        """Return the bound of each workload."""
        needed = [*workloads, *(each for each in map(self._bounds.unbatched, workloads) if each is not None)]
        siblings = {self._bounds.sibling(workload) for workload in needed if not self._bounds.known(workload)}
        if siblings:
            self._learn(list(siblings))
        return [self._bounds.tightest(workload) for workload in workloads]

    def _learn(self, siblings: Sequence[Workload]) -> None:
        state = evaluate_many(self._healthy, siblings)
        bps, pps = np.maximum(*state.delivered_bps()), np.maximum(*state.delivered_pps())
        found = latencies(self._healthy, state) if any(each.offered_bps for each in siblings) else None
        slowest = np.zeros((2, len(siblings)))
        for flow in found or ():
            if flow is not None:
                slowest = np.maximum(slowest, [np.broadcast_to(each, bps.shape) for each in flow.completion[:2]])
        readings = zip(siblings, bps.tolist(), pps.tolist(), *slowest.tolist(), strict=True)
        for sibling, most_bps, most_pps, middle, p99 in readings:
            latency = Latency(middle, p99) if sibling.offered_bps else None
            bound = Bound(most_bps, most_pps, "plain sibling", latency=latency)
            self._bounds.learn(sibling, {sinks(sibling)[0]: bound})


class _Judge:
    """Verdicts on one subsystem against the reference."""

    def __init__(self, subsystem: Subsystem, reference: _Reference) -> None:
        self._subsystem = subsystem
        self._reference = reference
        self._thresholds = Thresholds()

    def verdict(self, workload: Workload, on: SetUp | None) -> Verdict:
        """Judge one workload, in words."""
        (bound,) = self._reference.bounds([workload])
        return judge(workload, self._measure(workload, on), bound, self._thresholds)

    def severities(self, workloads: Sequence[Workload], on: SetUps) -> NDArray[np.float64]:
        """Return the severity of each workload by the same rules, 0 if it is normal."""
        tightest = self._reference.bounds(workloads)
        state = evaluate_many(self._subsystem, workloads, on)
        bps, pps = (np.array([getattr(bound, unit) for bound in tightest]) for unit in ("bps", "pps"))
        receiving = state.receives()
        deficit = np.zeros(len(workloads))
        rates = zip(state.delivered_bps(), state.delivered_pps(), receiving, strict=True)
        for delivered_bps, delivered_pps, receives in rates:
            missing = 1.0 - np.maximum(delivered_bps / bps, delivered_pps / pps)
            deficit = np.maximum(deficit, np.where(receives, missing, 0.0))
        signal = np.maximum(*(state.pause_ratio() if state.lossless else state.loss_ratio()))
        bar = self._thresholds.pause_ratio if state.lossless else self._thresholds.loss_ratio
        anomalous = (signal > bar) | (deficit > self._thresholds.throughput_deficit)
        severities = np.where(anomalous, np.maximum(signal * (signal > bar), deficit), 0.0)
        if any(workload.offered_bps for workload in workloads):
            waiting = self._waiting(workloads, tightest, state)
            severities = np.where(anomalous, severities, waiting)
        return severities

    def _waiting(self, workloads: Sequence[Workload], tightest: Sequence[Bound], state: SteadyState) -> Severities:
        """Return the share of the latency that is waiting, 0 where the latency is normal or no load is carried."""
        limits, shares = self._thresholds, np.zeros(len(workloads))
        offered = np.array([workload.offered_bps for workload in workloads])
        least = (1.0 - limits.load_missed) * offered
        carried = (offered > 0) & (np.array([bound.bps for bound in tightest]) >= least)
        loop, ways = state.by_host(0.0, state.traffic.loop), zip(state.delivered_bps(), state.receives(), strict=True)
        for more, (delivered, receives) in zip(loop, ways, strict=True):
            carried &= delivered >= least * (receives + more)
        usual = [bound.latency or Latency() for bound in tightest]
        medians = np.array([each.median_seconds or np.inf for each in usual])
        tails = np.array([each.p99_seconds or np.inf for each in usual])
        found = latencies(self._subsystem, state)
        for flow in (found.forth, found.back):  # the plain sibling has no loopback
            if flow is None:
                continue
            for seconds, reference in ((flow.completion.median, medians), (flow.completion.p99, tails)):
                late = (seconds - reference > limits.latency_seconds) & (seconds > limits.latency_ratio * reference)
                share = 1.0 - np.where(late, reference, 1.0) / np.where(late, seconds, 1.0)
                shares = np.where(carried, np.maximum(shares, share), 0.0)
        return shares

    def _measure(self, workload: Workload, on: SetUp | None) -> Measurement:
        hosts = noiseless_hosts(evaluate(self._subsystem, workload, on))
        latency = noiseless_latency(self._subsystem, workload, on) if workload.offered_bps else {}
        return Measurement(hosts, window_seconds=1.0, latency=latency)
