"""Campaigns of older and newer schemas."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from collie.errors import StoreError
from collie.files import Folder
from collie.store import schema
from collie.store.sqlite import SqliteStore
from collie.testing.store_suite import ANOMALY, HEADER, measured, phase
from tests.support.hostile_ground import downgraded
from tests.support.stores import contents

NEWER = schema.SCHEMA_VERSION + 1


def version_in_the_head(path: Path) -> int:
    with Folder(path) as folder:
        return schema.require_readable(folder)


def test_a_campaign_of_a_newer_schema_is_left_byte_for_byte(tmp_path: Path) -> None:
    path = tmp_path / "c"
    with SqliteStore.create(path, HEADER) as store:
        store.add_run(measured(1))
    with closing(sqlite3.connect(path / "campaign.sqlite")) as connection:
        connection.execute(f"PRAGMA user_version = {schema.SCHEMA_VERSION + 1}")
    (path / "campaign.lock").unlink()
    before = contents(path)
    for read_only in (False, True):
        with pytest.raises(
            StoreError, match=f"has schema {NEWER}; this Collie reads up to {schema.SCHEMA_VERSION}"
        ) as raised:
            SqliteStore.open(path, read_only=read_only)
        assert raised.value.exit_code == 2
    with pytest.raises(StoreError, match="--resume"):
        SqliteStore.create(path, HEADER)
    assert contents(path) == before


def test_a_newer_schema_that_is_still_in_the_log_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c"
    SqliteStore.create(path, HEADER).close()
    with closing(sqlite3.connect(path / "campaign.sqlite")) as newer:
        newer.execute(f"PRAGMA user_version = {schema.SCHEMA_VERSION + 1}")
        assert version_in_the_head(path) == schema.SCHEMA_VERSION
        with pytest.raises(StoreError, match=f"has schema {NEWER}"):
            SqliteStore.open(path)


def test_an_older_schema_is_brought_up_to_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "c"
    with SqliteStore.create(path, HEADER) as store:
        store.add_run(measured(1))

    def add_column(connection: sqlite3.Connection) -> None:
        connection.execute("ALTER TABLE runs ADD COLUMN note TEXT")

    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, add_column))
    monkeypatch.setattr(schema, "SCHEMA_VERSION", NEWER)
    with SqliteStore.open(path) as store:
        assert list(store.runs()) == [measured(1)]
    assert version_in_the_head(path) == NEWER


def test_a_reader_brings_a_copy_of_an_older_schema_up_to_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "c"
    with SqliteStore.create(path, HEADER) as store:
        store.add_run(measured(1))
    before = contents(path)

    def add_column(connection: sqlite3.Connection) -> None:
        connection.execute("ALTER TABLE runs ADD COLUMN note TEXT")

    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, add_column))
    monkeypatch.setattr(schema, "SCHEMA_VERSION", NEWER)
    with SqliteStore.open(path, read_only=True) as store:
        assert list(store.runs()) == [measured(1)]
        places = {Path(row[2]) for row in store._source.connection.execute("PRAGMA database_list")}
    assert contents(path) == before
    assert not any(place.exists() for place in places), "the copy goes with the reader"


@pytest.mark.parametrize("version", range(1, schema.SCHEMA_VERSION))
def test_a_campaign_of_an_older_schema_keeps_everything_and_takes_phases(tmp_path: Path, version: int) -> None:
    path = tmp_path / "c"
    with SqliteStore.create(path, HEADER) as store:
        store.add_run(measured(1))
        store.add_anomaly(ANOMALY)
    downgraded(path / "campaign.sqlite", version)
    with SqliteStore.open(path) as store:
        assert store.header == HEADER
        assert list(store.runs()) == [measured(1)]
        assert store.anomalies() == (ANOMALY,)
        store.add_run(phase(2, 2))
    with SqliteStore.open(path, read_only=True) as store:
        assert list(store.runs()) == [measured(1), phase(2, 2)]


@pytest.mark.parametrize("read_only", [False, True])
def test_damage_before_a_migration_is_still_found_after_it(tmp_path: Path, read_only: bool) -> None:
    path = tmp_path / "c"
    with SqliteStore.create(path, HEADER) as store:
        store.add_run(measured(1))
        store.add_run(measured(2))
    downgraded(path / "campaign.sqlite", 2)
    with closing(sqlite3.connect(path / "campaign.sqlite")) as connection, connection:
        connection.execute("UPDATE runs SET finished_at_seconds = 41.0 WHERE run = 2")
    with (
        pytest.raises(StoreError, match="run 2: its checksum is wrong"),
        SqliteStore.open(path, read_only=read_only) as store,
    ):
        list(store.runs())
