"""How many pairs decide, and how the chance of a false alarm is divided among decisions.

Where nothing has changed, a pair has a given sign with chance `differ` at most: the declared share of runs that a
disturbance makes look otherwise, once for each side. `odds` gives the chance that `needed` of `pairs` have it all the
same, and `rule_for` takes the cheapest rule that keeps it within the share of the gate's chance of a false alarm that
one decision has. docs/explanation/gate-decisions.md explains the shares.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from collie.detect.confirm import Confirmation, odds
from collie.errors import UsageError

_MAX_NEEDED = 40


@dataclass(frozen=True, slots=True)
class Chances:
    """What is declared of single pairs, for the confidence of a comparison.

    Attributes:
        differ: chance that a pair has a given sign where nothing has changed.
        false_negative_rate: chance that a pair looks the same where something has.
    """

    differ: float
    false_negative_rate: float


@dataclass(frozen=True, slots=True)
class PairRule:
    """How many pairs decide.

    Attributes:
        needed: pairs that must have the same sign.
        pairs: at most, that say anything.
        agreeing: pairs after which the test ends when none of them differs.
        void: by how many the pairs that say nothing may outnumber the others.
    """

    needed: int
    pairs: int
    agreeing: int = 1
    void: int = 3

    def chance(self, differ: float) -> float:
        """Return the chance that it finds a given sign where a pair has it with chance `differ`."""
        return odds(Confirmation(needed=self.needed, runs=self.pairs), differ).confirmed


def rule_for(share: float, differ: float, false_negative_rate: float, overlooked: float = 0.05) -> PairRule:
    """Return a short rule that keeps a chance: with half as many pairs more as it needs, or more where runs miss much.

    Args:
        share: chance of a false sign that the decision may have.
        differ: chance that a pair has a given sign where nothing has changed.
        false_negative_rate: chance that a pair looks the same where something has.
        overlooked: chance that a change may be overlooked because the first pairs all look the same, or that it may
            stay undecided because too few pairs show it.

    Raises:
        UsageError: no rule of sensible length keeps it.
    """
    agreeing = (
        max(1, math.ceil(math.log(overlooked) / math.log(false_negative_rate)))
        if 0.0 < false_negative_rate < 1.0
        else 1
    )
    for needed in range(1, _MAX_NEEDED):
        for pairs in range(needed + needed // 2, 3 * needed):
            rule = PairRule(needed, pairs, min(agreeing, needed))
            if rule.chance(differ) > share:
                break
            if rule.chance(1.0 - false_negative_rate) >= 1.0 - overlooked:
                return rule
    raise UsageError(
        f"no comparison of up to {_MAX_NEEDED} pairs keeps the chance of a false alarm at {share:.2g} where "
        f"{differ:.0%} of the pairs differ by themselves and {false_negative_rate:.0%} miss a change; "
        "allow more by --false-alarm, or declare less in the recipe (`healthy_false_positive_rate`, "
        "`false_negative_rate`)"
    )


def tail(runs: int, reproduced: int, chance: float) -> float:
    """Return the chance of `reproduced` of `runs` or more."""
    return sum(math.comb(runs, k) * chance**k * (1.0 - chance) ** (runs - k) for k in range(reproduced, runs + 1))


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
