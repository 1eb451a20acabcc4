"""Runs as rows of the `runs` table."""

from __future__ import annotations

import math
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from collie.detect.measurement import Measurement
from collie.plain import typed
from collie.ports import Measured, RunRecord
from collie.store import codec, schema
from collie.store.series import decode_series, encode_series
from collie.untrusted import defused
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
"""Of a purpose, which is a word, and of the name of the counter that a strategy drives."""

FAILED = ("setup_failed", "host_lost", "pair_lost")
"""Outcomes of runs that gave no measurement because something went wrong."""


@dataclass(frozen=True, slots=True)
class Tally:
    """What is on record, counted.

    Attributes:
        outcomes: number of runs by what came of them: `measured`, `setup_failed`, `unsupported`, `host_lost`,
            `pair_lost`.
        elapsed_seconds: testbed time at the end of the last run.
        last_run: number of the last one; of several pairs, earlier numbers may be missing while they are under way.
        last_failure: the last run that failed to set up, or cost a host or a pair.
    """

    outcomes: Mapping[str, int]
    elapsed_seconds: float
    last_run: int
    last_failure: RunRecord | None

    @property
    def runs(self) -> int:
        """Runs of every outcome."""
        return sum(self.outcomes.values())

    @property
    def failed_runs(self) -> int:
        """Runs that gave no measurement because something went wrong."""
        return sum(self.outcomes.get(outcome, 0) for outcome in FAILED)


def to_row(record: RunRecord) -> tuple[Any, ...]:
    """Write a run, as `INSERT` takes it.

    Raises:
        ValueError: a number that has to be known is not finite.
    """
    if not math.isfinite(record.finished_at_seconds):
        raise ValueError(f"run {record.run} finished at {record.finished_at_seconds} s")
    result = codec.encode_result(record.result)
    series = record.result.measurement.series if isinstance(record.result, Measured) else ()
    return (
        record.run,
        record.purpose,
        result["outcome"],
        record.finished_at_seconds + 0.0,  # as the column has it, without a negative zero: the checksum is of that
        codec.dumps(render(record.workload)),
        codec.dumps(result),
        encode_series(series),
        codec.dumps(codec.encode_verdict(record.verdict)) if record.verdict is not None else None,
        record.driven,
    )


def require_digest(values: Sequence[Any], digest: Any) -> None:
    """Refuse a row that is not what was written.

    Raises:
        ValueError: its checksum is another one.
    """
    if schema.digest(*values) != digest:
        raise ValueError("it is not what was written: its checksum does not fit")


OUTCOMES = frozenset({"measured", "unsupported", *FAILED})


def tallied(connection: sqlite3.Connection) -> tuple[Tally, int | None]:
    """Count runs, and return the number of the last one that failed.

    Raises:
        ValueError: a row is none of a run.
    """
    outcomes: Counter[str] = Counter()
    elapsed_seconds, last, failed = 0.0, 0, None
    with closing(connection.execute(SELECT_BRIEF)) as rows:
        for run, outcome, finished_at_seconds in rows:
            if outcome not in OUTCOMES or run <= last:
                raise ValueError(f"run {run} is none: outcome {outcome!r:.40}, after run {last}")
            outcomes[outcome] += 1
            elapsed_seconds, last = max(elapsed_seconds, typed(float, finished_at_seconds)), run
            failed = run if outcome in FAILED else failed
    return Tally(outcomes, elapsed_seconds, last, None), failed


def from_row(row: Sequence[Any], *, with_series: bool = True) -> RunRecord:
    """Read a run, as `SELECT_BETWEEN` gives it, with its samples over time or without.

    Raises:
        ValueError: it is no such thing.
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
    return defused(text)


def _require_readings(workload: Workload, measurement: Measurement) -> None:
    """Refuse a measurement that says nothing of a host to which its workload sends.

    Raises:
        ValueError: it has another name for the host, or none.
    """
    measured = {host.host for host in measurement.hosts}
    if missing := [name for name in sinks(workload) if name not in measured]:
        raise ValueError(f"it has no reading of host {missing[0]}, which its workload sends to")
