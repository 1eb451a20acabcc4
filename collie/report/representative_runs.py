"""The runs that represent an anomaly and plain traffic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from collie.detect.measurement import Measurement, Victim
from collie.detect.plain import plain_sibling
from collie.ports import Measured, RunRecord
from collie.search.anomaly import Anomaly
from collie.workloads.setup import SetUp
from collie.workloads.space import Space


def quoted_run(anomaly: Anomaly, records: Sequence[RunRecord]) -> RunRecord | None:
    """Return the run of the anomaly's workload whose figures its sentence quotes.

    A record of an earlier version can quote a run of the workload that was found, or none: then the run of middle
    severity of that, or the run that raised the suspicion.
    """
    shown = [record for record in records if _shows(record, anomaly)]
    quoted = [r for r in shown if r.verdict is not None and r.verdict.reason == anomaly.reason]
    own = [record for record in quoted if record.workload == anomaly.workload]
    found = [r for r in shown if r.purpose == "confirm" and r.workload == anomaly.found_as]
    raised = [r for r in records if r.run == anomaly.found_at_run and isinstance(r.result, Measured)]
    return _middle(own) or _middle(quoted) or _middle(found) or next(iter(raised), None)


def sibling_run(displayed: RunRecord | None, records: Iterable[RunRecord], space: Space | None) -> RunRecord | None:
    """Return the run of the plain sibling with the highest throughput."""
    if displayed is None or space is None:
        return None
    sibling = plain_sibling(displayed.workload, space)
    ran = [record for record in records if record.workload == sibling and isinstance(record.result, Measured)]
    return max(_undisturbed(ran), key=_delivered, default=None)


def measurement_of(record: RunRecord | None) -> Measurement | None:
    """Return the measurement of a run, if it has one."""
    return record.result.measurement if record is not None and isinstance(record.result, Measured) else None


def victim_in(record: RunRecord | None) -> Victim | None:
    """Return the victim beside a run, if it had one."""
    measurement = measurement_of(record)
    return measurement.victim if measurement else None


def number_of(record: RunRecord | None) -> int | None:
    """Return a run's number."""
    return None if record is None else record.run


def _shows(record: RunRecord, anomaly: Anomaly) -> bool:
    return record.verdict is not None and record.verdict.symptom is anomaly.symptom


def _undisturbed(records: Sequence[RunRecord]) -> Sequence[RunRecord]:
    """Return the runs whose set-up was made for their workload alone, or all if there are none."""
    own = [r for r in records if r.made_for is None or SetUp(r.made_for).is_own(r.workload)]
    return own or records


def _middle(records: Sequence[RunRecord]) -> RunRecord | None:
    ranked = sorted((r.verdict.severity if r.verdict is not None else 0.0, r.run, r) for r in records)
    return ranked[len(ranked) // 2][2] if ranked else None


def _delivered(record: RunRecord) -> float:
    measurement = measurement_of(record)
    return max((host.delivered_bps or 0.0 for host in measurement.hosts), default=0.0) if measurement else 0.0
