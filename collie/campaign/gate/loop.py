"""The loop of a gate: replay, search, compare the finds."""

from __future__ import annotations

import math
from collections import Counter as Tally
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from collie.campaign.budget import Budget, BudgetSpent
from collie.campaign.gate.cases import CaseOrigin, GateCase, Record, case_of, neighbours
from collie.campaign.gate.summary import CaseResult, GateSummary
from collie.campaign.history import judge_after
from collie.campaign.loop import SearchLoop
from collie.campaign.measure import Measurer
from collie.campaign.summary import Summary
from collie.detect.compare import Change, Comparison, RunPair, Side, compare
from collie.detect.confirm import confirm, rule
from collie.detect.judge import is_sound
from collie.detect.pair_rule import Chances, PairRule, Shares, rule_for
from collie.detect.reading import Resolution, RunReading, reading_of, resolution
from collie.detect.symptom import Verdict, inconclusive
from collie.ports import CampaignStore, HostLost, Measured, SetupFailed
from collie.search.anomaly import Anomaly
from collie.search.recipe import Recipe
from collie.workloads.dimension import Ordered, Vector
from collie.workloads.feature import Mfs
from collie.workloads.space import Space
from collie.workloads.workload import Workload

PURPOSE = "gate"
_SETUP_TRIES = 3
_NEIGHBOUR_SHARE = 0.4
"""Share of the neighbours in the budget that is left after the anomalies."""
_RESERVE = 0.15
"""Share of the search's budget for the comparison of its finds."""
_FRESH_SIBLINGS = 3
"""Limit on runs of the plain sibling for one side of a comparison. The bound is their median."""
_RUNS_PER_PAIR = 4
"""Limit on runs of a pair: one run on either side, each with its plain sibling for low throughput."""

_STEP_SECONDS, _STEP_RUNS = 300, 10
"""Steps of a budget that is named to an operator. Its parts are means, so it is rounded up."""


