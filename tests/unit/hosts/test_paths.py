"""Which hosts are to reach each other, and in which rounds that is tested."""

from __future__ import annotations

from collie.hosts.paths import HostPath, parallel_groups, paths_to_test
from collie.inventory.hosts import Host, Pair


def host(name: str) -> Host:
    return Host(name, "mgmt", "192.0.2.1", "mlx5_0")


def names(found: tuple[HostPath, ...]) -> list[tuple[str, str]]:
    return [(a.name, b.name) for a, b in found]


A, B, C, D = map(host, "abcd")


def test_hosts_are_a_ring_and_two_of_them_one_way() -> None:
    assert names(paths_to_test([A, B, C, D], [])) == [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")]
    assert names(paths_to_test([A, B], [Pair(B, A)])) == [("a", "b")]
    assert names(paths_to_test([A], [])) == []


def test_pairs_of_the_file_are_added_to_the_ring() -> None:
    assert names(paths_to_test([A, B, C, D], [Pair(A, C), Pair(B, D, (C,))]))[4:] == [("a", "c"), ("b", "d")]


def test_a_pair_with_a_host_that_is_not_there_is_left_out() -> None:
    assert names(paths_to_test([A, B], [Pair(A, C)])) == [("a", "b")]


def test_devices_meet_those_of_the_same_rank() -> None:
    devices = [host(f"{machine}/{device}") for machine in "xy" for device in (0, 1)]
    assert names(paths_to_test(devices, [Pair(devices[0], devices[1])])) == [
        ("x/0", "y/0"),
        ("x/1", "y/1"),
        ("x/0", "x/1"),
    ]


def test_no_host_takes_part_in_two_ways_of_a_round() -> None:
    many = [host(f"h{number}") for number in range(9)]
    among = paths_to_test(many, [Pair(many[0], many[4])])
    tested = parallel_groups(among)
    assert sorted(way for each in tested for way in names(each)) == sorted(names(among))
    for each in tested:
        busy = [name for way in names(each) for name in way]
        assert len(busy) == len(set(busy))
    assert len(tested) <= 4


def test_devices_of_one_host_take_turns() -> None:
    devices = [host(f"{machine}/{device}") for machine in "xy" for device in (0, 1)]
    assert [len(each) for each in parallel_groups(paths_to_test(devices, []))] == [1, 1]
