"""The example of a comparison, in docs/how-to/read-a-report.md."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from collie.cli.main import run
from collie.search.anomaly import Anomaly, causes_of
from collie.wiring import ADAPTERS
from collie.workloads.workload import Workload

_PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "read-a-report.md"


def _anomalies(directory: Path) -> list[Anomaly]:
    with ADAPTERS.records.read(directory) as store:
        return [anomaly for anomaly, _ in causes_of(store.anomalies())]


def _shows(anomalies: list[Anomaly], workload: Workload) -> list[Anomaly]:
    return [each for each in anomalies if each.complete and each.mfs.covers(workload)]


def test_the_campaigns_differ_in_what_the_firmware_mends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    printed = _PAGE.read_text(encoding="utf-8").replace("\\\n", " ")
    searches = re.findall(r"^collie (search .*campaigns/writes-.*)$", printed, re.MULTILINE)
    assert [run(shlex.split(each)) for each in searches] == [0, 0]
    before, after = (_anomalies(tmp_path / "campaigns" / f"writes-{version}") for version in (28, 31))
    (mended,) = (each for each in ADAPTERS.content.references("nsdi22") if each.id == "nsdi22-10")
    workload = mended.trigger
    assert len(_shows(before, workload)) == 1
    assert not _shows(after, workload)
    assert [each.complete for each in before] == [True, True, True]
    assert [each.complete for each in after] == [True, True, True]
