"""Hosts files: what they mean, and every way in which they can be wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from collie.content.inventory import load_inventory
from collie.errors import InventoryError
from collie.inventory.hosts import HostSpecification
from collie.inventory.safety import REAL_HOSTS, SafetyLimits

EXAMPLE = Path(__file__).parents[2] / "hosts.example.yaml"
GOOD = """\
version: 1
hosts:
  lab-a:
    address: 127.0.0.1
    port: 40022
    user: root
    identity_file: keys/id
    host_key: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f comment
    data_address: 192.168.77.1
    device: rxe0
  lab-b:
    address: 127.0.0.1
    port: 40023
    data_address: 192.168.77.2
    device: rxe0
pairs:
  - [lab-b, lab-a]
"""


def load(directory: Path, text: str):  # type: ignore[no-untyped-def]
    file = directory / "hosts.yaml"
    file.write_text(text)
    return load_inventory(file)


def problems(directory: Path, text: str) -> list[tuple[int, str]]:
    with pytest.raises(InventoryError) as caught:
        load(directory, text)
    return [(problem.line, problem.message) for problem in caught.value.problems]


def test_the_example_in_the_repository_is_valid_and_names_every_field() -> None:
    inventory = load_inventory(EXAMPLE)
    assert [pair.name for pair in inventory.pairs] == ["server-1,server-2", "server-3/mlx5_0,server-3/mlx5_1"]
    first = inventory.host("server-1")
    shortest = inventory.host("server-2")
    assert first.jump == "me@bastion.example.com:22"
    assert first.specification == HostSpecification(100e9, 110e9, 200e6)
    assert shortest.specification == HostSpecification()
    assert shortest.port is None
    assert shortest.python == "/usr/bin/python3"
    text = EXAMPLE.read_text()
    assert all(f" {field}:" in text for field in first.__slots__ if field != "name")


def test_a_file_says_who_is_a_and_who_is_b(tmp_path: Path) -> None:
    inventory = load(tmp_path, GOOD)
    assert [host.name for host in inventory.hosts] == ["lab-a", "lab-b"]
    assert inventory.pairs[0].a.name == "lab-b"
    assert inventory.pairs[0].name == "lab-b,lab-a"
    with pytest.raises(KeyError):
        inventory.host("lab-c")


def test_a_relative_key_is_beside_the_file_and_a_comment_is_no_part_of_a_host_key(tmp_path: Path) -> None:
    host = load(tmp_path, GOOD).host("lab-a")
    assert host.identity_file == str(tmp_path / "keys/id")
    assert host.host_key is not None
    assert host.host_key.count(" ") == 1


def test_more_than_two_may_measure_together(tmp_path: Path) -> None:
    third = GOOD.split("pairs:")[0] + "  lab-c: {address: c.example.com, data_address: 192.168.77.3, device: rxe0}\n"
    (group,) = load(tmp_path, third + "pairs:\n  - [lab-b, lab-c, lab-a]\n").pairs
    assert [host.name for host in group.hosts] == ["lab-b", "lab-c", "lab-a"]
    assert (group.a.name, group.b.name, group.name) == ("lab-b", "lab-c", "lab-b,lab-c,lab-a")


DEVICES = """\
version: 1
hosts:
  gpu-1:
    address: mgmt-1
    user: root
    processes: 4
    specification: {line_rate_bps: 100_000_000_000}
    devices:
      mlx5_0: 192.0.2.1
      mlx5_1: {data_address: 192.0.2.2, gid_index: 3, processes: 2}
      storage: {device: mlx4_0, ib_port: 2, data_address: 192.0.2.3, specification: {line_rate_bps: 40_000_000_000}}
  gpu-2: {address: mgmt-2, data_address: 192.0.2.9, device: mlx5_0}
pairs:
  - [gpu-1/mlx5_0, gpu-2]
  - [gpu-1/mlx5_0, gpu-1/storage]
