"""Capabilities of hosts as restrictions of a space."""

from __future__ import annotations

import dataclasses

import pytest

from collie.content.spaces import load_space
from collie.hosts.capabilities import capabilities
from collie.workloads.dimension import Ordered
from collie.workloads.pruning import prune
from collie.workloads.workload import CONTROL_VERBS, QpType
from tests.support.restrictions import host


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


def test_only_the_native_data_path_can_offer_a_load() -> None:
    space = load_space("nsdi22")
    load = Ordered("offered_bps", 0, 10**11, (0, 10**10, 10**11), 0)
    space = dataclasses.replace(space, dimensions={**space.dimensions, "offered_bps": load})
    forced, info, port = host("right")
    pruned, drops = prune(space, capabilities([host("left"), (forced, info, port)]))
    assert pruned.dimensions["offered_bps"] == load
    forced = dataclasses.replace(forced, data_path="pyverbs")
    pruned, drops = prune(space, capabilities([host("left"), (forced, info, port)]))
    assert "offered_bps" not in pruned.dimensions
    reason = "right drives traffic by pyverbs, which keeps send queues full"
    assert f"offered_bps 1..100000000000: {reason}" in [str(drop) for drop in drops]


def test_only_the_native_data_path_makes_control_verbs_beside_the_traffic() -> None:
    verbs = load_space("control-verbs").dimensions
    rates = {name: verbs[name] for name in CONTROL_VERBS}
    space = load_space("nsdi22")
    space = dataclasses.replace(space, dimensions={**space.dimensions, **rates})
    forced, info, port = host("right")
    pruned, _ = prune(space, capabilities([host("left"), (forced, info, port)]))
    assert rates.keys() <= pruned.dimensions.keys()
    forced = dataclasses.replace(forced, data_path="pyverbs")
    pruned, drops = prune(space, capabilities([host("left"), (forced, info, port)]))
    assert rates.keys().isdisjoint(pruned.dimensions)
    reason = "right drives traffic by pyverbs, which makes no control verbs beside the traffic"
    assert f"new_qps_per_second 1..1000: {reason}" in [str(drop) for drop in drops]


def test_no_queue_pair_is_broken_where_there_is_no_rc() -> None:
    space = load_space("control-verbs")
    pruned, drops = prune(space, capabilities([host("left"), host("right", driver="efa")]))
    assert "qp_errors_per_second" not in pruned.dimensions
    assert "new_ahs_per_second" in pruned.dimensions
    reason = "driver efa of dev0 of right has UD alone, and only RC queue pairs are broken"
    assert f"qp_errors_per_second 1..1000: {reason}" in [str(drop) for drop in drops]


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


def test_devices_of_two_hosts_in_turn_are_rails() -> None:
    ports = [host(f"{machine}/{device}") for device in ("one", "two") for machine in ("left", "right")]
    space, drops = prune(load_space("many-hosts"), capabilities(ports))
    assert {"requesters", "responders"}.isdisjoint(space.dimensions)
    rails = space.dimensions["rails"]
    assert isinstance(rails, Ordered)
    assert rails.ladder == (1, 2)
    said = "\n".join(map(str, drops))
    assert "requesters 2..7: the devices are rails of two hosts" in said
    assert "rails 3..4: 4 hosts measure together" in said
