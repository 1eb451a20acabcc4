"""`results.jsonl`: one run per line, for grep and jq. Written from the record, never read back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from collie.detect.measurement import Sample
from collie.plain import CODEC
from collie.ports import RunRecord
from collie.store import codec
from collie.store.directory import write_whole
from collie.workloads.workload import render

LINE_SCHEMA_VERSION = 1


def write_results(path: Path, runs: Iterable[RunRecord]) -> None:
    """Write every run as a line, without its samples."""
    write_whole(path, (codec.dumps(run_line(record)) + "\n" for record in runs))


def run_line(record: RunRecord) -> dict[str, Any]:
    """Return one run as an object, with null for unknown values."""
    return {
        "schema_version": LINE_SCHEMA_VERSION,
        "run": record.run,
        "purpose": record.purpose,
        "finished_at_seconds": record.finished_at_seconds,
        "driven": record.driven,
        "workload": render(record.workload),
        "verdict": codec.encode(record.verdict),
        **codec.encode_result(record.result),
    }


def series_lines(series: Sequence[Sample]) -> Iterator[str]:
    """Yield each sample as a line."""
    for sample in series:
        yield codec.dumps(CODEC.write(sample)) + "\n"
