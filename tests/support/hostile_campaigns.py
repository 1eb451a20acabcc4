"""Campaign directories of somebody who means harm, and a tree of decoys that nothing may touch.

A spoiler changes a good campaign in one way. Several can follow each other. `scripts/acceptance/hostile_campaigns.py`
asks every reading command about hundreds of them. `tests/unit/store/test_hostile_campaign.py` asks the store about each
kind.
"""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import struct
import zlib
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path

from collie.ports import CAMPAIGN_FILE
from collie.store import schema
from collie.store.codec import encode_result
from collie.store.connections import MAX_RUNS
from collie.testing.store_suite import measured
from tests.support.hostile_ground import LARGE_BYTES, PAGE_BYTES, Ground, connected

_HOLE_BYTES = 1 << 40
_MAX_CHANGED = 200


Spoiler = Callable[[Ground], None]


# --- Rollback journals ------------------------------------------------------------------------------------------------


def hot_journal(super_journal: Path | None, page: bytes = bytes(PAGE_BYTES)) -> bytes:
    """Return a rollback journal that SQLite plays, and after which it deletes the super-journal that is named.

    Args:
        super_journal: any file.
        page: what the first page of the record becomes.
    """
    nonce = 7
    head = bytes.fromhex("d9d505f920a163d7") + struct.pack(">IIIII", 1, nonce, 1, 512, PAGE_BYTES)
    checksum = (nonce + sum(page[at] for at in range(PAGE_BYTES - 200, 0, -200))) & 0xFFFFFFFF
    journal = head.ljust(512, b"\0") + struct.pack(">I", 1) + page + struct.pack(">I", checksum)
    if super_journal is None:
        return journal
    name = str(super_journal).encode()
    lock_page = (1 << 30) // PAGE_BYTES + 1
    return (
        journal + struct.pack(">I", lock_page) + name + struct.pack(">II", len(name), sum(name)) + head[:8]
    )  # magic again


def _journal_of(name: str) -> Spoiler:
    def spoil(ground: Ground) -> None:
        first = ground.record.read_bytes()[:PAGE_BYTES] if ground.can_be_rewritten else bytes(PAGE_BYTES)
        prey = ground.decoys / name if name else None
        ground.beside("-journal").write_bytes(hot_journal(prey, first.ljust(PAGE_BYTES, b"\0")))

    return spoil


def _creation_journal(ground: Ground) -> None:
    _journal_of("thesis.tex")(ground)
    ground.beside("-journal")
    for suffix in (".new", ".new-journal"):
        ground.beside(suffix).write_bytes(hot_journal(ground.prey))


# --- Logs -------------------------------------------------------------------------------------------------------------


def unflushed(record: Path, *statements: str) -> None:
    """Change a record as a process does that is killed: what is new stands in its log alone."""
    with closing(connected(record)) as writer, closing(sqlite3.connect(record)) as other:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("PRAGMA wal_autocheckpoint = 0")
        other.execute("SELECT count(*) FROM sqlite_master").fetchall()
        for statement in statements:
            writer.execute(statement)
        files = (record, record.with_name(f"{record.name}-wal"))
        if any(path.stat().st_size > LARGE_BYTES for path in files):
            raise OSError("another spoiler made a hole in it, which no memory holds")
        kept = {path: path.read_bytes() for path in files}
    for path, content in kept.items():
        path.write_bytes(content)


def _log_of(*statements: str) -> Spoiler:
    def spoil(ground: Ground) -> None:
        with suppress(sqlite3.Error, OSError):
            unflushed(ground.record, *statements)

    return spoil


def _cut_log(ground: Ground) -> None:
    _log_of("PRAGMA user_version = 0")(ground)
    log = ground.record.with_name(f"{CAMPAIGN_FILE}-wal")
    if log.is_file() and not log.is_symlink():
        os.truncate(log, ground.rng.randrange(log.stat().st_size + 1))


def _log_with_a_hole(ground: Ground) -> None:
    log = ground.beside("-wal")
    log.write_bytes(b"\x37\x7f\x06\x82" + bytes(28))
    os.truncate(log, _HOLE_BYTES)


# --- Other things in the place of a file ------------------------------------------------------------------------------


