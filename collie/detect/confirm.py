"""Confirmation: a suspicion becomes an anomaly when fresh queue pairs reproduce it.

The test is sequential and passes in one of two ways.

1. `needed` of at most `runs` runs reproduce the symptom. The test ends as soon as its result is fixed.
2. The suspicion was *clear* and one run reproduces it clearly: no known disturbance moves a reading that far.

Inconclusive and failed runs are repeated and count for neither side. More than `void_runs` of them defer the suspicion,
and the workload can be proposed again.

A run reproduces the symptom with chance s, and clearly with chance c <= s, independently. `odds` sums over all courses
of the test. For 2 of 3 with c = 0 the chance of confirmation is s^2 (3 - 2 s). For a healthy workload s is the share of
runs that a disturbance makes anomalous. Figures are in docs/evidence/verdicts.md.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated

from collie.detect.symptom import Symptom, Verdict
from collie.limits import Count, Factor, Limits, Ratio
from collie.workloads.units import format_count
from collie.workloads.workload import Workload


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The policy by which suspicions are confirmed.

    Attributes:
        needed: runs that must reproduce the symptom.
        runs: limit on conclusive runs.
        void_runs: limit on inconclusive or failed runs.
        fresh_siblings: runs of the plain sibling before a suspicion of low throughput is confirmed, for hosts that
            drift.
        clear_pause: multiple of its threshold at which pause, loss, an RNR storm or retransmission is clear. One run
            then confirms.
        clear_deficit: multiple of its threshold at which missing throughput is clear.
        borderline_siblings: further runs of the plain sibling for a suspicion of low throughput that is not clear.
        healthy_false_positive_rate: expected share of healthy runs that look anomalous. It serves only for arithmetic.
        false_chance: declared limit on the chance of a false anomaly in 1,000 runs. A recipe that exceeds it is
            refused. None declares no limit.

    With 2 of 3, an anomaly that 80 % of the runs show has a chance of 0.8^2 (3 - 2 x 0.8) = 90 % to be confirmed. For a
    disturbance of 5 % of the runs the chance is 0.7 %.
    """

    needed: Count = 2
    runs: Count = 3
    void_runs: Annotated[int, Limits(ge=0)] = 3
    fresh_siblings: Annotated[int, Limits(ge=0, le=100)] = 0
    clear_pause: Factor = 10.0
    clear_deficit: Factor = 2.0
    borderline_siblings: Annotated[int, Limits(ge=0, le=100)] = 0
    healthy_false_positive_rate: Ratio = 0.01
    false_chance: Ratio | None = None

    def is_clear(self, verdict: Verdict) -> bool:
        """Whether no known disturbance explains a verdict so far beyond its threshold."""
        match verdict.symptom:
            case Symptom.PAUSE | Symptom.LOSS | Symptom.RNR_STORM | Symptom.RETRANSMISSION:
                return verdict.margin >= self.clear_pause
            case Symptom.LOW_THROUGHPUT:
                return verdict.margin >= self.clear_deficit
        # Never clear: for errors and wrong bytes the threshold is one, and unfairness cannot exceed 100 %.
        return False

    def siblings(self, suspicion: Verdict) -> int:
        """Return the number of runs of the plain sibling before a suspicion is confirmed."""
        if suspicion.symptom is not Symptom.LOW_THROUGHPUT:
            return 0
        return self.fresh_siblings + (0 if self.is_clear(suspicion) else self.borderline_siblings)


Probes = Generator[Workload, Verdict | None, "Confirmed"]
"""Yields workloads. Receives a verdict, or None when the run could not be set up."""


@dataclass(frozen=True, slots=True)
class Confirmed:
    """Result of a confirmation.

    Attributes:
        reproduced: the verdicts of the runs that reproduced the symptom.
        runs: number of conclusive runs.
        deferred: whether too many runs were inconclusive to confirm or refute the suspicion.
    """

    confirmed: bool
    reproduced: tuple[Verdict, ...]
    runs: int
    deferred: bool = False


