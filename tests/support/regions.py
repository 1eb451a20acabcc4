"""Workloads in and just outside the region that an anomaly's conditions describe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from collie.workloads.dimension import Choice, Vector
from collie.workloads.feature import Condition, Mfs, Op, feature_value, sources
from collie.workloads.space import Space
from collie.workloads.workload import EVEN, Direction, Memory, Opcode, QpType, Workload

_PAGE_BYTES = 4096
_LARGEST_MTU = 4096
_SWEEPS = 4
_TRIES = 40
_TOPOLOGY = ("direction", "loopback", "numa_node", "peer_numa_node", "memory", "peer_memory", "sge_split")
"""Dimensions that stay plain inside a region unless its conditions name them: each is a trap of its own."""
_NAMES_TOPOLOGY = {
    "direction": {"direction"},
    "loopback": {"loopback"},
    "far_hosts": {"numa_node", "peer_numa_node"},
    "gpu_hosts": {"memory", "peer_memory"},
    "min_segment_bytes": {"sge_split"},
    "max_segment_bytes": {"sge_split"},
}
_TRANSPORTS = [
    (qp_type, opcode)
    for qp_type in (QpType.RC, QpType.UC, QpType.UD)
    for opcode in (Opcode.WRITE, Opcode.SEND, Opcode.READ)
]


def inside(space: Space, conditions: Mfs, trigger: Workload, rng: Random) -> Workload:
    """Draw a workload that satisfies all conditions; what they do not name is random, topology plain.

    Each dimension in turn is drawn from those values that keep the conditions and the space's constraints, several
    times over, starting from the trigger: rejection would take years in a region of one point in a million.
    """
    named = {condition.dimension for condition in conditions.conditions}
    free = {name for feature in named for name in _NAMES_TOPOLOGY.get(feature, ())}
    plain = {name: space.base.get(name) for name in _TOPOLOGY if name in space.dimensions and name not in free}
    workload = trigger.with_(**{name: value for name, value in plain.items() if name in space.dimensions})
    if not (conditions.covers(workload) and space.allows(workload)):
        workload = trigger
    names = [name for name in space.dimensions if name not in plain]
    redrawing = Redrawing(space, conditions, workload)
    for _ in range(_SWEEPS):
        rng.shuffle(names)
        for name in names:
            redrawing.redraw(name, rng)
    return redrawing.workload


class _Draft(Workload):
    """A workload that can be changed in place, as most of the values that are tried do not fit."""

    __slots__ = ()

    def put(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)


class Redrawing:
    """Draws one dimension at a time anew, from the values of its ladder that keep conditions and constraints.

    It goes on from a workload that keeps them all.
    """

    def __init__(self, space: Space, conditions: Mfs, start: Workload) -> None:
        self._space, self._mfs = space, conditions
        self._draft = _Draft(**start.named())
        # A change of one dimension keeps what does not read it.
        self._conditions = {
            name: [each for each in conditions.conditions if name in sources(each.dimension)]
            for name in space.dimensions
        }
        self._constraints = {
            name: [each.check for each in space.constraints if name in each.fields] for name in space.dimensions
        }

    @property
    def workload(self) -> Workload:
        """The present workload."""
        return Workload(**self._draft.named())

    def redraw(self, name: str, rng: Random) -> None:
        """Give a dimension another value. It keeps the present one if no other fits."""
        draft, dimension = self._draft, self._space.dimensions[name]
        if isinstance(dimension, Vector):
            self._redraw_messages(dimension, rng)
            return
        values = list(dimension.values if isinstance(dimension, Choice) else dimension.ladder)
        rng.shuffle(values)
        before = draft.get(name)
        for value in values:
            draft.put(**{name: value})
            if self._keeps(name):
                return
        draft.put(**{name: before})

    def _redraw_messages(self, dimension: Vector, rng: Random) -> None:
        draft = self._draft
        length = rng.randint(1, dimension.max_length)
        longest = draft.mtu if draft.qp_type is QpType.UD else dimension.element.high
        sizes = [size for size in dimension.element.ladder if size <= longest]
        before = {name: draft.get(name) for name in ("messages", "mr_bytes", "mtu")}
        for _ in range(_TRIES):
            draft.put(messages=tuple(rng.choice(sizes) for _ in range(length)))
            draft.put(**_room(draft))
            if self._mfs.covers(draft) and self._space.allows(draft):
                return
            draft.put(**before)

    def _keeps(self, name: str) -> bool:
        draft = self._draft
        for condition in self._conditions[name]:  # loops, as all() takes longer
            if not condition.holds(draft):
                return False
        for check in self._constraints[name]:  # noqa: SIM110
            if check(draft) is not None:
                return False
        return True


def _room(workload: Workload) -> dict[str, int]:
    """Return the region and the MTU for the longest message: it lies in one region, and a UD message in one packet."""
    longest = max(workload.messages)
    mr_bytes = max(workload.mr_bytes, -(-longest // _PAGE_BYTES) * _PAGE_BYTES)
    return {"mr_bytes": mr_bytes, "mtu": max(workload.mtu, longest) if workload.qp_type is QpType.UD else workload.mtu}


def _fitting(workload: Workload) -> Workload:
    return workload.with_(**_room(workload))


def broken(space: Space, trigger: Workload, condition: Condition) -> list[Workload]:
    """Return the trigger with one condition broken, in every way that the condition's feature has.

    An ordered feature goes beyond its threshold by a factor of two, any other takes each of its other values. What
    cannot be run is left out.
    """
    found = [
        candidate
        for candidate in map(_fitting, _changed(trigger, condition))
        if not condition.holds(candidate) and not space.violations(candidate) and candidate.mtu <= _LARGEST_MTU
    ]
    return list(dict.fromkeys(found))


def _changed(trigger: Workload, condition: Condition) -> Iterator[Workload]:
    feature = condition.dimension
    match feature:
        case "direction":
            yield trigger.with_(direction=Direction.UNIDIRECTIONAL)
        case "loopback":
            yield trigger.with_(loopback=not trigger.loopback)
        case "qp_type" | "opcode":
            # Table 2 has one column for both; a READ has no UC, so both may have to change.
            for qp_type, opcode in _TRANSPORTS:
                if (qp_type, opcode) != (trigger.qp_type, trigger.opcode):
                    yield trigger.with_(qp_type=qp_type, opcode=opcode)
        case "far_hosts":
            yield trigger.with_(numa_node=0, peer_numa_node=0)
        case "gpu_hosts":
            yield trigger.with_(memory=Memory.DRAM, peer_memory=Memory.DRAM)
        case "sge_count":
            count = _beyond(condition)
            split = trigger.sge_split if isinstance(trigger.sge_split, str) else trigger.sge_split[: count - 1]
            yield trigger.with_(sge_count=count, sge_split=split or EVEN)
            if count > 1:
                yield trigger.with_(sge_count=1, sge_split=EVEN)
        case "min_segment_bytes" | "max_segment_bytes":
            yield from _other_segments(trigger, condition)
        case "min_message_bytes" | "max_message_bytes":
            limit = _beyond(condition)
            longer = condition.op is Op.AT_LEAST
            observed = [size >= condition.value if longer else size <= condition.value for size in trigger.messages]
            kept = [limit if meets else size for size, meets in zip(trigger.messages, observed, strict=True)]
            yield trigger.with_(messages=tuple(kept), sge_split=EVEN)
        case "total_qps":
            yield trigger.with_(qps=max(1, _beyond(condition) // trigger.directions))
        case "total_mrs":
            yield trigger.with_(mrs_per_qp=max(1, _beyond(condition) // trigger.qps))
        case "wqe_batch":
            batch = _beyond(condition)
            depths = max(batch, trigger.send_wq_depth), max(batch, trigger.recv_wq_depth)
            yield trigger.with_(wqe_batch=batch, send_wq_depth=depths[0], recv_wq_depth=depths[1])
        case _:
            yield trigger.with_(**{feature: _beyond(condition)})


def _other_segments(trigger: Workload, condition: Condition) -> Iterator[Workload]:
    """Replace the segments on the wrong side, keeping the number and order of the rest."""
    limit = _beyond(condition)
    segments: Sequence[int] = trigger.segments()[0]
    if condition.op is Op.AT_MOST:
        kept = [limit if size <= condition.value else size for size in segments]
    else:
        kept = [limit if size >= condition.value else size for size in segments]
    yield trigger.with_(sge_split=tuple(kept[:-1]) or EVEN, messages=(sum(kept),))
    yield trigger.with_(sge_split=EVEN)


def _beyond(condition: Condition) -> int:
    """Return the value a factor of two beyond the threshold."""
    value = int(condition.value)
    return max(1, value // 2) if condition.op is Op.AT_LEAST else 2 * value


def names(workload: Workload, trigger: Workload, condition: Condition) -> str:
    """Say what was changed, for a table or a test's name."""
    feature = condition.dimension
    if feature in {"qp_type", "opcode"}:
        return f"{workload.qp_type} {workload.opcode}"
    return f"{feature} {feature_value(trigger, feature)} -> {feature_value(workload, feature)}"
