"""Comparing a candidate with its baseline, pair by pair: what a gate decides of one workload, and how sure it is.

One pair is one run on either side. Its sign says whether the candidate did worse, better or the same, where the same
means: by less than what the testbed can resolve (`Resolution`). Pairs are taken in the order A B B A, so that a testbed
that drifts treats both sides alike, and on fresh queue pairs.

The test is the sequential one of `detect.confirm`, on pairs in place of runs: `needed` of at most `pairs` pairs must
have one sign. It ends with the pair that decides, and after the first `agreeing` pairs when all of those say the same.

The arithmetic. Where nothing has changed, a pair has a given sign with chance `differ` at most: the declared share of
runs that a disturbance makes look otherwise, once for each side. `odds` gives the chance that `needed` of `pairs` have
it all the same, and `rule_for` takes the cheapest rule that keeps it within the share of the gate's chance of a false
alarm that one decision has. docs/gate.md says how the shares are made.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from typing import NamedTuple

from collie.detect.confirm import Confirmation, odds
from collie.detect.judge import Thresholds
from collie.detect.measurement import Measurement
from collie.detect.symptom import Symptom, Verdict
from collie.errors import UsageError

_MOST_NEEDED = 40
_PAUSE_FACTOR = 2.0
_MARGIN_FACTOR = 2.0
_ABSOLUTE = frozenset({Symptom.WRONG_PAYLOAD, Symptom.COMPLETION_ERRORS, Symptom.UNFAIRNESS})
"""Symptoms without a reading that could be twice another: they show or they do not."""


class Side(StrEnum):
    """Whose run it is."""

    BASELINE = "baseline"
    CANDIDATE = "candidate"

    @property
    def other(self) -> Side:
        """The side that it is compared with."""
        return Side.CANDIDATE if self is Side.BASELINE else Side.BASELINE


class Sign(StrEnum):
    """What one pair says of the candidate."""

    WORSE = "worse"
    BETTER = "better"
    SAME = "same"


class Change(StrEnum):
    """What a gate says of one workload."""

    NEW = "new"
    """The baseline is healthy and the candidate is not."""
    WORSE = "worse"
    """It shows on both sides, and more on the candidate."""
    STILL = "still there"
    FIXED = "fixed"
    HEALTHY = "healthy"
    """It shows on neither side."""
    INCONCLUSIVE = "inconclusive"
    UNSUPPORTED = "unsupported"
    """The testbed cannot run it."""

    @property
    def is_alarm(self) -> bool:
        """Whether a gate fails because of it."""
        return self in (Change.NEW, Change.WORSE)

    @property
    def shows(self) -> bool:
        """Whether the candidate has the anomaly."""
        return self in (Change.NEW, Change.WORSE, Change.STILL)


# --- One reading, one pair --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reading:
    """What one run says, as far as two sides can be compared by it.

    Attributes:
        verdict: of the run, by the bounds of its own side.
        delivered_bps: payload bits/s over all receiving hosts; None when unknown.
        pause_ratio: share of time for which a host sent pause, the largest over hosts; None when no counter tells.
    """

    verdict: Verdict
    delivered_bps: float | None = None
    pause_ratio: float | None = None


def reading_of(verdict: Verdict, measurement: Measurement) -> Reading:
    """Return what a judged run says; of a run that was stopped early, nothing about its throughput."""
    received = [host.delivered_bps for host in measurement.hosts if host.delivered_bps is not None]
    paused = [host.tx_pause_ratio for host in measurement.hosts if host.tx_pause_ratio is not None]
    delivered = sum(received) if received and not measurement.stopped else None
    return Reading(verdict, delivered, max(paused, default=None))


def typical(readings: Sequence[Reading]) -> Reading | None:
    """Return the reading in the middle of those that most runs agree with; None where none says anything."""
    telling = [reading for reading in readings if not reading.verdict.is_inconclusive]
    shown = [reading for reading in telling if reading.verdict.is_anomalous]
    agreed = shown if 2 * len(shown) > len(telling) else [r for r in telling if r.verdict.is_normal]
    ordered = sorted(agreed, key=lambda reading: (reading.verdict.severity, -(reading.delivered_bps or 0.0)))
    return ordered[len(ordered) // 2] if ordered else None


@dataclass(frozen=True, slots=True)
class Resolution:
    """From where on two readings differ.

    Attributes:
        pause_ratio: share of time above which pause is an anomaly. Pause differs by a factor of 2, or by `lost`.
        lost: share of the other side's throughput that has to be missing, in a run that is anomalous.
        lost_when_normal: the same in a run that is normal by the bounds of its own side: these fall with it.
    """

    pause_ratio: float
    lost: float
    lost_when_normal: float


def resolution(thresholds: Thresholds) -> Resolution:
    """Return what a testbed can resolve: half of what it takes to be an anomaly, and all of it without a verdict."""
    deficit = thresholds.throughput_deficit
    return Resolution(thresholds.pause_ratio, deficit / 2, deficit)


def sign_of(before: Reading, after: Reading, limits: Resolution) -> Sign | None:
    """Return what a pair says; None when one of its runs says nothing."""
    if before.verdict.is_inconclusive or after.verdict.is_inconclusive:
        return None
    if _exceeds(after, before, limits):
        return Sign.WORSE
    return Sign.BETTER if _exceeds(before, after, limits) else Sign.SAME


def _exceeds(one: Reading, other: Reading, limits: Resolution) -> bool:
    """Whether one reading is worse than another by more than the testbed can resolve."""
    lost = _lost(other, one)
    if not one.verdict.is_anomalous:
        return lost is not None and lost >= limits.lost_when_normal
    return (
        (lost is not None and lost >= limits.lost)
        or _pauses_more(one, other, limits)
        or _shows_more(one.verdict, other.verdict, limits)
    )


def _lost(than: Reading, reading: Reading) -> float | None:
    """Return the share of another reading's throughput that is missing."""
    if reading.delivered_bps is None or not than.delivered_bps:
        return None
    return 1.0 - reading.delivered_bps / than.delivered_bps


