"""The default search: valid, deterministic, and drawn to where counters rise."""

from __future__ import annotations

import math
from collections import Counter as Tally
from collections.abc import Callable
from dataclasses import replace
from random import Random
from statistics import fmean

import pytest

from collie.content.catalogs import load_catalog
from collie.content.recipes import load_recipe
from collie.content.spaces import load_space
from collie.detect.measurement import HostMeasurement, Measurement
from collie.search.guided import Encoder, Guided
from collie.search.strategy import Answer, ProposalOutcome
from collie.workloads.dimension import Ordered, Vector
from collie.workloads.setup import SetUp
from collie.workloads.space import Space
from collie.workloads.workload import Opcode, QpType, Workload

SPACE = load_space("nsdi22")
CATALOG = load_catalog("simulated")
RECIPE = load_recipe("guided")
COUNTERS = [counter.name for counter in CATALOG.counters]


def guided(seed: int = 1, space: Space = SPACE) -> Guided:
    return Guided(RECIPE, space, CATALOG, Random(seed))


def measured(workload: Workload) -> Measurement:
    """A device whose context misses grow with queue pairs and with short queues, on RC WRITE alone."""
    misses = workload.qps / workload.send_wq_depth if workload.qp_type is QpType.RC else 1.0
    readings: dict[str, float | None] = {**dict.fromkeys(COUNTERS, 5.0), "icm_cache_miss": 1e3 * misses}
    host = HostMeasurement("b", delivered_bps=1e11, delivered_pps=1e6, counters=readings)
    return Measurement((HostMeasurement("a"), host), 5.0)


def proposals(search: Guided, count: int) -> list[Workload]:
    asked = []
    for _ in range(count):
        workload = search.ask()
        asked.append(workload)
        search.tell(workload, Answer(ProposalOutcome.MEASURED, measured(workload)))
    return asked


def test_every_proposal_is_a_workload_of_the_space() -> None:
    for workload in proposals(guided(), 150):
        assert SPACE.complaints(workload) == []


def test_the_same_seed_and_answers_give_the_same_proposals() -> None:
    assert proposals(guided(), 80) == proposals(guided(), 80)
    assert proposals(guided(), 80) != proposals(guided(2), 80)


def test_plain_traffic_of_every_transport_comes_first() -> None:
    first = proposals(guided(), 12)
    for size in (1024, 65536):
        opcodes = [(QpType.RC, Opcode.WRITE), (QpType.RC, Opcode.SEND), (QpType.RC, Opcode.READ)]
        opcodes += [(QpType.UC, Opcode.WRITE), (QpType.UC, Opcode.SEND)]
        plain = [SPACE.base.with_(qp_type=kind, opcode=opcode, messages=(size,)) for kind, opcode in opcodes]
        plain.append(SPACE.base.with_(qp_type=QpType.UD, opcode=Opcode.SEND, messages=(min(size, 4096),)))
        assert first[:6] == plain
        first = first[6:]


def test_plain_traffic_takes_no_random_start() -> None:
    asked = proposals(guided(), 12 + RECIPE.guide.starts)
    assert not any(SPACE.base.with_(qp_type=w.qp_type, opcode=w.opcode, messages=w.messages) == w for w in asked[12:])
    search = guided()
    driven = []
    for _ in range(12 + RECIPE.guide.starts):
        workload = search.ask()
        driven.append(search.driven)
        search.tell(workload, Answer(ProposalOutcome.MEASURED, measured(workload)))
    assert set(driven) == {None}


def test_plain_traffic_stays_in_a_narrow_space() -> None:
    narrow = SPACE.narrowed({"qp_type": QpType.UC, "messages": (256,)}, {})
    first = proposals(guided(space=narrow), 3)
    assert [w.opcode for w in first[:2]] == [Opcode.WRITE, Opcode.SEND]
    assert [w.messages for w in first] == [(256,)] * 3
    assert first[2] != narrow.base


def test_it_goes_where_the_counter_rises() -> None:
    def height(workloads: list[Workload]) -> float:
        driven = [w for w in workloads if w.qp_type is QpType.RC]
        return sum(math.log10(w.qps / w.send_wq_depth) for w in driven) / len(driven)

    climbed = []
    for seed in range(1, 7):
        search = guided(seed)
        first, later = proposals(search, 60), proposals(search, 300)
        climbed.append(height(later) - height(first))
    assert sum(climbed) / len(climbed) > 0.5


def test_every_transport_has_its_turn() -> None:
    seen = {(w.qp_type, w.opcode) for w in proposals(guided(), 60)}
    assert seen == {
        (QpType.RC, Opcode.WRITE),
        (QpType.RC, Opcode.SEND),
        (QpType.RC, Opcode.READ),
        (QpType.UC, Opcode.WRITE),
        (QpType.UC, Opcode.SEND),
        (QpType.UD, Opcode.SEND),
    }


