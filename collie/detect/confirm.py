"""Confirmation: a suspicion becomes a finding when it shows again, on fresh queue pairs.

A generator yields workloads and receives verdicts, so one code serves the simulator, real hosts and a table in a test.

The test is sequential: it ends with the run that decides. There are two ways to pass it.
1. `needed` of at most `runs` runs show the symptom. It ends early when that is reached, or can be reached no more.
2. The suspicion was *clear*, and a run shows it clearly again: its reading is so far beyond the threshold that no
   disturbance known of reaches it. One run is enough then.
A run that says nothing (inconclusive, or not set up) counts for neither side and is repeated. After `void_runs` of them
the suspicion is put aside: not confirmed, not refuted, and the workload may be proposed again.

The arithmetic. A run shows the symptom with chance s and shows it clearly with chance c <= s, independently of others:
`odds` sums over all ways that the test can go. For 2 of 3 with c = 0 it is s^2 (3 - 2 s). With a real anomaly s is the
chance that its reading lies above the threshold; with a healthy workload it is the share of runs
that a disturbance makes look anomalous. docs/evidence/verdicts.md has the figures.
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
    """How often a suspicion has to show again.

    Attributes:
        needed: runs that must show the same symptom.
        runs: runs at most that say anything.
        void_runs: inconclusive or failed runs at most; they count for neither side.
        fresh_siblings: runs of the plain sibling before a suspicion of low throughput is confirmed. On machines that
            drift, a bound measured minutes ago is no bound.
        clear_pause: pause, loss, an RNR storm or retransmission of so many times its threshold is clear; one run
            confirms it.
        clear_deficit: missing throughput of so many times its threshold is clear.
        borderline_siblings: further runs of the plain sibling for a suspicion of low throughput that is not clear. One
            run of the sibling that chance made 1 % faster turns up in every comparison with it.
        healthy_false_positive_rate: expected share of healthy runs that look anomalous. Only the arithmetic uses it.
        false_chance: declared chance, at most, of a false anomaly in a campaign of 1,000 runs; a recipe whose policy
            does not keep it is refused. None declares nothing.

    With 2 of 3, an anomaly that shows 80 % of the time is confirmed with 0.8^2 (3 - 2 x 0.8) = 90 %, and a disturbance
    that struck once, and strikes 5 % of the runs, passes with 0.7 %.
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
        """Whether a verdict is so far beyond its threshold that no disturbance known of explains it."""
        match verdict.symptom:
            case Symptom.PAUSE | Symptom.LOSS | Symptom.RNR_STORM | Symptom.RETRANSMISSION:
                return verdict.margin >= self.clear_pause
            case Symptom.LOW_THROUGHPUT:
                return verdict.margin >= self.clear_deficit
        # An error is an error: it has no threshold to be far beyond of. A queue pair cannot lack more than all.
        return False

    def siblings(self, suspicion: Verdict) -> int:
        """Return how often to run the plain sibling before a suspicion is confirmed."""
        if suspicion.symptom is not Symptom.LOW_THROUGHPUT:
            return 0
        return self.fresh_siblings + (0 if self.is_clear(suspicion) else self.borderline_siblings)


Probes = Generator[Workload, Verdict | None, "Confirmed"]
"""Yields workloads; receives a verdict, or None when the run could not be set up; returns the result."""


@dataclass(frozen=True, slots=True)
class Confirmed:
    """Result of a confirmation.

    Attributes:
        confirmed: shown often enough.
        reproduced: the verdicts that showed the symptom.
        runs: runs that said anything.
        put_aside: too many runs said nothing, so that it is neither confirmed nor refuted.
    """

    confirmed: bool
    reproduced: tuple[Verdict, ...]
    runs: int
    put_aside: bool = False


