"""What a testbed cannot do is left out of a space beforehand, and said."""

from __future__ import annotations

import dataclasses
import json
from random import Random
from typing import Any

import pytest
from hypothesis import given, strategies as st

from collie.content.spaces import load_space
from collie.hosts.capabilities import capabilities
from collie.hosts.host_info import DeviceInfo, HostInfo, PortInfo, RdmaPort
from collie.inventory.hosts import Host
from collie.plain import CODEC, typed
from collie.workloads.dimension import Choice, Ordered
from collie.workloads.pruning import Capabilities, Restriction, prune
from collie.workloads.space import Space
from collie.workloads.workload import Memory, QpType

SPACE = load_space("nsdi22")


def most(name: str, value: int) -> Restriction:
    return Restriction(name, f"max of {name}", at_most=value)


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


def host(name: str, *, max_qp: int = 16_000, mtu: int = 4096, nodes: tuple[int, ...] = (), driver: str = "rxe") -> Any:
    ports = (PortInfo(1, "ACTIVE", mtu, None, "eth1", ()),)
    device = DeviceInfo("dev0", driver, None, None, ports, {"max_qp": max_qp, "max_qp_wr": 1024})
    info = HostInfo("6.1", "3.11", {}, nodes, (device,), 1 << 30)
    port = RdmaPort("dev0", driver, 1, "eth1", 1, None, "", nodes)
    return Host(name, f"mgmt-{name}", "192.0.2.1", "dev0"), info, port


def test_hosts_can_do_what_the_least_of_them_can() -> None:
    able = capabilities([host("left"), host("right", max_qp=500, mtu=1024, nodes=(1, 0), driver="irdma")])
    space, drops = prune(load_space("nsdi22"), able)
    said = "\n".join(map(str, drops))
    assert "qps 501..16000: max_qp of dev0 of right is 500" in said
    assert "mtu 2048..4096: the active MTU of dev0 of right is 1024" in said
    assert "send_wq_depth 1025..16384: max_qp_wr of dev0 of left is 1024" in said
    assert "qp_type UC: driver irdma of dev0 of right has RC and UD alone" in said
    assert "numa_node 1: dev0 of left reports no NUMA node" in said
    assert "memory gpu: the agent has no GPU memory" in said
    assert space.limits.pinned_bytes == int(0.8 * (1 << 30))
    assert space.base.qp_type is QpType.RC


@pytest.mark.parametrize("driver", ["bnxt_en", "ice", "i40e", "hns3", "hns_roce_hw_v2"])
def test_transports_are_known_by_the_driver_of_the_pci_device(driver: str) -> None:
    _, drops = prune(load_space("nsdi22"), capabilities([host("left", driver=driver), host("right", driver=driver)]))
    assert any(str(drop).startswith("qp_type UC: ") for drop in drops)


def test_connection_does_not_vary_where_a_host_has_no_rdma_cm() -> None:
    lacking, info, port = host("right")
    info = dataclasses.replace(info, rdma_cm_error="librdmacm.so.1 is not there")
    space, drops = prune(load_space("soft-roce"), capabilities([host("left"), (lacking, info, port)]))
    assert "connection" not in space.dimensions
    assert "connection rdma_cm: right has no RDMA-CM: librdmacm.so.1 is not there" in [str(drop) for drop in drops]


def test_a_group_is_as_large_as_it_is() -> None:
    soft_roce = load_space("soft-roce")
    two, drops = prune(soft_roce, capabilities([host("left"), host("right")]))
    assert {"requesters", "responders"} & set(two.dimensions) == set()
    assert "requesters 2..3: 2 hosts measure together" in [str(drop) for drop in drops]
    four, _ = prune(soft_roce, capabilities([host(name) for name in ("a1", "b1", "c1", "d1")]))
    assert four.dimensions["requesters"] == soft_roce.dimensions["requesters"]


def test_devices_of_one_host_share_its_memory() -> None:
    able = capabilities([host("server/mlx5_0"), host("server/mlx5_1"), host("other")])
    most = {
        restriction.reason: restriction.at_most
        for restriction in able.restrictions
        if restriction.name == "pinned_bytes"
    }
    assert most == {
        "80% of what is available on server, for each of 2 devices of it": int(0.4 * (1 << 30)),
        "80% of what is available on other": int(0.8 * (1 << 30)),
    }
