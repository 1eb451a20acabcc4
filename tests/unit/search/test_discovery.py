"""Whether more search is likely to pay."""

from __future__ import annotations

import math
from random import Random

import pytest

from collie.search.discovery import DiscoveryEstimate, Sighting, estimate_discovery

HOUR = 3600.0


def sightings(*pairs: tuple[float, str]) -> list[Sighting]:
    return [Sighting(hours * HOUR, kind) for hours, kind in pairs]


def known(found: DiscoveryEstimate | None) -> DiscoveryEstimate:
    assert found is not None
    return found


def test_kinds_seen_once_make_the_rate_where_they_promise_more() -> None:
    seen = sightings((0.1, "a1"), (0.2, "a2"), (0.3, "a3"))
    found = known(estimate_discovery([0.1 * HOUR, 0.2 * HOUR, 0.3 * HOUR], seen, 1 * HOUR))
    assert found.next_hour_chance == pytest.approx(1 - math.exp(-3.5))
    why = "3 of 3 kinds were seen in only one stretch of the search"
    assert found.sentence == f"another find in the next hour: 97%, because {why}"


def test_the_finds_of_late_make_the_rate_where_they_promise_more() -> None:
    seen = sightings((1, "a1"), (2, "a2"), (3, "a1"), (4, "a3"), (5, "a2"), (9, "a4"))
    found = known(estimate_discovery([1 * HOUR, 2 * HOUR, 4 * HOUR, 9 * HOUR], seen, 10 * HOUR))
    assert (found.kinds, found.seen_once) == (4, 2)
    assert found.next_hour_chance == pytest.approx(1 - math.exp(-1.5 / 5))  # more than 2.5 / 10 by the repeats
    why = "1 of 4 kinds came in the second half"
    assert found.sentence == f"another find in the next hour: 26%, because {why}"


def test_a_long_silence_lowers_the_chance() -> None:
    finds = [index * 60.0 for index in range(1, 21)]
    seen = [Sighting(seconds, f"a{seconds}") for seconds in finds]
    found = known(estimate_discovery(finds, seen, 20 * HOUR))
    assert found.next_hour_chance == pytest.approx(1 - math.exp(-3 / (20 - 20 / 60)))
    why = "nothing new came for 19.7 h, although 20 of 20 kinds were seen in only one stretch of the search"
    assert found.sentence == f"another find in the next hour: at most 14%, because {why}"


def test_a_short_search_keeps_the_chance_up() -> None:
    seen = sightings((0.1, "a1"), (0.2, "a2"), (0.3, "a1"), (0.4, "a2"))
    found = known(estimate_discovery([0.1 * HOUR, 0.2 * HOUR], seen, 1 * HOUR))
    assert found.next_hour_chance == pytest.approx(1 - math.exp(-1))
    why = "1.0 h of search cannot show less, although nothing new came in the second half"
    assert found.sentence == f"another find in the next hour: at least 63%, because {why}"


def test_sightings_in_a_row_are_one() -> None:
    found = known(estimate_discovery([HOUR], sightings((1, "a1"), (1.1, "a1"), (1.2, "a1")), 2 * HOUR))
    assert found.seen_once == 1
    assert "1 of 1 kind was seen in only one stretch of the search" in found.sentence


def test_without_a_find_there_is_still_a_chance() -> None:
    found = known(estimate_discovery([], [], 10 * HOUR))
    assert found.next_hour_chance == pytest.approx(1 - math.exp(-0.1))
    assert found.sentence == "another find in the next hour: 10% (none in 10.0 h)"
    assert "under 1%" in known(estimate_discovery([], [], 1000 * HOUR)).sentence
    assert (
        known(estimate_discovery([], [], 360)).sentence
        == "another find in the next hour: too early to tell (none in 6 min)"
    )


def test_nothing_is_certain() -> None:
    found = known(estimate_discovery([60, 120], sightings((1 / 60, "a1"), (2 / 60, "a2")), 180))
    assert found.sentence.endswith("in the next hour: over 99%, because 1 of 2 kinds came in the second half")


def test_before_the_first_run_nothing_is_known() -> None:
    assert estimate_discovery([], [], 0.0) is None


def test_a_find_at_the_very_end_is_no_silence() -> None:
    assert 0 < known(estimate_discovery([HOUR], sightings((1, "a1")), HOUR)).next_hour_chance < 1


def test_where_the_model_holds_the_estimate_errs_towards_going_on() -> None:
    """Kinds of very different rates, met at random: the larger of two estimates is somewhat too large."""
    said = happened = 0.0
    rates = [2.0 ** -(index / 2) for index in range(20)]
    for seed in range(300):
        rng = Random(seed)
        observed = [
            Sighting(seconds, f"a{index}")
            for index, rate in enumerate(rates)
            for seconds in _poisson(rng, rate / HOUR, 6 * HOUR)
        ]
        observed.sort(key=lambda sighting: sighting.seconds)
        first: dict[str, float] = {}
        for sighting in observed:
            first.setdefault(sighting.kind, sighting.seconds)
        early = [sighting for sighting in observed if sighting.seconds <= 5 * HOUR]
        said += known(
            estimate_discovery([s for s in first.values() if s <= 5 * HOUR], early, 5 * HOUR)
        ).next_hour_chance
        happened += any(seconds > 5 * HOUR for seconds in first.values())
    assert happened / 300 <= said / 300 <= happened / 300 + 0.2


def _poisson(rng: Random, rate: float, until: float) -> list[float]:
    moments, now = [], rng.expovariate(rate)
    while now < until:
        moments.append(now)
        now += rng.expovariate(rate)
    return moments
