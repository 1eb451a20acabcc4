"""What follows from what an agent says of its host."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from collie.detect.bounds import UNBOUNDED
from collie.errors import TestbedError
from collie.hosts.host_info import RdmaPort, line_rate, numa_node, parse_host_info, rdma_port
from collie.hosts.processes import processes
from collie.inventory.hosts import UNSPECIFIED, Host, HostSpecification
from collie.workloads.workload import Opcode, Workload

HOST = Host("lab-a", "127.0.0.1", "192.168.77.1", "mlx5_0")
GIDS = [
    {"index": 0, "gid": "", "address": "fe80::1", "type": "RoCE v2", "netdev": "eth1"},
    {"index": 2, "gid": "", "address": "192.168.77.1", "type": "IB/RoCE v1", "netdev": "eth1"},
    {"index": 3, "gid": "", "address": "192.168.77.1", "type": "RoCE v2", "netdev": "eth1"},
]


def hello(**port: Any) -> dict[str, Any]:
    own = {
        "port": 1,
        "state": "ACTIVE",
        "rate": "100 Gb/sec (4X EDR)",
        "active_mtu": 4096,
        "netdev": "eth1",
        "gids": GIDS,
    }
    device = {"name": "mlx5_0", "driver": "mlx5_core", "numa_node": 1, "open_error": None, "ports": [own | port]}
    return {
        "id": 1,
        "ok": True,
        "pid": 7,
        "clock": 1.0,
        "memory_available_bytes": 5,
        "kernel": "6.1",
        "python": "3.11",
        "data_paths": {
            "native": {"usable": True, "detail": "shipped object"},
            "pyverbs": {"usable": False, "detail": "ModuleNotFoundError: No module named 'pyverbs'"},
        },
        "numa_nodes": [0, 1],
        "devices": [device],
    }


def test_the_gid_is_the_roce_v2_one_of_the_data_address_and_that_is_explained() -> None:
    port = rdma_port(HOST, parse_host_info(hello()))
    assert (port.gid_index, port.driver, port.rate_bps) == (3, "mlx5_core", 100e9)
    assert "GID index 3, the RoCE v2 GID of data_address 192.168.77.1" in port.explanation


def test_a_gid_index_in_the_hosts_file_wins() -> None:
    port = rdma_port(replace(HOST, gid_index=0), parse_host_info(hello()))
    assert port.gid_index == 0
    assert "as the hosts file says" in port.explanation


@pytest.mark.parametrize(
    ("host", "port", "message"),
    [
        (replace(HOST, device="rxe0"), {}, "no RDMA device rxe0; there is: mlx5_0"),
        (replace(HOST, ib_port=2), {}, "mlx5_0 has no port 2"),
        (HOST, {"state": "DOWN"}, "port 1 is DOWN, not ACTIVE"),
        (replace(HOST, data_address="10.0.0.1"), {}, r"no RoCE v2 GID for data_address 10.0.0.1; it has 0: fe80::1"),
        (replace(HOST, gid_index=9), {}, "no GID at index 9"),
    ],
)
def test_what_is_missing_is_named_with_the_host_and_the_way_to_mend_it(
    host: Host, port: dict[str, Any], message: str
) -> None:
    with pytest.raises(TestbedError, match=f"lab-a.*{message}.*collie hosts check"):
        rdma_port(host, parse_host_info(hello(**port)))


def test_what_changes_from_start_to_start_is_not_in_the_description() -> None:
    description = parse_host_info(hello()).description
    assert not {"id", "ok", "pid", "clock", "memory_available_bytes"} & set(description)
    assert description["kernel"] == "6.1"


def test_numa_distance_is_counted_from_the_nic() -> None:
    port = rdma_port(HOST, parse_host_info(hello()))
    assert [numa_node(port, distance) for distance in (0, 1)] == [1, 0]
    with pytest.raises(ValueError, match="NUMA distance 2, but 2 nodes"):
        numa_node(port, 2)
    unknown = replace(port, numa_nodes=())
    assert numa_node(unknown, 0) is None
    with pytest.raises(ValueError, match="unknown number"):
        numa_node(unknown, 1)


def port(driver: str, rate: float | None, specification: HostSpecification = UNSPECIFIED) -> RdmaPort:
    return RdmaPort("d", driver, 1, "eth1", 3, rate, "", (), specification=specification)


def test_the_slower_port_bounds_a_workload_by_its_payload_share() -> None:
    bound = line_rate((port("mlx5_core", 200e9), port("mlx5_core", 100e9)), Workload(mtu=4096, messages=(65536,)))
    assert bound.bps == pytest.approx(100e9 * 4096 / (4096 + 82))
    small = line_rate((port("mlx5_core", 100e9),), Workload(messages=(64,)))
    assert small.bps == pytest.approx(100e9 * 64 / (64 + 82))
    assert bound.pps == small.pps == math.inf, "a line rate says nothing of the packets that a NIC can handle"


def test_a_software_device_or_an_unknown_rate_has_no_specification() -> None:
    assert line_rate((port("rxe", 2.5e9),), Workload()) == UNBOUNDED
    assert line_rate((port("mlx5_core", None),), Workload()) == UNBOUNDED
    half_known = line_rate((port("mlx5_core", None), port("mlx5_core", 100e9)), Workload())
    assert half_known.bps == pytest.approx(100e9 * 4096 / (4096 + 82))


def test_the_hosts_file_caps_what_the_driver_says() -> None:
    bulk, small = Workload(messages=(65536,)), Workload(messages=(64,))
    known = port("mlx5_core", 200e9, HostSpecification(pcie_bps=50e9, packets_per_second=1e6))
    assert line_rate((known,), bulk).bps == pytest.approx(1e6 * 4096 * 8)
    assert line_rate((known,), small).pps == pytest.approx(1e6)
    assert line_rate((known,), small).bps == pytest.approx(1e6 * 64 * 8)
    faster = port("mlx5_core", 200e9, HostSpecification(pcie_bps=50e9))
    assert line_rate((faster,), bulk).bps == pytest.approx(50e9)
    software = port("rxe", 2.5e9, HostSpecification(line_rate_bps=10e9))
    assert line_rate((software,), bulk).bps == pytest.approx(10e9 * 4096 / (4096 + 82))


TABLE: list[dict[str, Any]] = [
    {"index": 0, "gid": "", "address": "fe80::1", "type": "IB/RoCE v1", "netdev": "eth1"},
    {"index": 1, "gid": "", "address": "fe80::1", "type": "RoCE v2", "netdev": "eth1"},
    {"index": 2, "gid": "", "address": "fe80::1", "type": "RoCE v2", "netdev": "eth1.100"},
    {"index": 3, "gid": "", "address": "2001:db8::5", "type": "RoCE v2", "netdev": "eth1"},
    {"index": 4, "gid": "", "address": "10.1.0.5", "type": "IB/RoCE v1", "netdev": "eth1.100"},
    {"index": 5, "gid": "", "address": "10.1.0.5", "type": "RoCE v2", "netdev": "eth1.100"},
    {"index": 6, "gid": "", "address": "10.2.0.5", "type": "IB/RoCE v1", "netdev": "eth1"},
]


@pytest.mark.parametrize(
    ("address", "index", "says"),
    [
        ("10.1.0.5", 5, "the RoCE v2 GID of data_address 10.1.0.5"),
        ("::ffff:10.1.0.5", 5, "RoCE v2"),
        ("2001:db8:0::0005", 3, "RoCE v2"),
        ("fe80::1", 1, "RoCE v2"),
        ("fe80::1%eth1.100", 2, "RoCE v2"),
        ("10.2.0.5", 6, "IB/RoCE v1 GID of data_address 10.2.0.5; the port has no RoCE v2 one"),
    ],
)
def test_the_gid_follows_the_data_address_whatever_its_form(address: str, index: int, says: str) -> None:
    found = rdma_port(replace(HOST, data_address=address), parse_host_info(hello(gids=TABLE)))
    assert found.gid_index == index
    assert says in found.explanation


def number_of_processes(workload: Workload, *hosts: tuple[int | None, dict[str, Any]]) -> int:
    """Of hosts with `processes` in the hosts file, and what the agent says of CPUs."""
    ready = []
    for number, (reported, cpus) in enumerate(hosts):
        info, host = parse_host_info(hello() | cpus), replace(HOST, name=f"host-{number}", processes=reported)
        ready.append((host, info, rdma_port(host, info)))
    return processes(workload, ready)


MANY_CPUS = {"usable_cpus": 16, "numa_cpus": {"0": 12, "1": 4}}


@pytest.mark.parametrize(
    ("workload", "hosts", "expected"),
    [
        (Workload(qps=64), [(None, MANY_CPUS)] * 2, 1),
        (Workload(qps=65), [(None, MANY_CPUS)] * 2, 2),
        (Workload(qps=5000), [(None, MANY_CPUS)] * 2, 4),  # the NIC is on node 1
        (Workload(qps=5000), [(None, MANY_CPUS), (None, {"usable_cpus": 1, "numa_cpus": {"0": 1}})], 1),
        (Workload(qps=5000), [(None, MANY_CPUS), (None, {})], 1),  # nobody knows of its CPUs
        (Workload(qps=5000), [(None, MANY_CPUS), (3, {})], 3),
        (Workload(qps=20000), [(None, {"usable_cpus": 256, "numa_cpus": {"1": 128}})] * 2, 64),  # an agent's most
        (Workload(qps=5), [(8, MANY_CPUS), (7, MANY_CPUS)], 5),
        (Workload(qps=5000, opcode=Opcode.SEND, srq=True), [(8, MANY_CPUS)] * 2, 1),
    ],
)
def test_hosts_use_as_many_processes_as_each_of_them_may(
    workload: Workload, hosts: list[tuple[int | None, dict[str, Any]]], expected: int
) -> None:
    assert number_of_processes(workload, *hosts) == expected


def test_a_victim_takes_a_cpu_for_its_own_process() -> None:
    info = parse_host_info(hello() | MANY_CPUS)
    each = (HOST, info, rdma_port(HOST, info))
    assert [processes(Workload(qps=qps), [each], beside_victim=True) for qps in (1, 128, 5000)] == [1, 2, 3]
    chosen = (replace(HOST, processes=4), *each[1:])
    assert processes(Workload(qps=5000), [chosen], beside_victim=True) == 4


def test_devices_of_one_host_share_the_cpus_of_their_node() -> None:
    info = parse_host_info(hello() | MANY_CPUS)
    first, second = (replace(HOST, name=f"server/{device}") for device in ("mlx5_0", "mlx5_1"))
    port = rdma_port(HOST, info)
    many = Workload(qps=5000)
    assert processes(many, [(first, info, port), (second, info, port)]) == 2
    elsewhere = replace(port, numa_nodes=tuple(reversed(port.numa_nodes)))
    assert processes(many, [(first, info, port), (second, info, elsewhere)]) == 4
    assert processes(many, [(replace(first, processes=9), info, port), (second, info, elsewhere)]) == 9
