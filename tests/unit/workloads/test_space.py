"""Spaces: samples, mutations and narrowing."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, strategies as st

from collie.content.spaces import load_space
from collie.errors import UsageError
from collie.workloads.dimension import Ordered, Vector
from collie.workloads.narrowing import parse_fixes, parse_limits
from collie.workloads.setup import Changes
from collie.workloads.space import Space
from collie.workloads.workload import (
    Opcode,
    QpType,
    Workload,
    stable_text,
)

NSDI22 = load_space("nsdi22")

SOFT_ROCE = load_space("soft-roce")
spaces = st.sampled_from([NSDI22, SOFT_ROCE])
seeds = st.integers(0, 2**32)


@given(spaces, seeds)
def test_every_sample_is_in_its_space(space: Space, seed: int) -> None:
    assert space.complaints(space.sample(Random(seed))) == []


@given(spaces, seeds)
def test_a_mutation_is_in_the_space_and_differs_in_one_dimension(space: Space, seed: int) -> None:
    rng = Random(seed)
    workload = space.sample(rng)
    other = space.mutate(workload, rng)
    assert space.complaints(other) == []
    assert sum(workload.get(name) != other.get(name) for name in space.dimensions) == 1


@given(spaces)
def test_the_plain_workload_is_in_its_space(space: Space) -> None:
    assert space.complaints(space.base) == []


def test_drawing_reaches_every_value_of_every_ladder() -> None:
    rng = Random(1)
    drawn = [SOFT_ROCE.sample(rng) for _ in range(1500)]
    for name, dimension in SOFT_ROCE.dimensions.items():
        if name != "messages":
            assert {workload.get(name) for workload in drawn} == set(dimension.candidates()), name


def test_a_space_can_demand_more_set_ups_than_the_verbs_api() -> None:
    """A cautious user says so of `qps`, of which a phase could use less."""
    qps = replace(NSDI22.dimensions["qps"], changes=Changes.SETUP)
    cautious = replace(NSDI22, name="cautious", dimensions={**NSDI22.dimensions, "qps": qps})
    made_for, fewer = Workload(qps=8), Workload(qps=4, opcode=Opcode.READ)
    assert NSDI22.misfit(fewer, made_for) is None
    assert cautious.misfit(fewer, made_for) == "space cautious makes a new set-up for another qps"
    assert cautious.misfit(fewer.with_(qps=8), made_for) is None
    for space in (NSDI22, cautious):
        assert space.misfit(Workload(qps=9), made_for) == "qps is 9, and the set-up has 8"
    narrowed = cautious.narrowed({}, {"qps": 100, "messages": 1000})
    assert narrowed.misfit(fewer, made_for) is not None, "a limit keeps it"


def test_narrowing_fixes_and_limits() -> None:
    space = NSDI22.narrowed({"qp_type": QpType.UD}, {"qps": 100, "messages": 1000})
    assert "qp_type" not in space.dimensions
    for seed in range(50):
        workload = space.sample(Random(seed))
        assert workload.qp_type is QpType.UD
        assert workload.qps <= 100
        assert max(workload.messages) <= 1000
    assert space.log10_size() < NSDI22.log10_size()


def test_limits_from_below_leave_the_rest_of_the_ladder() -> None:
    at_most, at_least = parse_limits(["qps>=100", "messages >= 2KiB", "qps<=1000", "mtu>=2048"])
    space = NSDI22.narrowed({}, at_most, at_least)
    between = [qps for qps in NSDI22.dimensions["qps"].candidates() if 100 < qps < 1000]
    assert space.dimensions["qps"].candidates() == (100, *between, 1000)
    assert space.dimensions["mtu"].candidates() == (2048, 4096)
    assert (space.base.qps, space.base.messages) == (100, (65536,))
    for seed in range(50):
        workload = space.sample(Random(seed))
        assert 100 <= workload.qps <= 1000
        assert min(workload.messages) >= 2048
    whole_pages = NSDI22.narrowed({}, {"mr_bytes": 9000}, {"mr_bytes": 5000}).dimensions["mr_bytes"]
    assert whole_pages.candidates() == (8192,), "between 5000 and 9000 a region is whole pages"
    above_plain = NSDI22.narrowed({}, {}, {"messages": 1 << 20})
    assert above_plain.base.messages == (1 << 20,)
    with pytest.raises(ValueError, match="qps >= 64 leaves nothing; it ends at 8"):
        NSDI22.narrowed({}, {"qps": 8}, {"qps": 64})
    with pytest.raises(UsageError, match="qps has another limit already; give the higher one"):
        parse_limits(["qps>=8", "qps<=64", "qps>=16"])
    with pytest.raises(UsageError, match="is neither DIM<=VALUE nor DIM>=VALUE"):
        parse_limits(["qps<64"])


def test_values_can_be_held_if_what_they_demand_of_others_is_in_the_space() -> None:
    ud, ud_read = {"qp_type": QpType.UD}, {"qp_type": QpType.UD, "opcode": Opcode.READ}
    assert NSDI22.can_hold(ud)
    assert not NSDI22.can_hold(ud_read)
    long = NSDI22.narrowed({}, {}, {"messages": 65536})  # a datagram is one packet
    assert not long.can_hold(ud)
    assert long.can_hold({"qp_type": QpType.RC, "opcode": Opcode.READ})
    assert load_space("soft-roce").can_hold({"remote": False}), "it needs loopback, which is drawn before it"


def test_plain_traffic_can_mix_two_sizes() -> None:
    messages = NSDI22.dimensions["messages"]
    assert isinstance(messages, Vector)
    mixed = replace(messages, plain=(128, 65536))
    assert replace(NSDI22, dimensions={**NSDI22.dimensions, "messages": mixed}).plainest().messages == (128, 65536)


@pytest.mark.parametrize(
    ("name", "at_most", "at_least", "moved"),
    [
        ("nsdi22", {"mr_bytes": 32768}, {}, {"mr_bytes", "messages"}),
        ("nsdi22", {}, {"mrs_per_qp": 32768}, {"mrs_per_qp", "qps"}),
        ("soft-roce", {}, {"signal_every": 8}, {"signal_every", "send_wq_depth"}),
        ("soft-roce", {}, {"messages": 131072}, {"messages", "mr_bytes", "send_wq_depth"}),
    ],
)
def test_plain_traffic_of_a_narrow_space_is_near_to_plain(
    name: str, at_most: dict[str, int], at_least: dict[str, int], moved: set[str]
) -> None:
    whole = load_space(name)
    narrow = whole.narrowed({}, at_most, at_least)
    assert narrow.allows(narrow.base)
    before, after = whole.base.named(), narrow.base.named()
    assert {field for field in before if before[field] != after[field]} == moved


@pytest.mark.parametrize(
    ("fix", "limit", "message"),
    [
        ({"qqs": 1}, {}, "no dimension 'qqs'"),
        ({"qps": 30000}, {}, "out of range"),
        ({"qp_type": QpType.UD, "opcode": Opcode.WRITE}, {}, "space nsdi22 has no such workload: UD"),
        ({}, {"qps": 0}, "leaves nothing"),
        ({}, {"opcode": 4}, "no ordered dimension"),
        ({"qps": 64}, {"qps": 32}, "qps is fixed to 64 and has nothing to limit; leave one out"),
    ],
)
def test_narrowing_refuses_what_is_not_there(fix: dict[str, object], limit: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NSDI22.narrowed(fix, limit)


@pytest.mark.parametrize("word", ["--5", "-", "²", "٣", "9" * 5000])
def test_what_only_looks_like_a_number_is_refused(word: str) -> None:
    with pytest.raises(UsageError, match="is no whole number"):
        parse_fixes([f"qps={word}"])
    with pytest.raises(UsageError, match="is no whole number"):
        parse_limits([f"qps<={word}"])


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("messages=[64 KiB]", (65536,)),
        ("messages=[128 B, 64 KiB]", (128, 65536)),
        ("messages=128,64KiB", (128, 65536)),
        ("sge_split=[128 B]", (128,)),
        ("sge_split=even", "even"),
    ],
)
def test_a_list_is_read_as_results_print_it(word: str, value: object) -> None:
    assert list(parse_fixes([word]).values()) == [value]


def test_a_field_at_its_default_that_came_later_changes_no_draw() -> None:
    first = stable_text(Workload())
    assert first.startswith(
        "Workload(direction=<Direction.UNIDIRECTIONAL: 'unidirectional'>, loopback=False, numa_node=0, "
    )
    assert first.endswith("sq_psn=0, traffic_class=0, hop_limit=64)")
    assert first.count("=") == 31
    assert "requesters=2" in stable_text(Workload(requesters=2))


def test_a_small_space_is_exhausted_once_all_that_it_allows_was_measured() -> None:
    qps = Ordered("qps", 1, 64, (1, 8, 64), 8)
    batch = Ordered("wqe_batch", 1, 256, (1, 256), 1)  # 256 do not fit a queue of 128
    space = Space("tiny", {"qps": qps, "wqe_batch": batch})
    all_three = {space.base.with_(qps=count) for count in qps.ladder}
    assert space.exhausted_by(all_three)
    assert not space.exhausted_by(all_three - {space.base})
    assert not NSDI22.exhausted_by(all_three)
