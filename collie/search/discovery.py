"""The chance of another find within the next hour, from the finds so far.

A *kind* is an anomaly with all workloads that its minimal feature set covers. The search reaches each kind at a
specific rate, in no particular order (Poisson). The larger of two estimates counts, because to stop too early costs an
anomaly and to go on too long costs an hour.

1. From repeats (Good and Turing): of n sightings, n1 are of kinds seen once. About n1 / n of the next sightings are new
   kinds. In a search of T hours, sightings come at n / T per hour, so new kinds come at (n / T) (n1 / n) = n1 / T.
2. From recent finds: k finds in the second half of the search give k / (T / 2) per hour.
3. Half a sighting is added to n1 and to k to allow for chance. It alone gives the estimate when nothing was found.
4. After t hours without a new kind, the rate is below 3 / t per hour with 95 % confidence (rule of three: e^-3 = 5 %).
   The estimate is never above that.
5. At r new kinds per hour, the chance of at least one within the next hour is 1 - e^-r.

Consecutive sightings of one kind count once, because a climbing search stays near its last find. The estimate excludes
kinds that this strategy cannot reach.
"""

from __future__ import annotations

import math
from collections import Counter as Tally
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from collie.workloads.units import format_count, format_seconds

_HOUR = 3600.0
_LEFT_OUT = 0.5
_RULE_OF_THREE = 3.0
_NEARLY_CERTAIN, _NEARLY_IMPOSSIBLE = 0.99, 0.01


@dataclass(frozen=True, slots=True)
class Sighting:
    """A proposal that belongs to a kind, named by the id of its anomaly."""

    seconds: float
    kind: str


@dataclass(frozen=True, slots=True)
class DiscoveryEstimate:
    """The expected yield of more search.

    Attributes:
        next_hour_chance: chance of at least one new kind within the next hour of testbed time.
        seen_once: number of kinds whose sightings are all consecutive.
        found_of_late: number of kinds found in the second half of the search.
        quiet_seconds: time since the last find, or since the beginning without a find.
    """

    next_hour_chance: float
    kinds: int
    seen_once: int
    found_of_late: int
    quiet_seconds: float
    elapsed_seconds: float

    @property
    def sentence(self) -> str:
        """The estimate with its figures."""
        if self.kinds:
            return f"another find in the next hour: {self._chance_and_reason}"
        # Half a sighting in minutes extrapolates to many in an hour.
        chance = "too early to tell" if self.elapsed_seconds < _HOUR else _percent(self.next_hour_chance)
        return f"another find in the next hour: {chance} (none in {format_seconds(self.elapsed_seconds)})"

    @property
    def _chance_and_reason(self) -> str:
        """The figure, and the part of the formula that sets it. A limit is called one."""
        chance = _percent(self.next_hour_chance)
        is_exact = chance[0].isdigit()
        by_repeats, by_recent, bound = _rates(
            self.seen_once, self.found_of_late, self.quiet_seconds, self.elapsed_seconds
        )
        if by_repeats > by_recent:
            kinds = "kind was" if self.kinds == 1 else "kinds were"
            reason = f"{self.seen_once} of {self.kinds} {kinds} seen in only one stretch of the search"
        elif self.found_of_late:
            reason = f"{self.found_of_late} of {format_count(self.kinds, 'kind')} came in the second half"
        else:  # the half sighting of rule 3 alone
            least = f"at least {chance}" if is_exact else chance
            took = format_seconds(self.elapsed_seconds)
            return f"{least}, because {took} of search cannot show less, although nothing new came in the second half"
        if bound < max(by_repeats, by_recent) and self.next_hour_chance <= _NEARLY_CERTAIN:
            most = f"at most {chance}" if is_exact else chance
            return f"{most}, because nothing new came for {format_seconds(self.quiet_seconds)}, although {reason}"
        return f"{chance}, because {reason}"


def _percent(chance: float) -> str:
    if chance > _NEARLY_CERTAIN:
        return "over 99%"
    return "under 1%" if chance < _NEARLY_IMPOSSIBLE else f"{100 * chance:.0f}%"


def _rates(seen_once: int, of_late: int, quiet_seconds: float, elapsed_seconds: float) -> tuple[float, float, float]:
    """Return new kinds per hour by repeats and by recent finds, and the most that a silence allows."""
    hours = elapsed_seconds / _HOUR
    bound = _RULE_OF_THREE / (quiet_seconds / _HOUR) if quiet_seconds > 0 else math.inf
    return (seen_once + _LEFT_OUT) / hours, (of_late + _LEFT_OUT) / (hours / 2), bound


def estimate_discovery(
    finds: Sequence[float], sightings: Iterable[Sighting], elapsed_seconds: float
) -> DiscoveryEstimate | None:
    """Estimate the chance of another find, or None before any time has passed.

    `finds` are seconds of testbed time. `sightings` of every kind are in order of time, finds included. A skipped
    proposal is a sighting of the anomaly that covers it.
    """
    if elapsed_seconds <= 0:
        return None
    visits = Tally(kind for kind, _ in groupby(sightings, key=lambda sighting: sighting.kind))
    seen_once = sum(count == 1 for count in visits.values())
    quiet_seconds = elapsed_seconds - max(finds, default=0.0)
    of_late = sum(seconds > elapsed_seconds / 2 for seconds in finds)
    by_repeats, by_recent, bound = _rates(seen_once, of_late, quiet_seconds, elapsed_seconds)
    rate = min(max(by_repeats, by_recent), bound)
    return DiscoveryEstimate(-math.expm1(-rate), len(finds), seen_once, of_late, quiet_seconds, elapsed_seconds)
