"""Steps of the model: how much one unit of one dimension decides.

From each witness of a subsystem, each ordered dimension walks over its ladder and points between. Neighbours that
differ by more than `MAX_STEP` in any reading are bisected down to one unit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from typing import Final

from collie.detect.plain import remembered_siblings
from collie.simulator.capabilities import unsupported_reason
from collie.simulator.hardware import Subsystem
from collie.simulator.model import SteadyState, evaluate
from collie.simulator.subsystem import SubsystemFile
from collie.workloads.dimension import Ordered, Vector
from collie.workloads.space import Space
from collie.workloads.workload import Workload

MAX_STEP: Final = 0.10
"""Share of the sibling's throughput, or of the time in pause."""
_BETWEEN: Final = 7
_PAGE_BYTES: Final = 4096
SMALL_INTEGER: Final = 16
"""One unit of a smaller count is more than 6 % of it."""

_SMALL_INTEGERS: Final = {
    "qps": "one queue pair more among few: its WQE fetches, its window and its receives",
    "wqe_batch": "one message more among few per doorbell, WQE fetch and context",
    "sge_count": "one entry more: from some counts on a WQE has one more block, or a receive twice the stride",
    "send_wq_depth": "one message more in a window of few",
    "recv_wq_depth": "one receive more in a ring of few",
    "mrs_per_qp": "one region more among few",
}
"""Reasons for steps of integers below `SMALL_INTEGER`."""

Readings = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """Two workloads that differ by one unit of one dimension, and the largest difference of their readings.

    Attributes:
        walk: the dimension, with the position for one of several sizes.
        exempt: the physical reason for a large step, or None.
    """

    mechanism: str
    walk: str
    low: int
    high: int
    size: float
    exempt: str | None


@dataclass(frozen=True, slots=True)
class Walk:
    """One ordered dimension through a workload: its ladder, its unit, and the workload with another value."""

    name: str
    ladder: Sequence[int]
    unit: int
    at: Callable[[int], Workload]
    is_size: bool


def walks(space: Space, trigger: Workload) -> Iterator[Walk]:
    """Return every ordered dimension through a workload. Each size of its vector and of its split walks alone."""
    for name, dimension in space.dimensions.items():
        if isinstance(dimension, Ordered) and not dimension.ladder_only:
            yield Walk(name, dimension.ladder, dimension.step, partial(_counted, trigger, name), False)
        elif isinstance(dimension, Vector):
            split = trigger.sge_split
            at = partial(_sized, trigger) if isinstance(split, str) else partial(_split, trigger, split)
            sizes = trigger.messages if isinstance(split, str) else split
            for position in map(sizes.index, dict.fromkeys(sizes)):
                ladder, unit = dimension.element.ladder, dimension.element.step
                yield Walk(f"{name}[{position}]", ladder, unit, partial(at, position), True)


def steps(file: SubsystemFile, space: Space) -> Iterator[Step]:
    """Return the single units that decide more than `MAX_STEP`, exempt ones included."""
    hardware = file.hardware
    readings = _readings(hardware, space)
    for witness in file.witnesses:
        for walk in walks(space, witness.trigger):
            runnable = [value for value in _refined(walk) if _runs(hardware, space, walk.at(value))]
            for low, high in pairwise(runnable):
                for found in _bisected(readings, walk, low, high):
                    low_value, high_value, size = found
                    yield Step(
                        witness.mechanism.value,
                        walk.name,
                        low_value,
                        high_value,
                        size,
                        _exempt(walk, low_value, high_value),
                    )


def _refined(walk: Walk) -> Iterator[int]:
    """Yield the ladder with points between, so that what rises and falls again between two steps is seen."""
    for low, high in pairwise(walk.ladder):
        between = (round((high - low) * part / (_BETWEEN + 1) / walk.unit) * walk.unit for part in range(_BETWEEN + 1))
        yield from dict.fromkeys(low + step for step in between)
    yield walk.ladder[-1]


def _bisected(
    readings: Callable[[Workload], Readings], walk: Walk, low: int, high: int
) -> Iterator[tuple[int, int, float]]:
    """Follow every half whose ends differ by more than `MAX_STEP`."""
    size = _apart(readings(walk.at(low)), readings(walk.at(high)))
    if size <= MAX_STEP:
        return
    middle = low + (high - low) // walk.unit // 2 * walk.unit
    if middle in (low, high):
        yield low, high, size
        return
    yield from _bisected(readings, walk, low, middle)
    yield from _bisected(readings, walk, middle, high)


def _apart(one: Readings, other: Readings) -> float:
    return max(abs(a - b) for a, b in zip(one, other, strict=True))


def _readings(hardware: Subsystem, space: Space) -> Callable[[Workload], Readings]:
    """Return a function from a workload to its delivered shares and its pause, both per host."""

    siblings = remembered_siblings(space)

    @cache
    def of(workload: Workload) -> Readings:
        state = evaluate(hardware, workload)
        plain = evaluate(hardware, siblings(workload))
        return (*shares_of_sibling(state, plain), *state.pause_ratio())

    return of


def shares_of_sibling(state: SteadyState, plain: SteadyState) -> tuple[float, ...]:
    """Return per host the delivered share of the sibling's best host: the larger of bits/s and packets/s."""
    bps, pps = max(plain.delivered_bps()), max(plain.delivered_pps())
    pairs = zip(state.delivered_bps(), state.delivered_pps(), strict=True)
    return tuple(min(1.0, max(bits / bps, packets / pps)) for bits, packets in pairs)


def _exempt(walk: Walk, low: int, high: int) -> str | None:
    if walk.is_size:
        return "one packet more" if _packets(walk.at(low)) != _packets(walk.at(high)) else None
    return _SMALL_INTEGERS.get(walk.name) if low < SMALL_INTEGER else None


def _packets(workload: Workload) -> int:
    return sum(-(-size // workload.mtu) for size in workload.messages)


def _runs(hardware: Subsystem, space: Space, workload: Workload) -> bool:
    return not space.violations(workload) and unsupported_reason(hardware, workload) is None


def _counted(trigger: Workload, name: str, value: int) -> Workload:
    changed = trigger.with_(**{name: value})
    batch = changed.wqe_batch
    return changed.with_(
        send_wq_depth=max(batch, changed.send_wq_depth), recv_wq_depth=max(batch, changed.recv_wq_depth)
    )


def _sized(trigger: Workload, position: int, size: int) -> Workload:
    return _fitting(trigger.with_(messages=_put(trigger.messages, position, size)))


def _split(trigger: Workload, split: tuple[int, ...], position: int, size: int) -> Workload:
    rest = max(1, max(trigger.messages) - sum(split))
    changed = _put(split, position, size)
    return _fitting(trigger.with_(sge_split=changed, messages=(sum(changed) + rest,)))


def _put(sizes: tuple[int, ...], position: int, value: int) -> tuple[int, ...]:
    return (*sizes[:position], value, *sizes[position + 1 :])


def _fitting(workload: Workload) -> Workload:
    return workload.with_(mr_bytes=max(workload.mr_bytes, -(-max(workload.messages) // _PAGE_BYTES) * _PAGE_BYTES))
