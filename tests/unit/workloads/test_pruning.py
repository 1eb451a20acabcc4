"""Spaces without the values that a testbed cannot run."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given, strategies as st

from collie.content.spaces import load_space
from collie.plain import CODEC, typed
from collie.workloads.dimension import Choice, Ordered
from collie.workloads.pruning import Capabilities, Restriction, prune
from collie.workloads.space import Space
from collie.workloads.workload import Memory
from tests.support.restrictions import most

SPACE = load_space("nsdi22")


def only(name: str, *values: Any) -> Restriction:
    return Restriction(name, f"no other {name}", only=values)


def pruned(*restrictions: Restriction, space: Space = SPACE) -> tuple[Space, list[str]]:
    left, drops = prune(space, Capabilities(restrictions))
    return left, [str(drop) for drop in drops]


def test_nothing_to_leave_out_is_the_same_space() -> None:
    assert pruned(most("qps", 20_000), only("memory", "dram", "gpu"), most("total_mrs", 1 << 30)) == (SPACE, [])
    assert pruned(most("qps", 20_000))[0] is SPACE


def test_an_ordered_dimension_ends_at_the_limit() -> None:
    space, drops = pruned(most("qps", 16_000))
    assert drops == ["qps 16001..20000: max of qps"]
    qps = space.dimensions["qps"]
    assert isinstance(qps, Ordered)
    assert (qps.high, qps.ladder[-2:]) == (16_000, (12_288, 16_000))


def test_a_ladder_without_a_range_loses_steps_and_the_plain_value_moves() -> None:
    space, drops = pruned(most("mtu", 1024))
    assert drops == ["mtu 2048..4096: max of mtu"]
    assert space.base.mtu == 1024


def test_a_dimension_with_one_value_left_is_fixed() -> None:
    space, drops = pruned(only("memory", "dram"), most("numa_node", 0))
    assert drops == ["memory gpu: no other memory", "numa_node 1: max of numa_node"]
    assert {"memory", "numa_node"} & set(space.dimensions) == set()
    assert (space.base.memory, space.base.numa_node) == (Memory.DRAM, 0)


def test_what_a_host_can_hold_is_a_limit_of_the_space() -> None:
    space, drops = pruned(most("total_mrs", 1000), most("pinned_bytes", 1 << 30))
    assert drops == [
        "total_mrs over 1000: memory regions per host: max of total_mrs",
        "pinned_bytes over 1 GiB: pinned memory per host: max of pinned_bytes",
    ]
    assert (space.limits.total_mrs, space.limits.pinned_bytes) == (1000, 1 << 30)


def test_message_sizes_end_at_the_limit() -> None:
    space, drops = pruned(most("messages", 4096))
    assert len(drops) == 1
    assert max(space.dimensions["messages"].candidates()) == (4096,)
    assert space.base.messages == (4096,)


@pytest.mark.parametrize(
    ("restriction", "message"), [(most("mtu", 100), "nothing is left of mtu"), (only("opcode", "ATOMIC"), "opcode")]
)
def test_a_testbed_that_can_do_nothing_is_an_error(restriction: Restriction, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pruned(restriction)


def test_what_does_not_vary_and_is_impossible_is_an_error() -> None:
    with pytest.raises(ValueError, match="memory is gpu in all of space nsdi22: no other memory"):
        pruned(only("memory", "dram"), space=SPACE.narrowed({"memory": Memory.GPU}, {}))


_restrictions = st.lists(
    st.one_of(
        *(
            st.builds(most, st.just(name), st.sampled_from(dimension.ladder))
            for name, dimension in SPACE.dimensions.items()
            if isinstance(dimension, Ordered) and name != "mr_bytes"
        ),
        *(
            st.builds(lambda n, v: only(n, *v), st.just(name), st.sets(st.sampled_from(dimension.values), min_size=1))
            for name, dimension in SPACE.dimensions.items()
            if isinstance(dimension, Choice) and name in {"memory", "peer_memory", "numa_node", "loopback", "direction"}
        ),
        st.builds(most, st.just("total_mrs"), st.integers(100, 10**6)),
    ),
    max_size=4,
    unique_by=lambda restriction: restriction.name,
).map(tuple)


@given(_restrictions, st.integers(0, 1000))
def test_a_pruned_space_holds_nothing_impossible_and_nothing_new(
    restrictions: tuple[Restriction, ...], seed: int
) -> None:
    able = Capabilities(restrictions)
    space, drops = prune(SPACE, able)
    workload = space.sample(Random(seed))
    for restriction in restrictions:
        if restriction.name != "total_mrs":
            assert restriction.allows(workload.get(restriction.name))
    assert SPACE.violations(workload) == []
    assert prune(space, able) == (space, ())
    assert (space is SPACE) == (not drops)


@given(_restrictions)
def test_capabilities_survive_the_record(restrictions: tuple[Restriction, ...]) -> None:
    able = Capabilities(restrictions)
    back = typed(Capabilities, json.loads(json.dumps(CODEC.write(able))))
    assert [(drop, space.base) for space, drop in (prune(SPACE, back),)] == [
        (drop, space.base) for space, drop in (prune(SPACE, able),)
    ]