def _linked(suffix: str) -> Spoiler:
    return lambda ground: ground.beside(suffix).symlink_to(ground.prey)


def _looped(suffix: str) -> Spoiler:
    def spoil(ground: Ground) -> None:
        place = ground.beside(suffix)
        place.symlink_to(place.name)

    return spoil


def _fifo(suffix: str) -> Spoiler:
    return lambda ground: os.mkfifo(ground.beside(suffix))


def _folder(suffix: str) -> Spoiler:
    return lambda ground: ground.beside(suffix).mkdir()


def _socket(suffix: str) -> Spoiler:
    def spoil(ground: Ground) -> None:
        place = ground.beside(suffix)
        before = os.getcwd()
        os.chdir(place.parent)  # the path of a socket is short
        try:
            with socket.socket(socket.AF_UNIX) as bound:
                bound.bind(place.name)
        finally:
            os.chdir(before)

    return spoil


def _written(suffix: str, content: bytes) -> Spoiler:
    def spoil(ground: Ground) -> None:
        ground.beside(suffix).write_bytes(content)

    return spoil


def _second_name(suffix: str) -> Spoiler:
    return lambda ground: os.link(ground.prey, ground.beside(suffix))


def _moved_record(ground: Ground) -> None:
    if ground.record.is_file():
        ground.record.rename(ground.campaign / "moved.sqlite")
        ground.record.symlink_to("moved.sqlite")


def _companion(name: str, make: Callable[[Path, Path], object]) -> Spoiler:
    """Return what puts something in the place of a file of the campaign that is not of its record."""

    def spoil(ground: Ground) -> None:
        place = ground.campaign / name
        if place.is_dir() and not place.is_symlink():
            place.rename(ground.campaign / f"{place.name}.before")
        place.unlink(missing_ok=True)
        make(place, ground.prey)

    return spoil


# --- Sizes ------------------------------------------------------------------------------------------------------------


def _hole_in_the_record(ground: Ground) -> None:
    if ground.record.is_file():
        os.truncate(ground.record, _HOLE_BYTES)


def _cut_record(ground: Ground) -> None:
    if ground.record.is_file():
        os.truncate(ground.record, ground.rng.randrange(ground.record.stat().st_size + 1))


def _flipped(ground: Ground) -> None:
    if ground.can_be_rewritten:
        content = bytearray(ground.record.read_bytes())
        for _ in range(8):
            content[ground.rng.randrange(100, max(101, len(content))) % len(content)] ^= 1 << ground.rng.randrange(8)
        ground.record.write_bytes(content)


def _value(table: str, column: str, value: Callable[[], object]) -> Spoiler:
    where = f"rowid IN (SELECT rowid FROM {table} LIMIT {_MAX_CHANGED})"  # another spoiler may have added 100,000
    return lambda ground: ground.changed(f"UPDATE {table} SET {column} = ? WHERE {where}", values=(value(),))


_COPY = (
    "INSERT INTO runs (run, purpose, outcome, finished_at_seconds, workload, result, series, verdict, driven) "
    "SELECT {number}, purpose, outcome, finished_at_seconds, workload, {result}, {series}, verdict, driven "
    "FROM runs WHERE run = (SELECT max(run) FROM runs)"
)


def _more_runs(count: int, result: str = "result", series: str = "series") -> Spoiler:
    """Return what adds runs like the last one, with other contents where they are given as SQL."""
    insert = _COPY.format(number="(SELECT max(run) + 1 FROM runs)", result=result, series=series)
    return lambda ground: ground.changed("BEGIN", *[insert] * count, "COMMIT", stamp=count < 5000)


def _runs_of_many_counters(ground: Ground, count: int, counters: int) -> None:
    """Add good runs of plain traffic that name more counters than any device has."""
    raw = encode_result(measured(1).result)
    for host in raw["hosts"]:
        host["counters"] = {f"counter{number}": number + 0.5 for number in range(counters)}
    text = json.dumps(raw, separators=(",", ":"))
    insert = _COPY.format(number="(SELECT max(run) + 1 FROM runs)", result="result", series="NULL")
    ground.changed("BEGIN", *[insert] * count, "COMMIT", stamp=False)
    ground.changed(
        "UPDATE runs SET purpose = 'sibling', outcome = 'measured', result = ? "
        "WHERE run > (SELECT max(run) - ? FROM runs)",
        values=(text, count),
    )


