"""An anomaly that shows only after another workload, from the record to every command that runs it again."""

from __future__ import annotations

from pathlib import Path

import pytest

from collie.content.subsystems import load_subsystem
from collie.detect.symptom import Symptom
from collie.search.anomaly import Anomaly
from collie.simulator.subsystem import SubsystemFile
from collie.store.sqlite import SqliteStore
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.workload import render
from tests.command import answer, collie

FILE = Path(__file__).parents[1] / "data" / "subsystems" / "idle-flows.yaml"
(WITNESS,) = load_subsystem(str(FILE), SubsystemFile).witnesses
SMALL_PACKETS = Mfs((Condition("max_message_bytes", Op.AT_MOST, 1024),))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a campaign `one` that has found the anomaly."""
    folder = tmp_path_factory.mktemp("history")
    words = ("--subsystem", str(FILE), "--noise", "0", "--budget", "1runs", "--campaign", "one")
    collie("search", *words, cwd=folder)
    assert WITNESS.on is not None
    found = Anomaly(
        id="a1",
        symptom=Symptom.PAUSE,
        severity=0.3,
        workload=WITNESS.trigger,
        found_as=WITNESS.trigger,
        mfs=SMALL_PACKETS,
        reason="host b sends pause",
        host="b",
        found_at_run=1,
        found_at_seconds=60.0,
        extraction_runs=0,
        complete=True,
        history=WITNESS.on.before,
        made_for=WITNESS.on.made_for,
    )
    with SqliteStore.open(folder / "one") as store:
        store.add_anomaly(found)
    return folder


def test_it_reproduces_after_its_history_and_its_controls_are_normal(folder: Path) -> None:
    found = answer("reproduce", "one/a1", "--repeat", "2", "--controls", cwd=folder)
    assert (found["reproduced"], found["shown"]) == ("yes", 2)
    assert WITNESS.on is not None
    assert found["set_up"]["before"] == [render(phase) for phase in WITNESS.on.before]
    assert [(control["shown"], control["explains"]) for control in found["controls"]] == [(0, True)]
    assert (found["alone"]["normal"], found["alone"]["explains"]) == (2, True)


def test_its_bundle_reproduces_it_too(folder: Path) -> None:
    answer("export", "one/a1", "--as", "bundle", "-o", "given.pyz", cwd=folder)
    words = ("--subsystem", str(FILE), "--noise", "0", "--repeat", "2")
    assert answer("reproduce", "given.pyz", *words, cwd=folder)["reproduced"] == "yes"
    said = collie("export", "one/a1", "--as", "perftest", cwd=folder, status=2).stderr
    assert "use --as bundle" in said


def test_a_gate_finds_it_still_there(folder: Path) -> None:
    words = ("--subsystem", str(FILE), "--noise", "0", "--budget", "150runs")
    gate = answer("gate", "--baseline", "one", *words, "--campaign", "gate", cwd=folder)
    (found,) = (case for case in gate["cases"] if case["name"] == "one-a1")
    assert found["change"] == "still there"


def test_a_measurement_of_its_workload_alone_is_normal_and_says_why(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert answer("measure", "one/a1", cwd=folder)["verdict"]["outcome"] == "normal"
    assert "one/a1 shows only on a set-up for other workloads, too; `collie reproduce` makes it" in caplog.text
