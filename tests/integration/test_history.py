"""An anomaly that only earlier phases bring, from its record to `reproduce` and to a bundle."""

from __future__ import annotations

from pathlib import Path

import pytest

from collie.bundle.archive import read
from collie.campaign.choice import SearchChoice, TestbedChoice
from collie.content.subsystems import load_subsystem
from collie.detect.symptom import Symptom
from collie.ports import CampaignHeader
from collie.search.anomaly import Anomaly
from collie.simulator.subsystem import SubsystemFile
from collie.store.sqlite import SqliteStore
from collie.workloads.feature import Mfs
from tests.command import answer, collie

FILE = Path(__file__).parents[1] / "data" / "subsystems" / "idle-flows.yaml"
(WITNESS,) = load_subsystem(str(FILE), SubsystemFile).witnesses


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    """A campaign that found the anomaly of the file after its history (`a1`), and claims it without one (`a2`)."""
    assert WITNESS.on is not None
    settings = SearchChoice(TestbedChoice(subsystem=str(FILE))).to_settings()
    header = CampaignHeader("one", {"kind": "simulated"}, "nsdi22", "guided", settings, 1, "2027-01-01T00:00:00Z")
    found = (Symptom.PAUSE, 0.3, WITNESS.trigger, WITNESS.trigger, Mfs(()), "host b sends pause", "b", 1, 60.0, 0)
    made_for, before = WITNESS.on.made_for, WITNESS.on.before
    with SqliteStore.create(tmp_path / "one", header) as store:
        store.add_anomaly(Anomaly("a1", *found, complete=False, history=before, made_for=made_for))
        store.add_anomaly(Anomaly("a2", *found, complete=False))
    return tmp_path


def test_reproduce_replays_the_history(campaign: Path) -> None:
    told = answer("reproduce", "one/a1", "--repeat", "3", cwd=campaign)
    assert (told["reproduced"], told["shown"]) == ("yes", 3)
    assert [before["qps"] for before in told["set_up"]["before"]] == [136]
    alone = answer("reproduce", "one/a2", "--repeat", "3", cwd=campaign, status=1)
    assert (alone["reproduced"], alone["normal"], alone["set_up"]) == ("no", 3, None)
    text = collie("reproduce", "one/a1", "--repeat", "3", cwd=campaign).stdout
    assert "each run is the last of 2 phases of a set-up\n" in text


def test_a_bundle_carries_the_history(campaign: Path) -> None:
    collie("export", "one/a1", "--as", "bundle", "-o", "a1.pyz", cwd=campaign)
    assert read(campaign / "a1.pyz").plan.on == WITNESS.on
    told = answer("reproduce", "a1.pyz", "--subsystem", str(FILE), "--repeat", "3", cwd=campaign)
    assert (told["reproduced"], len(told["set_up"]["before"])) == ("yes", 1)


def test_measure_alone_says_what_it_leaves_out(campaign: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert answer("measure", "one/a1", cwd=campaign)["verdict"]["outcome"] == "normal"
    assert "`collie reproduce one/a1` makes" in caplog.text
    caplog.clear()
    answer("measure", "one/a2", cwd=campaign)
    assert caplog.text == ""


def test_perftest_cannot_keep_a_set_up_and_says_so(campaign: Path) -> None:
    for form in ("perftest", "script"):
        refused = collie("export", "one/a1", "--as", form, cwd=campaign, status=2).stderr
        assert "one/a1 shows only on the set-up of other workloads" in refused
        assert "collie export one/a1 --as bundle" in refused
