"""The workloads of an application that are most likely to be slow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from collie.advise.effort import CHECK_STEPS, Effort, Undecided
from collie.advise.overlap import Known, is_ordered
from collie.advise.solver import find
from collie.workloads.application import Application, Traffic
from collie.workloads.feature import Mfs
from collie.workloads.workload import Workload


@dataclass(frozen=True, slots=True)
class Corner:
    """One workload of an application, and why it was chosen."""

    traffic: str
    why: str
    workload: Workload


def corners(application: Application, known: Sequence[Known]) -> tuple[Corner, ...]:
    """Return workloads of each kind of traffic, without repetition.

    First those with which known anomalies show, then the heaviest: every ordered dimension at its greatest value, with
    the longest and with the shortest messages.
    """
    effort = Effort(CHECK_STEPS)
    found: dict[Workload, Corner] = {}
    for traffic in application.traffic:
        for corner in _of(application, traffic, known, effort):
            found.setdefault(corner.workload, corner)
    return tuple(found.values())


def _of(application: Application, traffic: Traffic, known: Sequence[Known], effort: Effort) -> Iterator[Corner]:
    space = application.space
    wanted: list[tuple[str, Mfs | None, Workload]] = [(each.id, each.mfs, each.seen) for each in known]
    heaviest = traffic.base.with_(
        **{name: values[-1] for name, values in traffic.values.items() if is_ordered(space, name)}
    )
    for size, end in (("longest", -1), ("shortest", 0)):
        wanted.append((f"heaviest, {size} messages", None, heaviest.with_(messages=(traffic.sizes.values[end],))))
    for why, mfs, near in wanted:
        try:
            workload = find(traffic, space, mfs, near, effort.part())
        except Undecided:
            continue  # a check says so; here it is only not measured
        if workload is not None:
            yield Corner(traffic.name, why, workload)