@dataclass
class Gate:
    """One gate.

    Attributes:
        baseline: None when the baseline answers from its record.
        cases: known anomalies, then the baseline's.
        budget: common budget of both sides.
        engine: returns the search, given the feature sets to skip.
        name_found: returns the argument of `collie reproduce` for a find.
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

    def __post_init__(self) -> None:
        # A disturbance or a missed anomaly can affect either run of a pair.
        self._chances = Chances(
            differ=min(0.5, 2 * self.recipe.noise.stray_rate),
            false_negative_rate=min(0.5, 2 * self.recipe.noise.miss_rate),
        )
        self._limits: Resolution = resolution(self.recipe.thresholds)
        self._measurers = [self.candidate, *([self.baseline] if self.baseline else [])]
        self._results: list[CaseResult] = []
        self._cut: list[GateCase] = []
        self._search_effort = (0, 0.0)

    def run(self) -> GateSummary:
        """Replay, then search, then compare the finds."""
        record = None if self.baseline else self.record
        beside = [neighbour for case in self.cases for neighbour in neighbours(case, self.space, record)]
        shares = Shares(self.false_alarm, len(self.cases) + len(beside))
        self._replay(self.cases, shares.of_replay, 1.0)
        untested = self._replay(beside, shares.of_replay, _NEIGHBOUR_SHARE)
        search = self._search(shares)
        if search is None:
            untested = self._replay(untested, shares.of_replay, 1.0)
        return GateSummary(
            results=tuple(self._results),
            untested=tuple(untested),
            false_alarm=self.false_alarm,
            chances=self._chances,
            runs=(self.candidate.runs, self.baseline.runs if self.baseline else 0),
            elapsed_seconds=self._elapsed,
            search=search,
            paired=self.baseline is not None,
            needed=self._needed(shares) if self._cut or search is None else None,
            search_runs=self._search_effort[0],
            search_seconds=self._search_effort[1],
            lost=tuple(
                (side, lost)
                for side, measurer in zip((Side.CANDIDATE, Side.BASELINE), self._measurers, strict=False)
                for lost in measurer.lost.values()
            ),
        )

    def _needed(self, shares: Shares) -> Budget | None:
        """Return the larger budget for what this one did not reach, by the mean cost of what it did.

        Return None without a run. The last neighbour can exceed the share of the neighbours, by no more than a pair.
        """
        if not self._runs:
            return None
        per_run = self._elapsed / self._runs
        done = [each for each in self._results if each.case.symptom and each.case not in self._cut]
        known = sum(each.elapsed_seconds for each in done)
        per_case = known / len(done) if done else per_run * _RUNS_PER_PAIR * self._rule(shares.of_replay).agreeing
        search = per_run * (self._runs_of_find(shares) + _RUNS_PER_PAIR) / (1.0 - _NEIGHBOUR_SHARE)
        seconds = known + per_case * len(self._cut) + search
        if self.budget.runs is not None:
            return Budget(runs=_rounded(seconds / per_run, _STEP_RUNS, self.budget.runs))
        return Budget(float(_rounded(seconds, _STEP_SECONDS, self.budget.seconds)))

    def _rule(self, share: float) -> PairRule:
        return rule_for(share, self._chances.differ, self._chances.false_negative_rate)

    def _runs_of_find(self, shares: Shares) -> int:
        """Return the most runs that the comparison of a find takes."""
        return _RUNS_PER_PAIR * self._rule(shares.of_find(1)).pairs

    @property
    def _elapsed(self) -> float:
        return sum(measurer.elapsed_seconds for measurer in self._measurers)

    @property
    def _runs(self) -> int:
        return sum(measurer.runs for measurer in self._measurers)

    def _limit(self, share: float) -> Budget:
        """Return the budget of one part of the gate, which may use this share of the remaining budget."""
        total, runs = self.budget, self._runs
        seconds = self._elapsed + share * (total.seconds - self._elapsed) if math.isfinite(total.seconds) else math.inf
        return Budget(seconds, None if total.runs is None else runs + math.ceil(share * (total.runs - runs)))

    def _grant(self, measurer: Measurer, limit: Budget) -> None:
        others_seconds = self._elapsed - measurer.elapsed_seconds
        runs = None if limit.runs is None else limit.runs - (self._runs - measurer.runs)
        measurer.budget = Budget(limit.seconds - others_seconds, runs)

    def _replay(self, cases: Sequence[GateCase], share: float, of_rest: float) -> list[GateCase]:
        """Compare cases until the share `of_rest` of the remaining budget is spent. Return the cases left over."""
        limit = self._limit(of_rest)
        return [case for case in cases if not self._decide(case, share, limit)]

    def _decide(self, case: GateCase, share: float, limit: Budget) -> bool:
        """Compare a case and return whether there is a result."""
        began, taken = self._elapsed, list[RunPair]()
        try:
            comparison = self._compare(case, share, limit, taken)
        except BudgetSpent as spent:
            if case.kind is CaseOrigin.NEIGHBOUR:  # neighbours are only samples, but each anomaly needs an answer
                return False
            if case.kind is not CaseOrigin.FOUND:  # no budget is sure to decide what a search by it finds
                self._cut.append(case)
            text = f"{spent}, and too few pairs have been taken"
            comparison = Comparison(Change.INCONCLUSIVE, text, tuple(taken))
        self._results.append(CaseResult(case, comparison, share, self._elapsed - began))
        self._keep(case, comparison)
        return True

    def _compare(self, case: GateCase, share: float, limit: Budget, taken: list[RunPair]) -> Comparison:
        if not _is_within(self.space, case.workload):
            return Comparison(Change.UNSUPPORTED, f"outside of the space {self.space.name} of this testbed")
        # The record keeps no readings by history.
        recorded = None if self.baseline or case.on else self.record.reading(case.workload)
        if recorded is None and self.baseline is None:
            return self._alone(case, limit)
        comparison = self._pairs(case, self._rule(share), recorded, limit, taken)
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
                reading = self._read(side, case, limit, fresh=fresh)
                if reading is not None and self._siblings(reading.verdict):
                    doubted.add(side)
                side = pairs.send(reading)
        except StopIteration as stop:
            comparison: Comparison = stop.value
            return comparison

    def _siblings(self, verdict: Verdict) -> int:
        return self.recipe.confirmation.siblings(verdict) if verdict.is_anomalous else 0

    def _read(self, side: Side, case: GateCase, limit: Budget, *, fresh: bool) -> RunReading | None:
        """Run a case on one side, and repeat a failed set-up. Return None if the side cannot run it.

        A case that cost a host is not run again.
        `limit` is the budget of both sides. With `fresh`, the plain sibling is measured first, because testbeds drift.
        """
        measurer = self.candidate if side is Side.CANDIDATE else self.baseline
        assert measurer is not None
        workload, on, cause = case.workload, case.on, ""
        if (lost := measurer.lost_to(workload, on)) is not None:
            return _lost(side, lost.host, lost.detail)
        self._grant(measurer, limit)
        if fresh:
            measurer.measure_sibling(workload)
        for _ in range(_SETUP_TRIES):
            self._grant(measurer, limit)
            run = measurer.judged(workload, PURPOSE) if on is None else judge_after(measurer, workload, on, PURPOSE)
            result, verdict = run
            match result:
                case Measured(measurement):
                    assert verdict is not None
                    sound = is_sound(workload, measurement, self.recipe.thresholds)
                    return replace(reading_of(verdict, measurement), unbounded=verdict.is_inconclusive and sound)
                case SetupFailed():
                    cause = result.cause
                case HostLost():
                    return _lost(side, result.host, result.detail)
                case _:
                    return None
        return RunReading(inconclusive(f"the {side} could not set it up {_SETUP_TRIES} times: {cause}"))

    def _alone(self, case: GateCase, limit: Budget) -> Comparison:
        """Judge the candidate alone, on a workload that the baseline's record lacks."""
        first = self._read(Side.CANDIDATE, case, limit, fresh=False)
        if first is None:
            return Comparison(Change.UNSUPPORTED, "the candidate cannot run this workload")
        verdict = first.verdict
        if not verdict.is_anomalous:
            change = Change.HEALTHY if verdict.is_normal else Change.INCONCLUSIVE
            confidence = 1.0 - self._chances.false_negative_rate if verdict.is_normal else None
            return Comparison(change, verdict.reason, (), (first,), confidence)
        assert verdict.symptom is not None
        readings = [first]

        def judged(change: Change, reason: str, confidence: float | None = None) -> Comparison:
            return Comparison(change, f"{reason}: {verdict.reason}", (), tuple(readings), confidence)

        policy = self.recipe.confirmation
        until = rule(policy, self.recipe.noise.stray_rate)
        probes = confirm(case.workload, verdict.symptom, until, policy.void_runs)
        try:
            next(probes)
            while True:
                reading = self._read(Side.CANDIDATE, case, limit, fresh=self._siblings(verdict) > 0)
                readings += [reading] if reading else []
                probes.send(reading.verdict if reading else None)
        except StopIteration as stop:
            if stop.value.deferred:
                return judged(Change.INCONCLUSIVE, "what was to confirm it said nothing")
            if not stop.value.confirmed:
                return judged(Change.HEALTHY, "it did not show again", 1.0 - self._chances.false_negative_rate)
        baseline = [known for known in self.cases if known.kind is CaseOrigin.BASELINE]
        if case in baseline or any(known.explains(case.workload) for known in baseline):
            return judged(Change.STILL, "an anomaly of the baseline explains it")
        return judged(Change.INCONCLUSIVE, "it shows, and the baseline never measured this workload")

    def _trusted(self, case: GateCase, comparison: Comparison, share: float) -> Comparison:
        """Withdraw the decision `new` or `worse` if the record is too weak to support it."""
        doubt = self.record.doubt(comparison.change, case.workload, case.is_alike, share, self.recipe)
        if doubt is None:
            return comparison
        text = f"{doubt}; measure the baseline beside it (--baseline-hosts): {comparison.reason}"
        return replace(comparison, change=Change.INCONCLUSIVE, reason=text, confidence=None)

    def _search(self, shares: Shares) -> Summary | None:
        measurer = self.candidate
        self._grant(measurer, self._limit_of_search(shares))
        if measurer.budget.spent(measurer.elapsed_seconds, measurer.runs):
            return None
        present = [result.case for result in self._results if result.change.shows]
        known = [case.mfs for case in present if case.symptom and case.complete and case.on is None]
        runs, seconds = measurer.runs, measurer.elapsed_seconds
        summary = self.engine(known).run()
        self._search_effort = (measurer.runs - runs, measurer.elapsed_seconds - seconds)
        rest = self._limit(1.0)
        for number, anomaly in enumerate((a for a in summary.anomalies if a.same_as is None), start=1):
            found = case_of(anomaly, CaseOrigin.FOUND, anomaly.id, self.name_found(anomaly.id))
            self._decide(found, shares.of_find(number), rest)
        return summary

    def _limit_of_search(self, shares: Shares) -> Budget:
        """Return the budget of the search, less a reserve to decide on a find."""
        limit, total = self._limit(1.0 - _RESERVE), self.budget
        if self.baseline is None:
            return limit
        runs = self._runs_of_find(shares)
        seconds = runs * self._elapsed / max(1, self._runs)
        return Budget(
            min(limit.seconds, total.seconds - seconds),
            None if limit.runs is None or total.runs is None else min(limit.runs, total.runs - runs),
        )

    def _keep(self, case: GateCase, comparison: Comparison) -> None:
        """Record the candidate's anomalies, so that it can be the next gate's baseline."""
        verdict = comparison.reproduced(Side.CANDIDATE)
        if verdict is None or verdict.symptom is None or case.kind is CaseOrigin.FOUND:
            return
        self.store.add_anomaly(
            Anomaly(
                id=case.recorded_as,
                symptom=verdict.symptom,
                severity=verdict.severity,
                workload=case.workload,
                found_as=case.workload,
                mfs=case.mfs if case.symptom else Mfs(()),
                reason=verdict.reason,
                host=verdict.host,
                found_at_run=self.candidate.runs,
                found_at_seconds=self.candidate.elapsed_seconds,
                extraction_runs=0,
                complete=case.symptom is not None and case.complete,
                history=case.on.before if case.on else (),
                made_for=case.on.made_for if case.on else None,
            )
        )


def _lost(side: Side, host: str, detail: str) -> RunReading:
    return RunReading(inconclusive(f"it cost host {host} of the {side}: {detail}"))


def _is_within(space: Space, workload: Workload) -> bool:
    def within(name: str) -> bool:
        match space.dimensions[name]:
            case Ordered(low=low, high=high):
                return bool(low <= workload.get(name) <= high)
            case Vector(element=element):
                return all(element.low <= value <= element.high for value in workload.get(name))
        return True

    return space.allows(workload) and all(map(within, space.dimensions))


def _rounded(amount: float, step: int, above: float) -> int:
    """Return the least multiple of a step that reaches an amount and exceeds the budget that was not enough."""
    return step * max(math.ceil(amount / step), math.floor(above / step) + 1)
