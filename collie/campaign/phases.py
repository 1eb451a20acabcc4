"""The phases of set-ups: the set-up of the next run, and the places of those on record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from collie.campaign.lanes import Lane, PhaseOf
from collie.ports import RunRecord
from collie.search.phases import answers, roomy
from collie.workloads.space import Space
from collie.workloads.workload import Workload


def standing_or_new(lane: Lane, space: Space, workload: Workload, *likely: Workload) -> PhaseOf:
    """Return the set-up that stands if a workload fits it, else one with room for it and those that are likely next."""
    if lane.set_up is not None and answers(space, workload, lane.set_up):
        return PhaseOf(lane.set_up.made_for)
    return PhaseOf(roomy(space, workload, *likely), first=True)


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