def _pauses_more(one: Reading, other: Reading, limits: Resolution) -> bool:
    if one.pause_ratio is None or other.pause_ratio is None or one.pause_ratio <= limits.pause_ratio:
        return False
    return one.pause_ratio >= min(_PAUSE_FACTOR * other.pause_ratio, other.pause_ratio + limits.lost)


def _shows_more(one: Verdict, other: Verdict, limits: Resolution) -> bool:
    """Whether a symptom that neither pause nor throughput tells shows, and on the other side much less or not."""
    symptom = one.symptom
    if symptom in (Symptom.PAUSE, Symptom.LOW_THROUGHPUT):
        return False
    if other.symptom not in (None, symptom):
        return one.severity - other.severity >= limits.lost
    if symptom in _ABSOLUTE:
        return other.symptom is None
    return one.margin >= _MARGIN_FACTOR * max(1.0, other.margin)


# --- The test ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PairRule:
    """How many pairs decide.

    Attributes:
        needed: pairs that must have the same sign.
        pairs: at most, that say anything.
        agreeing: pairs after which the test ends when none of them differs.
        void: pairs at most that say nothing.
    """

    needed: int
    pairs: int
    agreeing: int = 1
    void: int = 3

    def chance(self, differ: float) -> float:
        """Return the chance that it finds a given sign where a pair has it with chance `differ`."""
        return odds(Confirmation(needed=self.needed, runs=self.pairs), differ).confirmed


