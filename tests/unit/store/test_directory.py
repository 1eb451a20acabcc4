"""Files beside the record of a campaign."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from collie.errors import StoreError, StoreUnwritable, TestbedError
from collie.store.sqlite import SqliteStore
from collie.testing.store_suite import ANOMALY, HEADER, measured
from collie.workloads.feature import Mfs
from tests.support.stores import contents


def test_what_cannot_be_exported_is_named_and_the_campaign_is_released(tmp_path: Path) -> None:
    store = SqliteStore.create(tmp_path / "c", HEADER)
    store.add_run(measured(1))
    in_the_way = tmp_path / "c" / "results.jsonl"
    in_the_way.mkdir()
    with pytest.raises(StoreUnwritable, match=r"results\.jsonl cannot be written: Is a directory"):
        store.close()
    in_the_way.rmdir()
    SqliteStore.open(tmp_path / "c").close()
    assert len(in_the_way.read_text().splitlines()) == 1


def test_an_anomaly_whose_files_cannot_be_written_is_on_record(tmp_path: Path) -> None:
    in_the_way = tmp_path / "c" / "anomalies"
    with SqliteStore.create(tmp_path / "c", HEADER) as store:
        in_the_way.write_text("")
        with pytest.raises(StoreUnwritable, match=r"anomalies/a1 cannot be written: .*/anomalies: Not a directory"):
            store.add_anomaly(ANOMALY)
        assert store.anomalies() == (ANOMALY,)
        in_the_way.unlink()


def test_what_cannot_be_exported_does_not_hide_what_went_wrong_before(tmp_path: Path) -> None:
    store = SqliteStore.create(tmp_path / "c", HEADER)
    (tmp_path / "c" / "results.jsonl").mkdir()
    with pytest.raises(TestbedError, match="host-b is gone"), store:
        raise TestbedError("host-b is gone")


@pytest.mark.parametrize(
    ("in_the_way", "message"),
    [
        ("campaign.lock", "cannot be written: it is a directory, not a regular file"),
        ("campaign.sqlite.new", "no campaign can be created in .*: "),
        ("campaign.sqlite", "already holds a campaign"),
    ],
)
def test_a_directory_in_the_way_is_named(tmp_path: Path, in_the_way: str, message: str) -> None:
    (tmp_path / in_the_way).mkdir()
    with pytest.raises(StoreError, match=message):
        SqliteStore.create(tmp_path, HEADER)
    with pytest.raises(StoreError, match=r"holds no campaign|cannot be read: it is a directory"):
        SqliteStore.open(tmp_path)


def test_an_archived_campaign_can_be_read(tmp_path: Path) -> None:
    with SqliteStore.create(tmp_path / "a?b#c", HEADER) as store:
        store.add_run(measured(1))
    before = contents(tmp_path)
    with SqliteStore.open(tmp_path / "a?b#c", read_only=True) as store:
        assert list(store.runs()) == [measured(1)]
    assert contents(tmp_path) == before


def test_nothing_is_overwritten_by_a_new_campaign(tmp_path: Path) -> None:
    with SqliteStore.create(tmp_path / "c", HEADER) as store:
        store.add_run(measured(1))
    before = contents(tmp_path)
    with pytest.raises(StoreError, match="already holds a campaign; continue it with --resume"):
        SqliteStore.create(tmp_path / "c", HEADER)
    assert contents(tmp_path) == before


def test_a_new_campaign_does_not_move_in_with_other_files(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(StoreError, match=r"is not empty \(thesis.tex\)"):
        SqliteStore.create(tmp_path, HEADER)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot become a campaign directory"):
        SqliteStore.create(tmp_path / "file", HEADER)


def test_an_anomaly_takes_along_what_is_needed_to_run_it_again(tmp_path: Path) -> None:
    with SqliteStore.create(tmp_path / "my campaign", HEADER) as store:
        store.add_run(measured(1))
        store.add_anomaly(ANOMALY)
        files = contents(store.directory.path / "anomalies/a1")
    assert json.loads(files["workload.json"])["qps"] == 7
    mfs = json.loads(files["mfs.json"])
    assert mfs["features"][0] == {"dimension": "qp_type", "op": "==", "value": "UD"}
    assert mfs["sentence"] == ANOMALY.sentence
    assert "collie reproduce 'my campaign/a1' --controls" in files["reproduce.txt"].decode()
    with SqliteStore.open(tmp_path / "my campaign") as store:
        store.add_anomaly(replace(ANOMALY, id="a2", mfs=Mfs(()), complete=False, extraction_runs=0))
        unexplained = contents(store.directory.path / "anomalies/a2")
    assert "\nnot explained yet: its explanation has not begun\n" in unexplained["reproduce.txt"].decode()
    assert "--controls" not in unexplained["reproduce.txt"].decode(), "there is no condition to break"
    assert len(files["series.jsonl"].splitlines()) == 3
