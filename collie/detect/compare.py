"""Comparison of a candidate with its baseline, pair by pair: the decision of a gate on one workload.

A pair is one run on each side. Pairs run in the order A B B A, so that drift affects both sides alike. `needed` of at
most `pairs` pairs must have the same sign (`detect.pair_rule`). The test ends with the deciding pair, or after the
first `agreeing` pairs if none differs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from typing import NamedTuple

from collie.detect.pair_rule import Chances, PairRule, tail
from collie.detect.reading import Resolution, RunReading, Sign, sign_of, typical, worse_by
from collie.detect.symptom import Verdict
from collie.workloads.units import format_count


class Side(StrEnum):
    """The side of a run."""

    BASELINE = "baseline"
    CANDIDATE = "candidate"

    @property
    def other(self) -> Side:
        """The opposite side."""
        return Side.CANDIDATE if self is Side.BASELINE else Side.BASELINE


_EQUAL_BOUNDS = 0.05
"""Relative difference up to which two bounds count as one: they are measured."""


class Change(StrEnum):
    """The decision of a gate on one workload."""

    NEW = "new"
    """The baseline is healthy, the candidate is anomalous."""
    WORSE = "worse"
    """Both sides are anomalous, the candidate more so."""
    STILL = "still there"
    FIXED = "fixed"
    HEALTHY = "healthy"
    """Neither side is anomalous."""
    INCONCLUSIVE = "inconclusive"
    UNSUPPORTED = "unsupported"
    """The testbed cannot run the workload."""

    @property
    def is_alarm(self) -> bool:
        """Whether the change fails a gate."""
        return self in (Change.NEW, Change.WORSE)

    @property
    def of_anomaly(self) -> str:
        """The word for an anomaly with this change. Only a neighbour is healthy."""
        return "absent" if self is Change.HEALTHY else self.value

    @property
    def shows(self) -> bool:
        """Whether the candidate has the anomaly."""
        return self in (Change.NEW, Change.WORSE, Change.STILL)


class RunPair(NamedTuple):
    """One run on each side and the sign of their difference, None if it is unknown."""

    before: RunReading
    after: RunReading
    sign: Sign | None


class Spread(NamedTuple):
    """A median with the smallest and largest value."""

    middle: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Effect:
    """The size of a change, candidate less baseline. Unknown values are None.

    Attributes:
        severity: of pairs that were judged by one bound.
        throughput_ratio: candidate over baseline.
        pause_difference: share of time.
        coverage: chance that each range holds the median of all possible pairs, at least. 0 with one pair.
    """

    severity: Spread | None
    throughput_ratio: Spread | None
    pause_difference: Spread | None
    coverage: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of one workload's pairs.

    Attributes:
        screened: readings of the candidate alone, which made pairs unnecessary.
        confidence: probability of the decision under the declared chances, or None without a decision.
    """

    change: Change
    reason: str
    pairs: tuple[RunPair, ...] = ()
    screened: tuple[RunReading, ...] = ()
    confidence: float | None = None

    @property
    def effect(self) -> Effect | None:
        """The size of the change over the conclusive pairs, or None without any."""
        conclusive = [pair for pair in self.pairs if pair.sign is not None]
        if not conclusive:
            return None
        both = [(pair.before, pair.after) for pair in conclusive]
        severities = [
            after.verdict.severity - before.verdict.severity
            for before, after in both
            if not (before.verdict.is_inconclusive or after.verdict.is_inconclusive)
            and _of_one_bound(before.verdict, after.verdict)
        ]
        ratios = [
            after.delivered_bps / before.delivered_bps
            for before, after in both
            if before.delivered_bps and after.delivered_bps is not None
        ]
        pauses = [
            after.pause_ratio - before.pause_ratio
            for before, after in both
            if before.pause_ratio is not None and after.pause_ratio is not None
        ]
        # A pair lies above the median with chance 1/2, so all n pairs lie on one side of it with 2^(1 - n).
        fewest = min((len(each) for each in (severities, ratios, pauses) if each), default=1)
        return Effect(_spread(severities), _spread(ratios), _spread(pauses), 1.0 - 2.0 ** (1 - fewest))

    def reproduced(self, side: Side) -> Verdict | None:
        """Return one side's anomalous verdict of median severity, or None when most of its runs are healthy."""
        if side is Side.BASELINE:
            readings = [pair.before for pair in self.pairs]
        else:
            readings = [pair.after for pair in self.pairs] or list(self.screened)
        found = typical(readings)
        return found.verdict if found is not None and found.verdict.is_anomalous else None


def _of_one_bound(before: Verdict, after: Verdict) -> bool:
    """Whether two severities are shares of one throughput, as far as it is known.

    A plain sibling can bound one side, and what the other side learnt of its specification the other.
    """
    if not before.bound_bps or not after.bound_bps:
        return True
    return abs(after.bound_bps / before.bound_bps - 1.0) <= _EQUAL_BOUNDS


def _spread(values: Sequence[float]) -> Spread | None:
    return Spread(median(values), min(values), max(values)) if values else None


Runs = Generator[Side, RunReading | None, Comparison]
"""Yields the side to run. Receives its reading, or None when that side cannot run the workload."""


