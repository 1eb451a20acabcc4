"""The number of pairs that decide, and the shares of a gate's false-alarm chance (docs/explanation/gate-decisions.md).

Without a change, a pair has a given sign with chance `differ` at most: the declared share of disturbed runs, once per
side. `rule_for` takes the cheapest rule within the decision's share of the chance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from collie.errors import UsageError

_MAX_NEEDED = 40


@dataclass(frozen=True, slots=True)
class Chances:
    """Declared chances of single pairs.

    Attributes:
        differ: chance that a pair has a given sign without a change.
        false_negative_rate: chance that a pair looks the same despite a change.
    """

    differ: float
    false_negative_rate: float


@dataclass(frozen=True, slots=True)
class PairRule:
    """The number of pairs that decide.

    Attributes:
        needed: pairs that must have the same sign.
        pairs: limit on conclusive pairs.
        agreeing: pairs after which the test ends if none differs.
        void: tolerated excess of inconclusive over conclusive pairs.
    """

    needed: int
    pairs: int
    agreeing: int = 1
    void: int = 3

    def chance(self, differ: float) -> float:
        """Return the chance that the rule finds a sign, if each pair has this sign with chance `differ`."""
        return tail(self.pairs, self.needed, differ)


def rule_for(share: float, differ: float, false_negative_rate: float, overlooked: float = 0.05) -> PairRule:
    """Return a short rule within a chance of error, with at least half as many spare as needed pairs.

    `share` is the allowed chance of a false sign, `overlooked` the allowed chance that a change stays undetected or
    undecided. The other chances are those of `Chances`.

    Raises:
        UsageError: no rule of sensible length achieves these chances.
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
        f"no comparison in which up to {_MAX_NEEDED - 1} pairs must agree keeps the chance of a false alarm at "
        f"{share:.2g} where {differ:.0%} of the pairs differ by themselves and {false_negative_rate:.0%} miss a "
        "change; allow more by --false-alarm, or declare less in the recipe (`noise: stray_rate, miss_rate`)"
    )


def tail(runs: int, reproduced: int, chance: float) -> float:
    """Return the chance that at least `reproduced` of `runs` runs succeed, each with `chance`."""
    from scipy.stats import binom

    return float(binom.sf(reproduced - 1, runs, chance))


@dataclass(frozen=True, slots=True)
class Shares:
    """The division of a gate's false-alarm chance among its decisions.

    Half is for the replay, in equal shares (Bonferroni). Half is for finds of the search, whose number is unknown: the
    j-th find has 1 / (j (j + 1)) of this half, which sums to 1.
    """

    false_alarm: float
    replayed: int

    @property
    def of_replay(self) -> float:
        """Share of one replayed workload."""
        return self.false_alarm / 2 / max(1, self.replayed)

    def of_find(self, number: int) -> float:
        """Return the share of one find. The first has number 1."""
        return self.false_alarm / 2 / (number * (number + 1))