"""


def test_each_of_several_devices_is_a_party_of_its_own(tmp_path: Path) -> None:
    inventory = load(tmp_path, DEVICES)
    first, second, storage, _ = inventory.hosts
    assert [host.name for host in inventory.hosts] == ["gpu-1/mlx5_0", "gpu-1/mlx5_1", "gpu-1/storage", "gpu-2"]
    assert [host.machine for host in inventory.hosts] == ["gpu-1", "gpu-1", "gpu-1", "gpu-2"]
    assert {host.address for host in (first, second, storage)} == {"mgmt-1"}
    assert [(host.device, host.ib_port, host.data_address) for host in inventory.hosts] == [
        ("mlx5_0", 1, "192.0.2.1"),
        ("mlx5_1", 1, "192.0.2.2"),
        ("mlx4_0", 2, "192.0.2.3"),
        ("mlx5_0", 1, "192.0.2.9"),
    ]
    assert [host.gid_index for host in inventory.hosts] == [None, 3, None, None]
    assert [host.processes for host in inventory.hosts] == [4, 2, 4, None]
    assert [host.specification.line_rate_bps for host in inventory.hosts] == [100e9, 100e9, 40e9, None]
    assert inventory.host("gpu-1/storage") is storage


def test_a_pair_knows_which_of_its_parties_are_on_one_host(tmp_path: Path) -> None:
    between, within = load(tmp_path, DEVICES).pairs
    assert between.shared_hosts == {}
    assert within.shared_hosts == {"gpu-1": ("gpu-1/mlx5_0", "gpu-1/storage")}
    assert within.name == "gpu-1/mlx5_0,gpu-1/storage"


RAILS = """\
version: 1
hosts:
  one: {address: m1, devices: {x: 192.0.2.1, y: 192.0.3.1}}
  two: {address: m2, devices: {x: 192.0.2.2, y: 192.0.3.2}}
pairs:
  - [one/x, two/x, one/y, two/y]
  - [one/x, two/x, two/y, one/y]
