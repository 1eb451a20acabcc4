"""A campaign without a file, for tests and for runs without a record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from collie.detect.bounds import Calibration
from collie.detect.measurement import Sample
from collie.detect.symptom import Verdict
from collie.errors import StoreError
from collie.ports import CampaignHeader, Measured, RunRecord
from collie.search.anomaly import Anomaly
from collie.store.codec import decode, encode


class MemoryStore:
    """A `ports.CampaignStore` in memory."""

    def __init__(self, header: CampaignHeader) -> None:
        # A resume compares headers. Encoding turns tuples into lists, as in a header from a file.
        self.header = decode(CampaignHeader, encode(header))
        self._runs: dict[int, RunRecord] = {}
        self._anomalies: dict[str, Anomaly] = {}
        self._calibration = Calibration()

    def add_run(self, record: RunRecord) -> None:
        """Record a run."""
        if record.run in self._runs:
            raise StoreError(f"run {record.run} is recorded already")
        self._runs[record.run] = record

    def annotate(self, run: int, verdict: Verdict | None, driven: str | None) -> None:
        """Record a verdict."""
        if run not in self._runs:
            raise StoreError(f"there is no run {run} to annotate")
        self._runs[run] = replace(self._runs[run], verdict=verdict, driven=driven)

    def runs(self, *, with_series: bool = True) -> Iterator[RunRecord]:
        """Yield the recorded runs."""
        for run in sorted(self._runs):
            yield self._runs[run] if with_series else self._runs[run].without_series

    def series(self, run: int) -> Sequence[Sample]:
        """Return the samples of a run."""
        result = self._runs[run].result if run in self._runs else None
        return result.measurement.series if isinstance(result, Measured) else ()

    def add_anomaly(self, anomaly: Anomaly) -> None:
        """Record an anomaly."""
        self._anomalies[anomaly.id] = anomaly

    def anomalies(self) -> tuple[Anomaly, ...]:
        """Return all anomalies."""
        return tuple(self._anomalies.values())

    def set_calibration(self, calibration: Calibration) -> None:
        """Record the calibration."""
        self._calibration = calibration

    def calibration(self) -> Calibration:
        """Return the calibration."""
        return self._calibration

    def close(self) -> None:
        """Do nothing: the object holds no resource."""
