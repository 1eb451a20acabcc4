"""The loop of a gate: replay, search, compare what was found."""

from __future__ import annotations

import math
from collections import Counter as Tally
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from collie.campaign.budget import Budget, BudgetSpent
from collie.campaign.gate.cases import CaseOrigin, GateCase, found, neighbours
from collie.campaign.gate.record import Record
from collie.campaign.gate.summary import CaseResult, GateSummary
from collie.campaign.loop import SearchLoop, Summary
from collie.campaign.measure import Measurer
from collie.detect.compare import Change, Comparison, RunPair, Side, compare
from collie.detect.confirm import confirm
from collie.detect.judge import is_sound
from collie.detect.pair_rule import Chances, PairRule, Shares, rule_for
from collie.detect.reading import Resolution, RunReading, reading_of, resolution
from collie.detect.symptom import Verdict, inconclusive
from collie.ports import CampaignStore, HostLost, Measured, SetupFailed
from collie.search.anomaly import Anomaly, anomaly_id
from collie.search.recipe import Recipe
from collie.workloads.dimension import Ordered, Vector
from collie.workloads.feature import Mfs
from collie.workloads.space import Space
from collie.workloads.workload import Workload

PURPOSE = "gate"
_SETUP_TRIES = 3
_NEIGHBOUR_SHARE = 0.4
"""Share of what the anomalies leave of the budget that their healthy neighbours may take."""
_RESERVE = 0.15
"""Share of what is left for the search that is kept back to compare its finds."""
_FRESH_SIBLINGS = 3
"""Runs of the plain sibling at most that one side of a comparison is given: the bound is the median of all of them."""
_RUNS_PER_PAIR = 4
"""At most: one on either side, each with its plain sibling where low throughput is in question."""


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
    engine: Callable[[Sequence[Mfs]], SearchLoop]
    name_found: Callable[[str], str]


