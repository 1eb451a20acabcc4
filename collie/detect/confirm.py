"""Confirmation: a suspicion becomes an anomaly when fresh queue pairs reproduce it.

The test is Wald's sequential test of two hypotheses about the share of runs that reproduce the symptom: the stray rate
q of healthy traffic (`detect.noise`), and the least show rate s that the recipe aims at.

1. A run that reproduces the symptom, or one that the same cause can produce (`Symptom.is_related`), adds log(s / q) to
   the evidence. A run free of the symptom, or one whose messages are barely late, adds log((1 - s) / (1 - q)).
2. The suspicion is confirmed once the evidence exceeds log(1000 q / c). A healthy campaign of 1,000 runs has about
   1,000 q suspicions, so its chance of a false anomaly is at most the declared c. How strong a reading is does not
   count, because disturbances can be as strong as anomalies.
3. It is dropped below log(0.05), or when the limit of runs is reached.

Inconclusive and failed runs are repeated and count for neither side, and so are those whose other symptom hides whether
they have this one. More than `void_runs` of them defer the suspicion, and the workload can be proposed again.

Worked example. With q = 1 %, s = 0.6 and c = 1 %, a reproducing run adds 4.1, a normal one -0.9, and 6.9 confirm. So
two runs of two or three confirm, then three of up to eight, and four normal runs drop the suspicion. With q = 1/30
three of three are needed, or four of seven. `odds` sums over all courses of the test (docs/explanation/trust.md).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from typing import Annotated

from collie.detect.symptom import Symptom, Verdict
from collie.limits import Count, Factor, Limits, Ratio
from collie.workloads.units import format_count, format_share
from collie.workloads.workload import Workload

_CAMPAIGN_RUNS = 1000
"""Runs that the declared chance refers to: those of a campaign of about ten hours."""
_OVERLOOKED = 0.05


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The policy by which suspicions are confirmed.

    Attributes:
        show_rate: least show rate of the anomalies that confirmation aims at.
        runs: limit on conclusive runs.
        void_runs: limit on inconclusive or failed runs.
        fresh_siblings: runs of the plain sibling before a suspicion of low throughput is confirmed, for hosts that
            drift.
        confirming_deficit: multiple of its threshold that missing throughput must reach in a confirming run. The bound
            has an error that all runs share.
        clear_deficit: multiple of its threshold at which missing throughput is clear.
        borderline_siblings: further runs of the plain sibling for a suspicion of low throughput that is not clear.
        false_chance: declared chance of a false anomaly in 1,000 runs.
    """

    show_rate: Ratio = 0.6
    runs: Count = 12
    void_runs: Annotated[int, Limits(ge=0)] = 3
    fresh_siblings: Annotated[int, Limits(ge=0, le=100)] = 0
    confirming_deficit: Factor = 1.05
    clear_deficit: Factor = 2.0
    borderline_siblings: Annotated[int, Limits(ge=0, le=100)] = 0
    false_chance: Ratio = 0.01

    def siblings(self, suspicion: Verdict) -> int:
        """Return the number of runs of the plain sibling before a suspicion is confirmed."""
        if suspicion.symptom is None or not suspicion.symptom.is_relative:
            return 0
        return self.fresh_siblings + (0 if suspicion.margin >= self.clear_deficit else self.borderline_siblings)


@dataclass(frozen=True, slots=True)
class Rule:
    """When a confirmation ends.

    Attributes:
        needed: reproducing runs that confirm, by the number of normal runs, while the limit of runs allows them.
        hopeless: normal runs that drop the suspicion, by the number of reproducing runs.
        runs: limit on conclusive runs.
    """

    needed: tuple[int, ...]
    hopeless: tuple[int, ...]
    runs: int

    def decision(self, reproduced: int, normal: int) -> bool | None:
        """Return whether these runs confirm, or None while the test goes on."""
        if reproduced >= self.needed[normal]:
            return True
        if normal >= self.hopeless[reproduced] or reproduced + normal >= self.runs:
            return False
        return None