def confirm(workload: Workload, symptom: Symptom, policy: Confirmation, suspicion: Verdict | None = None) -> Probes:
    """Run a workload again until enough runs reproduce the symptom, or too few runs are left.

    Without the verdict of the suspicion no run is clear.
    """
    may_be_clear = suspicion is not None and policy.is_clear(suspicion)
    reproduced: list[Verdict] = []
    said = void = 0
    while len(reproduced) < policy.needed and policy.runs - said >= policy.needed - len(reproduced):
        if void > policy.void_runs:
            return Confirmed(False, tuple(reproduced), said, deferred=True)
        verdict = yield workload
        if verdict is None or verdict.is_inconclusive:
            void += 1
            continue
        said += 1
        if verdict.symptom is symptom:
            reproduced.append(verdict)
            if may_be_clear and policy.is_clear(verdict):
                return Confirmed(True, tuple(reproduced), said)
    return Confirmed(len(reproduced) >= policy.needed, tuple(reproduced), said)


# --- Arithmetic -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Odds:
    """Chance that a confirmation finds an anomaly, and its mean number of conclusive runs."""

    confirmed: float
    runs: float


def odds(policy: Confirmation, shows: float, clear: float = 0.0) -> Odds:
    """Return the odds, given the chances that a run `shows` the symptom and that it does so clearly.

    After a suspicion that was not clear, `clear` is 0.
    """

    @cache
    def rest(reproduced: int, said: int) -> Odds:
        if reproduced >= policy.needed:
            return Odds(1.0, 0.0)
        if policy.runs - said < policy.needed - reproduced:
            return Odds(0.0, 0.0)
        more, less = rest(reproduced + 1, said + 1), rest(reproduced, said + 1)
        barely = shows - clear
        return Odds(
            clear + barely * more.confirmed + (1.0 - shows) * less.confirmed,
            1.0 + barely * more.runs + (1.0 - shows) * less.runs,
        )

    return rest(0, 0)


def miss_chance(policy: Confirmation, shows: float, clear: float = 0.0) -> float:
    """Return the chance that one visit to an anomalous workload raises no suspicion, or an unconfirmed one."""
    after_clear, after_barely = odds(policy, shows, clear), odds(policy, shows)
    return 1.0 - clear * after_clear.confirmed - (shows - clear) * after_barely.confirmed


def false_chance(policy: Confirmation, healthy_false_positive_rate: float, runs: float, clear: float = 0.0) -> float:
    """Return the chance of at least one false anomaly in `runs` runs of healthy workloads.

    A disturbance must affect a healthy run and then its confirmation. `clear` is the part of
    `healthy_false_positive_rate` that looks clearly anomalous.
    """
    passes = (healthy_false_positive_rate - clear) * odds(policy, healthy_false_positive_rate).confirmed
    passes += clear * odds(policy, healthy_false_positive_rate, clear).confirmed
    return -math.expm1(runs * math.log1p(-min(passes, 1.0 - 1e-12)))


@dataclass(frozen=True, slots=True)
class Reliability:
    """Reliability of a campaign's findings, estimated from its runs.

    Attributes:
        dropped: number of suspicions that were not reproduced.
        healthy_false_positive_rate: estimated share of healthy runs that look anomalous.
        false_chance: chance of at least one false anomaly in the campaign.
        miss_chance: chance per visit to miss an anomaly that 80 % of its runs reproduce.
    """

    judged_runs: int
    dropped: int
    healthy_false_positive_rate: float
    false_chance: float
    miss_chance: float

    @property
    def sentence(self) -> str:
        """The summary at the end of a search."""
        return (
            f"{self.dropped} of {format_count(self.judged_runs, 'run')} looked anomalous and did not show again; "
            f"chance of a false anomaly: {_percent(self.false_chance)}, "
            f"of missing one that was visited once and shows in 80 % of its runs: {_percent(self.miss_chance)}"
        )


_TYPICAL_SHOW_RATE = 0.8


def trust(policy: Confirmation, judged_runs: int, dropped: Sequence[Verdict]) -> Reliability | None:
    """Estimate the reliability of a campaign's findings, or None without a judged run.

    The share of disturbed runs follows from the `dropped` suspicions, by Jeffreys' estimate (n + 1/2) / (runs + 1).
    """
    if judged_runs == 0:
        return None
    clear = (sum(map(policy.is_clear, dropped)) + 0.5) / (judged_runs + 1)
    healthy_false_positive_rate = clear + sum(not policy.is_clear(verdict) for verdict in dropped) / (judged_runs + 1)
    return Reliability(
        judged_runs,
        len(dropped),
        healthy_false_positive_rate,
        false_chance(policy, healthy_false_positive_rate, judged_runs, clear),
        miss_chance(policy, _TYPICAL_SHOW_RATE),
    )


def _percent(share: float) -> str:
    return "under 0.1 %" if share < 0.001 else f"{100 * share:.2g} %"
