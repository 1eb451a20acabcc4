"""`collie diagnose` on the simulated testbed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from collie.cli.main import run
from collie.workloads.workload import FIELD_NAMES


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_an_anomaly_of_the_paper_is_diagnosed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["diagnose", "nsdi22-01", "--noise", "0"]) == 0
    text = capsys.readouterr().out
    assert "anomalous: pause" in text
    assert "with one change at a time, what helps most first" in text
    assert "\nknown as nsdi22-01: " in text
    assert "\nthe cheapest change: " in text
    assert re.search(r"\nthe cheapest change: .* \(normal .*on two set-ups\)\n", text)
    assert "of testbed time" in text.splitlines()[-1]


def test_the_json_has_every_change_with_its_workload(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["diagnose", "nsdi22-01", "--noise", "0", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"]["outcome"] == "anomalous"
    assert [each["id"] for each in found["known"]] == ["nsdi22-01"]
    assert found["advised"] == found["changes"][0]
    assert found["advised"]["cures"]
    first = found["advised"]
    differing = {name for name in FIELD_NAMES if found["workload"].get(name) != first["workload"].get(name)}
    assert differing == {first["dimension"], *first["also"]}
    severities = [each["severity"] for each in found["changes"]]
    assert severities == sorted(severities)
    assert found["discriminating_counters"]
    assert found["runs"] >= len(found["changes"])


def test_a_normal_perftest_line_has_nothing_to_change(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["diagnose", "--perftest", "ib_write_bw -s 65536 -q 8", "--noise", "0"]) == 0
    said = capsys.readouterr()
    assert "\nnormal\n" in said.out
    assert "change" not in said.out
    assert said.err.count("assumed") <= 1  # what the line leaves open is said once


@pytest.mark.parametrize("words", [[], ["nsdi22-01", "--perftest", "ib_write_bw"]])
def test_one_workload_is_to_be_named(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["diagnose", *words]) == 2
    assert "name one workload, or paste one command line" in capsys.readouterr().err
