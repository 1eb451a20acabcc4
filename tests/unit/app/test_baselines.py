"""The cases of a gate, by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from collie.app.baselines import Baseline, cases_of
from collie.campaign.choice import SearchChoice
from collie.campaign.gate.cases import Record
from collie.detect.bounds import Calibration
from collie.wiring import ADAPTERS
from tests.support.gates import found


def test_every_case_of_a_gate_has_a_name_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "record").mkdir()
    monkeypatch.chdir(tmp_path / "record")
    anomalies = tuple(map(found, ("nsdi22-01", "record-a1", "a1", "a2")))
    for path in (Path(), Path("record"), tmp_path / "record"):
        baseline = Baseline(path, SearchChoice(), anomalies, Record(), Calibration(), {})
        names = [each.name for each in cases_of(ADAPTERS, baseline)]
        assert len(set(names)) == len(names) == 18 + 3
        assert names[-3:] == ["record-a1", "record-record-a1", "record-a2"]