@pytest.mark.parametrize(
    "fix", [{"qp_type": QpType.RC, "opcode": Opcode.READ}, {"messages": (512,), "mtu": 1024}, {"qp_type": QpType.UD}]
)
def test_a_narrowed_space_is_searched_all_the_same(fix: dict[str, object]) -> None:
    narrowed = SPACE.narrowed(fix, {})
    for workload in proposals(guided(space=narrowed), 60):
        assert narrowed.complaints(workload) == []


def test_a_transport_that_no_message_fits_has_no_turn() -> None:
    long = SPACE.narrowed({}, {}, {"messages": 65536})
    seen = proposals(guided(space=long), 60)
    assert {w.qp_type for w in seen} == {QpType.RC, QpType.UC}
    assert all(long.complaints(w) == [] for w in seen)


def test_covered_proposals_are_hardly_repeated() -> None:
    search = guided()
    proposals(search, 60)
    covered = []
    for _ in range(60):
        workload = search.ask()
        covered.append(workload)
        search.tell(workload, Answer(ProposalOutcome.SKIPPED))
    assert len(set(covered)) > 55


def taught(misses: Callable[[Workload], float | None]) -> Guided:
    """A search that has learnt a counter from random workloads. Those without a reading were not measured."""
    search, rng = guided(), Random(1)
    for workload in (SPACE.sample(rng) for _ in range(300)):
        if (rate := misses(workload)) is not None:
            host = HostMeasurement("b", delivered_bps=1e11, delivered_pps=1e6, counters={"icm_cache_miss": rate})
            search.tell(workload, Answer(ProposalOutcome.MEASURED, Measurement((host,), 5.0)))
    return search


def driven(search: Guided, outcome: ProposalOutcome = ProposalOutcome.FAILED, count: int = 200) -> list[Workload]:
    """Those of the next proposals that drive the counter. None is measured."""
    asked = []
    for _ in range(count):
        workload = search.ask()
        if search.driven is not None:
            asked.append(workload)
        search.tell(workload, Answer(outcome))
    return asked


def decades_of_qps(workloads: list[Workload]) -> float:
    """The mean. It is about 2.3 for random workloads, and 4.3 for the most queue pairs that the space has."""
    return fmean(math.log10(workload.qps) for workload in workloads)


def test_proposals_after_many_covered_ones_are_mostly_random_until_one_is_not_covered() -> None:
    search = taught(lambda workload: workload.qps)
    assert decades_of_qps(driven(search)) > 3.8
    assert 2.6 < decades_of_qps(driven(search, ProposalOutcome.SKIPPED, 600)) < 3.3
    assert decades_of_qps(driven(search)) > 3.8


def test_a_transport_is_driven_by_its_own_runs_where_others_contradict_them() -> None:
    """There are five others."""
    search = taught(lambda w: w.qps if w.qp_type is QpType.UD else 1e6 / w.qps)
    assert decades_of_qps([workload for workload in driven(search) if workload.qp_type is QpType.UD]) > 2.7


def test_a_transport_with_few_runs_is_driven_by_those_of_the_others() -> None:
    few = iter((1.0, 10.0, 1.0, 10.0))
    search = taught(lambda w: next(few, None) if w.qp_type is QpType.UD else w.qps)
    assert decades_of_qps([workload for workload in driven(search) if workload.qp_type is QpType.UD]) > 3.3


def test_features_are_positions_and_choices() -> None:
    encoder = Encoder(SPACE)
    plain, wide = encoder.encode(SPACE.base), encoder.encode(SPACE.base.with_(qps=20_000))
    assert plain.shape == wide.shape == (encoder.width,)
    assert (plain != wide).sum() == 2
    assert wide.max() <= 1


@pytest.mark.parametrize("name", [name for name, each in SPACE.dimensions.items() if isinstance(each, Ordered)])
def test_the_position_of_a_value_rises_from_one_end_of_its_ladder_to_the_other(name: str) -> None:
    dimension = SPACE.dimensions[name]
    assert isinstance(dimension, Ordered)
    encoder = Encoder(Space("one", {name: dimension}))
    places = [float(encoder.encode(Workload().with_(**{name: step}))[1]) for step in dimension.ladder]
    assert places[0] == 0.0
    assert places[-1] == pytest.approx(1.0)
    assert places == sorted(set(places))


@pytest.mark.parametrize(("ladder", "places"), [((0, 1), [0.0, 1.0]), ((0, 1, 4), [0.0, 0.0, 1.0]), ((7,), [0.0])])
def test_a_ladder_may_have_nothing_above_one(ladder: tuple[int, ...], places: list[float]) -> None:
    dimension = Ordered("rnr_retry", ladder[0], ladder[-1], ladder, ladder[0])
    encoder = Encoder(Space("one", {"rnr_retry": dimension}))
    assert [float(encoder.encode(Workload(rnr_retry=step))[1]) for step in ladder] == places


def test_the_features_of_messages_are_their_ends_and_mean_and_spread() -> None:
    messages = SPACE.dimensions["messages"]
    assert isinstance(messages, Vector)
    encoder = Encoder(Space("one", {"messages": messages}))
    small, large = messages.element.ladder[0], messages.element.ladder[-1]

    def features(*sizes: int) -> list[float]:
        return [float(feature) for feature in encoder.encode(Workload(messages=sizes))]

    assert features(small, large, large) == pytest.approx([1, 0, 0, 1, 1, 2 / 3, 4 / 9, 1])
    assert features(large, small, large) == features(small, large, large)
    assert features(large) == pytest.approx([1, 1, 1, 1, 1, 1, 1, 0])


