"""Calibrations kept by fingerprint."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given

from collie.detect.bounds import Calibration, CalibrationPoint
from collie.inventory.fingerprint import Fingerprint
from collie.store import calibrations
from collie.testing.strategies import workloads
from collie.workloads.workload import Opcode, QpType, Workload

KEPT = Calibration((CalibrationPoint(QpType.RC, Opcode.READ, 4096, 1.25e9, 0.1),))


def test_what_is_kept_is_found_again_and_replaced(tmp_path: Path) -> None:
    assert calibrations.load("x", tmp_path) is None
    calibrations.save(KEPT, "x", tmp_path)
    assert calibrations.load("x", tmp_path) == KEPT
    calibrations.save(Calibration(), "x", tmp_path)
    assert calibrations.load("x", tmp_path) == Calibration()
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]


def test_a_file_that_is_not_understood_counts_as_none(tmp_path: Path) -> None:
    for text in ("", "[]", '{"schema_version": 99, "points": []}', '{"schema_version": 1}'):
        (tmp_path / "x.json").write_text(text)
        assert calibrations.load("x", tmp_path) is None


@given(workloads())
def test_a_calibration_is_of_these_very_hosts_and_of_a_plain_workload(plain: Workload) -> None:
    old, new = ({"a": Fingerprint({"software": {"kernel": kernel}})} for kernel in ("6.1", "6.12"))
    same = calibrations.name_of("a,b", old, plain)
    assert same == calibrations.name_of("a,b", dict(old), plain)
    assert same != calibrations.name_of("a,b", new, plain)
    assert same != calibrations.name_of("a,c", old, plain)
    assert same != calibrations.name_of("a,b", old, plain.with_(qps=plain.qps + 1))