class Gate:
    """One gate, from its parts to its summary."""

    def __init__(self, parts: GateParts) -> None:
        self._parts = parts
        # Either run of a pair may be disturbed, and either may miss what is there.
        self._chances = Chances(
            differ=min(0.5, 2 * parts.recipe.confirmation.healthy_false_positive_rate),
            false_negative_rate=min(0.5, 2 * parts.recipe.extraction.false_negative_rate),
        )
        self._limits: Resolution = resolution(parts.recipe.thresholds)
        self._results: list[CaseResult] = []

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
        untested = self._replay(beside, shares.of_replay, _NEIGHBOUR_SHARE)
        search = self._search(shares)
        if search is None:
            untested = self._replay(untested, shares.of_replay, 1.0)
        return GateSummary(
            tuple(self._results),
            len(untested),
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

    def _replay(self, cases: Sequence[GateCase], share: float, of_rest: float) -> list[GateCase]:
        """Compare cases until they have taken a share of what is left; return those that it was not enough for."""
        limit = self._limit(of_rest)
        return [case for case in cases if not self._decide(case, share, limit)]

    def _decide(self, case: GateCase, share: float, limit: Budget) -> bool:
        """Compare a case; return whether there is a result."""
        began, taken = self._elapsed, list[RunPair]()
        try:
            comparison = self._compare(case, share, limit, taken)
        except BudgetSpent as spent:
            if (
                case.kind is CaseOrigin.NEIGHBOUR
            ):  # one of many samples of what is healthy; an anomaly has to be answered
                return False
            text = f"{spent}, and too few pairs have been taken"
            comparison = Comparison(Change.INCONCLUSIVE, text, tuple(taken))
        self._results.append(CaseResult(case, comparison, share, self._elapsed - began))
        self._keep(case, comparison)
        return True

    def _compare(self, case: GateCase, share: float, limit: Budget, taken: list[RunPair]) -> Comparison:
        if not _lies_in(self._parts.space, case.workload):
            return Comparison(Change.UNSUPPORTED, "it lies outside of the space of this testbed")
        recorded = None if self._parts.baseline else self._parts.record.reading(case.workload)
        if recorded is None and self._parts.baseline is None:
            return self._alone(case, limit)
        rule = rule_for(share, self._chances.differ, self._chances.false_negative_rate)
        comparison = self._pairs(case, rule, recorded, limit, taken)
        return comparison if recorded is None else self._trusted(case, comparison, share)

    def _pairs(
        self, case: GateCase, rule: PairRule, recorded: RunReading | None, limit: Budget, taken: list[RunPair]
    ) -> Comparison:
        healthy = case.kind is CaseOrigin.NEIGHBOUR and recorded is None
        pairs = compare(rule, self._limits, self._chances, taken, expects_healthy=healthy)
        doubted: set[Side] = set()
        siblings: Tally[Side] = Tally()
        try:
            side = next(pairs)
            while True:
                if side is Side.BASELINE and recorded is not None:
                    side = pairs.send(recorded)
                    continue
                fresh = side in doubted and siblings[side] < _FRESH_SIBLINGS
                siblings[side] += fresh
                reading = self._read(side, case.workload, limit, fresh=fresh)
                if reading is not None and self._siblings(reading.verdict):
                    doubted.add(side)
                side = pairs.send(reading)
        except StopIteration as stop:
            comparison: Comparison = stop.value
            return comparison

    def _siblings(self, verdict: Verdict) -> int:
        return self._parts.recipe.confirmation.siblings(verdict) if verdict.is_anomalous else 0

    def _read(self, side: Side, workload: Workload, limit: Budget, *, fresh: bool) -> RunReading | None:
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
                    sound = is_sound(workload, measurement, self._parts.recipe.thresholds)
                    return replace(reading_of(verdict, measurement), unbounded=verdict.is_inconclusive and sound)
                case SetupFailed():
                    cause = result.cause
                case HostLost():
                    return RunReading(inconclusive(f"it cost host {result.host} of the {side}: {result.detail}"))
                case _:
                    return None
        return RunReading(inconclusive(f"the {side} could not set it up {_SETUP_TRIES} times: {cause}"))

    # --- A baseline that only its record knows ---------------------------------------------------------------------

    def _alone(self, case: GateCase, limit: Budget) -> Comparison:
        """Look at the candidate alone: the baseline never measured this workload, and cannot be asked."""
        first = self._read(Side.CANDIDATE, case.workload, limit, fresh=False)
        if first is None:
            return Comparison(Change.UNSUPPORTED, "the candidate cannot run this workload")
        verdict = first.verdict
        if not verdict.is_anomalous:
            change = Change.HEALTHY if verdict.is_normal else Change.INCONCLUSIVE
            confidence = 1.0 - self._chances.false_negative_rate if verdict.is_normal else None
            return Comparison(change, verdict.reason, (), (first,), confidence)
        assert verdict.symptom is not None
        reproduced = [first]
        probes = confirm(case.workload, verdict.symptom, self._parts.recipe.confirmation, verdict)
        try:
            next(probes)
            while True:
                reading = self._read(Side.CANDIDATE, case.workload, limit, fresh=self._siblings(verdict) > 0)
                reproduced += [reading] if reading else []
                probes.send(reading.verdict if reading else None)
        except StopIteration as stop:
            if stop.value.put_aside:
                text = f"what was to confirm it said nothing: {verdict.reason}"
                return Comparison(Change.INCONCLUSIVE, text, (), tuple(reproduced))
            if not stop.value.confirmed:
                text = f"it did not show again: {verdict.reason}"
                return Comparison(Change.HEALTHY, text, (), tuple(reproduced), 1.0 - self._chances.false_negative_rate)
        if any(known.explains(case.workload) for known in self._parts.cases if known.kind is CaseOrigin.BASELINE):
            text = f"an anomaly of the baseline explains it: {verdict.reason}"
            return Comparison(Change.STILL, text, (), tuple(reproduced))
        text = f"it shows, and the baseline never measured this workload: {verdict.reason}"
        return Comparison(Change.INCONCLUSIVE, text, (), tuple(reproduced))

    def _trusted(self, case: GateCase, comparison: Comparison, share: float) -> Comparison:
        """Take back that something is new or worse where the record says too little to be held against it."""
        doubt = self._parts.record.doubt(comparison.change, case.workload, case.is_alike, share, self._parts.recipe)
        if doubt is None:
            return comparison
        text = f"{doubt}; measure the baseline beside it (--baseline-hosts): {comparison.reason}"
        return replace(comparison, change=Change.INCONCLUSIVE, reason=text, confidence=None)

    # --- Search ----------------------------------------------------------------------------------------------------

    def _search(self, shares: Shares) -> Summary | None:
        measurer = self._parts.candidate
        self._grant(measurer, self._limit_of_search(shares))
        if measurer.budget.spent(measurer.elapsed_seconds, measurer.runs):
            return None
        reproduced = [result.case for result in self._results if result.change.shows]
        known = [case.mfs for case in reproduced if case.symptom and case.complete]
        summary = self._parts.engine(known).run()
        rest = self._limit(1.0)
        for number, anomaly in enumerate((a for a in summary.anomalies if a.same_as is None), start=1):
            self._decide(found(anomaly, self._parts.name_found(anomaly.id)), shares.of_find(number), rest)
        return summary

    def _limit_of_search(self, shares: Shares) -> Budget:
        """Return the budget at which the search ends; a find that nobody can decide any more would say nothing."""
        limit, total = self._limit(1.0 - _RESERVE), self._parts.budget
        if self._parts.baseline is None:
            return limit
        runs = (
            _RUNS_PER_PAIR * rule_for(shares.of_find(1), self._chances.differ, self._chances.false_negative_rate).pairs
        )
        seconds = runs * self._elapsed / max(1, self._runs)
        return Budget(
            min(limit.seconds, total.seconds - seconds),
            None if limit.runs is None or total.runs is None else min(limit.runs, total.runs - runs),
        )

    def _keep(self, case: GateCase, comparison: Comparison) -> None:
        """Record what shows on the candidate, so that the next gate can have this one as its baseline."""
        verdict = comparison.reproduced(Side.CANDIDATE)
        if verdict is None or verdict.symptom is None or case.kind is CaseOrigin.FOUND:
            return
        self._parts.store.add_anomaly(
            Anomaly(
                id=anomaly_id(case.name.replace("/", ".")),
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
