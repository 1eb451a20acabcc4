"""The gate: what has become of the anomalies of a baseline, and is there a new one?

1. The known anomalies, then the baseline's own, are compared pair by pair (`detect.compare`).
2. So are their healthy neighbours: each with one condition of an explanation broken. A healthy candidate needs no pair.
3. The search looks for what is new with what is left of the budget, but for what it takes to compare its finds. What is
   known to show is not searched again.

The baseline answers from a testbed of its own, or from its record. A record answers each question with the one reading
that it has of that very workload. It cannot be asked again, so a healthy reading of it counts as evidence only as often
as the baseline measured healthy there (`Record.healthy`); without enough of it nothing is called new.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial

from collie.campaign.budget import Budget, BudgetSpent
from collie.campaign.engine import Engine, Summary
from collie.campaign.measure import Measurer
from collie.detect.compare import (
    Chances,
    Change,
    Comparison,
    PairRule,
    Reading,
    Resolution,
    Shares,
    Side,
    compare,
    reading_of,
    resolution,
    rule_for,
    typical,
)
from collie.detect.confirm import confirm
from collie.detect.symptom import Symptom, Verdict, inconclusive
from collie.ports import CampaignStore, HostLost, Measured, RunRecord, SetupFailed
from collie.search.anomaly import Anomaly
from collie.search.breaking import broken
from collie.search.recipe import Recipe
from collie.workloads.dimension import Ordered, Vector
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.space import Space
from collie.workloads.workload import Workload

PURPOSE = "gate"
_SETUP_TRIES = 3
_NEIGHBOUR_SHARE = 0.4
"""Share of what the anomalies leave of the budget that their healthy neighbours may take."""
_RESERVE = 0.15
"""Share of what is left for the search that is kept back to compare its finds."""


class Kind(StrEnum):
    """Where a case comes from."""

    KNOWN = "known"
    BASELINE = "baseline"
    NEIGHBOUR = "neighbour"
    FOUND = "found"


@dataclass(frozen=True, slots=True)
class GateCase:
    """One workload to compare.

    Attributes:
        name: unique within a gate.
        kind: where it comes from.
        title: one line for people.
        workload: what runs.
        mfs: the conditions of the anomaly; of a neighbour, those that it keeps.
        complete: all of its conditions are known; where some are missing, the others say nothing of other workloads.
        anomaly: what `collie reproduce` calls the anomaly that it is, or is a neighbour of.
        symptom: how the anomaly shows; None of a neighbour.
        beside: of a neighbour, whether a workload is healthy for the same reason: it breaks the same condition alone.
    """

    name: str
    kind: Kind
    title: str
    workload: Workload
    mfs: Mfs
    anomaly: str
    symptom: Symptom | None = None
    complete: bool = True
    beside: Callable[[Workload], bool] | None = field(default=None, compare=False)

    def explains(self, workload: Workload) -> bool:
        """Whether a workload shows the same anomaly, by all that is known of it."""
        return self.complete and self.mfs.covers(workload)


@dataclass(frozen=True, slots=True)
class CaseResult:
    """What a gate says of one case.

    Attributes:
        case: which.
        comparison: what was seen.
        share: chance of a false alarm that the decision had.
        elapsed_seconds: testbed time that it took, on both sides.
    """

    case: GateCase
    comparison: Comparison
    share: float
    elapsed_seconds: float

    @property
    def change(self) -> Change:
        """What has become of it."""
        return self.comparison.change


@dataclass(frozen=True, slots=True)
class GateSummary:
    """How a gate ended.

    Attributes:
        results: in the order of their comparison.
        untested: neighbours for which the budget was not enough.
        false_alarm: declared chance of any false alarm.
        chances: declared of single pairs.
        runs: of the candidate, and of the baseline.
        elapsed_seconds: testbed time of both.
        search: how the search ended; None when nothing was left for it.
        paired: the baseline was measured too, and did not answer from its record.
    """

    results: tuple[CaseResult, ...]
    untested: int
    false_alarm: float
    chances: Chances
    runs: tuple[int, int]
    elapsed_seconds: float
    search: Summary | None
    paired: bool

    def of(self, change: Change) -> tuple[CaseResult, ...]:
        """Return the cases of which the gate says this."""
        return tuple(result for result in self.results if result.change is change)

    @property
    def alarms(self) -> tuple[CaseResult, ...]:
        """What is new or worse."""
        return tuple(result for result in self.results if result.change.is_alarm)

    def exit_code(self, *, inconclusive_fails: bool) -> int:
        """Return 0 passed, 1 new or worse, 4 inconclusive, 5 nothing was run."""
        if not any(self.runs):
            return 5
        if self.alarms:
            return 1
        return 4 if inconclusive_fails and self.of(Change.INCONCLUSIVE) else 0


class Record:
    """What a baseline measured before, by workload."""

    def __init__(self, runs: Iterable[RunRecord] = ()) -> None:
        self._readings: dict[Workload, list[Reading]] = {}
        for run in runs:
            if run.verdict is not None and isinstance(run.result, Measured):
                reading = reading_of(run.verdict, run.result.measurement)
                self._readings.setdefault(run.workload, []).append(reading)

    def reading(self, workload: Workload) -> Reading | None:
        """Return the typical reading of a workload; None where the baseline never measured it."""
        return typical(self._readings.get(workload, ()))

    def healthy(self, inside: Callable[[Workload], bool]) -> dict[Workload, int]:
        """Return the workloads of a region that the baseline saw healthy, and how often; none that was ever anomalous.

        Args:
            inside: says whether a workload belongs to the region.
        """
        return {
            workload: sum(reading.verdict.is_normal for reading in readings)
            for workload, readings in self._readings.items()
            if inside(workload)
            and any(reading.verdict.is_normal for reading in readings)
            and not any(reading.verdict.is_anomalous for reading in readings)
        }


def neighbours(case: GateCase, space: Space, record: Record | None) -> list[GateCase]:
    """Return the healthy neighbours of an anomaly: for each condition, a workload that breaks it and keeps the others.

    Args:
        case: the anomaly; satisfies its conditions.
        space: gives values.
        record: of a baseline that cannot be measured; then only what it saw healthy is a neighbour.
    """
    found = []
    for condition in case.mfs.conditions:
        others = tuple(other for other in case.mfs.conditions if other != condition)
        beside = partial(_breaks_alone, condition, others)
        if record is None:
            workload = broken(case.workload, case.mfs, condition, space)
        else:
            workload = next(iter(record.healthy(beside)), None)
        if workload is not None:
            name = f"{case.name}/without-{condition.dimension}{_ENDS.get(condition.op, '')}"
            title = f"healthy neighbour of {case.name}: without {condition}"
            found.append(GateCase(name, Kind.NEIGHBOUR, title, workload, Mfs(others), case.anomaly, beside=beside))
    return found


_ENDS = {Op.AT_LEAST: "-min", Op.AT_MOST: "-max"}


def _breaks_alone(condition: Condition, others: Sequence[Condition], workload: Workload) -> bool:
    return not condition.holds(workload) and all(other.holds(workload) for other in others)


@dataclass(frozen=True)
class GateParts:
    """Everything that a gate needs.

    Attributes:
        candidate: measures what is under test, and keeps the record.
        baseline: measures the baseline; None when it answers from its record.
        record: what the baseline measured before.
        store: of the candidate.
        cases: known anomalies, then the baseline's.
        space: where neighbours are.
        recipe: of thresholds and declared chances.
        budget: of both sides together.
        false_alarm: chance of any false alarm.
        engine: makes the search, from the sets that need not be found again.
        name_found: says what `collie reproduce` calls a find.
    """

    candidate: Measurer
    baseline: Measurer | None
    record: Record
    store: CampaignStore
    cases: Sequence[GateCase]
    space: Space
    recipe: Recipe
    budget: Budget
    false_alarm: float
    engine: Callable[[Sequence[Mfs]], Engine]
    name_found: Callable[[str], str]


class Gate:
    """One gate, from its parts to its summary."""

    def __init__(self, parts: GateParts) -> None:
        self._parts = parts
        # Either run of a pair may be disturbed, and either may miss what is there.
        self._chances = Chances(
            differ=min(0.5, 2 * parts.recipe.confirmation.disturbed),
            missed=min(0.5, 2 * parts.recipe.extraction.missed),
        )
        self._limits: Resolution = resolution(parts.recipe.thresholds)
        self._results: list[CaseResult] = []
        self._untested = 0

    def run(self) -> GateSummary:
        """Replay, then search, then compare what was found.

        Raises:
            TestbedError: a testbed is gone; what was measured is on record.
        """
        parts = self._parts
        record = None if parts.baseline else parts.record
        beside = [neighbour for case in parts.cases for neighbour in neighbours(case, parts.space, record)]
        shares = Shares(parts.false_alarm, len(parts.cases) + len(beside))
        self._replay(parts.cases, shares.of_replay, 1.0)
        self._replay(beside, shares.of_replay, _NEIGHBOUR_SHARE)
        search = self._search(shares)
        return GateSummary(
            tuple(self._results),
            self._untested,
            parts.false_alarm,
            self._chances,
            (parts.candidate.runs, parts.baseline.runs if parts.baseline else 0),
            self._elapsed,
            search,
            parts.baseline is not None,
        )

    @property
    def _elapsed(self) -> float:
        baseline = self._parts.baseline
        return self._parts.candidate.elapsed_seconds + (baseline.elapsed_seconds if baseline else 0.0)

    @property
    def _runs(self) -> int:
        return self._parts.candidate.runs + (self._parts.baseline.runs if self._parts.baseline else 0)

    # --- Budget: one for both sides --------------------------------------------------------------------------------

    def _limit(self, share: float) -> Budget:
        """Return the budget at which a part ends that may take a share of what is left."""
        total, runs = self._parts.budget, self._runs
        seconds = self._elapsed + share * (total.seconds - self._elapsed) if math.isfinite(total.seconds) else math.inf
        return Budget(seconds, None if total.runs is None else runs + math.ceil(share * (total.runs - runs)))

    def _grant(self, measurer: Measurer, limit: Budget) -> None:
        """Let one side run until both together have reached a limit."""
        others_seconds = self._elapsed - measurer.elapsed_seconds
        runs = None if limit.runs is None else limit.runs - (self._runs - measurer.runs)
        measurer.budget = Budget(limit.seconds - others_seconds, runs)

    # --- Replay ----------------------------------------------------------------------------------------------------

    def _replay(self, cases: Sequence[GateCase], share: float, of_rest: float) -> None:
        limit = self._limit(of_rest)
        for case in cases:
            self._decide(case, share, limit)

    def _decide(self, case: GateCase, share: float, limit: Budget) -> None:
        began = self._elapsed
        try:
            comparison = self._compare(case, share, limit)
        except BudgetSpent as spent:
            if case.kind is Kind.NEIGHBOUR:  # one of many samples of what is healthy; an anomaly has to be answered
                self._untested += 1
                return
            comparison = Comparison(Change.INCONCLUSIVE, f"{spent}, and too few pairs have been taken")
        self._results.append(CaseResult(case, comparison, share, self._elapsed - began))
        self._keep(case, comparison)

    def _compare(self, case: GateCase, share: float, limit: Budget) -> Comparison:
        if not _lies_in(self._parts.space, case.workload):
            return Comparison(Change.UNSUPPORTED, "it lies outside of the space of this testbed")
        recorded = None if self._parts.baseline else self._parts.record.reading(case.workload)
        if recorded is None and self._parts.baseline is None:
            return self._alone(case, limit)
        rule = rule_for(share, self._chances.differ, self._chances.missed)
        comparison = self._pairs(case, rule, recorded, limit)
        if recorded is not None and comparison.change is Change.NEW:
            return self._trusted(case, comparison, share)
        return comparison

    def _pairs(self, case: GateCase, rule: PairRule, recorded: Reading | None, limit: Budget) -> Comparison:
        pairs = compare(
            rule, self._limits, self._chances, expects_healthy=case.kind is Kind.NEIGHBOUR and recorded is None
        )
        doubted: set[Side] = set()
        try:
            side = next(pairs)
            while True:
                if side is Side.BASELINE and recorded is not None:
                    side = pairs.send(recorded)
                    continue
                reading = self._read(side, case.workload, limit, fresh=side in doubted)
                if reading is not None and self._siblings(reading.verdict):
                    doubted.add(side)
                side = pairs.send(reading)
        except StopIteration as stop:
            comparison: Comparison = stop.value
            return comparison

    def _siblings(self, verdict: Verdict) -> int:
        return self._parts.recipe.confirmation.siblings(verdict) if verdict.is_anomalous else 0

    def _read(self, side: Side, workload: Workload, limit: Budget, *, fresh: bool) -> Reading | None:
        """Run a workload on one side, again when its traffic fails to set up; None where it cannot run at all.

        Args:
            side: whose run.
            workload: what runs.
            limit: of both sides together.
            fresh: measure the plain sibling anew before, as low throughput is in question and testbeds drift.
        """
        measurer = self._parts.candidate if side is Side.CANDIDATE else self._parts.baseline
        assert measurer is not None
        cause = ""
        self._grant(measurer, limit)
        if fresh:
            measurer.measure_sibling(workload)
        for _ in range(_SETUP_TRIES):
            self._grant(measurer, limit)
            result, verdict = measurer.judged(workload, PURPOSE)
            match result:
                case Measured(measurement):
                    assert verdict is not None
                    return reading_of(verdict, measurement)
                case SetupFailed():
                    cause = result.cause
                case HostLost():
                    return Reading(inconclusive(f"it cost host {result.host} of the {side}: {result.detail}"))
                case _:
                    return None
        return Reading(inconclusive(f"the {side} could not set it up {_SETUP_TRIES} times: {cause}"))

    # --- A baseline that only its record knows ---------------------------------------------------------------------

    def _alone(self, case: GateCase, limit: Budget) -> Comparison:
        """Look at the candidate alone: the baseline never measured this workload, and cannot be asked."""
        first = self._read(Side.CANDIDATE, case.workload, limit, fresh=False)
        if first is None:
            return Comparison(Change.UNSUPPORTED, "the candidate cannot run this workload")
        verdict = first.verdict
        if not verdict.is_anomalous:
            change = Change.HEALTHY if verdict.is_normal else Change.INCONCLUSIVE
            confidence = 1.0 - self._chances.missed if verdict.is_normal else None
            return Comparison(change, verdict.reason, (), (first,), confidence)
        assert verdict.symptom is not None
        shown = [first]
        probes = confirm(case.workload, verdict.symptom, self._parts.recipe.confirmation, verdict)
        try:
            next(probes)
            while True:
                reading = self._read(Side.CANDIDATE, case.workload, limit, fresh=self._siblings(verdict) > 0)
                shown += [reading] if reading else []
                probes.send(reading.verdict if reading else None)
        except StopIteration as stop:
            if not stop.value.confirmed:
                text = f"it did not show again: {verdict.reason}"
                return Comparison(Change.HEALTHY, text, (), tuple(shown), 1.0 - self._chances.missed)
        if any(known.explains(case.workload) for known in self._parts.cases if known.kind is Kind.BASELINE):
            text = f"an anomaly of the baseline explains it: {verdict.reason}"
            return Comparison(Change.STILL, text, (), tuple(shown))
        text = f"it shows, and the baseline never measured this workload: {verdict.reason}"
        return Comparison(Change.INCONCLUSIVE, text, (), tuple(shown))

    def _trusted(self, case: GateCase, comparison: Comparison, share: float) -> Comparison:
        """Take back that something is new where the record says too seldom that the baseline was healthy there.

        A run overlooks an anomaly with a declared chance; so many healthy runs have to agree that all of them
        overlooked it with no more than the chance that this decision has.
        """
        missed = self._parts.recipe.extraction.missed
        inside = case.beside or (lambda workload: workload == case.workload or case.explains(workload))
        runs = sum(self._parts.record.healthy(inside).values())
        if missed**runs <= share:
            return comparison
        text = (
            f"the candidate shows it, but the baseline's record has only {runs} healthy runs to say that it did not; "
            f"measure the baseline beside it (--baseline-hosts): {comparison.reason}"
        )
        return replace(comparison, change=Change.INCONCLUSIVE, reason=text, confidence=None)

    # --- Search ----------------------------------------------------------------------------------------------------

    def _search(self, shares: Shares) -> Summary | None:
        limit = self._limit(1.0 - _RESERVE)
        self._grant(self._parts.candidate, limit)
        measurer = self._parts.candidate
        if measurer.budget.spent(measurer.elapsed_seconds, measurer.runs):
            return None
        shown = [result.case for result in self._results if result.change.shows]
        known = [case.mfs for case in shown if case.symptom and case.complete]
        summary = self._parts.engine(known).run()
        rest = self._limit(1.0)
        for number, anomaly in enumerate((a for a in summary.anomalies if a.same_as is None), start=1):
            self._decide(_found(anomaly, self._parts.name_found(anomaly.id)), shares.of_find(number), rest)
        return summary

    def _keep(self, case: GateCase, comparison: Comparison) -> None:
        """Record what shows on the candidate, so that the next gate can have this one as its baseline."""
        verdict = comparison.shown(Side.CANDIDATE)
        if verdict is None or verdict.symptom is None or case.kind is Kind.FOUND:
            return
        self._parts.store.add_anomaly(
            Anomaly(
                id=case.name.replace("/", "."),
                symptom=verdict.symptom,
                severity=verdict.severity,
                workload=case.workload,
                found_as=case.workload,
                mfs=case.mfs if case.symptom else Mfs(()),
                reason=verdict.reason,
                host=verdict.host,
                found_at_run=self._parts.candidate.runs,
                found_at_seconds=self._parts.candidate.elapsed_seconds,
                extraction_runs=0,
                complete=case.symptom is not None and case.complete,
            )
        )


def _lies_in(space: Space, workload: Workload) -> bool:
    """Whether a space allows a workload and no size or number of it is beyond the limits that the space has."""

    def within(name: str) -> bool:
        match space.dimensions[name]:
            case Ordered(low=low, high=high):
                return bool(low <= workload.get(name) <= high)
            case Vector(element=element):
                return all(element.low <= value <= element.high for value in workload.get(name))
        return True

    return space.allows(workload) and all(map(within, space.dimensions))


def _found(anomaly: Anomaly, reproduce: str) -> GateCase:
    return GateCase(
        name=anomaly.id,
        kind=Kind.FOUND,
        title=anomaly.sentence,
        workload=anomaly.workload,
        mfs=anomaly.mfs,
        anomaly=reproduce,
        symptom=anomaly.symptom,
        complete=anomaly.complete,
    )
