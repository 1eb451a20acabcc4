"""Converts runs to rows of the table `runs`, and back. A row that Collie cannot have written raises `ValueError`."""

from __future__ import annotations

import math
import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, cast

from collie.campaign.progress import FAILED_OUTCOMES, Tally
from collie.detect.measurement import Measurement
from collie.detect.symptom import Verdict
from collie.plain import typed
from collie.ports import Measured, RunRecord
from collie.store import codec, schema
from collie.store.series import decode_series, encode_series
from collie.untrusted import sanitized
from collie.workloads.plan import sinks
from collie.workloads.workload import Workload, render

*_MEASURED, _VERDICT, _DRIVEN = schema.DIGESTED["runs"]
_COLUMNS = ", ".join((*_MEASURED, _VERDICT, _DRIVEN, "digest"))
INSERT = f"INSERT INTO runs ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 - names are ours
SELECT_MEASURED = f"SELECT {', '.join(_MEASURED)} FROM runs WHERE run = ?"  # noqa: S608 - likewise
SELECT_BETWEEN = f"SELECT {_COLUMNS} FROM runs WHERE run BETWEEN ? AND ? ORDER BY run"  # noqa: S608 - likewise
_SELECT_BRIEF = "SELECT run, outcome, finished_at_seconds, set_up FROM runs ORDER BY run"

_MAX_CHARACTERS = 200


def to_row(record: RunRecord) -> tuple[Any, ...]:
    """Return a run as a row for `INSERT`. Raises `ValueError` if a required number is not finite."""
    if not math.isfinite(record.finished_at_seconds):
        raise ValueError(f"run {record.run} finished at {record.finished_at_seconds} s")
    result = codec.encode_result(record.result)
    series = record.result.measurement.series if isinstance(record.result, Measured) else ()
    return (
        record.run,
        record.purpose,
        result["outcome"],
        record.finished_at_seconds + 0.0,  # SQLite stores -0.0 as 0.0, and the checksum covers what it stores
        codec.dumps(render(record.workload)),
        codec.dumps(result),
        encode_series(series),
        record.set_up,
        codec.dumps(render(record.made_for)) if record.made_for is not None else None,
        codec.dumps(codec.encode(record.verdict)) if record.verdict is not None else None,
        record.driven,
    )


def require_digest(values: Sequence[Any], digest: Any) -> None:
    """Raise `ValueError` if `digest` is not the checksum of a row's `values`."""
    if schema.digest(*values) != digest:
        raise ValueError("its checksum is wrong")


OUTCOMES = frozenset({"measured", "unsupported", *FAILED_OUTCOMES})


def tallied(connection: sqlite3.Connection) -> tuple[Tally, int | None]:
    """Count runs, and return the number of the last failed run."""
    outcomes: Counter[str] = Counter()
    elapsed_seconds, last, failed, further_phases = 0.0, 0, None, 0
    with closing(connection.execute(_SELECT_BRIEF)) as rows:
        for run, outcome, finished_at_seconds, set_up in rows:
            if outcome not in OUTCOMES or run <= last:
                raise ValueError(f"run {run} after run {last} with outcome {outcome!r:.40} is impossible")
            outcomes[outcome] += 1
            elapsed_seconds, last = max(elapsed_seconds, typed(float, finished_at_seconds)), run
            failed = run if outcome in FAILED_OUTCOMES else failed
            further_phases += set_up not in (None, run)
    return Tally(outcomes, elapsed_seconds, last, None, further_phases), failed


def from_row(row: Sequence[Any], *, with_series: bool = True) -> RunRecord:
    """Parse a row of `SELECT_BETWEEN`."""
    *values, digest = row
    require_digest(values, digest)
    run, purpose, _outcome, finished_at_seconds, workload, result, series, set_up, made_for, verdict, driven = values
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
        verdict=codec.decode(Verdict, codec.loads(verdict)) if verdict is not None else None,
        driven=None if driven is None else _name(driven),
        set_up=_set_up(set_up, made_for, run),
        made_for=None if made_for is None else codec.decode_workload(codec.loads(made_for)),
    )


def _set_up(set_up: Any, made_for: Any, run: int) -> int | None:
    """Return the run that made the set-up. Only a run up to this one can have made it, and for some workload."""
    if (set_up is None) is not (made_for is None) or not 1 <= typed(int, run if set_up is None else set_up) <= run:
        raise ValueError(f"it is a phase of set-up {set_up!r:.40}, which is impossible")
    return cast("int | None", set_up)


def _name(value: object) -> str:
    text = typed(str, value)
    if len(text) > _MAX_CHARACTERS:
        raise ValueError(f"a name has {len(text)} characters; the limit is {_MAX_CHARACTERS}")
    return sanitized(text)


def _require_readings(workload: Workload, measurement: Measurement) -> None:
    measured = {host.host for host in measurement.hosts}
    if missing := [name for name in sinks(workload) if name not in measured]:
        raise ValueError(f"it has no reading of host {missing[0]}, which its workload sends to")