def rule_for(share: float, differ: float, missed: float, overlooked: float = 0.05) -> PairRule:
    """Return a short rule that keeps a chance: with half as many pairs more as it needs, or more where runs miss much.

    Args:
        share: chance of a false sign that the decision may have.
        differ: chance that a pair has a given sign where nothing has changed.
        missed: chance that a pair looks the same where something has.
        overlooked: chance that a change may be overlooked because the first pairs all look the same, or that it may
            stay undecided because too few pairs show it.

    Raises:
        UsageError: no rule of sensible length keeps it.
    """
    agreeing = max(1, math.ceil(math.log(overlooked) / math.log(missed))) if 0.0 < missed < 1.0 else 1
    for needed in range(1, _MOST_NEEDED):
        for pairs in range(needed + needed // 2, 3 * needed):
            rule = PairRule(needed, pairs, min(agreeing, needed))
            if rule.chance(differ) > share:
                break
            if rule.chance(1.0 - missed) >= 1.0 - overlooked:
                return rule
    raise UsageError(
        f"no comparison of up to {_MOST_NEEDED} pairs keeps the chance of a false alarm at {share:.2g} where "
        f"{differ:.0%} of the pairs differ by themselves and {missed:.0%} miss a change; allow more by --false-alarm, "
        "or declare less in the recipe (`disturbed`, `missed`)"
    )


class Pair(NamedTuple):
    """One run on either side, and what the two say; None when one of them says nothing."""

    before: Reading
    after: Reading
    sign: Sign | None


class Interval(NamedTuple):
    """A median, and the smallest and largest value."""

    middle: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Effect:
    """How much has changed.

    Attributes:
        severity: candidate less baseline, -1 to 1.
        throughput_ratio: candidate over baseline; None when unknown.
        pause_difference: share of time, candidate less baseline; None when unknown.
        coverage: chance that each interval holds the median of all pairs that could be made; 0 with one pair.
    """

    severity: Interval
    throughput_ratio: Interval | None
    pause_difference: Interval | None
    coverage: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """What the pairs of one workload say.

    Attributes:
        change: in one word.
        reason: in one sentence.
        pairs: as they were taken.
        screened: readings of the candidate after which no pair was needed.
        confidence: that the change is what it is said to be, by the declared chances; None where nothing is said.
    """

    change: Change
    reason: str
    pairs: tuple[Pair, ...] = ()
    screened: tuple[Reading, ...] = ()
    confidence: float | None = None

    @property
    def effect(self) -> Effect | None:
        """How much has changed, by the pairs that say anything; None without any."""
        telling = [pair for pair in self.pairs if pair.sign is not None]
        if not telling:
            return None
        both = [(pair.before, pair.after) for pair in telling]
        severity = _interval([after.verdict.severity - before.verdict.severity for before, after in both])
        assert severity is not None
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
        # Each pair lies on either side of the median with chance 1/2, so all of them on one side with 2^(1 - n).
        return Effect(severity, _interval(ratios), _interval(pauses), 1.0 - 2.0 ** (1 - len(telling)))

    def shown(self, side: Side) -> Verdict | None:
        """Return the anomalous verdict of middle severity of one side; None when most of its runs are healthy."""
        if side is Side.BASELINE:
            readings = [pair.before for pair in self.pairs]
        else:
            readings = [pair.after for pair in self.pairs] or list(self.screened)
        found = typical(readings)
        return found.verdict if found is not None and found.verdict.is_anomalous else None


def _interval(values: Sequence[float]) -> Interval | None:
    return Interval(median(values), min(values), max(values)) if values else None


Runs = Generator[Side, Reading | None, Comparison]
"""Yields the side whose run is wanted; receives its reading, or None when that side cannot run the workload."""


@dataclass(frozen=True, slots=True)
class Chances:
    """What is declared of single pairs, for the confidence of a comparison.

    Attributes:
        differ: chance that a pair has a given sign where nothing has changed.
        missed: chance that a pair looks the same where something has.
    """

    differ: float
    missed: float


def compare(rule: PairRule, limits: Resolution, chances: Chances, *, expects_healthy: bool = False) -> Runs:
    """Compare one workload on two sides, until enough pairs say the same.

    Args:
        rule: how many pairs decide.
        limits: from where on two readings differ.
        chances: that are declared of single pairs.
        expects_healthy: the candidate runs first, and no pair is taken when it is healthy: whatever the baseline does,
            a healthy candidate is no regression.
    """
    pairs: list[Pair] = []
    first = Side.CANDIDATE if expects_healthy else Side.BASELINE
    while not _is_decided(pairs, rule):
        readings: dict[Side, Reading] = {}
        for side in (first, first.other):
            reading = yield side
            if reading is None:
                return Comparison(*_unsupported(side, ran=bool(pairs or readings)), tuple(pairs))
            readings[side] = reading
            if expects_healthy and not pairs and side is Side.CANDIDATE and reading.verdict.is_normal:
                return Comparison(Change.HEALTHY, reading.verdict.reason, (), (reading,), 1.0 - chances.missed)
        before, after = readings[Side.BASELINE], readings[Side.CANDIDATE]
        pairs.append(Pair(before, after, sign_of(before, after, limits)))
        first = first.other
    return _concluded(tuple(pairs), rule, chances)


def _unsupported(side: Side, *, ran: bool) -> tuple[Change, str]:
    text = f"the {side} cannot run this workload"
    return (Change.INCONCLUSIVE, f"{text}, and the {side.other} can") if ran else (Change.UNSUPPORTED, text)


def _counts(pairs: Sequence[Pair]) -> dict[Sign | None, int]:
    return {sign: sum(pair.sign is sign for pair in pairs) for sign in (*Sign, None)}


def _is_decided(pairs: Sequence[Pair], rule: PairRule) -> bool:
    counts = _counts(pairs)
    worse, better, same = counts[Sign.WORSE], counts[Sign.BETTER], counts[Sign.SAME]
    left = rule.pairs - worse - better - same
    return (
        counts[None] > rule.void
        or max(worse, better) >= rule.needed
        or max(worse, better) + left < rule.needed
        or (same >= rule.agreeing and worse == better == 0)
    )


def _concluded(pairs: tuple[Pair, ...], rule: PairRule, chances: Chances) -> Comparison:
    counts = _counts(pairs)
    worse, better, same = counts[Sign.WORSE], counts[Sign.BETTER], counts[Sign.SAME]
    telling = worse + better + same
    result = Comparison(Change.INCONCLUSIVE, "", pairs)
    before, after = result.shown(Side.BASELINE), result.shown(Side.CANDIDATE)
    if worse >= rule.needed:
        confidence = 1.0 - _tail(telling, worse, chances.differ)
        change = Change.NEW if before is None else Change.WORSE
        return Comparison(change, _told(pairs, Sign.WORSE), pairs, (), confidence)
    if better >= rule.needed:
        confidence = 1.0 - _tail(telling, better, chances.differ)
        gone = Change.FIXED if before is not None else Change.HEALTHY
        return Comparison(gone if after is None else Change.STILL, _told(pairs, Sign.BETTER), pairs, (), confidence)
    if counts[None] > rule.void:
        reason = next(r.verdict.reason for p in reversed(pairs) for r in p[:2] if r.verdict.is_inconclusive)
        return Comparison(Change.INCONCLUSIVE, f"{counts[None]} pairs say nothing: {reason}", pairs)
    if 2 * max(worse, better) > telling:
        text = f"{worse} of {telling} pairs are worse and {better} better; {rule.needed} of one kind decide"
        return Comparison(Change.INCONCLUSIVE, text, pairs)
    shown = after if after is not None else before
    change, told = (Change.HEALTHY, pairs[-1].after.verdict) if shown is None else (Change.STILL, shown)
    return Comparison(change, told.reason, pairs, (), 1.0 - chances.missed ** max(1, same))


def _told(pairs: Sequence[Pair], sign: Sign) -> str:
    """Return what both sides of a typical pair show."""
    told = [pair for pair in pairs if pair.sign is sign]
    pair = told[len(told) // 2]
    return f"baseline: {pair.before.verdict.reason}; candidate: {pair.after.verdict.reason}"


def _tail(runs: int, shown: int, chance: float) -> float:
    """Return the chance of `shown` of `runs` or more."""
    return sum(math.comb(runs, k) * chance**k * (1.0 - chance) ** (runs - k) for k in range(shown, runs + 1))


# --- Many decisions ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Shares:
    """How the chance of a false alarm of one gate is divided among its decisions.

    Half of it is for what is replayed: how much that is, is known beforehand, and each decision has the same share
    (Bonferroni: it holds however the decisions depend on each other, and each stands when it falls). The other half is
    for what the search finds, which nobody can count beforehand: the j-th find has 1 / (j (j + 1)) of it, and these add
    up to 1.

    Attributes:
        false_alarm: of the gate.
        replayed: decisions on what is replayed.
    """

    false_alarm: float
    replayed: int

    @property
    def of_replay(self) -> float:
        """Share of one replayed workload."""
        return self.false_alarm / 2 / max(1, self.replayed)

    def of_find(self, number: int) -> float:
        """Share of one find.

        Args:
            number: 1 for the first.
        """
        return self.false_alarm / 2 / (number * (number + 1))
