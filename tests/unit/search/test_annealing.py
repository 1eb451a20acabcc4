"""Simulated annealing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from random import Random
from statistics import median

import pytest

from collie.content.spaces import load_space
from collie.detect.measurement import Measurement
from collie.search.annealing import Annealing
from collie.search.phases import roomy
from collie.search.recipe import Recipe, Schedule, Step, StrategyName
from collie.search.strategy import Answer, ProposalOutcome
from collie.workloads.setup import SetUp
from collie.workloads.workload import Workload
from tests.support.driven_counters import CATALOG, reading

SPACE = load_space("nsdi22")


def counters_of(workload: Workload) -> Measurement:
    return reading(
        misses=float(workload.qps * workload.mrs_per_qp * workload.sge_count * workload.recv_wq_depth),
        stalls=float(workload.sge_count),
        still=1.0,
        rx_bytes=1e9,
    )


def walk(strategy: Annealing, steps: int) -> list[Workload]:
    asked = []
    for _ in range(steps):
        workload = strategy.ask()
        asked.append(workload)
        strategy.tell(workload, Answer(ProposalOutcome.MEASURED, counters_of(workload)))
    return asked


def annealing(seed: int, recipe: Recipe | None = None) -> Annealing:
    return Annealing(recipe or Recipe("test", StrategyName.ANNEALING), SPACE, CATALOG, Random(seed))


def test_one_seed_and_the_same_answers_give_the_same_walk() -> None:
    assert walk(annealing(7), 150) == walk(annealing(7), 150)
    assert walk(annealing(7), 20) != walk(annealing(8), 20)


def test_a_walk_moves_in_one_dimension_at_a_time() -> None:
    strategy = annealing(1)
    points = walk(strategy, 11)
    current = points[-1]
    neighbour = strategy.ask()
    assert sum(current.get(name) != neighbour.get(name) for name in SPACE.dimensions) == 1


def test_annealing_drives_its_counter_above_what_random_drawing_sees() -> None:
    """Median reading of a stage's second half against that of random points; median over seeds."""
    schedule = Schedule(start=1.0, end=0.05, decay=0.9, runs_per_temperature=4)
    recipe = Recipe("test", StrategyName.ANNEALING, schedule=schedule)

    def typical(points: list[Workload]) -> float:
        return median(counters_of(point).counter("misses") or 0.0 for point in points)

    driven, drawn = [], []
    for seed in range(9):
        driven.append(typical(walk(annealing(seed, recipe), 120)[60:]))
        rng = Random(seed)
        drawn.append(typical([SPACE.sample(rng) for _ in range(60)]))
    assert median(driven) > 10 * median(drawn)


def test_after_a_finding_the_walk_begins_afresh() -> None:
    strategy = annealing(2)
    last = walk(strategy, 15)[-1]
    found = strategy.ask()
    strategy.tell(found, Answer(ProposalOutcome.MEASURED, counters_of(found), found=True))
    fresh = strategy.ask()
    assert sum(last.get(name) != fresh.get(name) for name in SPACE.dimensions) > 1


def test_refused_proposals_move_nothing_until_patience_ends() -> None:
    strategy = annealing(3)
    walk(strategy, 12)
    driven = strategy.driven
    for outcome in (ProposalOutcome.SKIPPED, ProposalOutcome.FAILED, ProposalOutcome.UNSUPPORTED) * 10:
        strategy.tell(strategy.ask(), Answer(outcome))
    assert strategy.driven == driven


def test_stages_drive_every_counter_in_turn() -> None:
    strategy = annealing(4, Recipe("test", StrategyName.ANNEALING, schedule=Schedule(1.0, 0.5, 0.5, 2)))
    seen = []
    for _ in range(80):
        workload = strategy.ask()
        seen.append(strategy.driven)
        strategy.tell(workload, Answer(ProposalOutcome.MEASURED, counters_of(workload)))
    assert seen[0] is None
    assert {"misses", "stalls"} <= set(seen)


def on_set_ups(strategy: Annealing, set_ups: int, phases: int = 8) -> Iterator[tuple[str | None, SetUp]]:
    """Yield the driven counter and the phases of each set-up. As in a search, answers come when it ends."""
    for _ in range(set_ups):
        first, driven = strategy.ask(), strategy.driven
        set_up = SetUp(roomy(SPACE, first), (first,))
        while len(set_up.before) < phases and (workload := strategy.ask_on(set_up)) is not None:
            set_up = set_up.after(workload)
        yield driven, set_up
        for workload in set_up.before:
            strategy.tell(workload, Answer(ProposalOutcome.MEASURED, counters_of(workload)))


@pytest.mark.parametrize("step", Step)
def test_phases_are_neighbours_of_the_first_point_that_fit_its_set_up(step: Step) -> None:
    strategy = annealing(5, Recipe("test", StrategyName.ANNEALING, schedule=Schedule(1.0, 0.1, 0.9, 4, step)))

    driven = [set_up for driven, set_up in on_set_ups(strategy, 40) if driven]

    neighbours = [(set_up, phase) for set_up in driven for phase in set_up.before[1:]]
    assert len(neighbours) > 100
    for set_up, phase in neighbours:
        assert SPACE.misfit(phase, set_up.made_for) is None
        changed = {name for name in SPACE.dimensions if phase.get(name) != set_up.before[0].get(name)}
        assert len(changed) == 1 if step is Step.ONE else any(changed <= set(group) for group in strategy._groups)


def test_a_set_up_ends_with_its_stage() -> None:
    """The answers would otherwise move the walk of the next counter, which begins at a random point."""
    strategy = annealing(6, Recipe("test", StrategyName.ANNEALING, schedule=Schedule(1.0, 0.1, 0.5, 1, Step.GROUP)))

    taken = list(on_set_ups(strategy, 30))

    driven = [(counter, len(set_up.before)) for counter, set_up in taken if counter is not None]
    assert {runs for _, runs in driven} == {4}
    assert all(one != other for (one, _), (other, _) in pairwise(driven))


def test_points_that_rank_the_counters_have_set_ups_of_their_own() -> None:
    assert [len(set_up.before) for _, set_up in on_set_ups(annealing(7), 10)] == [1] * 10