def compare(
    rule: PairRule, limits: Resolution, chances: Chances, pairs: list[RunPair], *, expects_healthy: bool = False
) -> Runs:
    """Compare one workload on two sides until enough pairs agree.

    The empty list `pairs` receives each pair, in case the comparison is abandoned. With `expects_healthy` the candidate
    runs first. A healthy candidate then ends the comparison, because it cannot be a regression.
    """
    first = Side.CANDIDATE if expects_healthy else Side.BASELINE
    while not _is_decided(pairs, rule):
        readings: dict[Side, RunReading] = {}
        for side in (first, first.other):
            reading = yield side
            if reading is None:
                return Comparison(*_unsupported(side, ran=bool(pairs or readings)), tuple(pairs))
            readings[side] = reading
            if expects_healthy and not pairs and side is Side.CANDIDATE and reading.verdict.is_normal:
                return Comparison(
                    Change.HEALTHY, reading.verdict.reason, (), (reading,), 1.0 - chances.false_negative_rate
                )
        before, after = readings[Side.BASELINE], readings[Side.CANDIDATE]
        pairs.append(RunPair(before, after, sign_of(before, after, limits)))
        first = first.other
    return _concluded(tuple(pairs), rule, chances, limits)


def _unsupported(side: Side, *, ran: bool) -> tuple[Change, str]:
    text = f"the {side} cannot run this workload"
    return (Change.INCONCLUSIVE, f"{text}, and the {side.other} can") if ran else (Change.UNSUPPORTED, text)


def _counts(pairs: Sequence[RunPair]) -> dict[Sign | None, int]:
    return {sign: sum(pair.sign is sign for pair in pairs) for sign in (*Sign, None)}


def _is_hopeless(counts: Mapping[Sign | None, int], rule: PairRule) -> bool:
    """Whether so many pairs are inconclusive that further pairs are unlikely to decide."""
    conclusive = sum(counts.values()) - counts[None]
    return counts[None] > rule.void + conclusive


def _is_decided(pairs: Sequence[RunPair], rule: PairRule) -> bool:
    counts = _counts(pairs)
    worse, better, same = counts[Sign.WORSE], counts[Sign.BETTER], counts[Sign.SAME]
    left = rule.pairs - worse - better - same
    return (
        _is_hopeless(counts, rule)
        or max(worse, better) >= rule.needed
        or max(worse, better) + left < rule.needed
        or (same >= rule.agreeing and worse == better == 0)
    )


def _concluded(pairs: tuple[RunPair, ...], rule: PairRule, chances: Chances, limits: Resolution) -> Comparison:
    counts = _counts(pairs)
    worse, better, same = counts[Sign.WORSE], counts[Sign.BETTER], counts[Sign.SAME]
    conclusive = worse + better + same
    result = Comparison(Change.INCONCLUSIVE, "", pairs)
    before, after = result.reproduced(Side.BASELINE), result.reproduced(Side.CANDIDATE)
    if worse >= rule.needed:
        confidence = 1.0 - tail(conclusive, worse, chances.differ)
        change = Change.NEW if before is None else Change.WORSE
        by = _rule_of(pairs, limits) if change is Change.WORSE else ""
        return Comparison(change, f"{by}{_reasons(pairs, Sign.WORSE)}", pairs, (), confidence)
    if better >= rule.needed:
        confidence = 1.0 - tail(conclusive, better, chances.differ)
        gone = Change.FIXED if before is not None else Change.HEALTHY
        return Comparison(gone if after is None else Change.STILL, _reasons(pairs, Sign.BETTER), pairs, (), confidence)
    if _is_hopeless(counts, rule):
        reason = next(r.verdict.reason for p in reversed(pairs) for r in p[:2] if r.verdict.is_inconclusive)
        silent = format_count(counts[None], "pair")
        return Comparison(Change.INCONCLUSIVE, f"{silent} without an answer: {reason}", pairs)
    if 2 * max(worse, better) > conclusive:
        counted = f"{worse} of {format_count(conclusive, 'pair')} worse, {better} better"
        text = f"{counted}; {rule.needed} of one kind decide"
        return Comparison(Change.INCONCLUSIVE, text, pairs)
    reproduced = after if after is not None else before
    change, reported = (Change.HEALTHY, pairs[-1].after.verdict) if reproduced is None else (Change.STILL, reproduced)
    return Comparison(change, reported.reason, pairs, (), 1.0 - chances.false_negative_rate ** max(1, same))


def _rule_of(pairs: Sequence[RunPair], limits: Resolution) -> str:
    """Return the rule by which most pairs are worse. Other readings of these pairs can be better."""
    by = Counter(worse_by(pair.before, pair.after, limits) for pair in pairs if pair.sign is Sign.WORSE)
    (rule, _), *_rest = by.most_common()
    return f"worse by {rule}; " if rule else ""


def _reasons(pairs: Sequence[RunPair], sign: Sign) -> str:
    reported = [pair for pair in pairs if pair.sign is sign]
    pair = reported[len(reported) // 2]
    return f"baseline: {pair.before.verdict.reason}; candidate: {pair.after.verdict.reason}"
