"""Advice against brute force: every workload of a small application, one by one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import product
from random import Random

from hypothesis import assume, given, settings, strategies as st

from collie.advise.check import check
from collie.advise.effort import Effort, Undecided
from collie.advise.overlap import Known, overlap
from collie.advise.solver import find
from collie.workloads.application import Application, Sizes, Traffic, Values, reached
from collie.workloads.constraint import HostLimits
from collie.workloads.dimension import Choice, Ordered, Vector
from collie.workloads.feature import DERIVED, Condition, Mfs, Op, feature_value
from collie.workloads.space import Space
from collie.workloads.workload import Direction, Memory, Opcode, QpType, Workload

SPACE = Space(
    "small",
    {
        "direction": Choice("direction", tuple(Direction), Direction.UNIDIRECTIONAL),
        "memory": Choice("memory", tuple(Memory), Memory.DRAM),
        "peer_memory": Choice("peer_memory", tuple(Memory), Memory.DRAM),
        "requesters": Ordered("requesters", 1, 2, (1, 2), 1),
        "mrs_per_qp": Ordered("mrs_per_qp", 1, 6, (1, 2, 4, 6), 1),
        "mr_bytes": Ordered("mr_bytes", 4, 16, (4, 8, 16), 16, step=4),
        "qp_type": Choice("qp_type", (QpType.RC, QpType.UC, QpType.UD), QpType.RC),
        "opcode": Choice("opcode", (Opcode.WRITE, Opcode.SEND, Opcode.READ, Opcode.FETCH_ADD), Opcode.WRITE),
        "more_opcodes": Choice("more_opcodes", ((), (Opcode.SEND,), (Opcode.FETCH_ADD,)), ()),
        "qps": Ordered("qps", 1, 7, (1, 2, 4, 7), 2),
        "mtu": Ordered("mtu", 256, 1024, (256, 512, 1024), 1024, ladder_only=True),
        "wqe_batch": Ordered("wqe_batch", 1, 4, (1, 2, 4), 1),
        "sge_count": Ordered("sge_count", 1, 4, (1, 2, 3, 4), 1),
        "sge_split": Choice("sge_split", ("even", (3,), (2, 5)), "even"),
        "send_wq_depth": Ordered("send_wq_depth", 1, 5, (1, 2, 3, 5), 4),
        "recv_wq_depth": Ordered("recv_wq_depth", 1, 5, (1, 2, 3, 5), 4),
        "messages": Vector("messages", 3, Ordered("messages", 1, 16, (1, 2, 4, 8, 12, 16), 8), (8,)),
        "offered_bps": Ordered("offered_bps", 0, 64, (0, 16, 32, 64), 0, ladder_only=True),
    },
    HostLimits(total_mrs=20, pinned_bytes=200, outstanding_bytes=150, round_seconds=3.0),
)
MAX_WORKLOADS = 500


@st.composite
def kinds(draw: st.DrawFn) -> Traffic:
    """Some traffic of few enough workloads to try all of them."""
    rng = Random(draw(st.integers(0, 2**32)))
    varied = set(rng.sample(sorted(SPACE.dimensions), rng.randint(2, 6)))
    values = {}
    for name, dimension in SPACE.dimensions.items():
        if name != "messages":
            values[name] = some_of(dimension, rng) if name in varied else (dimension.plain,)
    if "messages" not in varied:
        sizes = Sizes.exactly(tuple(rng.randint(1, 16) for _ in range(rng.randint(1, 3))))
    elif rng.random() < 0.5:
        low = rng.randint(1, 12)
        sizes = Sizes(range(low, rng.randint(low, low + 4) + 1), rng.randint(1, 2))
    else:
        sizes = Sizes(tuple(sorted(rng.sample(range(1, 17), 3))), rng.randint(1, 3))
    traffic = Traffic("some", SPACE.base, values, sizes)
    assume(count(traffic) <= MAX_WORKLOADS)
    return traffic


def some_of(dimension: Choice | Ordered | Vector, rng: Random) -> Values:
    if isinstance(dimension, Ordered) and not dimension.ladder_only:
        steps = range(dimension.low, dimension.high + 1, dimension.step)
        low = rng.randrange(len(steps))
        return steps[low : rng.randint(low, len(steps) - 1) + 1]
    values = dimension.candidates()
    chosen = rng.sample(range(len(values)), rng.randint(1, len(values)))
    return tuple(values[index] for index in sorted(chosen))


def count(traffic: Traffic) -> int:
    total = 1
    for values in traffic.values.values():
        total *= len(values)
    return total * (
        1 if traffic.sizes.only else sum(len(traffic.sizes.values) ** n for n in range(1, traffic.sizes.longest + 1))
    )


def lists(sizes: Sizes) -> Iterator[tuple[int, ...]]:
    if sizes.only is not None:
        yield sizes.only
        return
    for length in range(1, sizes.longest + 1):
        yield from product(sizes.values, repeat=length)


def every(traffic: Traffic) -> list[Workload]:
    names = list(traffic.values)
    return [
        workload
        for chosen in product(*traffic.values.values())
        for messages in lists(traffic.sizes)
        if SPACE.allows(workload := traffic.base.with_(**dict(zip(names, chosen, strict=True)), messages=messages))
    ]


@cache
def anywhere() -> list[Workload]:
    rng = Random(1)
    return [SPACE.sample(rng) for _ in range(300)]


@st.composite
def observed(draw: st.DrawFn, *, inside: bool = False) -> tuple[Traffic, list[Workload], Mfs]:
    """Some traffic, all its workloads, and an explanation that often, or with `inside` always, covers some of them."""
    traffic = draw(kinds())
    workloads = every(traffic)
    assume(workloads)
    rng = Random(draw(st.integers(0, 2**32)))
    return traffic, workloads, explanation(rng.choice(workloads if inside or rng.random() < 0.7 else anywhere()), rng)


def explanation(point: Workload, rng: Random) -> Mfs:
    """A conjunction of one to four conditions that a point satisfies."""
    pool = [*SPACE.dimensions, *DERIVED, *(name for name in DERIVED if "bytes" in name)]
    features = dict.fromkeys(rng.sample(pool, rng.randint(1, 4)))
    return Mfs(tuple(condition(feature, point, rng) for feature in features))


def condition(feature: str, point: Workload, rng: Random) -> Condition:
    value = feature_value(point, feature)
    others = [feature_value(other, feature) for other in rng.sample(anywhere(), 2)]
    if isinstance(value, bool) or not isinstance(value, int):
        return rng.choice(
            [Condition(feature, Op.EQUAL, value), Condition(feature, Op.ONE_OF, tuple(dict.fromkeys((value, *others))))]
        )
    return rng.choice(
        [
            Condition(feature, Op.AT_LEAST, min(value, others[0])),
            Condition(feature, Op.AT_LEAST, value),
            Condition(feature, Op.AT_MOST, max(value, others[0])),
            Condition(feature, Op.AT_MOST, value),
            Condition(feature, Op.EQUAL, value),
            Condition(feature, Op.ONE_OF, (value, others[1])),
        ]
    )


@settings(max_examples=100)
@given(observed(), st.integers(0, 299))
def test_an_overlap_is_found_exactly_when_some_workload_lies_in_it(
    case: tuple[Traffic, list[Workload], Mfs], target: int
) -> None:
    traffic, workloads, mfs = case
    inside = [workload for workload in workloads if mfs.covers(workload)]

    found = find(traffic, SPACE, mfs, anywhere()[target])

    assert (found in inside) if inside else found is None


@settings(max_examples=50)
@given(observed(), st.integers(1, 200))
def test_an_answer_within_a_bound_is_the_answer_without_one(
    case: tuple[Traffic, list[Workload], Mfs], steps: int
) -> None:
    traffic, _, mfs = case
    with suppress(Undecided):
        assert find(traffic, SPACE, mfs, anywhere()[0], Effort(steps)) == find(traffic, SPACE, mfs, anywhere()[0])


@settings(max_examples=30)
@given(observed(inside=True))
def test_the_overlap_reaches_as_far_as_its_workloads_do(case: tuple[Traffic, list[Workload], Mfs]) -> None:
    traffic, workloads, mfs = case
    inside = [workload for workload in workloads if mfs.covers(workload)]

    found = overlap(traffic, SPACE, Known("a", "", mfs, inside[0]))

    assert found is not None
    for name, reach in found.reach.items():
        seen = {workload.messages[0] if name == "messages" else workload.get(name) for workload in inside}
        assert set(reach) == ({min(seen), max(seen)} if isinstance(reach[0], int) else seen)
    for name in traffic.values.keys() - found.reach.keys():
        values = traffic.get(name)
        seen = {workload.get(name) for workload in inside}
        assert {values[0], values[-1]} <= seen


@settings(max_examples=20)
@given(observed(inside=True), st.integers(0, 2**32), st.booleans())
def test_what_is_advised_leaves_the_anomaly_and_enters_no_other(
    case: tuple[Traffic, list[Workload], Mfs], seed: int, is_coarse: bool
) -> None:
    traffic, workloads, mfs = case
    rng = Random(seed)
    sets = [mfs, *(explanation(rng.choice(anywhere() + workloads), rng) for _ in range(2))]
    known = [Known(f"a{n}", "", each, anywhere()[0], is_coarse=is_coarse) for n, each in enumerate(sets)]

    advice = check(Application("app", "", SPACE, (traffic,)), known)

    hit_ones = {each.id for each in known if any(each.mfs.covers(workload) for workload in workloads)}
    assert {hit.known.id for hit in advice.hits} == hit_ones
    for hit in advice.hits:
        ways = [change.traffic for change in hit.changes] + ([hit.pair[1].traffic] if hit.pair else [])
        for changed in ways:
            after = every(changed)
            hits = {each.id for each in known if any(each.mfs.covers(workload) for workload in after)}
            assert after
            assert hits <= hit_ones - {hit.known.id}
    if advice.remedy is not None:
        for change in advice.remedy:
            traffic = change.applied(traffic)
        assert not any(each.mfs.covers(workload) for each in known for workload in every(traffic))


@settings(max_examples=15)
@given(st.lists(kinds().filter(every), min_size=1, max_size=3), st.integers(0, 2**32))
def test_a_search_inside_an_application_draws_nothing_that_it_does_not_reach(kinds: list[Traffic], seed: int) -> None:
    assume(sum(map(count, kinds)) > len(kinds))
    space = reached(Application("app", "", SPACE, tuple(kinds)))

    rng = Random(seed)
    for _ in range(10):
        drawn = space.sample(rng)
        assert any(traffic.with_sizes(replace(traffic.sizes, only=None)).holds(drawn) for traffic in kinds)
        assert SPACE.allows(drawn)
