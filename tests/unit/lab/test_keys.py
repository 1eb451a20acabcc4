"""Keys, and the hosts file that pins them."""

from __future__ import annotations

import dataclasses
import os
import shutil
from pathlib import Path

import pytest
import yaml

from collie.content.inventory import load_inventory
from collie.lab import keys, spec
from tests.support.lab_specs import make_spec, two_devices

KEYS = ("ssh-ed25519 AAAAfirst", "ssh-ed25519 AAAAsecond", "ssh-ed25519 AAAAthird", "ssh-ed25519 AAAAfourth")


KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"


def test_the_hosts_file_pins_keys_and_separates_management_from_data(state: spec.StateDir) -> None:
    loaded = yaml.safe_load(keys.inventory_text(make_spec(), state, KEYS[:2]))
    assert loaded == {
        "version": 1,
        "hosts": {
            name: {
                "address": "127.0.0.1",
                "port": port,
                "user": "root",
                "identity_file": str(state.identity),
                "host_key": key,
                "data_address": data,
                "device": "rxe0",
                "ib_port": 1,
                "gid_index": 1,
                "python": "/usr/bin/python3",
            }
            for name, port, key, data in (
                ("lab-a", 22022, KEYS[0], "192.168.77.1"),
                ("lab-b", 22023, KEYS[1], "192.168.77.2"),
            )
        },
        "pairs": [["lab-a", "lab-b"]],
    }


def test_the_hosts_file_names_both_devices_of_a_machine(state: spec.StateDir) -> None:
    state.inventory.write_text(keys.inventory_text(two_devices(), state, [KEY, KEY]))
    inventory = load_inventory(state.inventory)
    assert [(host.name, host.device, host.data_address, host.gid_index) for host in inventory.hosts] == [
        ("lab-a/rxe0", "rxe0", "192.168.77.1", 1),
        ("lab-a/rxe1", "rxe1", "192.168.77.17", 1),
        ("lab-b", "rxe0", "192.168.77.2", 1),
    ]
    assert [pair.name for pair in inventory.pairs] == ["lab-a/rxe0,lab-b", "lab-a/rxe0,lab-a/rxe1"]


def test_two_machines_with_two_devices_each_have_rails(state: spec.StateDir) -> None:
    machines = [dataclasses.replace(machine, devices=2) for machine in two_devices().machines]
    rails = dataclasses.replace(two_devices(), machines=tuple(machines))
    state.inventory.write_text(keys.inventory_text(rails, state, [KEY, KEY]))
    first, *loopback = load_inventory(state.inventory).pairs
    assert first.is_multi_rail
    assert first.name == "lab-a/rxe0,lab-b/rxe0,lab-a/rxe1,lab-b/rxe1"
    assert len(loopback) == 2


@pytest.mark.parametrize(("count", "together"), [(2, 2), (3, 3), (4, 4), (16, 8)])
def test_all_machines_measure_together_up_to_the_most_of_a_hosts_file(
    state: spec.StateDir, count: int, together: int
) -> None:
    text = keys.inventory_text(make_spec(count), state, [KEYS[0]] * count)
    assert yaml.safe_load(text)["pairs"] == [[spec.machine_name(index) for index in range(together)]]


def test_a_path_that_yaml_would_misread_is_quoted(tmp_path: Path) -> None:
    odd = spec.StateDir(tmp_path / "it's: #1")
    loaded = yaml.safe_load(keys.inventory_text(make_spec(), odd, KEYS[:2]))
    assert loaded["hosts"]["lab-a"]["identity_file"] == str(odd.identity)


def test_ssh_trusts_the_pinned_key_only(state: spec.StateDir) -> None:
    argv = keys.ssh_command(make_spec().machines[1], state, ("uname",))
    assert argv[argv.index("-F") + 1] == os.devnull
    assert "StrictHostKeyChecking=yes" in argv
    assert argv[-2:] == ("root@127.0.0.1", "uname")
    keys.write_known_hosts(make_spec(), state, KEYS[:2])
    assert state.known_hosts.read_text().splitlines()[1] == f"[127.0.0.1]:22023 {KEYS[1]}"


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen (Debian package openssh-client)")
def test_a_key_is_made_once_and_private(tmp_path: Path) -> None:
    public = keys.ensure_key(tmp_path / "id", "test")
    assert public.startswith("ssh-ed25519 ")
    assert keys.ensure_key(tmp_path / "id", "test") == public
    assert (tmp_path / "id").stat().st_mode & 0o077 == 0
