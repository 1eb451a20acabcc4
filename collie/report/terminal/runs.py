"""The runs of a campaign as rows."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from typing import Any, TextIO

from collie.campaign.phases import Place, with_places
from collie.campaign.siblings import delivered
from collie.detect.bounds import UNBOUNDED, Bounds, Calibration, at_own_mtu, host_bounds
from collie.detect.measurement import Latency
from collie.ports import CampaignStore, HostLost, Measured, PairLost, RunRecord, RunResult, SetupFailed, Unsupported
from collie.report.csv_cells import csv_cell
from collie.report.json.objects import OUTCOMES
from collie.report.quantities import percent, rate
from collie.report.terminal.table import table_with_text
from collie.workloads.feature import feature_value
from collie.workloads.space import Space
from collie.workloads.units import format_seconds
from collie.workloads.workload import FIELD_NAMES, render

Row = dict[str, Any]

_DERIVED = ("min_message_bytes", "max_message_bytes")  # a spreadsheet cannot filter by a list of sizes
COLUMNS = (
    *("run", "set_up", "phase", "purpose", "elapsed_seconds", "run_seconds", "outcome", "problem"),
    *("verdict", "symptom", "severity", "host", "reason"),
    *("delivered_bps", "delivered_pps", "bound_bps", "tx_pause_ratio", "loss_ratio", "driven"),
    *("latency_median_seconds", "latency_p99_seconds", "latency_p999_seconds", "victim_bps", "victim_lost_ratio"),
    *("victim_latency_median_seconds", "victim_latency_p99_seconds", "victim_latency_p999_seconds"),
    *FIELD_NAMES,
    *_DERIVED,
)
"""Keys of a row, in order."""

_HEADS = ("run", "phase", "at", "purpose", "verdict", "delivered", "bound", "pause", "why")


def run_rows(store: CampaignStore, space: Space) -> Iterator[Row]:
    """Yield a row per run, in order. None is unknown.

    Rates are those of the host that received least. `tx_pause_ratio` and `loss_ratio` are the largest over the hosts.
    The latency is that of the slowest flow. `victim_bps` is what the plain flow beside the workload received, and
    `victim_lost_ratio` the share of its throughput alone that it lost.
    `bound_bps` is what the verdict expects of that host. A run whose verdict has no bound, as a record of an earlier
    Collie, has the median of the plain sibling, or None if that never ran in this campaign.
    """
    bounds = Bounds(lambda _workload: UNBOUNDED, Calibration(), space)
    for record in store.runs(with_series=False):
        if record.purpose == "sibling" and isinstance(record.result, Measured):
            bounds.learn(record.workload, delivered(record.workload, record.result.measurement))
    for record, place in with_places(store.runs(with_series=False)):
        yield _row(record, place, bounds)


def write_csv(rows: Iterator[Row], file: TextIO) -> None:
    """Write CSV (RFC 4180) with a header. No cell can be read as a formula."""
    writer = csv.writer(file)
    writer.writerow(COLUMNS)
    for row in rows:
        writer.writerow([csv_cell(row[name]) for name in COLUMNS])


def runs_table(rows: Iterable[Row], width: int | None = None) -> Iterator[str]:
    """Yield the lines of a table of runs, for a terminal of this `width` (`table_with_text`)."""
    return table_with_text([_HEADS, *map(_figures, rows)], width)


def _figures(row: Row) -> tuple[str, ...]:
    return (
        str(row["run"]),
        "" if row["set_up"] == row["run"] else f"{row['phase']} on {row['set_up']}",
        format_seconds(row["elapsed_seconds"]),
        row["purpose"],
        (row["symptom"] or row["verdict"] or row["outcome"]).replace("_", " "),
        *("" if row[name] is None else rate(row[name]) for name in ("delivered_bps", "bound_bps")),
        "" if row["tx_pause_ratio"] is None else percent(row["tx_pause_ratio"]),
        " ".join((row["problem"] or row["reason"] or "").split()),
    )


def _row(record: RunRecord, place: Place, bounds: Bounds) -> Row:
    workload, verdict, result = record.workload, record.verdict, record.result
    row: Row = dict.fromkeys(COLUMNS)
    row |= render(workload)
    row |= {name: feature_value(workload, name) for name in _DERIVED}
    row |= {
        "run": record.run,
        "set_up": place.set_up,
        "phase": place.phase,
        "purpose": record.purpose,
        "elapsed_seconds": record.finished_at_seconds,
        "run_seconds": result.elapsed_seconds,
        "outcome": OUTCOMES[type(result)],
        "problem": _problem(result),
        "driven": record.driven,
    }
    if verdict is not None:
        row |= {
            "verdict": verdict.outcome.value,
            "symptom": verdict.symptom.value if verdict.symptom else None,
            "severity": verdict.severity,
            "host": verdict.host,
            "reason": verdict.reason,
        }
    if isinstance(result, Measured):
        received = delivered(workload, result.measurement)
        least = min(received, key=lambda host: received[host].bps, default=None)
        latency, victim = result.measurement.longest_latency or Latency(), result.measurement.victim
        of_victim = victim.latency if victim and victim.latency else Latency()
        row |= {
            "latency_median_seconds": latency.median_seconds,
            "latency_p99_seconds": latency.p99_seconds,
            "latency_p999_seconds": latency.p999_seconds,
            "victim_bps": None if victim is None else victim.beside_bps,
            "victim_lost_ratio": None if victim is None else victim.lost_ratio,
            "victim_latency_median_seconds": of_victim.median_seconds,
            "victim_latency_p99_seconds": of_victim.p99_seconds,
            "victim_latency_p999_seconds": of_victim.p999_seconds,
            "delivered_bps": None if least is None else received[least].bps,
            "delivered_pps": min((each.pps for each in received.values()), default=None),
            "bound_bps": None if least is None else _bound_bps(record, least, bounds),
            "tx_pause_ratio": _largest(host.tx_pause_ratio for host in result.measurement.hosts),
            "loss_ratio": _largest(host.loss_ratio for host in result.measurement.hosts),
        }
    return row


def _bound_bps(record: RunRecord, host: str, bounds: Bounds) -> float | None:
    workload, judged = record.workload, record.verdict
    if judged is not None and judged.bound_bps is not None:
        port = at_own_mtu(workload, judged.bound_bps, "verdict")
    elif bounds.known(workload):
        port = bounds.tightest(workload)
    else:
        return None
    return host_bounds(workload, port)[host].bps


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


def _largest(readings: Iterable[float | None]) -> float | None:
    return max((reading for reading in readings if reading is not None), default=None)
