"""Which way a record is opened by those who only look, and within which bounds."""

from __future__ import annotations

import os
import sqlite3
import zlib
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from collie.detect.measurement import Sample
from collie.errors import StoreError
from collie.files import Folder
from collie.store import codec, lock, reading, schema, series
from collie.store.connections import Page, RowSequence
from collie.store.sqlite import SqliteStore
from collie.testing.store_suite import ANOMALY, HEADER, measured
from tests.support.hostile_campaigns import unflushed
from tests.support.hostile_ground import downgraded, snapshot


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    path = tmp_path / "campaign"
    with SqliteStore.create(path, HEADER) as store:
        store.add_run(measured(1))
    return path


def runs_of(path: Path) -> list[int]:
    with SqliteStore.open(path, read_only=True) as store:
        return [record.run for record in store.runs()]


@pytest.mark.parametrize("version", range(1, schema.SCHEMA_VERSION + 1))
def test_every_schema_can_be_read_where_nothing_can_be_written(campaign: Path, version: int) -> None:
    downgraded(campaign / "campaign.sqlite", version)
    before = snapshot(campaign)
    assert runs_of(campaign) == [1]
    assert snapshot(campaign) == before


def test_runs_that_stand_in_the_log_of_a_killed_process_alone_are_seen(campaign: Path) -> None:
    columns = "purpose, outcome, finished_at_seconds, workload, result, series"
    copy = f"INSERT INTO runs (run, {columns}) SELECT 2, {columns} FROM runs"
    unflushed(campaign / "campaign.sqlite", copy)
    before = snapshot(campaign)
    with SqliteStore.open(campaign, read_only=True) as store:
        assert store.tally().runs == 2
    assert snapshot(campaign) == before


@pytest.mark.parametrize("log", [bytes(40), b"7\x7f\x06", bytes(3)])
def test_a_log_that_a_machine_went_down_before_it_was_written_is_passed_over(campaign: Path, log: bytes) -> None:
    (campaign / "campaign.sqlite-wal").write_bytes(log)
    assert runs_of(campaign) == [1]
    with SqliteStore.open(campaign) as store:
        assert store.tally().runs == 1


def test_a_reader_makes_no_log_where_the_writer_has_none_yet(campaign: Path) -> None:
    held = lock.CampaignLock(campaign)
    before = snapshot(campaign)
    assert runs_of(campaign) == [1]
    assert snapshot(campaign) == before
    held.close()


def test_a_reader_of_a_live_campaign_is_never_behind(campaign: Path) -> None:
    with SqliteStore.open(campaign) as writer, SqliteStore.open(campaign, read_only=True) as reader:
        for run in (2, 3):
            writer.add_run(measured(run))
            assert reader.tally().last_run == run


def test_a_writer_that_begins_below_a_reader_is_seen(campaign: Path) -> None:
    with SqliteStore.open(campaign, read_only=True) as reader:
        with SqliteStore.open(campaign) as writer:
            writer.add_run(measured(2))
            assert reader.tally().last_run == 2
        assert [record.run for record in reader.runs()] == [1, 2]


def test_a_writer_ends_with_an_empty_log_though_others_read(campaign: Path) -> None:
    writer = SqliteStore.open(campaign)
    with SqliteStore.open(campaign, read_only=True) as reader:
        writer.add_run(measured(2))
        assert reader.tally().last_run == 2
        writer.close()
        assert not os.path.getsize(campaign / "campaign.sqlite-wal")


def test_a_record_is_in_wal_mode_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[bytes] = []
    rename = os.rename

    def watched(new: Path, path: Path) -> None:
        begun.append(new.read_bytes()[18:20])
        rename(new, path)

    monkeypatch.setattr(os, "rename", watched)
    SqliteStore.create(tmp_path / "c", HEADER).close()
    assert begun == [b"\x02\x02"], "to switch later takes a rollback journal, which a kill would leave"


def test_a_reader_that_asks_for_the_lock_keeps_no_writer_out(campaign: Path) -> None:
    with Folder(campaign) as folder:
        assert not lock.is_held(folder)
        with SqliteStore.open(campaign):
            assert lock.is_held(folder)
        assert not lock.is_held(folder)


def test_a_record_that_is_too_large_to_copy_is_refused(campaign: Path) -> None:
    downgraded(campaign / "campaign.sqlite", 1)
    os.truncate(campaign / "campaign.sqlite", reading.MAX_COPIED_BYTES + (1 << 20))
    with pytest.raises(StoreError, match="too much to copy for reading"):
        SqliteStore.open(campaign, read_only=True)


def test_rows_in_no_order_or_larger_than_their_file_are_refused() -> None:
    sequence = RowSequence(lambda: 10)
    sequence.take((1, "x" * 5))
    with pytest.raises(ValueError, match="out of order"):
        sequence.take((1, ""))
    with pytest.raises(ValueError, match="more bytes than the file"):
        sequence.take((2, b"x" * 6))


def test_a_page_ends_with_its_bytes(campaign: Path) -> None:
    del campaign
    with closing(sqlite3.connect(":memory:")) as connection:
        rows = "SELECT 'abcd' UNION ALL SELECT 'efgh' UNION ALL SELECT 'ijkl'"
        assert Page(9, 5).of(connection.execute(rows)) == [("abcd",), ("efgh",)]
        assert Page(1, 5).of(connection.execute(rows)) == [("abcd",)]


def test_a_text_of_many_values_is_refused_before_it_is_read() -> None:
    assert codec.loads("[" + "0," * 10 + "0]") == [0] * 11
    with pytest.raises(ValueError, match="more than 100,000 values"):
        codec.loads("[" + "{}," * codec.MAX_VALUES + "0]")


def test_too_many_samples_lose_every_second_one_of_each_host() -> None:
    seconds = [float(number) for number in range(series.MAX_SAMPLES // 2 + 1)]
    kept = series.decode_series(series.encode_series([Sample(t, host, {"x": 1.0}) for t in seconds for host in "ab"]))
    assert [(sample.host, sample.seconds) for sample in kept] == [(host, t) for t in seconds[::2] for host in "ab"]


def test_a_campaign_takes_and_gives_500_anomalies(campaign: Path) -> None:
    rows = [
        (f"a{number}", codec.dumps(codec.encode_anomaly(replace(ANOMALY, id=f"a{number}")))) for number in range(500)
    ]
    with closing(sqlite3.connect(campaign / "campaign.sqlite")) as connection, connection:
        connection.executemany(
            "INSERT INTO anomalies (id, anomaly, digest) VALUES (?, ?, ?)",
            [(*row, schema.digest(*row)) for row in rows],
        )
    with SqliteStore.open(campaign) as store:
        store.add_anomaly(replace(ANOMALY, id="a0"))  # once more, as after an explanation
        with pytest.raises(StoreError, match="the maximum"):
            store.add_anomaly(replace(ANOMALY, id="a500"))
        assert len(store.anomalies()) == 500


def test_a_checksum_is_that_of_the_written_tuple() -> None:
    for values in ((1, "x", b"\x00", None, 0.5), ("one",)):
        assert schema.digest(*values) == zlib.crc32(repr(values).encode())
