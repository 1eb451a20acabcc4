"""Moving a finding as near to plain as it shows (first phase of `search.extract`)."""

from __future__ import annotations

from collections.abc import Generator

from collie.detect.symptom import Verdict
from collie.search.prober import Prober
from collie.workloads.dimension import Vector
from collie.workloads.space import Space
from collie.workloads.workload import Workload

_OFTEN = frozenset({"direction", "qp_type", "opcode", "mtu", "wqe_batch", "qps", "messages"})
_AT_TIMES = (("sge_count", "sge_split", "recv_wq_depth"),)
"""Columns of the paper's Table 2. Those of the first line matter to every second or third anomaly, so that testing two
at once seldom pays; those of the second to one in four; all other dimensions hardly ever do."""


def simplify(
    prober: Prober, space: Space, workload: Workload, needed: int
) -> Generator[Workload, Verdict | None, Workload]:
    """Return a workload that shows and differs from plain only where it has to.

    Args:
        prober: the funnel.
        space: gives plain values.
        workload: the finding.
        needed: runs that have to show before a move is made.
    """
    prober.plain_refuted.clear()
    current = workload
    for names in _groups(space, workload):
        current = yield from _make_plain(prober, space, current, names, needed)
    for name, dimension in space.dimensions.items():
        if isinstance(dimension, Vector):
            current = yield from _simplify_messages(prober, current, name, needed)
    return current


def _groups(space: Space, workload: Workload) -> list[list[str]]:
    """Return dimensions to make plain at once: many that seldom matter, few of those that often do."""
    names = [name for name in space.dimensions if workload.get(name) != space.base.get(name)]
    groups = [[name for name in names if name in group] for group in _AT_TIMES]
    often = [[name] for name in names if name in _OFTEN]
    seldom = [name for name in names if name not in _OFTEN and not any(name in group for group in _AT_TIMES)]
    return [seldom, *groups, *often]


def _make_plain(
    prober: Prober, space: Space, current: Workload, names: list[str], needed: int
) -> Generator[Workload, Verdict | None, Workload]:
    names = [name for name in names if current.get(name) != space.base.get(name)]
    if not names:
        return current
    candidate = current.with_(**{name: space.base.get(name) for name in names})
    if (yield from prober.surely_shows(candidate, needed)):
        prober.settle(candidate)
        return candidate
    if len(names) == 1:
        if prober.is_healthy(candidate):
            prober.plain_refuted.add(names[0])
        return current
    middle = len(names) // 2
    current = yield from _make_plain(prober, space, current, names[:middle], needed)
    return (yield from _make_plain(prober, space, current, names[middle:], needed))


def _simplify_messages(
    prober: Prober, current: Workload, name: str, needed: int
) -> Generator[Workload, Verdict | None, Workload]:
    sizes: tuple[int, ...] = current.get(name)
    if len(sizes) == 1:
        return current
    shorter: list[tuple[int, ...]] = [(size,) for size in sorted({min(sizes), max(sizes)})]
    if len(set(sizes)) > 1 and len(sizes) > 2:
        shorter += [(min(sizes), max(sizes)), (max(sizes), min(sizes))]
    for candidate in (current.with_(**{name: value}) for value in shorter):
        if (yield from prober.surely_shows(candidate, needed)):
            prober.settle(candidate)
            return candidate
    return current