_TINY = """
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
INSERT OR REPLACE INTO runs (run, purpose, outcome, finished_at_seconds, workload, result)
SELECT 1000 + i, '', 'measured', 0.0, '', '' FROM n
"""


def _tiny_runs(count: int) -> Spoiler:
    return lambda ground: ground.changed(_TINY, values=(count,), stamp=False)


def _many_tables(count: int) -> Spoiler:
    return lambda ground: ground.changed(
        "BEGIN", *(f"CREATE TABLE t{number} (x)" for number in range(count)), "COMMIT", stamp=False
    )


def _large_table(ground: Ground) -> None:
    ground.changed(f"CREATE TABLE t (x CHECK (x IN ({'1,' * 300_000}1)))", stamp=False)


def _many_anomalies(ground: Ground) -> None:
    with suppress(sqlite3.Error, OSError), closing(connected(ground.record)) as connection, connection:
        row = connection.execute("SELECT anomaly FROM anomalies LIMIT 1").fetchone()
        raw = json.loads(row[0]) if row else {}
        for number in range(1000, 3500):
            text = json.dumps({**raw, "id": f"a{number}"}, separators=(",", ":"))
            connection.execute("INSERT INTO anomalies (id, anomaly) VALUES (?, ?)", (f"a{number}", text))
        if schema.version_of(connection, ground.record) > 1:
            schema.stamp(connection)


