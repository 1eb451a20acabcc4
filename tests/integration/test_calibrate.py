"""`collie hosts calibrate`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from collie import wiring
from collie.detect.measurement import Watch
from collie.ports import RunResult
from collie.store import calibrations
from collie.testing.fakes import FakeTestbed
from collie.workloads.setup import SetUp
from collie.workloads.workload import Workload
from tests.command import answer, collie


@dataclass
class _Breaking(FakeTestbed):
    """A testbed that works while the folder of calibrations goes away."""

    folder: Path = Path()

    def measure(self, workload: Workload, run: int, watch: Watch | None = None, on: SetUp | None = None) -> RunResult:
        if not self.measured:
            self.folder.rmdir()
            self.folder.write_text("")
        return super().measure(workload, run, watch)


@pytest.fixture
def testbed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Breaking:
    """Two hosts that are a fake testbed; calibrations of it are to be kept in `state`."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    hosts = "".join(
        f"  {name}: {{address: {name}, data_address: 192.0.2.{n}, device: rxe0}}\n" for n, name in enumerate("ab", 1)
    )
    (tmp_path / "hosts.yaml").write_text(f"version: 1\nhosts:\n{hosts}")
    made = _Breaking(folder=tmp_path / "state" / "collie" / "calibrations")
    monkeypatch.setattr(wiring, "hosts_testbed", lambda choice, pair, policy: made)
    return made


CALIBRATE = ("hosts", "calibrate", "--hosts", "hosts.yaml", "--repeat", "1")


def test_where_a_calibration_cannot_be_kept_none_is_measured(testbed: _Breaking, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    said = collie(*CALIBRATE, cwd=tmp_path, status=3).stderr
    assert "state/collie/calibrations cannot be written: Not a directory" in said
    assert not testbed.measured


def test_a_calibration_that_cannot_be_kept_in_the_end_is_printed_all_the_same(
    testbed: _Breaking, tmp_path: Path
) -> None:
    done = collie(*CALIBRATE, "--format", "json", cwd=tmp_path, status=3)
    printed = json.loads(done.stdout)
    assert len(printed["points"]) == testbed.runs
    assert printed["kept_in"] is None
    assert ".json cannot be written: " in done.stderr


def test_a_calibration_is_printed_and_kept(testbed: _Breaking, tmp_path: Path) -> None:
    testbed.measured.append(Workload())  # nothing breaks
    printed = answer(*CALIBRATE, cwd=tmp_path)
    kept = calibrations.load(Path(printed["kept_in"]).stem)
    assert kept is not None
    assert len(kept.points) == len(printed["points"]) > 0
