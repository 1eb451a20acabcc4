"""The runs of a campaign as rows, for spreadsheets and for a table in the terminal."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import Any, TextIO

from collie.campaign.yardstick import delivered
from collie.detect.bounds import UNBOUNDED, Bounds, Calibration
from collie.detect.measurement import Measurement
from collie.detect.symptom import Verdict
from collie.ports import CampaignStore, HostLost, Measured, PairLost, RunRecord, RunResult, SetupFailed, Unsupported
from collie.workloads.feature import feature_value
from collie.workloads.space import Space
from collie.workloads.workload import FIELD_NAMES, Workload, render

Row = dict[str, Any]

_DERIVED = ("min_message_bytes", "max_message_bytes")
"""Filters for a spreadsheet, where a list of sizes is one cell."""

RUN_COLUMNS = ("run", "purpose", "elapsed_seconds", "run_seconds", "outcome", "problem")
VERDICT_COLUMNS = ("verdict", "symptom", "severity", "host", "reason")
FIGURE_COLUMNS = ("delivered_bps", "delivered_pps", "bound_bps", "tx_pause_ratio", "loss_ratio", "driven")
COLUMNS = (*RUN_COLUMNS, *VERDICT_COLUMNS, *FIGURE_COLUMNS, *FIELD_NAMES, *_DERIVED)
"""Keys of a row, in order."""

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Characters that make a spreadsheet read text as a formula (OWASP, CSV injection)."""


def run_rows(store: CampaignStore, space: Space) -> Iterator[Row]:
    """Yield a row per run, in order, with None for unknown values.

    `delivered_bps` and `delivered_pps` are those of the host that received least. `tx_pause_ratio` and `loss_ratio` are
    the largest over the hosts. `bound_bps` is the median throughput of the plain sibling in this campaign. It is None
    if the specification decided and the sibling never ran.
    """
    bounds = Bounds(lambda _workload: UNBOUNDED, Calibration(), space)
    for record in store.runs(with_series=False):
        if record.purpose == "sibling" and isinstance(record.result, Measured):
            bounds.learn(record.workload, delivered(record.workload, record.result.measurement))
    for record in store.runs(with_series=False):
        yield _row(record, bounds)


def write_csv(rows: Iterator[Row], file: TextIO) -> None:
    """Write rows as CSV (RFC 4180) with a header. No cell can be read as a formula."""
    writer = csv.writer(file)
    writer.writerow(COLUMNS)
    for row in rows:
        writer.writerow([_cell(row[name]) for name in COLUMNS])


def _row(record: RunRecord, bounds: Bounds) -> Row:
    bound = bounds.tightest(record.workload).bps if bounds.known(record.workload) else None
    return {
        "run": record.run,
        "purpose": record.purpose,
        "elapsed_seconds": record.finished_at_seconds,
        "run_seconds": record.result.elapsed_seconds,
        "outcome": _OUTCOMES[type(record.result)],
        "problem": _problem(record.result),
        **_judged(record.verdict),
        **_figures(record.workload, record.result),
        "bound_bps": bound,
        "driven": record.driven,
        **render(record.workload),
        **{name: feature_value(record.workload, name) for name in _DERIVED},
    }


def _judged(verdict: Verdict | None) -> Row:
    if verdict is None:
        return dict.fromkeys(VERDICT_COLUMNS)
    symptom = verdict.symptom.value if verdict.symptom else None
    return dict(
        zip(
            VERDICT_COLUMNS,
            (verdict.outcome.value, symptom, verdict.severity, verdict.host, verdict.reason),
            strict=True,
        )
    )


_OUTCOMES: dict[type[RunResult], str] = {
    Measured: "measured",
    SetupFailed: "setup_failed",
    Unsupported: "unsupported",
    HostLost: "host_lost",
    PairLost: "pair_lost",
}


def _problem(result: RunResult) -> str | None:
    match result:
        case SetupFailed(cause, detail):
            return f"{cause}: {detail}"
        case Unsupported(reason):
            return reason
        case HostLost(name, detail) | PairLost(name, detail):
            return f"{name}: {detail}"
        case Measured(measurement):
            return measurement.stopped or "; ".join(measurement.problems) or None


def _figures(workload: Workload, result: RunResult) -> Row:
    names = ("delivered_bps", "delivered_pps", "tx_pause_ratio", "loss_ratio")
    if not isinstance(result, Measured):
        return dict.fromkeys(names)
    received = delivered(workload, result.measurement).values()
    return {
        "delivered_bps": min((bound.bps for bound in received), default=None),
        "delivered_pps": min((bound.pps for bound in received), default=None),
        "tx_pause_ratio": _largest(result.measurement, "tx_pause_ratio"),
        "loss_ratio": _largest(result.measurement, "loss_ratio"),
    }


def _largest(measurement: Measurement, name: str) -> float | None:
    readings = (getattr(host, name) for host in measurement.hosts)
    return max((reading for reading in readings if reading is not None), default=None)


def _cell(value: Any) -> Any:
    match value:
        case bool():
            return str(value).lower()
        case list() | tuple():
            return " ".join(map(str, value))
        case str() if value.startswith(_FORMULA):
            return f"'{value}"
    return value
