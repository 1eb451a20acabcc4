"""Steps of the model: how much one unit of one dimension decides.

From each witness of a subsystem, each ordered dimension walks over its ladder. Neighbours that differ by more than
`MAX_STEP` in any reading are bisected down to one unit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Final

from collie.detect.bounds import remembered_siblings
from collie.simulator.capabilities import unsupported_reason
from collie.simulator.hardware import Subsystem
from collie.simulator.model import SteadyState, evaluate
from collie.simulator.subsystem import SubsystemFile
from collie.workloads.dimension import Ordered, Vector
from collie.workloads.plan import sinks
from collie.workloads.space import Space
from collie.workloads.workload import Workload

MAX_STEP: Final = 0.10
"""Share of the sibling's throughput, or of the time in pause."""
SMALL_INTEGER: Final = 16
"""One unit of a smaller count is more than 6 % of it."""

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
            yield Walk(name, dimension.ladder, dimension.step, lambda value, name=name: _roomy(trigger, name, value), False)
        elif isinstance(dimension, Vector):
            sizes, step = dimension.element.ladder, dimension.element.step
            if isinstance(trigger.sge_split, str):
                for position in _distinct(trigger.messages):
                    yield Walk(
                        f"messages[{position}]",
                        sizes,
                        step,
                        lambda value, at=position: _sized(trigger, _put(trigger.messages, at, value)),
                        True,
                    )
            else:
                for position in range(len(trigger.sge_split)):
                    yield Walk(
                        f"sge_split[{position}]",
                        sizes,
                        step,
                        lambda value, at=position: _split(trigger, _put(trigger.sge_split, at, value)),
                        True,
                    )


def steps(file: SubsystemFile, space: Space) -> Iterator[Step]:
    """Return the single units that decide more than `MAX_STEP`, exempt ones included."""
    hardware = file.hardware
    readings = _readings(hardware, space)
    for witness in file.witnesses:
        for walk in walks(space, witness.trigger):
            runnable = [value for value in walk.ladder if _runs(hardware, space, walk.at(value))]
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
        return (*_shares(state, plain), *state.pause_ratio())

    return of


def _shares(state: SteadyState, plain: SteadyState) -> tuple[float, ...]:
    """Return per host the delivered share of the sibling's best host: the larger of bits/s and packets/s."""
    bps, pps = max(plain.delivered_bps()), max(plain.delivered_pps())
    pairs = zip(state.delivered_bps(), state.delivered_pps(), strict=True)
    return tuple(min(1.0, max(bits / bps, packets / pps)) for bits, packets in pairs)


def _exempt(walk: Walk, low: int, high: int) -> str | None:
    if not walk.is_size and low < SMALL_INTEGER:
        return "an integer below 16: one unit is more than 6 % of it"
    if walk.is_size and walk.at(low).messages and _packets(walk.at(low)) != _packets(walk.at(high)):
        return "one packet more"
    return None


def _packets(workload: Workload) -> int:
    return sum(-(-size // workload.mtu) for size in workload.messages)


def _runs(hardware: Subsystem, space: Space, workload: Workload) -> bool:
    return not space.violations(workload) and unsupported_reason(hardware, workload) is None


def _roomy(trigger: Workload, name: str, value: int) -> Workload:
    changed = trigger.with_(**{name: value})
    if name == "wqe_batch":
        return changed.with_(
            send_wq_depth=max(value, trigger.send_wq_depth), recv_wq_depth=max(value, trigger.recv_wq_depth)
        )
    return changed


def _put(sizes: Sequence[int], position: int, value: int) -> tuple[int, ...]:
    return (*sizes[:position], value, *sizes[position + 1 :])


def _sized(trigger: Workload, messages: tuple[int, ...]) -> Workload:
    return trigger.with_(messages=messages, mr_bytes=max(trigger.mr_bytes, -(-max(messages) // 4096) * 4096))


def _split(trigger: Workload, split: tuple[int, ...]) -> Workload:
    rest = max(trigger.messages) - sum(trigger.sge_split)  # type: ignore[arg-type]  # a split of bytes
    message = sum(split) + max(1, rest)
    return trigger.with_(sge_split=split, messages=(message,), mr_bytes=max(trigger.mr_bytes, 8 * 1024 * 1024))


def _distinct(messages: Sequence[int]) -> list[int]:
    return [messages.index(size) for size in dict.fromkeys(messages)]