def _tree_that_leads_back(ground: Ground) -> None:
    """Make every entry of the runs' tree lead to one leaf: rows without end in a file of kilobytes."""
    _more_runs(400)(ground)
    if not ground.can_be_rewritten:
        return
    row = None
    with suppress(sqlite3.Error, OSError), closing(connected(ground.record)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        row = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'runs'").fetchone()
    content = bytearray(ground.record.read_bytes())
    at = (row[0] - 1) * PAGE_BYTES if row else 0
    if len(content) <= at or content[at] != 5:  # no interior page
        return
    cells = struct.unpack_from(">H", content, at + 3)[0]
    places = struct.unpack_from(f">{cells}H", content, at + 12)
    leaf = content[at + places[0] : at + places[0] + 4]
    for place in places:
        content[at + place : at + place + 4] = leaf
    ground.record.write_bytes(content)


def _shared_overflow(ground: Ground) -> None:
    """Make many rows share the pages of one large value."""
    _more_runs(1, "printf('%s', replace(hex(zeroblob(1000000)), '0', 'x'))")(ground)
    _more_runs(300, "printf('%s', replace(hex(zeroblob(3000)), '0', 'y'))")(ground)
    if not ground.can_be_rewritten:
        return
    with suppress(sqlite3.Error, OSError), closing(connected(ground.record)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = bytearray(ground.record.read_bytes())
    pages = range(0, len(content), PAGE_BYTES)
    overflows = [at for at in pages if content[at + 4 : at + 60] == b"y" * 56]
    first = next((at for at in pages if content[at + 4 : at + 60] == b"x" * 56), None)
    if first is None:
        return
    for at in overflows:  # each chain goes on with the large one
        content[at : at + 4] = struct.pack(">I", first // PAGE_BYTES + 1)
    ground.record.write_bytes(content)


def _packed(text: str) -> bytes:
    return zlib.compress(text.encode(), 9)


SPOILERS: Mapping[str, Spoiler] = {
    "journal with a super-journal": _journal_of("thesis.tex"),
    "journal with another's key": _journal_of("keys/id"),
    "journal": _journal_of(""),
    "journal, empty": _written("-journal", b""),
    "journal of a creation": _creation_journal,
    "journal: link": _linked("-journal"),
    "journal: FIFO": _fifo("-journal"),
    "journal: directory": _folder("-journal"),
    "log of a kill": _log_of("UPDATE campaign SET only = 1"),
    "log with a trigger": _log_of("CREATE TRIGGER t AFTER UPDATE ON runs BEGIN DELETE FROM runs; END"),
    "log of a newer schema": _log_of(f"PRAGMA user_version = {schema.SCHEMA_VERSION + 1}"),
    "log without tables": _log_of("DROP TABLE runs"),
    "log, cut": _cut_log,
    "log, no log": _written("-wal", b"no log" * 1000),
    "log with a hole": _log_with_a_hole,
    "log: link": _linked("-wal"),
    "log: loop": _looped("-wal"),
    "log: FIFO": _fifo("-wal"),
    "log: directory": _folder("-wal"),
    "log: second name": _second_name("-wal"),
    "index, no index": _written("-shm", b"\xff" * 32768),
    "index: link": _linked("-shm"),
    "index: FIFO": _fifo("-shm"),
    "index: socket": _socket("-shm"),
    "index: second name": _second_name("-shm"),
    "record: link": _linked(""),
    "record: link within": _moved_record,
    "record: loop": _looped(""),
    "record: FIFO": _fifo(""),
    "record: directory": _folder(""),
    "record: socket": _socket(""),
    "record with a hole": _hole_in_the_record,
    "record, cut": _cut_record,
    "record, bits flipped": _flipped,
    "record, tree that leads back": _tree_that_leads_back,
    "record, rows that share pages": _shared_overflow,
    "lock: link": _companion("campaign.lock", lambda place, prey: place.symlink_to(prey)),
    "lock: FIFO": _companion("campaign.lock", lambda place, _prey: os.mkfifo(place)),
    "lock: directory": _companion("campaign.lock", lambda place, _prey: place.mkdir()),
    "status: link": _companion("status.json", lambda place, prey: place.symlink_to(prey)),
    "status: FIFO": _companion("status.json", lambda place, _prey: os.mkfifo(place)),
    "fingerprints: link": _companion("fingerprint", lambda place, prey: place.symlink_to(prey.parent)),
    "fingerprints: FIFO": _companion("fingerprint", lambda place, _prey: os.mkfifo(place)),
    "log folder: link": _companion("log", lambda place, prey: place.symlink_to(prey.parent)),
    "report: link": _companion("report.html", lambda place, prey: place.symlink_to(prey)),
    "header of 57 MB": _value("campaign", "header", lambda: '{"a":"' + "x" * (57 << 20) + '"}'),
    "header of many values": _value("campaign", "header", lambda: "[" + "{}," * 1_000_000 + "0]"),
    "header, deep": _value("campaign", "header", lambda: "[" * 100_000),
    "20 runs of 60 MB": _more_runs(20, "hex(zeroblob(30 << 20))"),
    "run of many values": _value(
        "runs", "result", lambda: '{"outcome":"measured","hosts":[' + "[]," * 1_000_000 + "0]}"
    ),
    "8 runs of many counters": lambda ground: _runs_of_many_counters(ground, 8, 40_000),
    "runs of emoji": _value("runs", "purpose", lambda: "\N{DOG FACE}" * 1_000_000),
    "runs driven by emoji": _value("runs", "driven", lambda: "\N{DOG FACE}" * 1_000_000),
    "20,000 runs": _tiny_runs(20_000),
    "as many runs as fit": _tiny_runs(MAX_RUNS - 1000),
    "a million runs": _tiny_runs(1_000_000),
    "2000 tables": _many_tables(2000),
    "large table": _large_table,
    "2500 anomalies": _many_anomalies,
    "samples that unpack without end": _value("runs", "series", lambda: zlib.compress(bytes(200 << 20), 9)),
    "samples of many values": _value(
        "runs", "series", lambda: _packed('{"shapes":[[]],"rows":[' + "[]," * 2_500_000 + "[]]}")
    ),
    "samples of many hosts": _value(
        "runs",
        "series",
        lambda: _packed(
            '{"shapes":[["delivered_bps"]],"rows":['
            + ",".join(f'[{number},"host{number % 50}",0,1.5]' for number in range(100_000))
            + "]}"
        ),
    ),
}
"""How a campaign can be spoiled, by name."""

HEAVY = frozenset(
    {
        "20 runs of 60 MB",
        "header of 57 MB",
        "as many runs as fit",
        "a million runs",
        "2500 anomalies",
        "8 runs of many counters",
    }
)
LIGHT = tuple(name for name in SPOILERS if name not in HEAVY)
"""Those that do not take seconds to make."""
