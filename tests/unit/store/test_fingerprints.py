"""Fingerprints in files."""

from __future__ import annotations

from pathlib import Path

import pytest

from collie.errors import StoreError
from collie.store import fingerprints
from tests.support.fingerprints import host


def test_a_device_of_a_host_has_a_file_of_its_own(tmp_path: Path) -> None:
    taken = {"n/a_b": host(), "n_a/b": host(pcie__width=8), "n_a_b": host(pcie__width=4)}
    fingerprints.save(tmp_path, taken, "2026-01-01T00:00:00Z")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["n+a_b.json", "n_a+b.json", "n_a_b.json"]
    assert fingerprints.load(tmp_path) == taken


def test_what_is_kept_is_read_again_and_a_change_stands_beside_it(tmp_path: Path) -> None:
    assert fingerprints.load(tmp_path) == {}
    # Names with dots and digits, one like the second file of another; host A behind host B in the alphabet.
    began = {"node.2": host(), "10.0.0.1": host(pcie__width=8), "node": host(), "node.2.2": host()}
    fingerprints.save(tmp_path, began, "2026-01-01T00:00:00Z")
    assert list(fingerprints.load(tmp_path)) == list(began)
    assert fingerprints.load(tmp_path) == began
    changed = {**began, "node.2": host(nic__firmware="22.39")}
    assert fingerprints.changes(tmp_path) == ()
    fingerprints.save(tmp_path, changed, "2026-01-02T00:00:00Z")
    assert fingerprints.load(tmp_path) == changed
    (change,) = fingerprints.changes(tmp_path)
    assert [str(each) for each in change.differences] == ["nic.firmware: 22.36 and 22.39"]
    assert fingerprints.read(tmp_path / "node.2.json").fingerprint == host()
    assert fingerprints.read(tmp_path / "node.2@2.json").fingerprint == host(nic__firmware="22.39")


def test_any_name_of_a_subsystem_makes_a_file(tmp_path: Path) -> None:
    fingerprints.save(tmp_path, {"our NIC/2": host()}, "2026-01-01T00:00:00Z")
    assert [path.name for path in tmp_path.iterdir()] == ["our_NIC+2.json"]
    assert fingerprints.load(tmp_path) == {"our NIC/2": host()}


@pytest.mark.parametrize("text", ["", "[]", '{"schema_version": 1}', '{"fingerprint": 3}'])
def test_a_file_that_is_no_fingerprint_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(StoreError, match=r"x\.json holds no fingerprint"):
        fingerprints.read(tmp_path / "x.json")
