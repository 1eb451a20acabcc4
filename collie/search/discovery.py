"""Whether more search is likely to pay: the chance of another find within the next hour, from the finds so far.

The arithmetic. What can be found are *kinds*: each anomaly with what its minimal feature set covers. Suppose that the
search meets each kind at a rate of its own, in no particular order (Poisson). Then there are two ways to tell the rate
of new kinds, and the larger one counts: to stop too early costs an anomaly, to go on too long costs an hour.

1. From repeats (Good and Turing): the share of the next sightings that are of a new kind is about n1 / n: of n
   sightings so far, n1 are of kinds that were seen only once. Sightings come at n / T per hour of search, so new kinds
   at (n / T) (n1 / n) = n1 / T: the number of all sightings falls out.
2. From the finds of late: k finds in the second half of the search make k / (T / 2) per hour. Extraction takes most of
   the first hours, and what is known is skipped at no cost, so a search meets more per hour later on.
3. Half a sighting is added to n1 and to k for what chance left out: it says what to expect when nothing was found.
4. A search that found nothing new for t hours finds less than 3 / t new kinds per hour, with 95 % confidence (rule of
   three: e^-3 = 5 %). The estimate is never above that.
5. With r new kinds per hour, the chance of at least one within the next hour is 1 - e^-r.

Sightings of one kind in a row count once: a search that climbs stays on what it has met: that is no second sighting.
The estimate says nothing about kinds that this strategy cannot meet, and a strategy that changes its ways refutes it.
"""

from __future__ import annotations

import math
from collections import Counter as Tally
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from collie.workloads.units import format_seconds

_HOUR = 3600.0
_LEFT_OUT = 0.5
_RULE_OF_THREE = 3.0


@dataclass(frozen=True, slots=True)
class Sighting:
    """The search met a kind, found then or known already.

    Attributes:
        seconds: elapsed testbed time.
        kind: id of the anomaly.
    """

    seconds: float
    kind: str


@dataclass(frozen=True, slots=True)
class DiscoveryEstimate:
    """What more search promises.

    Attributes:
        next_hour_chance: of at least one new kind within the next hour of testbed time.
        kinds: found so far.
        seen_once: those of them that were met only once.
        found_of_late: those of them that the second half of the search found.
        quiet_seconds: since the last find, or since the beginning without one.
        elapsed_seconds: testbed time of the search.
    """

    next_hour_chance: float
    kinds: int
    seen_once: int
    found_of_late: int
    quiet_seconds: float
    elapsed_seconds: float

    @property
    def sentence(self) -> str:
        """What a person reads, with the figures that it rests on."""
        chance = f"{100 * self.next_hour_chance:.0f} %"
        if not 0.01 <= self.next_hour_chance <= 0.99:
            chance = "under 1 %" if self.next_hour_chance < 0.01 else "over 99 %"
        if not self.kinds:
            if self.elapsed_seconds < _HOUR:  # half a sighting in minutes is many in an hour
                chance = "too early to tell"
            return f"another find in the next hour: {chance} (none in {format_seconds(self.elapsed_seconds)})"
        seen = f"{self.seen_once} of {self.kinds} kinds {'was' if self.seen_once == 1 else 'were'} seen once"
        return (
            f"another find in the next hour: {chance} ({seen}, {self.found_of_late} came in the second half; "
            f"the last {format_seconds(self.quiet_seconds)} ago)"
        )


def prospects(
    finds: Sequence[float], sightings: Iterable[Sighting], elapsed_seconds: float
) -> DiscoveryEstimate | None:
    """Estimate the chance of another find.

    Args:
        finds: when each kind was found, in seconds of testbed time.
        sightings: of every kind, its find included, in order of time. What the strategy proposed and was skipped,
            because a known anomaly covers it, is a sighting of that anomaly.
        elapsed_seconds: testbed time of the search.

    Returns:
        None before any time has passed.
    """
    if elapsed_seconds <= 0:
        return None
    visits = Tally(kind for kind, _ in groupby(sightings, key=lambda sighting: sighting.kind))
    seen_once = sum(count == 1 for count in visits.values())
    quiet_seconds = elapsed_seconds - max(finds, default=0.0)
    hours = elapsed_seconds / _HOUR
    of_late = sum(seconds > elapsed_seconds / 2 for seconds in finds)
    rate = max((seen_once + _LEFT_OUT) / hours, (of_late + _LEFT_OUT) / (hours / 2))
    if quiet_seconds > 0:
        rate = min(rate, _RULE_OF_THREE / (quiet_seconds / _HOUR))
    return DiscoveryEstimate(-math.expm1(-rate), len(finds), seen_once, of_late, quiet_seconds, elapsed_seconds)