"""


def test_devices_of_two_hosts_in_turn_are_rails_between_which_no_traffic_is_on_one_host(tmp_path: Path) -> None:
    rails, crossed = load(tmp_path, RAILS).pairs
    assert rails.is_multi_rail
    assert rails.shared_hosts == {}
    assert not crossed.is_multi_rail
    assert set(crossed.shared_hosts) == {"one", "two"}


def test_two_devices_without_pairs_are_one_pair_and_three_are_none(tmp_path: Path) -> None:
    alone = "version: 1\nhosts:\n  one: {address: m, devices: {a: 192.0.2.1, b: 192.0.2.2}}\n"
    assert [pair.name for pair in load(tmp_path, alone).pairs] == ["one/a,one/b"]
    assert load(tmp_path, DEVICES.partition("pairs:")[0]).pairs == ()


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("mlx5_0: 192.0.2.1", "mlx5_0: here", 9, "'here' is no IP address"),
        ("mlx5_0: 192.0.2.1", "mlx5_1: 192.0.2.1", 10, "stands twice"),
        ("mlx5_0: 192.0.2.1", "mlx/0: 192.0.2.1", 9, "is no name for a device"),
        (
            "mlx5_0: 192.0.2.1",
            "again: {device: mlx4_0, ib_port: 2, data_address: 192.0.2.1}",
            11,
            "device mlx4_0 port 2 is that of host gpu-1/again",
        ),
        ("mlx5_0: 192.0.2.1", "mlx5_0: 192.0.2.2", 10, "data_address 192.0.2.2 is that of host gpu-1/mlx5_0"),
        ("192.0.2.9", "192.0.2.3", 12, "data_address 192.0.2.3 is that of host gpu-1/storage"),
        ("gid_index: 3", "gid_indx: 3", 10, "did you mean 'gid_index'"),
        ("mlx5_0: 192.0.2.1", "mlx5_0: {gid_index: 3}", 9, "key 'data_address' is missing"),
        ("user: root", "device: mlx5_0", 3, "device belongs to one device"),
        ("user: root", "gid_index: 1", 3, "gid_index belongs to one device"),
        (", device: mlx5_0}", "}", 12, "key 'device' is missing; a host with several devices names them"),
        ("mlx5_0: 192.0.2.1", "mlx5_0: mgmt-1", 9, "is no IP address"),
        ("address: mgmt-1", "address: 192.0.2.1", 3, "SSH would share the port under test"),
        ("[gpu-1/mlx5_0, gpu-2]", "[gpu-1, gpu-2]", 14, "name one of gpu-1/mlx5_0, gpu-1/mlx5_1, gpu-1/storage"),
        (
            "[gpu-1/mlx5_0, gpu-2]",
            "[gpu-1/mlx5_7, gpu-2]",
            14,
            "host gpu-1 lists no device 'gpu-1/mlx5_7'; it has gpu-1/",
        ),
        ("[gpu-1/mlx5_0, gpu-2]", "[gpu-1/mlx5_0, gpu-2/mlx5_0]", 14, "host gpu-2 lists no device 'gpu-2/mlx5_0'"),
        ("[gpu-1/mlx5_0, gpu-2]", "[gpu-2, gpu-2]", 14, "'gpu-2' is paired with itself"),
        ("gpu-1/storage]", "gpu-1/mlx5_0]", 15, "'gpu-1/mlx5_0' is paired with itself"),
    ],
)
def test_problems_of_devices_are_reported_once_with_their_lines(
    tmp_path: Path, old: str, new: str, line: int, message: str
) -> None:
    assert old in DEVICES
    found = problems(tmp_path, DEVICES.replace(old, new, 1))
    assert sum(at == line and message in text for at, text in found) == 1, found


def test_two_hosts_without_pairs_are_one_pair(tmp_path: Path) -> None:
    assert [pair.name for pair in load(tmp_path, GOOD.split("pairs:")[0]).pairs] == ["lab-a,lab-b"]


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("version: 1", "version: 2", 1, "2 is unknown"),
        ("version: 1", 'version: "1"', 1, "version: '1' is text; write 1 without quotes"),
        ("    device: rxe0\n  lab-b", "    devise: rxe0\n  lab-b", 10, "did you mean 'device'"),
        ("  lab-b:", "  lab-a:", 11, "stands twice"),
        ("port: 40022", "port: 70000", 5, "at most 65535"),
        ("address: 127.0.0.1\n    port: 40022", "address: a..b\n    port: 40022", 4, "no host name: each part"),
        ("address: 127.0.0.1\n    port: 40022", f"address: {64 * 'a'}.b\n    port: 40022", 4, "1 to 63 characters"),
        ("user: root", "jump: me@a..b:22", 6, "no host name: each part"),
        ("address: 127.0.0.1\n    port: 40022", "address: root@host\n    port: 40022", 4, "fields of their own"),
        ("data_address: 192.168.77.1", "data_address: lab-a-rdma", 9, "is no IP address"),
        ("data_address: 192.168.77.2", "data_address: 192.168.77.1", 14, "is that of host lab-a"),
        ("port: 40023", "port: 40022", 12, "address 127.0.0.1 is that of host lab-a"),
        ("data_address: 192.168.77.1", "data_address: 127.0.0.1", 3, "SSH would share the port under test"),
        ("ssh-ed25519 AAAA", "ssh-ed25519 BBBB", 8, "no such key"),
        ("host_key: ssh-ed25519", "host_key: ssh-dss", 8, "not a host key"),
        ("user: root", "host_key_fingerprint: SHA256:short", 6, "ssh-keygen -lf"),
        ("user: root", "jump: a b", 6, "user@host:port"),
        ("user: root", "python: /usr/bin/python3 -E", 6, "one path without arguments"),
        ("user: root", "python: -c", 6, "no program"),
        ("user: root", "specification: {line_rate_bps: 0}", 6, "0 bit/s is no rate of a port; the least is 1Mbit"),
        ("user: root", "specification: {pcie_bps: 100}", 6, "100 bit/s is no rate of a port; the least is 1Mbit"),
        ("user: root", "specification: {pcie_bps: 100Gibit}", 6, "is no rate; write 25Gbit or 200Gbit/s"),
        ("user: root", "specification: {packets_per_second: 200}", 6, "should be at least 1000"),
        ("user: root", "specification: {line_rate: 1}", 6, "did you mean 'line_rate_bps'"),
        ("[lab-b, lab-a]", "[lab-b, lab-c]", 17, "'lab-c' is not one of the hosts lab-a, lab-b"),
        ("[lab-b, lab-a]", "[lab-b, lab-b]", 17, "paired with itself"),
        ("[lab-b, lab-a]", "[lab-b]", 17, "at least 2"),
        ("[lab-b, lab-a]", "[lab-b, lab-a]\n  - [lab-b, lab-a]", 18, "listed twice"),
        ("  lab-a:", "  'lab a':", 3, "no host name"),
    ],
)
def test_problems_are_reported_with_their_lines(tmp_path: Path, old: str, new: str, line: int, message: str) -> None:
    assert old in GOOD
    found = problems(tmp_path, GOOD.replace(old, new, 1))
    assert any(at == line and message in text for at, text in found), found


def test_key_and_fingerprint_together_are_one_too_many(tmp_path: Path) -> None:
    both = GOOD.replace("user: root", "host_key_fingerprint: SHA256:" + "A" * 43)
    assert "not both" in problems(tmp_path, both)[0][1]


def test_all_problems_come_at_once(tmp_path: Path) -> None:
    wrong = GOOD.replace("port: 40022", "port: 0").replace("data_address: 192.168.77.2", "data_address: here")
    assert [line for line, _ in problems(tmp_path, wrong)] == [5, 14]


def test_a_file_that_is_not_there_is_an_inventory_error(tmp_path: Path) -> None:
    with pytest.raises(InventoryError, match="cannot be read"):
        load_inventory(tmp_path / "none.yaml")


def test_a_file_without_safety_has_the_limits_of_real_hosts(tmp_path: Path) -> None:
    assert load(tmp_path, GOOD).safety == REAL_HOSTS
    assert load_inventory(EXAMPLE).safety == REAL_HOSTS


def test_a_site_sets_and_lifts_limits(tmp_path: Path) -> None:
    said = "safety: {pause_ms_per_second: 50, pause_seconds_per_campaign: null, rate_gbit_per_second: 40}\n"
    assert load(tmp_path, GOOD + said).safety == SafetyLimits(0.05, None, 40e9)


def test_limits_and_a_specification_have_units(tmp_path: Path) -> None:
    said = "safety: {pause_ms_per_second: 50ms, pause_seconds_per_campaign: 2m, rate_gbit_per_second: 40Gbit/s}\n"
    promised = "specification: {line_rate_bps: 100Gbit, pcie_bps: 64 Gbit/s, packets_per_second: 1_000}"
    inventory = load(tmp_path, GOOD.replace("user: root", promised) + said)
    assert inventory.safety == SafetyLimits(0.05, 120.0, 40e9)
    assert inventory.host("lab-a").specification == HostSpecification(100e9, 64e9, 1000)


@pytest.mark.parametrize(
    "said",
    [
        "pause_ms_per_second: 0",
        "pause_ms_per_second: 1001",
        "pause_ms_per_second: 2s",
        "pause_seconds_per_campaign: 0s",
        "rate_gbit_per_second: -1",
        "rate_gbit_per_second: 40_000_000_000",
        "rate_gbit_per_second: [40]",
        "pause_ms_per_second: [40]",
        "pause_seconds_per_campaign: {}",
    ],
)
def test_a_limit_that_stops_everything_or_nothing_is_a_mistake(tmp_path: Path, said: str) -> None:
    [(line, message)] = problems(tmp_path, f"{GOOD}safety:\n  {said}\n")
    assert line == len(GOOD.splitlines()) + 2
    assert said.partition(":")[0] in message
