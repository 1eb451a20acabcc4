"""Calibrations kept by fingerprint."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given

from collie.detect.bounds import Calibration, CalibrationPoint
from collie.inventory.fingerprint import Fingerprint
from collie.store import calibrations
from collie.workloads.workload import Opcode, QpType, Workload
from tests.support.odd_files import ODDITIES
from tests.support.strategies import workloads

KEPT = Calibration((CalibrationPoint(QpType.RC, Opcode.READ, 4096, 1.25e9, 0.1),))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "collie" / "calibrations"


def test_what_is_kept_is_found_again_and_replaced(folder: Path) -> None:
    assert calibrations.load("x") is None
    calibrations.save(KEPT, "x")
    assert calibrations.load("x") == KEPT
    path = calibrations.save(Calibration(), "x")
    assert calibrations.load("x") == Calibration()
    path.write_text('{"schema_version": 1, "measured_on": null, "points": []}')
    assert calibrations.load("x") == Calibration(), "an earlier Collie knew no links"
    assert [path.name for path in folder.iterdir()] == ["x.json"]


def test_a_file_that_is_not_understood_counts_as_none(folder: Path) -> None:
    folder.mkdir(parents=True)
    for text in ("", "[]", '{"schema_version": 99, "points": []}', '{"schema_version": 1}'):
        (folder / "x.json").write_text(text)
        assert calibrations.load("x") is None


@pytest.mark.parametrize("replacement", [name for name in ODDITIES if name != "device node"])
def test_what_is_no_file_counts_as_none(replacement: str, folder: Path) -> None:
    folder.mkdir(parents=True)
    ODDITIES[replacement](folder / "x.json")
    assert calibrations.load("x") is None


@given(workloads())
def test_a_calibration_is_of_these_very_hosts_and_of_a_plain_workload(plain: Workload) -> None:
    old, new = ({"a": Fingerprint({"software": {"kernel": kernel}})} for kernel in ("6.1", "6.12"))
    same = calibrations.name_of("a,b", old, plain)
    assert same == calibrations.name_of("a,b", dict(old), plain)
    assert same != calibrations.name_of("a,b", new, plain)
    assert same != calibrations.name_of("a,c", old, plain)
    assert same != calibrations.name_of("a,b", old, plain.with_(qps=plain.qps + 1))