@pytest.mark.parametrize("per_message", [True, False])
def test_a_counter_is_driven_that_moves_only_per_second_or_only_per_message(per_message: bool) -> None:
    def moving(workload: Workload) -> Measurement:
        messages = 1e11 / 8 / workload.mean_message_bytes
        readings: dict[str, float | None] = {"icm_cache_miss": 1e4 if per_message else messages}
        return Measurement((HostMeasurement("b", delivered_bps=1e11, counters=readings),), 5.0)

    search, driven = guided(), set[str | None]()
    for _ in range(80):
        workload = search.ask()
        driven.add(search.driven)
        search.tell(workload, Answer(ProposalOutcome.MEASURED, moving(workload)))
    assert driven == {None, "icm_cache_miss"}


def test_random_starts_prefer_the_ends_of_a_ladder() -> None:
    """Limits are exceeded there."""
    search = guided()
    starts = [search.ask() for _ in range(412)][12:]  # without answers, no goal follows
    for name in ("send_wq_depth", "recv_wq_depth"):
        dimension = SPACE.dimensions[name]
        assert isinstance(dimension, Ordered)
        ends = {*dimension.ladder[:2], *dimension.ladder[-2:]}
        assert sum(start.get(name) in ends for start in starts) > 0.45 * len(starts)


def test_some_proposals_are_driven_by_no_counter_after_the_starts() -> None:
    search = guided()
    proposals(search, 60)
    driven = []
    for _ in range(60):
        search.ask()
        driven.append(search.driven)
    assert 0 < driven.count(None) < 40


def test_on_a_set_up_the_plain_traffic_that_fits_comes_first_and_nothing_else_while_other_plain_traffic_is_left() -> (
    None
):
    search = guided()
    on = SetUp(SPACE.base)
    asked = [plain for plain in (search.ask_on(on) for _ in range(12)) if plain is not None]
    assert {workload.qp_type for workload in asked} == {QpType.RC}
    assert len(set(asked)) == len(asked)
    rest = [search.ask() for _ in range(12 - len(asked))]
    assert QpType.RC not in {workload.qp_type for workload in rest}
    assert search.ask_on(on) is not None


def test_on_a_set_up_only_counters_of_its_transport_are_driven() -> None:
    """Misses move on RC alone. Every run has as many messages, so nothing moves per message."""

    def moving(workload: Workload) -> Measurement:
        (_, host), bps = measured(workload).hosts, 8e6 * workload.mean_message_bytes
        return Measurement((replace(host, delivered_bps=bps),), 5.0)

    search = guided()
    for _ in range(60):
        workload = search.ask()
        search.tell(workload, Answer(ProposalOutcome.MEASURED, moving(workload)))
    for kind, driven in ((QpType.UC, False), (QpType.RC, True)):
        counters = set()
        for _ in range(20):
            proposed = search.ask_on(SetUp(SPACE.base.with_(qp_type=kind)))
            assert proposed is not None
            assert proposed.qp_type is kind
            counters.add(search.driven)
        assert ("icm_cache_miss" in counters) is driven


def turns(search: Guided, outcome: ProposalOutcome, transport: tuple[QpType, Opcode] | None = None) -> Tally[object]:
    """The transports of the next 120 proposals after plain traffic. Those of `transport` have this outcome."""
    asked: Tally[object] = Tally()
    for _ in range(132):
        workload = search.ask()
        own = workload.qp_type, workload.opcode
        asked[own] += 1
        hit = transport is None or own == transport
        search.tell(workload, Answer(outcome if hit else ProposalOutcome.MEASURED, None if hit else measured(workload)))
    return asked


def test_transports_have_as_many_turns_even_if_one_of_them_cannot_run() -> None:
    for outcome in (ProposalOutcome.FAILED, ProposalOutcome.UNSUPPORTED):
        assert set(turns(guided(), outcome, (QpType.UC, Opcode.SEND)).values()) == {22}


def test_a_transport_with_covered_proposals_is_asked_until_it_has_runs_but_does_not_hold_up_the_others() -> None:
    asked = turns(guided(), ProposalOutcome.SKIPPED, (QpType.RC, Opcode.READ))
    most = asked.pop((QpType.RC, Opcode.READ))
    assert max(asked.values()) - min(asked.values()) <= 1
    assert 5 * min(asked.values()) < most < 12 * min(asked.values())


def test_on_a_set_up_its_transports_have_as_many_turns() -> None:
    search = guided()
    proposals(search, 12)
    asked = Tally(workload.opcode for _ in range(30) if (workload := search.ask_on(SetUp(SPACE.base))) is not None)
    assert asked == {Opcode.WRITE: 10, Opcode.SEND: 10, Opcode.READ: 10}
