"""Simulated annealing."""

from __future__ import annotations

from random import Random
from statistics import median

from collie.content.spaces import load_space
from collie.detect.measurement import Measurement
from collie.search.annealing import Annealing
from collie.search.recipe import Recipe, Schedule, StrategyName
from collie.search.strategy import Answer, ProposalOutcome
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