def confirm(workload: Workload, symptom: Symptom, policy: Confirmation, suspicion: Verdict | None = None) -> Probes:
    """Run a workload again until enough runs show the symptom, or too few can.

    Args:
        workload: what looked anomalous.
        symptom: that has to show again.
        policy: how often.
        suspicion: the verdict that raised it; without it nothing is clear.
    """
    may_be_clear = suspicion is not None and policy.is_clear(suspicion)
    reproduced: list[Verdict] = []
    said = void = 0
    while len(reproduced) < policy.needed and policy.runs - said >= policy.needed - len(reproduced):
        if void > policy.void_runs:
            return Confirmed(False, tuple(reproduced), said, put_aside=True)
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
    """What to expect of a confirmation.

    Attributes:
        confirmed: chance that it ends with a finding.
        runs: that say anything, on average.
    """

    confirmed: float
    runs: float


def odds(policy: Confirmation, shows: float, clear: float = 0.0) -> Odds:
    """Return what to expect of a confirmation when each run shows the symptom with a given chance.

    Args:
        policy: how often it has to show.
        shows: chance of a run to show the symptom, clearly or not.
        clear: chance of a run to show it clearly after a clear suspicion; 0 after one that was not.
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
    """Return the chance that a workload with an anomaly is visited once and the anomaly is not confirmed.

    It has to raise the suspicion, and then to pass.
    """
    after_clear, after_barely = odds(policy, shows, clear), odds(policy, shows)
    return 1.0 - clear * after_clear.confirmed - (shows - clear) * after_barely.confirmed


def false_chance(policy: Confirmation, healthy_false_positive_rate: float, runs: float, clear: float = 0.0) -> float:
    """Return the chance of at least one false anomaly in a campaign.

    A disturbance has to strike a healthy run, and then strike again while it is confirmed.

    Args:
        policy: how often it has to show.
        healthy_false_positive_rate: share of healthy runs that look anomalous.
        runs: of healthy workloads in the campaign.
        clear: share of healthy runs that look clearly anomalous; part of `healthy_false_positive_rate`.
    """
    passes = (healthy_false_positive_rate - clear) * odds(policy, healthy_false_positive_rate).confirmed
    passes += clear * odds(policy, healthy_false_positive_rate, clear).confirmed
    return -math.expm1(runs * math.log1p(-min(passes, 1.0 - 1e-12)))


@dataclass(frozen=True, slots=True)
class Reliability:
    """How far a campaign's findings can be trusted, from what it has seen of its own testbed.

    Attributes:
        judged_runs: runs of the search that were judged.
        dropped: suspicions that did not show again.
        healthy_false_positive_rate: share of healthy runs that look anomalous, estimated from them.
        false_chance: of at least one false anomaly in the campaign.
        miss_chance: of an anomaly that shows in 80 % of its runs, once it is visited.
    """

    judged_runs: int
    dropped: int
    healthy_false_positive_rate: float
    false_chance: float
    miss_chance: float

    @property
    def sentence(self) -> str:
        """What a person reads at the end of a search."""
        return (
            f"{self.dropped} of {format_count(self.judged_runs, 'run')} looked anomalous and did not show again; "
            f"chance of a false anomaly: {_percent(self.false_chance)}, "
            f"of missing one that was visited once and shows in 80 % of its runs: {_percent(self.miss_chance)}"
        )


_SHOWS_USUALLY = 0.8


def trust(policy: Confirmation, judged_runs: int, dropped: Sequence[Verdict]) -> Reliability | None:
    """Estimate how far a campaign's findings can be trusted.

    The disturbances are estimated from the suspicions that did not show again, half a one added: chance may have left
    it out (Jeffreys' estimate of a share is (n + 1/2) / (runs + 1)).

    Args:
        policy: of the campaign.
        judged_runs: runs of the search that were judged.
        dropped: the suspicions that did not show again.

    Returns:
        None before anything has been judged.
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
        miss_chance(policy, _SHOWS_USUALLY),
    )


def _percent(share: float) -> str:
    return "under 0.1 %" if share < 0.001 else f"{100 * share:.2g} %"
