"""The specification of a lab and its files."""

from __future__ import annotations

from pathlib import Path

import pytest

from collie.lab import spec
from tests.support.lab_specs import make_spec


@pytest.mark.parametrize("count", [2, 3, 4, 7, 16])
def test_links_form_one_tree_in_which_pairs_are_joined_directly(count: int) -> None:
    links = {frozenset((index, peer)) for index in range(count) for peer in spec.neighbours(index, count)}
    assert len(links) == count - 1
    reached = {0}
    for _ in range(count):
        reached |= {place for link in links if link & reached for place in link}
    assert reached == set(range(count))
    assert all(frozenset((index, index + 1)) in links for index in range(0, count - 1, 2))


def test_addresses_of_all_devices_of_the_largest_lab_differ() -> None:
    machines = [spec.MachineSpec(index, 0, spec.MAXIMUM_DEVICES) for index in range(spec.MAXIMUM_MACHINES)]
    assert len({address for one in machines for address in one.data_addresses}) == 64
    assert len({mac for one in machines for mac in one.data_macs}) == 64


def test_labels_differ_between_state_directories(tmp_path: Path) -> None:
    assert spec.StateDir(tmp_path / "a").label("lab-a") != spec.StateDir(tmp_path / "b").label("lab-a")


def test_a_specification_survives_the_disk(state: spec.StateDir) -> None:
    assert spec.load_spec(state) is None
    spec.save_spec(state, make_spec(3))
    assert spec.load_spec(state) == make_spec(3)


def test_wanted_names_what_differs() -> None:
    assert spec.LabRequest().differing(make_spec()) == ""
    assert spec.LabRequest(2, "bookworm").differing(make_spec()) == ""
    assert spec.LabRequest(3, "trixie").differing(make_spec()) == "number of machines and release"
    assert spec.LabRequest(devices={"lab-a": 2}).differing(make_spec()) == "devices"
    assert spec.LabRequest(devices={"lab-b": 1}).differing(make_spec()) == ""


def test_sockets_move_when_their_path_would_be_too_long(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 120)
    deep.mkdir()
    chosen = spec.choose_socket_dir(spec.StateDir(deep))
    assert len(str(chosen)) <= spec.SOCKET_PATH_BYTES
    assert chosen.stat().st_mode & 0o077 == 0
    chosen.rmdir()
