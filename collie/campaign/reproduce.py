"""Reproduction of an anomaly, with controls: the same workload with one condition broken at a time.

A bundle carries an anomaly to another testbed, to be reproduced there.
"""

from __future__ import annotations

import math
from collections import Counter as Tally
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from collie.campaign.budget import BudgetSpent
from collie.campaign.history import broken_on, probe_after
from collie.campaign.measure import Measurer, not_run_again
from collie.counters.catalog import Catalog
from collie.detect.interval import Interval, wilson
from collie.detect.measurement import Measurement
from collie.detect.reading import RunReading
from collie.detect.signature import Levels, Ordinary, Signature, mean_signature, same_counters
from collie.detect.symptom import Symptom, Verdict, inconclusive
from collie.detect.thresholds import Thresholds
from collie.inventory.fingerprint import Fingerprint
from collie.ports import Measured, RunRecord
from collie.search.anomaly import Anomaly, Claim
from collie.workloads.feature import Condition, Mfs
from collie.workloads.setup import SetUp
from collie.workloads.space import Space
from collie.workloads.workload import Workload

_SHARE_TO_REPRODUCE = 0.6
_SHARE_TO_GIVE_UP = 1 / 3


class Reproduced(StrEnum):
    """Whether the anomaly was reproduced."""

    YES = "yes"
    NO = "no"
    INCONCLUSIVE = "inconclusive"


_EXIT_CODES = {Reproduced.YES: 0, Reproduced.NO: 1, Reproduced.INCONCLUSIVE: 4}


@dataclass(frozen=True, slots=True)
class Plan:
    """The runs of a reproduction. Each control breaks one condition.

    Attributes:
        uncontrolled: the conditions that no workload of the space breaks without breaking another, or on this set-up.
        on: the set-up that anomaly and controls need, after the phases that bring it. None: each has its own.
    """

    anomaly: Workload
    controls: tuple[tuple[Workload, Condition], ...] = ()
    uncontrolled: tuple[Condition, ...] = ()
    on: SetUp | None = None


def planned(workload: Workload, mfs: Mfs, space: Space, on: SetUp | None = None) -> Plan:
    """Return the plan for an anomaly, with all of its controls."""
    controls: list[tuple[Workload, Condition]] = []
    uncontrolled: list[Condition] = []
    for condition in mfs.conditions:
        control = broken_on(on, workload, mfs, condition, space)
        if control is None:
            uncontrolled.append(condition)
        else:
            controls.append((control, condition))
    return Plan(workload, tuple(controls), tuple(uncontrolled), on)


@dataclass(frozen=True)
class CountersAtDiscovery:
    """The counters of an anomaly at discovery, and the levels of healthy runs, which also apply to later runs."""

    signature: Signature
    levels: Levels

    def comparable_with(self, measurement: Measurement) -> CountersAtDiscovery | None:
        """Return the part whose counters a run has, or None if that part is empty or has no raised counter."""
        ordinary = {
            name: level for name, level in self.levels.ordinary.items() if measurement.counter(name) is not None
        }
        raised = tuple((name, height) for name, height in self.signature.raised if name in ordinary)
        if not ordinary or (self.signature.raised and not raised):
            return None
        return CountersAtDiscovery(Signature(raised), replace(self.levels, ordinary=ordinary))


def counters_at_discovery(runs: Iterable[RunRecord], anomaly: Anomaly, catalog: Catalog) -> CountersAtDiscovery | None:
    """Return the counters of an anomaly at discovery, from the judged runs of its campaign.

    Return None without a recorded run of the anomaly, or with too few healthy runs for levels.
    """
    ordinary = Ordinary(catalog)
    measured: dict[Workload, list[Measurement]] = {anomaly.workload: [], anomaly.found_as: []}
    for record in runs:
        if not isinstance(record.result, Measured) or record.verdict is None:
            continue
        if record.verdict.is_normal and record.purpose == "search":
            ordinary.learn(record.result.measurement)
        elif record.verdict.symptom is anomaly.symptom and record.workload in measured:
            measured[record.workload].append(record.result.measurement)
    measurements = measured[anomaly.workload] or measured[anomaly.found_as]
    if not measurements or not ordinary.levels.ordinary:
        return None
    return CountersAtDiscovery(
        mean_signature([ordinary.levels.signature(each) for each in measurements]), ordinary.levels
    )


