"""What stands beside the record of a campaign that somebody else made: links lead nowhere, and all is bounded."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from collie.campaign.progress import Heartbeat, ProcessState
from collie.errors import StoreError
from collie.inventory.fingerprint import Fingerprint
from collie.report.html.page import write_page, write_report
from collie.store import answers, heartbeat
from collie.store.fingerprints import load as load_fingerprints, save as save_fingerprints
from collie.store.lock import CampaignLock
from collie.store.sqlite import SqliteStore
from collie.testing.store_suite import ANOMALY, HEADER, measured


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    path = tmp_path / "campaign"
    with SqliteStore.create(path, HEADER) as store:
        store.add_run(measured(1))
        store.add_anomaly(replace(ANOMALY, found_at_run=1))
    return path


LINKED = ("status.json", "results.jsonl", "report.html", "against-other.html", "anomalies/a1/mfs.json")


@pytest.mark.parametrize("name", LINKED)
def test_a_link_in_the_place_of_a_file_that_is_written_whole_is_replaced(
    name: str, campaign: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.write_text("as it was")
    place = campaign / name
    place.unlink(missing_ok=True)
    place.symlink_to(outside)
    with SqliteStore.open(campaign) as store:
        store.add_anomaly(replace(ANOMALY, found_at_run=1))
        now = "2026-01-01T00:00:00+00:00"
        heartbeat.write_heartbeat(store.directory.status, Heartbeat(ProcessState.RUNNING, "m", 1, now, now))
        write_report(store, campaign / "report.html")
        write_page("page", campaign / "against-other.html")
    assert outside.read_text() == "as it was"
    assert place.stat().st_size > 0
    assert not place.is_symlink()


@pytest.mark.parametrize(
    ("folder", "use"),
    [
        ("anomalies", lambda campaign: SqliteStore.open(campaign).close()),
        ("anomalies/a1", lambda campaign: SqliteStore.open(campaign).close()),
        ("fingerprint", lambda campaign: load_fingerprints(campaign / "fingerprint")),
        ("fingerprint", lambda campaign: save_fingerprints(campaign / "fingerprint", {"a": Fingerprint({})}, "now")),
    ],
)
def test_no_folder_of_a_campaign_is_reached_through_a_link(
    folder: str, use: Callable[[Path], object], campaign: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    shutil.copytree(campaign / folder, outside) if (campaign / folder).exists() else outside.mkdir()
    before = {path: path.stat().st_mtime_ns for path in outside.rglob("*")}
    shutil.rmtree(campaign / folder, ignore_errors=True)
    (campaign / folder).symlink_to(outside)
    with pytest.raises(StoreError, match=f"{folder}.*it is a symbolic link, which is not followed here"):
        use(campaign)
    assert {path: path.stat().st_mtime_ns for path in outside.rglob("*")} == before


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("status.json", lambda path: heartbeat.read_heartbeat(path)),
        ("gate.json", lambda path: answers.read_answer(path)),
        ("host.json", lambda path: load_fingerprints(path.parent)),
        ("campaign.lock", lambda path: CampaignLock(path.parent)),
    ],
)
def test_a_file_of_a_campaign_is_not_read_or_locked_through_a_link(
    name: str, read: Callable[[Path], object], tmp_path: Path
) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "outside").write_text("{}")
    (tmp_path / "inside" / name).symlink_to("../outside")
    with pytest.raises(StoreError, match=f"{name} .*it is a symbolic link, which is not followed here"):
        read(tmp_path / "inside" / name)
    assert (tmp_path / "outside").read_text() == "{}"


def test_a_lock_is_for_its_owner_alone_as_others_could_hold_it_for_ever(tmp_path: Path) -> None:
    (tmp_path / "campaign.lock").write_text("1\n")
    (tmp_path / "campaign.lock").chmod(0o644)
    CampaignLock(tmp_path).close()
    assert (tmp_path / "campaign.lock").stat().st_mode & 0o777 == 0o600


def test_the_fingerprints_of_a_campaign_are_read_up_to_a_bound(tmp_path: Path) -> None:
    save_fingerprints(tmp_path / "fingerprint", {"a": Fingerprint({})}, "2026-01-01T00:00:00Z")
    text = (tmp_path / "fingerprint" / "a.json").read_text()
    for number in range(5):
        (tmp_path / "fingerprint" / f"b{number}.json").write_text(text + " " * (1 << 20))
    with pytest.raises(StoreError, match="more than 4 MiB of fingerprints"):
        load_fingerprints(tmp_path / "fingerprint")
