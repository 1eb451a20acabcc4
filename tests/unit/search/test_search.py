"""Strategies, objectives and breaking of conditions."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from statistics import median

import pytest

from collie.content.spaces import load_space
from collie.counters.catalog import Catalog, Counter, CounterKind, Unit
from collie.detect.measurement import HostMeasurement, Measurement
from collie.detect.symptom import Symptom
from collie.search.annealing import Annealing
from collie.search.anomaly import Anomaly
from collie.search.breaking import broken
from collie.search.objective import Objective, rank
from collie.search.recipe import Recipe, Schedule, StrategyName
from collie.search.resolution import widen_to_untested
from collie.search.strategies import STRATEGIES, build
from collie.search.strategy import Answer, ProposalOutcome
from collie.workloads.dimension import Vector
from collie.workloads.feature import Condition, Mfs, Op, feature_value
from collie.workloads.space import Space
from collie.workloads.workload import Direction, Opcode, QpType, Workload

SPACE = load_space("nsdi22")
CATALOG = Catalog(
    "test",
    (
        Counter("misses", "model", Unit.EVENTS, CounterKind.DIAGNOSTIC, "cache"),
        Counter("stalls", "model", Unit.EVENTS, CounterKind.DIAGNOSTIC, "pcie"),
        Counter("still", "model", Unit.EVENTS, CounterKind.DIAGNOSTIC, "port"),
        Counter("absent", "model", Unit.EVENTS, CounterKind.DIAGNOSTIC, "port"),
        Counter("rx_bytes", "model", Unit.BYTES, CounterKind.PERFORMANCE, "port"),
    ),
)


def reading(**counters: float | None) -> Measurement:
    return Measurement((HostMeasurement("a"), HostMeasurement("b", counters=counters)), 4.0)


def test_counters_are_ranked_by_std_over_mean_diagnostics_first() -> None:
    points = [
        reading(misses=100.0, stalls=1.0, still=5.0, absent=None, rx_bytes=10.0),
        reading(misses=120.0, stalls=9.0, still=5.0, absent=None, rx_bytes=90.0),
    ]
    assert rank(CATALOG, points) == (
        Objective("stalls", rises=True), Objective("misses", rises=True), Objective("rx_bytes", rises=False),
    )  # fmt: skip


def test_without_any_moving_counter_performance_is_driven() -> None:
    assert rank(CATALOG, [reading(still=1.0)]) == (Objective("rx_bytes", rises=False),)


def test_energy_is_the_relative_change_and_negative_when_worse() -> None:
    assert Objective("misses", rises=True).energy(100, 200) == pytest.approx(-0.5)
    assert Objective("rx_bytes", rises=False).energy(100, 50) == pytest.approx(-0.5)
    assert Objective("misses", rises=True).energy(0, 0) == 0


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


def test_every_named_strategy_can_be_built() -> None:
    assert set(STRATEGIES) == set(StrategyName)
    for name in StrategyName:
        strategy = build(Recipe("test", strategy=name), SPACE, CATALOG, Random(0))
        assert SPACE.complaints(strategy.ask()) == []


@pytest.mark.parametrize(
    ("workload", "conditions"),
    [
        (
            Workload(qps=480, send_wq_depth=16, messages=(512,)),
            [("qps", ">=", 320), ("send_wq_depth", "<=", 16), ("max_message_bytes", "<=", 1024)],
        ),
        (
            Workload(qps=24, mrs_per_qp=1024, messages=(512,)),
            [("total_mrs", ">=", 12288), ("wqe_batch", "<=", 1), ("max_message_bytes", "<=", 1024)],
        ),
        (
            Workload(messages=(128, 65536), sge_count=4, mtu=4096),
            [("min_message_bytes", "<=", 1024), ("max_message_bytes", ">=", 65536), ("sge_count", ">=", 3)],
        ),
        (
            Workload(
                direction=Direction.BIDIRECTIONAL,
                sge_count=3,
                sge_split=(128, 65536),
                messages=(66688,),
                mr_bytes=1 << 22,
            ),
            [
                ("direction", "==", Direction.BIDIRECTIONAL),
                ("sge_count", ">=", 3),
                ("min_segment_bytes", "<=", 1024),
                ("max_segment_bytes", ">=", 65536),
            ],
        ),
        # One host alone needs twice the queue pairs; a UD message can be longer only where the MTU is.
        (
            Workload(direction=Direction.BIDIRECTIONAL, qps=80),
            [("direction", "==", Direction.BIDIRECTIONAL), ("total_qps", ">=", 160)],
        ),
        (
            Workload(qp_type=QpType.UD, opcode=Opcode.SEND, mtu=1024, messages=(512,)),
            [("max_message_bytes", "<=", 1024)],
        ),
        (Workload(qp_type=QpType.RC, loopback=True), [("loopback", "==", True), ("qp_type", "in", ("RC", "UC"))]),
    ],
)
def test_breaking_a_condition_keeps_all_others(workload: Workload, conditions: list[tuple[str, str, object]]) -> None:
    mfs = Mfs(tuple(Condition(name, Op(op), value) for name, op, value in conditions))
    assert mfs.covers(workload)
    for condition in mfs.conditions:
        control = broken(workload, mfs, condition, SPACE)
        if condition.dimension == "qp_type":
            assert control is None  # a WRITE cannot go over UD, so nothing of the space breaks it alone
            continue
        assert control is not None, condition
        assert SPACE.allows(control)
        assert [c.holds(control) for c in mfs.conditions] == [c is not condition for c in mfs.conditions]


@pytest.mark.parametrize(
    ("broken_condition", "factor"),
    [(Condition("min_segment_bytes", Op.AT_MOST, 1024), 64), (Condition("max_segment_bytes", Op.AT_LEAST, 65536), 64)],
)
def test_a_control_stands_well_clear_of_the_threshold(broken_condition: Condition, factor: int) -> None:
    workload = Workload(sge_count=3, sge_split=(128, 65536), messages=(66688,), mr_bytes=1 << 22)
    mfs = Mfs((
        Condition("sge_count", Op.AT_LEAST, 3),
        Condition("min_segment_bytes", Op.AT_MOST, 1024),
        Condition("max_segment_bytes", Op.AT_LEAST, 65536),
    ))  # fmt: skip
    control = broken(workload, mfs, broken_condition, SPACE)
    assert control is not None
    value = feature_value(control, broken_condition.dimension)
    assert max(value / broken_condition.value, broken_condition.value / value) > factor


def test_messages_that_do_not_vary_give_no_control() -> None:
    fixed = SPACE.narrowed({"messages": (65536,)}, {})
    condition = Condition("min_message_bytes", Op.AT_LEAST, 1024)
    assert broken(fixed.base, Mfs((condition,)), condition, fixed) is None


def test_messages_of_one_size_are_never_paired() -> None:
    dimension = SPACE.dimensions["messages"]
    assert isinstance(dimension, Vector)
    single = Space("single", {"messages": replace(dimension, max_length=1)})
    condition = Condition("max_message_bytes", Op.AT_LEAST, 65536)
    control = broken(single.base, Mfs((condition,)), condition, single)
    assert control is not None
    assert control.messages == (64,)


def finding(*conditions: Condition, complete: bool) -> Anomaly:
    workload = Workload(qp_type=QpType.UC, loopback=True)
    mfs = Mfs(conditions)
    return Anomaly("a1", Symptom.PAUSE, 0.2, workload, workload, mfs, "host b sends pause", "b", 1, 1.0, 1, complete)


@pytest.mark.parametrize(
    ("conditions", "complete", "sentence"),
    [
        ([], False, "UC WRITE, not explained yet: host b sends pause."),
        ([], True, "Any workload of the space: host b sends pause."),
        (
            [
                Condition("qp_type", Op.EQUAL, "UC"),
                Condition("more_opcodes", Op.ONE_OF, ((), (Opcode.SEND, Opcode.SEND_WITH_IMM))),
                Condition("huge_pages", Op.EQUAL, True),
            ],
            True,
            "UC when nothing or SEND and SEND_WITH_IMM is mixed in and buffers are on huge pages: host b sends pause.",
        ),
        (
            [Condition("loopback", Op.EQUAL, True)],
            False,
            "UC WRITE when loopback traffic runs beside it: host b sends pause (not explained to the end).",
        ),
        (
            [Condition("qp_type", Op.ONE_OF, ("RC", "UC"))],
            False,
            "RC/UC WRITE: host b sends pause (not explained to the end).",
        ),
        (
            [Condition("loopback", Op.EQUAL, True)],
            True,
            "Any traffic (seen with UC WRITE) when loopback traffic runs beside it: host b sends pause.",
        ),
        (
            [Condition("opcode", Op.EQUAL, "WRITE"), Condition("wqe_batch", Op.AT_MOST, 1)],
            True,
            "WRITE when work requests are posted one by one: host b sends pause.",
        ),
        (
            [Condition("opcode", Op.EQUAL, "WRITE"), Condition("sge_count", Op.AT_LEAST, 2)],
            True,
            "WRITE when there are at least 2 scatter/gather entries: host b sends pause.",
        ),
    ],
)
def test_a_sentence_claims_no_more_than_was_explained(
    conditions: list[Condition], complete: bool, sentence: str
) -> None:
    assert finding(*conditions, complete=complete).sentence == sentence


def test_a_workload_between_two_steps_of_the_ladder_is_the_same_anomaly() -> None:
    found = Mfs((
        Condition("sge_count", Op.AT_LEAST, 3),
        Condition("min_segment_bytes", Op.AT_MOST, 1024),
        Condition("max_segment_bytes", Op.AT_LEAST, 65536),
    ))  # fmt: skip
    between = SPACE.base.with_(sge_count=3, sge_split=(128,), messages=(128 + 2 * 50000,), mr_bytes=1 << 22)
    assert not found.covers(between)
    assert widen_to_untested(found, SPACE).covers(between)
    refuted = between.with_(messages=(128 + 2 * 32768,))
    assert not widen_to_untested(found, SPACE).covers(refuted)