@dataclass(frozen=True, slots=True)
class Trial:
    """One workload, run several times. `broken` is None for the anomaly itself."""

    workload: Workload
    broken: Condition | None
    readings: tuple[RunReading, ...]

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The verdict of each run."""
        return tuple(reading.verdict for reading in self.readings)

    @property
    def severities(self) -> tuple[float, ...]:
        """Severity of each anomalous run, 0..1."""
        return tuple(verdict.severity for verdict in self.verdicts if verdict.is_anomalous)

    @property
    def rates_bps(self) -> tuple[float, ...]:
        """Payload bits/s over all hosts of each conclusive run, where known."""
        conclusive = [reading for reading in self.readings if not reading.verdict.is_inconclusive]
        return tuple(reading.delivered_bps for reading in conclusive if reading.delivered_bps is not None)

    @property
    def victim_lost_ratios(self) -> tuple[float, ...]:
        """Share of its throughput alone that the flow beside the workload lost in each conclusive run, where known."""
        conclusive = [reading for reading in self.readings if not reading.verdict.is_inconclusive]
        return tuple(each.victim_lost_ratio for each in conclusive if each.victim_lost_ratio is not None)

    def reproduced(self, symptom: Symptom) -> int:
        """Count the runs with a symptom."""
        return sum(verdict.symptom is symptom for verdict in self.verdicts)

    def share(self, symptom: Symptom) -> Interval | None:
        """Return the confidence interval of the share of conclusive runs with a symptom."""
        return wilson(self.reproduced(symptom), len(self.verdicts) - self.inconclusive)

    @property
    def normal(self) -> int:
        """Number of normal runs."""
        return sum(verdict.is_normal for verdict in self.verdicts)

    @property
    def inconclusive(self) -> int:
        """Number of inconclusive runs."""
        return sum(verdict.is_inconclusive for verdict in self.verdicts)

    @property
    def symptoms(self) -> Mapping[Symptom, int]:
        """Number of anomalous runs by symptom, the most frequent symptom first."""
        return dict(Tally(verdict.symptom for verdict in self.verdicts if verdict.symptom is not None).most_common())


@dataclass(frozen=True, slots=True)
class Reproduction:
    """An anomaly and its controls, run again.

    Attributes:
        controls, uncontrolled: as in `Plan` if requested, else empty.
        alone: the workload on a set-up of its own, with nothing before. Only with controls, and if the anomaly needs
            another set-up.
        on: the set-up that the anomaly needs.
        at_discovery: the counters at discovery, as far as this testbed has them.
        ended_by: reason for an early end, or empty.
    """

    symptom: Symptom
    trial: Trial
    controls: tuple[Trial, ...]
    uncontrolled: tuple[Condition, ...] = ()
    at_discovery: CountersAtDiscovery | None = None
    ended_by: str = ""
    alone: Trial | None = None
    on: SetUp | None = None

    @property
    def exit_code(self) -> int:
        """3 if a budget was spent before the last run, else the exit code of the answer."""
        return 3 if self.ended_by else _EXIT_CODES[self.answer]

    @property
    def answer(self) -> Reproduced:
        """Yes if ceil(0.6 N) of N runs show the symptom. Otherwise inconclusive if more than N / 3 runs were, or no."""
        return self._answer(self.trial)

    @property
    def signature(self) -> Signature | None:
        """The mean signature of the runs with the symptom, relative to the levels at discovery."""
        signatures = [verdict.signature for verdict in self.trial.verdicts if verdict.symptom is self.symptom]
        known = [signature for signature in signatures if signature is not None]
        return mean_signature(known) if self.at_discovery and known else None

    @property
    def same_counters(self) -> bool | None:
        """Whether the counters moved as at discovery. None without a record, or if no counter moved."""
        now = self.signature
        return None if self.at_discovery is None or now is None else same_counters(self.at_discovery.signature, now)

    def explains(self, control: Trial) -> bool | None:
        """Whether the symptom depends on the condition that a control breaks.

        None if neither control nor anomaly reproduced it, or if too many runs of the control were inconclusive.
        """
        answer = self._answer(control)
        if answer is Reproduced.YES:
            return False
        return True if answer is Reproduced.NO and self.answer is Reproduced.YES else None

    def is_replaced(self, control: Trial) -> bool:
        """Whether a control shows other symptoms as often as the anomaly must show its own."""
        others = sum(verdict.is_anomalous for verdict in control.verdicts) - control.reproduced(self.symptom)
        return others >= math.ceil(_SHARE_TO_REPRODUCE * len(control.verdicts))

    def _answer(self, trial: Trial) -> Reproduced:
        runs = len(trial.verdicts)
        if trial.reproduced(self.symptom) >= math.ceil(_SHARE_TO_REPRODUCE * runs):
            return Reproduced.YES
        return Reproduced.INCONCLUSIVE if trial.inconclusive > _SHARE_TO_GIVE_UP * runs else Reproduced.NO


_Case = tuple[Workload, SetUp | None, Condition | None, list[RunReading]]
"""A workload, its set-up if not its own, the condition that it breaks, and its runs."""


def reproduce(
    measurer: Measurer,
    plan: Plan,
    symptom: Symptom,
    *,
    repeat: int,
    controls: bool,
    at_discovery: CountersAtDiscovery | None = None,
) -> Reproduction:
    """Run an anomaly `repeat` times. With `controls`, also run it as often with each of its conditions broken.

    If it needs a set-up with earlier phases, each run repeats these, and a further control leaves them out. The runs of
    anomaly and controls alternate, so that drift affects all of them alike.

    Raises:
        BudgetSpent: the budget was spent before the first run of the anomaly.
    """
    cases: list[_Case] = [(plan.anomaly, plan.on, None, [])]
    if controls:
        cases += [(control, plan.on, condition, []) for control, condition in plan.controls]
    if controls and plan.on is not None:
        cases.append((plan.anomaly, None, None, []))
    ended_by = ""
    try:
        for _ in range(repeat):
            for workload, on, _condition, readings in cases:
                readings.append(_reading(measurer, workload, on))
    except BudgetSpent as spent:
        if not cases[0][-1]:
            raise
        ended_by = str(spent)
    trials = [Trial(workload, condition, tuple(readings)) for workload, _on, condition, readings in cases if readings]
    alone = trials.pop() if len(trials) > 1 and trials[-1].broken is None else None
    measurement = measurer.judgement.measurement(plan.anomaly)
    at_discovery = at_discovery.comparable_with(measurement) if at_discovery and measurement else at_discovery
    return Reproduction(
        symptom,
        trials[0],
        tuple(trials[1:]),
        plan.uncontrolled if controls else (),
        at_discovery,
        ended_by,
        alone,
        plan.on,
    )


def _reading(measurer: Measurer, workload: Workload, on: SetUp | None) -> RunReading:
    if (lost := measurer.lost_to(workload, on)) is not None:
        return not_run_again(lost)  # without a run of its plain sibling
    phases = (workload, *on.before) if on is not None else (workload,)
    if measurer.refused.keys().isdisjoint(phases):
        measurer.measure_sibling(workload)
        purpose = "reproduce"
        reading = measurer.probe(workload, purpose) if on is None else probe_after(measurer, workload, on, purpose)
        if reading is not None:
            return reading
    refused = next(measurer.refused[each] for each in phases if each in measurer.refused)
    return RunReading(inconclusive(f"unsupported: {refused}"))


BUNDLE_SUFFIX = ".pyz"


@dataclass(frozen=True)
class Bundle:
    """An anomaly with all data that another run and its verdict need.

    Attributes:
        exported: time of the export, RFC 3339.
        found_on: the testbed, in words.
        likely: hint for the cause, or empty.
        claim: how far `mfs` was tested.
        siblings: the plain sibling of each workload of the plan, for the bound.
        fingerprints: fingerprints of the hosts at discovery, empty if not recorded.
        victim, victim_bps: whether a plain flow runs beside every workload, and its load or 0 for full queues.
    """

    name: str
    collie_version: str
    exported: str
    found_on: str
    sentence: str
    likely: str
    symptom: Symptom
    mfs: Mfs
    plan: Plan
    siblings: Mapping[Workload, Workload]
    thresholds: Thresholds
    verify: bool = False
    at_discovery: CountersAtDiscovery | None = None
    fingerprints: Mapping[str, Fingerprint] = field(default_factory=dict)
    victim: bool = False
    victim_bps: int = 0
    claim: Claim = field(default_factory=Claim)
