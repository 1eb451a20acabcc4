"""Axes of sweeps: what is written, and the values that it means."""

from __future__ import annotations

import pytest

from collie.content.spaces import load_space
from collie.errors import UsageError
from collie.workloads.dimension import Choice, Ordered
from collie.workloads.sweep import Headroom, middle, parsed_axis, whole_axis
from collie.workloads.workload import Opcode

SPACE = load_space("nsdi22")
BASE = SPACE.base


def test_a_range_is_the_steps_between_its_ends_and_the_ends() -> None:
    axis = parsed_axis(SPACE, "qps=3..100", BASE, "--x")
    dimension = SPACE.dimensions["qps"]
    assert isinstance(dimension, Ordered)
    assert axis.values == (3, *(step for step in dimension.ladder if 3 < step < 100), 100)
    assert axis.ordered


def test_sizes_have_units_and_name_all_messages() -> None:
    axis = parsed_axis(SPACE, "message_bytes = 64 .. 4KiB", BASE, "--x")
    assert (axis.values[0], axis.values[-1], axis.field) == (64, 4096, "messages")
    assert axis.put(4096) == {"messages": (4096,)}
    assert parsed_axis(SPACE, "messages=1KiB,64", BASE, "--x").values == (64, 1024)


def test_rates_have_units() -> None:
    space = load_space("offered-load")
    assert parsed_axis(space, "offered_bps=1.5Gbit,2Gbit", space.base, "--x").values == (1_500_000_000, 2 * 10**9)
    with pytest.raises(UsageError, match="'fast' is no rate; write 25Gbit or 200Gbit/s"):
        parsed_axis(space, "offered_bps=1Gbit..fast", space.base, "--x")


def test_choices_are_all_or_those_named_in_their_order() -> None:
    opcode = SPACE.dimensions["opcode"]
    assert isinstance(opcode, Choice)
    assert parsed_axis(SPACE, "opcode", BASE, "--y").values == opcode.values
    assert parsed_axis(SPACE, "opcode=READ,WRITE", BASE, "--y").values == (Opcode.READ, Opcode.WRITE)
    assert parsed_axis(SPACE, "loopback=true", BASE, "--y").values == (True,)
    assert parsed_axis(SPACE, "numa_node=1,0", BASE, "--y").values == (1, 0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("qpz=1..4", "no dimension 'qpz' for an axis"),
        ("qps=4..1", "ends below its beginning"),
        ("qps=0..4", "0 is too small; the least is 1"),
        ("qps=1..999999", "qps 999999 is out of range"),
        ("qps=a..4", "'a' is no whole number"),
        ("qps=1KiB..2KiB", "'1KiB' is no whole number"),
        ("qps=1.5", "'1.5' is no whole number"),
        ("message_bytes=4KB", "'4KB' is no size"),
        ("loopback=1", "--x 'loopback=1': 1 is neither true nor false"),
        ("opcode=3", "--x 'opcode=3': 3 is unknown; one of SEND"),
        ("qps=", "lacks a value; write LOW..HIGH"),
        ("qps=4..", "lacks a value; write LOW..HIGH"),
        ("qps=..", "lacks a value; write LOW..HIGH"),
        ("qps=1,,4", "lacks a value; write LOW..HIGH"),
        ("opcode=", "lacks a value; write LOW..HIGH"),
        ("opcode=READ..WRITE", "opcode has no order"),
        ("opcode=JUMP", "JUMP"),
        ("mtu=1000", "1000 is no path MTU; one of 256, 512, 1024, 2048, 4096"),
    ],
)
def test_what_is_none_of_the_space_is_refused_by_name(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parsed_axis(SPACE, text, BASE, "--x")


def test_the_middle_is_a_value_of_the_range_strictly_between() -> None:
    qps, mtu = (whole_axis(SPACE, name, BASE) for name in ("qps", "mtu"))
    assert middle(SPACE, qps, 64, 256) == 128
    assert middle(SPACE, qps, 64, 65) is None
    assert middle(SPACE, mtu, 1024, 4096) is None  # no value between two steps exists


def test_room_is_made_for_messages_and_posts_unless_it_is_held() -> None:
    large = BASE.with_(messages=(1 << 22,), wqe_batch=128, send_wq_depth=16)
    made = Headroom(SPACE, ()).make(large)
    assert made.mr_bytes >= 1 << 22
    assert made.send_wq_depth >= 128
    assert Headroom(SPACE, ("send_wq_depth",)).make(large).send_wq_depth == 16


def test_a_number_between_two_values_has_a_place_between_theirs() -> None:
    """Halving inserts such numbers, also into an axis that begins at 0, which has no logarithm."""
    space = load_space("control-verbs")
    axis = parsed_axis(space, "new_mrs_per_second=0,1000,2000", space.base, "--x")
    assert [axis.place(value) for value in (0, 250, 1000, 1500, 2000)] == [0.0, 0.25, 1.0, 1.5, 2.0]
    opcodes = whole_axis(SPACE, "opcode", BASE)
    assert opcodes.place(Opcode.READ) == opcodes.values.index(Opcode.READ)
