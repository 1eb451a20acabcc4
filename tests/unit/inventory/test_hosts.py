"""Devices of one host beside each other: who may measure at once, and who is whose neighbour."""

from __future__ import annotations

import pytest

from collie.app.fleets import by_rail
from collie.app.inventories import first_pairs
from collie.errors import UsageError
from collie.inventory.hosts import Host, Inventory, Pair, endpoint_name, host_of, sharing


def endpoint(name: str) -> Host:
    return Host(name, f"mgmt-{host_of(name)}", "192.0.2.1", name.rpartition("/")[2])


def inventory(*pairs: tuple[str, str]) -> Inventory:
    formed = tuple(Pair(endpoint(a), endpoint(b)) for a, b in pairs)
    return Inventory(tuple(host for pair in formed for host in pair.hosts), formed)


def test_an_endpoint_names_its_host() -> None:
    assert host_of(endpoint_name("server-1", "mlx5_0")) == host_of("server-1") == "server-1"
    assert sharing({"a": "x", "b": "y", "c": "x"}) == {"x": ("a", "c")}


def test_pairs_that_measure_at_once_share_no_host_whichever_its_devices() -> None:
    rails = inventory(("s1/d0", "s2/d0"), ("s1/d1", "s3/d0"))
    assert [pair.name for pair in first_pairs(rails, 1)] == ["s1/d0,s2/d0"]
    with pytest.raises(UsageError, match=r"--pairs 2: host s1 is in 2 of these pairs.*whichever its devices"):
        first_pairs(rails, 2)


def test_pairs_within_one_host_each_measure_at_once() -> None:
    assert len(first_pairs(inventory(("s1/d0", "s1/d1"), ("s2/d0", "s2/d1")), 2)) == 2


def test_loopback_across_ports_and_traffic_between_hosts_are_no_pairs_of_one_campaign() -> None:
    mixed = inventory(("s1", "s2"), ("s3/d0", "s3/d1"))
    with pytest.raises(UsageError, match=r"--pairs 2: s3/d0,s3/d1 is loopback across the ports of one host"):
        first_pairs(mixed, 2)


def test_the_ring_of_a_fleet_goes_rail_by_rail() -> None:
    listed = ["s1/d0", "s1/d1", "s2/d0", "s2/d1", "s3"]
    assert by_rail(listed) == ("s1/d0", "s2/d0", "s3", "s1/d1", "s2/d1")
