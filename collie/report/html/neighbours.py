"""Who holds up whom: the anomalies in which a victim shows the symptom, as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from collie.detect.measurement import Victim
from collie.detect.victims import VICTIM_BYTES
from collie.report.html.finding import AnomalyView
from collie.report.html.readings import CounterComparison
from collie.report.quantities import rate
from collie.search.anomaly import Anomaly
from collie.workloads.units import format_bytes

_KEPT, _LATE = "victim/beside_bps", "victim/latency/p99_seconds"
_COUNTERS = 2


@dataclass(frozen=True, slots=True)
class Bar:
    """What a victim keeps, as shares of its throughput alone: beside the workload, and beside the plain sibling."""

    kept: float
    usual: float

    @property
    def lost(self) -> float:
        """Share that it keeps beside the plain sibling and not beside the workload."""
        return max(0.0, self.usual - self.kept)


@dataclass(frozen=True, slots=True)
class Neighbour:
    """One anomaly of a victim.

    Attributes:
        resource: the component that the moved counters blame. Empty if none moved.
        counters: the counters that moved most.
        aggressor: the simplest workload in words.
        victim: the plain flow in words.
        kept, late: what the victim receives, and the latency of 99 % of its messages, here and beside the sibling.
        bar: None if a part is unknown.
    """

    rank: int
    anomaly: Anomaly
    run: int
    sibling_run: int | None
    resource: str
    counters: tuple[str, ...]
    aggressor: str
    victim: str
    kept: CounterComparison
    late: CounterComparison | None
    bar: Bar | None


def neighbours_of(findings: Sequence[AnomalyView]) -> tuple[Neighbour, ...]:
    """Return the anomalies of victims in the order of the findings, the worst first."""
    return tuple(_neighbours(findings))


def _neighbours(findings: Sequence[AnomalyView]) -> Iterator[Neighbour]:
    for found in findings:
        readings = {reading.source: reading for reading in found.readings}
        if not found.anomaly.symptom.is_of_victim or found.run is None or found.victim is None:
            continue
        kept = readings[_KEPT]
        yield Neighbour(
            rank=found.rank,
            anomaly=found.anomaly,
            run=found.run,
            sibling_run=found.sibling_run,
            resource=found.anomaly.component,
            counters=tuple(row.counter for row in found.counters[:_COUNTERS]),
            aggressor=_aggressor(found),
            victim=_words(found.victim),
            kept=kept,
            late=readings.get(_LATE),
            bar=_bar(kept, found.victim.alone_bps),
        )


def _aggressor(found: AnomalyView) -> str:
    workload = found.anomaly.workload
    told = {"qp_type", "opcode", "more_opcodes"}
    differences = [f"{row.name} {row.here}" for row in found.differences if row.name not in told]
    return f"{workload.qp_type} {'/'.join(workload.opcodes)}: {', '.join(differences) or 'plain traffic'}"


def _words(victim: Victim) -> str:
    load = f"offers {rate(victim.offered_bps)}" if victim.offered_bps else "full send queue"
    return f"RC WRITE of {format_bytes(VICTIM_BYTES)}, {load}"


def _bar(kept: CounterComparison, alone_bps: float | None) -> Bar | None:
    if not alone_bps or kept.here is None:
        return None
    usual = alone_bps if kept.sibling is None else kept.sibling
    return Bar(min(1.0, kept.here / alone_bps), min(1.0, usual / alone_bps))
