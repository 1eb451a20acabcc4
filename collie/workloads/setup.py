"""Set-ups and phases: what a run makes once, and what may change while that stands.

A *set-up* is the queue pairs, memory regions and connections of a run. A *phase* is one workload measured on it. Making
a set-up takes most of a run's time, so workloads that need the same one can share it. The verbs API decides what they
can share:

1. *Set-up dimensions* are attributes of queue pairs, regions and hosts. They are equal in all phases.
2. *Traffic dimensions* are attributes of work requests. They change freely.
3. *Capacities* are numbers of queue pairs and regions, sizes of regions, queues and gather lists, and the flows between
   hosts. A phase may use a part of them.

A capacity changes hardware even where it is not used: a longer gather list makes longer work requests. So a set-up with
more capacity than a workload needs answers a search. Confirmations and the limits of an explanation take a set-up that
is made for the workload alone (`is_own`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from collie.workloads.workload import BESIDE_TRAFFIC, FIELD_NAMES, Direction, QpType, Workload, reader


class Changes(StrEnum):
    """What a new value of a dimension takes: a new set-up, or only other traffic on the same one."""

    SETUP = "setup"
    TRAFFIC = "traffic"


CAPACITIES = ("qps", "mrs_per_qp", "mr_bytes", "sge_count", "send_wq_depth", "recv_wq_depth")
"""Dimensions of which a phase may use less than its set-up has."""

_FLOWS = ("direction", "loopback")
_REQUESTS = ("opcode", "more_opcodes", "wqe_batch", "signal_every", "sge_split", "messages", "offered_bps", "fence")
_PATH = ("traffic_class", "hop_limit")
"""Attributes of an address handle with UD, of the queue pair otherwise."""

TRAFFIC = frozenset((*_REQUESTS, *BESIDE_TRAFFIC, *_FLOWS, *CAPACITIES, *_PATH))
"""Dimensions that can change between phases, at least for some transport."""

_made = reader([name for name in FIELD_NAMES if name not in TRAFFIC])
_path = reader(_PATH)
_capacity = reader(CAPACITIES)
_RECEIVED = ("wqe_batch", "messages", "sge_count", "sge_split", "recv_wq_depth", "mrs_per_qp", "qps")
"""Dimensions that shape the receives of a shared receive queue, which stay posted from phase to phase."""
_received = reader(_RECEIVED)


def changes_with(dimension: str) -> Changes:
    """Return what the verbs API demands for a new value of a dimension."""
    return Changes.TRAFFIC if dimension in TRAFFIC else Changes.SETUP


@dataclass(frozen=True, slots=True)
class SetUp:
    """A set-up and the phases that it has had.

    Attributes:
        made_for: the workload that determines it. It need not have run itself.
        before: workloads measured on it, in order.
    """

    made_for: Workload
    before: tuple[Workload, ...] = ()

    def after(self, workload: Workload) -> SetUp:
        """Return this set-up after one more phase."""
        return replace(self, before=(*self.before, workload))

    def fixes(self, dimension: str) -> bool:
        """Whether phases keep a value of the set-up because receives of its shape stay posted for all of them."""
        return self.made_for.srq and dimension in _RECEIVED and _receives(self.made_for)

    def offers(self, dimension: str, value: Any) -> bool:
        """Whether a phase can have a value, as far as this dimension alone decides."""
        made = self.made_for.get(dimension)
        if self.fixes(dimension):
            return bool(value == made)
        if dimension in CAPACITIES:
            return bool(value <= made)
        if dimension in _PATH:
            return self.made_for.qp_type is QpType.UD or bool(value == made)
        if dimension in _FLOWS:
            return bool(value == made) or made in (True, Direction.BIDIRECTIONAL)
        if dimension in ("opcode", "more_opcodes") and not _atomic(self.made_for):
            return not any(opcode.is_atomic for opcode in ([value] if dimension == "opcode" else value))
        return dimension in TRAFFIC or bool(value == made)

    def misfit(self, workload: Workload) -> str | None:
        """Return why a workload cannot be a phase of this set-up, or None if it can."""
        return misfit(workload, self.made_for)

    def is_own(self, workload: Workload) -> bool:
        """Whether a set-up for this workload alone would be the same."""
        return misfit(workload, self.made_for) is None and misfit(self.made_for, workload) is None


def misfit(workload: Workload, made_for: Workload) -> str | None:
    """Return why a workload cannot be a phase of the set-up made for another one, or None if it can."""
    if _made(workload) != _made(made_for) or _atomic(workload) != _atomic(made_for):
        return f"it needs another set-up: {', '.join(_made_otherwise(workload, made_for))} differ"
    if workload.qp_type is not QpType.UD and _path(workload) != _path(made_for):
        return f"{workload.qp_type} queue pairs are connected with another traffic_class or hop_limit"
    if workload.srq and _receives(workload) and _received(workload) != _received(made_for):
        return "its shared receive queue is filled with receives of another shape"
    for name, used, made in zip(CAPACITIES, _capacity(workload), _capacity(made_for), strict=True):
        if used > made:
            return f"{name} is {used}, and the set-up has {made}"
    if workload.direction is Direction.BIDIRECTIONAL and made_for.direction is not Direction.BIDIRECTIONAL:
        return "the set-up has no queue pairs for the other direction"
    if workload.loopback and not _has_loopback_of(workload, made_for):
        return "the set-up has no queue pairs for loopback on this host"
    return None


def made_for_all(workloads: Sequence[Workload]) -> Workload:
    """Return the workload whose set-up has enough capacity for all, if all agree on the set-up dimensions.

    Its traffic is that of the first. The result may break a limit that each workload keeps: check it.
    """
    first = workloads[0]
    capacities = {name: max(each.get(name) for each in workloads) for name in CAPACITIES}
    if any(each.direction is Direction.BIDIRECTIONAL for each in workloads):
        capacities["direction"] = Direction.BIDIRECTIONAL
    if looping := next((each for each in workloads if each.loopback), None):
        first = first if first.loopback else looping
    return first.with_(**capacities)


def _made_otherwise(workload: Workload, made_for: Workload) -> list[str]:
    names = [n for n in FIELD_NAMES if n not in TRAFFIC and workload.get(n) != made_for.get(n)]
    return names or ["access rights for atomics"]


def _atomic(workload: Workload) -> bool:
    return any(opcode.is_atomic for opcode in workload.opcodes)


def _receives(workload: Workload) -> bool:
    return any(opcode.consumes_receive for opcode in workload.opcodes)


def _has_loopback_of(workload: Workload, made_for: Workload) -> bool:
    """Whether the loopback's host, which is the sink of the payload, is the same."""
    fetches = [all(opcode.fetches for opcode in each.opcodes) for each in (workload, made_for)]
    return made_for.loopback and fetches[0] == fetches[1]
