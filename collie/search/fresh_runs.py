"""Fresh workloads inside a minimal feature set, whose runs are its claim, and what a campaign knows around it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Set
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from collie.detect.interval import wilson
from collie.detect.noise import Noise
from collie.detect.symptom import Verdict
from collie.search.draws import draw_inside
from collie.search.recipe import Extraction
from collie.workloads.feature import Mfs
from collie.workloads.setup import SetUp
from collie.workloads.space import Space
from collie.workloads.workload import Workload, stable_text

Result = TypeVar("Result")
Probes = Generator[Workload, Verdict | None, Result]
"""Yields workloads. Receives a verdict, or None when the workload cannot run."""

Judgements = Callable[[], Iterable[tuple[Workload, Verdict]]]

_WIDEST_CLAIM = 0.5
"""Width of the interval of the show rate above which more fresh runs are drawn."""
_DRAWS = 20
"""Draws of a fresh workload outside the known anomalies."""


def nothing_measured() -> Iterable[tuple[Workload, Verdict]]:
    """Return no judgements, for an extraction outside a campaign."""
    return ()


def costs_one_run(_workload: Workload) -> float:
    """Return 1: outside a campaign every verdict takes one run with a set-up of its own."""
    return 1.0


def no_set_up() -> SetUp | None:
    """Return None: no set-up stands."""
    return None


@dataclass(frozen=True)
class Surroundings:
    """What an extraction knows of its campaign.

    Attributes:
        known: whether an earlier anomaly covers a workload. Such workloads are not probed.
        measured: returns the campaign's judged runs so far.
        cost: expected time of a verdict, in units of a run with a set-up of its own.
        set_up: returns the set-up that stands.
        foreseen: the set of the anomaly on another testbed, where it is known.
    """

    space: Space
    noise: Noise
    known: Callable[[Workload], bool]
    measured: Judgements = nothing_measured
    cost: Callable[[Workload], float] = costs_one_run
    set_up: Callable[[], SetUp | None] = no_set_up
    foreseen: Mfs | None = None


def claim(mfs: Mfs, start: Workload, policy: Extraction, around: Surroundings) -> Probes[tuple[int, int]]:
    """Run workloads drawn inside a set. Return how many showed the anomaly, and how many ran."""
    rng = Random(stable_text(start))
    shows: list[bool] = []
    ran = {start}
    for _ in range(policy.most_runs):
        if suffices(shows, policy):
            break
        drawn = drawn_inside(mfs, start, around, rng, ran, rest_plain=len(shows) % 2 == 0)
        if drawn is None:
            break
        ran.add(drawn)
        verdict = yield drawn
        if verdict is not None and not verdict.is_inconclusive:
            shows.append(verdict.is_anomalous)
    return sum(shows), len(shows)


def suffices(shows: list[bool], policy: Extraction) -> bool:
    """Whether fresh runs, of which each showed the anomaly or not, tell the show rate well enough."""
    if len(shows) < policy.fresh_runs:
        return False
    interval = wilson(sum(shows), len(shows))
    return interval is not None and interval.high - interval.low <= _WIDEST_CLAIM


def drawn_inside(
    mfs: Mfs, start: Workload, around: Surroundings, rng: Random, ran: Set[Workload], *, rest_plain: bool
) -> Workload | None:
    """Draw a workload inside a set and outside all known anomalies that has not run. Return None if none is found.

    With `rest_plain`, what the set does not name is plain, as long as such workloads are left. Without it, it is plain
    when no others are left. The start lies inside the set, unless that has no condition.
    """
    drawn = start
    for plain in (rest_plain, not rest_plain):
        for _ in range(_DRAWS):
            if mfs.conditions:
                drawn = draw_inside(around.space, mfs, drawn, rng, rest_plain=plain)
            else:
                drawn = around.space.sample(rng)
            if drawn not in ran and not around.known(drawn):
                return drawn
    return None
