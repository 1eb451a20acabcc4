"""What a further phase costs on this testbed, learnt from the runs."""

from __future__ import annotations

from collie.ports import Measured, RunRecord

_EXPECTED = (30.0, 8.0)
"""Seconds of a run with a set-up of its own, and of a further phase, before anything is measured."""


class Pace:
    """The mean times of runs so far."""

    def __init__(self) -> None:
        self._seconds = list(_EXPECTED)
        self._runs = [1, 1]

    def learn(self, record: RunRecord) -> None:
        """Add a measured run."""
        if isinstance(record.result, Measured) and not record.result.measurement.stopped:
            kind = int(record.set_up not in (None, record.run))
            self._seconds[kind] += record.result.elapsed_seconds
            self._runs[kind] += 1

    @property
    def whole(self) -> float:
        """Mean time of a run with a set-up of its own, in seconds."""
        return self._seconds[0] / self._runs[0]

    @property
    def phase(self) -> float:
        """Mean time of a further phase, in units of `whole`."""
        return min(1.0, self._seconds[1] / self._runs[1] / self.whole)
