"""Runs as rows of the `runs` table."""

from __future__ import annotations

import math
import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from collie.campaign.progress import FAILED_OUTCOMES, Tally
from collie.detect.measurement import Measurement
from collie.plain import typed
from collie.ports import Measured, RunRecord
from collie.store import codec, schema
from collie.store.series import decode_series, encode_series
from collie.untrusted import sanitized
from collie.workloads.plan import sinks
from collie.workloads.workload import Workload, render

INSERT = """
INSERT INTO runs (run, purpose, outcome, finished_at_seconds, workload, result, series, verdict, driven, digest)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""

SELECT_MEASURED = """
SELECT run, purpose, outcome, finished_at_seconds, workload, result, series FROM runs WHERE run = ?
"""

SELECT_BETWEEN = """
SELECT run, purpose, outcome, finished_at_seconds, workload, result, series, verdict, driven, digest
FROM runs WHERE run BETWEEN ? AND ? ORDER BY run
"""

SELECT_BRIEF = "SELECT run, outcome, finished_at_seconds FROM runs ORDER BY run"

_MAX_CHARACTERS = 200


def to_row(record: RunRecord) -> tuple[Any, ...]:
    """Return a run as a row for `INSERT`.

    Raises:
        ValueError: a required number is not finite.
    """
    if not math.isfinite(record.finished_at_seconds):
        raise ValueError(f"run {record.run} finished at {record.finished_at_seconds} s")
    result = codec.encode_result(record.result)
    series = record.result.measurement.series if isinstance(record.result, Measured) else ()
    return (
        record.run,
        record.purpose,
        result["outcome"],
        record.finished_at_seconds + 0.0,  # the column has no negative zero, and the checksum covers its value
        codec.dumps(render(record.workload)),
        codec.dumps(result),
        encode_series(series),
        codec.dumps(codec.encode_verdict(record.verdict)) if record.verdict is not None else None,
        record.driven,
    )


def require_digest(values: Sequence[Any], digest: Any) -> None:
    """Refuse a row that differs from the written one.

    Raises:
        ValueError: its checksum differs.
    """
    if schema.digest(*values) != digest:
        raise ValueError("it is not what was written: its checksum does not fit")


OUTCOMES = frozenset({"measured", "unsupported", *FAILED_OUTCOMES})


def tallied(connection: sqlite3.Connection) -> tuple[Tally, int | None]:
    """Count runs, and return the number of the last failed one.

    Raises:
        ValueError: a row is not a run.
    """
    outcomes: Counter[str] = Counter()
    elapsed_seconds, last, failed = 0.0, 0, None
    with closing(connection.execute(SELECT_BRIEF)) as rows:
        for run, outcome, finished_at_seconds in rows:
            if outcome not in OUTCOMES or run <= last:
                raise ValueError(f"run {run} is none: outcome {outcome!r:.40}, after run {last}")
            outcomes[outcome] += 1
            elapsed_seconds, last = max(elapsed_seconds, typed(float, finished_at_seconds)), run
            failed = run if outcome in FAILED_OUTCOMES else failed
    return Tally(outcomes, elapsed_seconds, last, None), failed


def from_row(row: Sequence[Any], *, with_series: bool = True) -> RunRecord:
    """Parse a row of `SELECT_BETWEEN`, with or without samples.

    Raises:
        ValueError: it is not a run.
    """
    *values, digest = row
    require_digest(values, digest)
    run, purpose, _outcome, finished_at_seconds, workload, result, series, verdict, driven = values
    outcome = codec.decode_result(codec.loads(result))
    if with_series and isinstance(outcome, Measured) and series is not None:
        outcome = replace(outcome, measurement=replace(outcome.measurement, series=decode_series(series)))
    asked = codec.decode_workload(codec.loads(workload))
    if isinstance(outcome, Measured):
        _require_readings(asked, outcome.measurement)
    return RunRecord(
        run=typed(int, run),
        purpose=_name(purpose),
        workload=asked,
        result=outcome,
        finished_at_seconds=typed(float, finished_at_seconds),
        verdict=codec.decode_verdict(codec.loads(verdict)) if verdict is not None else None,
        driven=None if driven is None else _name(driven),
    )


def _name(value: object) -> str:
    text = typed(str, value)
    if len(text) > _MAX_CHARACTERS:
        raise ValueError(f"a name of {len(text)} characters, and {_MAX_CHARACTERS} are the most")
    return sanitized(text)


def _require_readings(workload: Workload, measurement: Measurement) -> None:
    """Refuse a measurement that lacks a receiving host of its workload.

    Raises:
        ValueError: the host is missing.
    """
    measured = {host.host for host in measurement.hosts}
    if missing := [name for name in sinks(workload) if name not in measured]:
        raise ValueError(f"it has no reading of host {missing[0]}, which its workload sends to")