def rule(policy: Confirmation, stray: float) -> Rule:
    """Return the rule that keeps the declared chance of a false anomaly at this stray rate."""
    gain = math.log(policy.show_rate / stray) if stray < policy.show_rate else 0.0
    loss = math.log((1.0 - stray) / (1.0 - policy.show_rate))
    enough = max(0.0, math.log(_CAMPAIGN_RUNS * stray / policy.false_chance))
    counts = range(policy.runs + 1)
    unreachable = policy.runs + 1
    return Rule(
        tuple(max(1, math.ceil((enough + normal * loss) / gain)) if gain > 0 else unreachable for normal in counts),
        tuple(
            math.ceil((reproduced * gain - math.log(_OVERLOOKED)) / loss) if loss > 0 else 1 for reproduced in counts
        ),
        policy.runs,
    )


Probes = Generator[Workload, Verdict | None, "Confirmed"]
"""Yields workloads. Receives a verdict, or None when the run could not be set up."""


@dataclass(frozen=True, slots=True)
class Confirmed:
    """Result of a confirmation.

    Attributes:
        reproduced: the verdicts of the runs that reproduced the symptom or a related one.
        runs: number of conclusive runs.
        deferred: whether too many runs were inconclusive to confirm or refute the suspicion.
    """

    confirmed: bool
    reproduced: tuple[Verdict, ...]
    runs: int
    deferred: bool = False

    @property
    def typical(self) -> Verdict:
        """The verdict of middle severity with the symptom that reproduced most often, the higher one of two."""
        ((most, _),) = Counter(verdict.symptom for verdict in self.reproduced).most_common(1)
        own = sorted((each for each in self.reproduced if each.symptom is most), key=attrgetter("severity"))
        return own[len(own) // 2]


def confirm(workload: Workload, symptom: Symptom, until: Rule, void_runs: int) -> Probes:
    """Run a workload again until a rule decides, or more than `void_runs` runs say nothing."""
    reproduced: list[Verdict] = []
    normal = void = 0
    while (decision := until.decision(len(reproduced), normal)) is None:
        if void > void_runs:
            return Confirmed(False, tuple(reproduced), len(reproduced) + normal, deferred=True)
        verdict = yield workload
        if verdict is not None and symptom.is_related(verdict.symptom) and not verdict.is_barely_late:
            reproduced.append(verdict)
        elif verdict is not None and (verdict.is_free_of(symptom) or verdict.is_barely_late):
            normal += 1
        else:
            void += 1
    return Confirmed(decision, tuple(reproduced), len(reproduced) + normal)


# --- Arithmetic -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Odds:
    """Chance that a confirmation finds an anomaly, and its mean number of conclusive runs."""

    confirmed: float
    runs: float


def odds(until: Rule, shows: float) -> Odds:
    """Return the odds of a rule, given the chance that a run reproduces the symptom."""

    @cache
    def rest(reproduced: int, normal: int) -> Odds:
        decision = until.decision(reproduced, normal)
        if decision is not None:
            return Odds(float(decision), 0.0)
        more, less = rest(reproduced + 1, normal), rest(reproduced, normal + 1)
        return Odds(
            shows * more.confirmed + (1.0 - shows) * less.confirmed, 1.0 + shows * more.runs + (1.0 - shows) * less.runs
        )

    return rest(0, 0)


def miss_chance(until: Rule, shows: float) -> float:
    """Return the chance that one visit to an anomalous workload raises no suspicion, or an unconfirmed one."""
    return 1.0 - shows * odds(until, shows).confirmed


def false_chance(stray: float, runs: Mapping[Rule, int]) -> float:
    """Return the chance of at least one false anomaly in runs of healthy workloads under these rules.

    A disturbance must affect a run of the search, and then its confirmation.
    """
    none = sum(
        count * math.log1p(-min(stray * odds(until, stray).confirmed, 1.0 - 1e-12)) for until, count in runs.items()
    )
    return -math.expm1(none)


@dataclass(frozen=True, slots=True)
class Reliability:
    """Reliability of a campaign's findings, estimated from its runs.

    Attributes:
        dropped: number of suspicions that were not confirmed.
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
        runs = format_count(self.judged_runs, "run")
        dropped = (
            f"{self.dropped} of {runs} looked anomalous and could not be confirmed"
            if self.dropped
            else f"no suspicion went unconfirmed in {runs}"
        )
        return (
            f"{dropped}; chance of a false anomaly: {_chance(self.false_chance)}, "
            f"of missing one that was visited once and shows in 80% of its runs: {_chance(self.miss_chance)}"
        )


def _chance(share: float) -> str:
    return "under 0.1%" if share < 0.001 else format_share(share)
