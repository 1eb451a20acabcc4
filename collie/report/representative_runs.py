"""The runs that represent an anomaly and plain traffic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from collie.detect.measurement import Measurement, Victim
from collie.detect.plain import plain_sibling
from collie.ports import Measured, RunRecord
from collie.search.anomaly import Anomaly
from collie.workloads.setup import SetUp
from collie.workloads.space import Space
from collie.workloads.workload import Workload


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


def siblings(workload: Workload, space: Space) -> tuple[Workload, ...]:
    """Return the plain sibling of a workload, and the one that imitates its control verbs if it makes any."""
    imitating = (workload.with_(control_verbs_imitated=True),) if workload.makes_control_verbs else ()
    return tuple(plain_sibling(each, space) for each in (workload, *imitating))


def sibling_run(displayed: RunRecord | None, records: Iterable[RunRecord], space: Space | None) -> RunRecord | None:
    """Return the run of the plain sibling with the highest throughput.

    Beside what a victim shows, it is the run in which a victim keeps the median, of the sibling beside which it keeps
    less. The verdict compares with that.
    """
    if displayed is None or space is None:
        return None
    known = [record for record in records if isinstance(record.result, Measured)]
    ran = [
        _undisturbed([record for record in known if record.workload == sibling])
        for sibling in siblings(displayed.workload, space)
    ]
    symptom = displayed.verdict.symptom if displayed.verdict is not None else None
    if symptom is None or not symptom.is_of_victim:
        return max(ran[0], key=_delivered, default=None)
    usual = [sorted(runs, key=_kept)[len(runs) // 2] for runs in ran if runs]
    return min(usual, key=_kept, default=None)


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


def _kept(record: RunRecord) -> float:
    victim = victim_in(record)
    return (victim.beside_bps or 0.0) if victim else 0.0


def _delivered(record: RunRecord) -> float:
    measurement = measurement_of(record)
    return max((host.delivered_bps or 0.0 for host in measurement.hosts), default=0.0) if measurement else 0.0
