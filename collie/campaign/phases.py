"""The phases of set-ups, in the order in which runs are on record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from collie.ports import RunRecord


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a run: the run that made its set-up, and the number of the phase on it, from 1."""

    set_up: int
    phase: int

    def __str__(self) -> str:
        return f"phase {self.phase} on the set-up of run {self.set_up}"


def with_places(records: Iterable[RunRecord]) -> Iterator[tuple[RunRecord, Place]]:
    """Yield each run with its place. A run with a set-up of its own is phase 1 on it.

    Args:
        records: all runs of a campaign, in order.
    """
    phases: Counter[int] = Counter()
    for record in records:
        set_up = record.run if record.set_up is None else record.set_up
        phases[set_up] += 1
        yield record, Place(set_up, phases[set_up])
