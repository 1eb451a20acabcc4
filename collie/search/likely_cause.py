"""The likely cause of an anomaly, from all counters that it moved and the conditions of its minimal feature set.

A counter alone is ambiguous: short messages to a far socket, GPU memory and mixed segments all hold up PCIe. A specific
cause is named only if its counter moved and its condition is stated. Otherwise the hint names the units that the
counters that moved most point at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from collie.detect.symptom import Symptom
from collie.workloads.feature import Condition, Mfs, Op

_NEAR = 10.0
"""Without a specific cause, counters count whose factor is at most this much below the largest."""


@dataclass(frozen=True, slots=True)
class DiscriminatingCounter:
    """One counter that an anomaly moved.

    Attributes:
        component: the component to which the counter points.
        factor: reading over that of plain traffic, the smaller of the factors per second and per packet.
        plain, plain_runs: median reading of plain traffic, and the number of its runs. None and 0 in earlier records.
    """

    counter: str
    component: str
    factor: float
    meaning: str = ""
    plain: float | None = None
    plain_runs: int = 0


def hint(symptom: Symptom, moved: Sequence[DiscriminatingCounter], mfs: Mfs) -> str:
    """Describe in one line the cause that the counters, most moved first, and the conditions suggest together."""
    return f"{_specific(moved, mfs) or _generic(moved)}, {_EFFECTS[symptom]}"


def component(moved: Sequence[DiscriminatingCounter], mfs: Mfs) -> str:
    """Return the component that `hint` blames, or an empty string if no counter moved."""
    if not moved:
        return ""
    found = _named(moved, mfs)
    return found[1].component if found else _blamed(moved)[0].component


def told_apart(moved: Sequence[DiscriminatingCounter], mfs: Mfs) -> DiscriminatingCounter | None:
    """Return the counter that tells the specific cause of `hint` apart, or None if there is no specific cause."""
    found = _named(moved, mfs)
    return found[1] if found else None


def _specific(moved: Sequence[DiscriminatingCounter], mfs: Mfs) -> str:
    found = _named(moved, mfs)
    return found[0].text if found else ""


def _named(moved: Sequence[DiscriminatingCounter], mfs: Mfs) -> tuple[_Cause, DiscriminatingCounter] | None:
    """Return the first cause whose counter moved and whose conditions are stated, with that counter."""
    stated = {_token(condition) for condition in mfs.conditions}
    for cause in _CAUSES:
        if all(not stated.isdisjoint(group) for group in cause.conditions):
            for counter in moved[:1] if cause.leads else moved:
                text = f"{counter.component} {counter.meaning}".lower()
                if any(word in text for word in cause.counters):
                    return cause, counter
    return None


def _token(condition: Condition) -> str:
    """Return an ordered condition without its limit, any other condition in full."""
    ordered = condition.op in (Op.AT_LEAST, Op.AT_MOST)
    return f"{condition.dimension} {condition.op}" if ordered else str(condition)


def _generic(moved: Sequence[DiscriminatingCounter]) -> str:
    """Return the cause that the component of the most moved counters suggests, or several components by name."""
    causes = _blamed(moved)
    components = list(dict.fromkeys(counter.component for counter in causes))
    if len(components) > 1:
        return f"several units are busier than with plain traffic ({', '.join(components)})"
    component, meaning = components[0], causes[0].meaning
    fallback = f"the {component} runs short" + (f" ({meaning})" if meaning else "")
    return next((text for word, text in _UNITS.items() if word in component.lower()), fallback)


def _blamed(moved: Sequence[DiscriminatingCounter]) -> list[DiscriminatingCounter]:
    """Return the most moved counters, without those that other units raise, too."""
    near = [counter for counter in moved if counter.factor * _NEAR >= moved[0].factor]
    return [counter for counter in near if counter.component.lower() not in _CONSEQUENCES] or [moved[0]]


@dataclass(frozen=True, slots=True)
class _Cause:
    """A specific cause.

    Attributes:
        counters: words, one of which must be in the component or the meaning of a moved counter.
        conditions: groups, of each of which one condition must be stated.
        leads: whether this counter must be the one that moved most. Every unit that is busy also moves PCIe a little,
            and a condition on memory can be there for another reason.
    """

    text: str
    counters: tuple[str, ...]
    conditions: tuple[tuple[str, ...], ...]
    leads: bool = False


_BOTH_WAYS: Final = ("direction == bidirectional",)
_READ: Final = ("opcode == READ",)
_LOOPBACK: Final = ("loopback == true",)
_BATCH: Final = ("wqe_batch >=",)
_MANY_QPS: Final = ("qps >=", "total_qps >=", "nic_qps >=")
_MANY_MRS: Final = ("mrs_per_qp >=", "total_mrs >=", "nic_mrs >=")

_CAUSES: Final = (
    _Cause(
        "traffic between the NIC and GPU memory is held up on PCIe, as on a way through the root complex",
        ("pci",),
        (("memory == gpu", "peer_memory == gpu", "gpu_hosts >="),),
        leads=True,
    ),
    _Cause("loopback traffic competes with what comes from the network", ("loopback",), (_LOOPBACK,)),
    _Cause(
        "the link between the sockets holds up traffic to far memory",
        ("pci",),
        (("numa_node == 1", "peer_numa_node == 1", "far_hosts >="),),
        leads=True,
    ),
    _Cause(
        "answers to short messages hold up long ones that arrive",
        ("acknowledgement unit",),
        (_BOTH_WAYS, (*_BATCH, "max_message_bytes >=")),
    ),
    _Cause(
        "answers to short messages hold up long ones that arrive",
        ("acknowledgement unit",),
        (("max_message_bytes >=",),),  # where all traffic goes both ways, no condition says so
        leads=True,
    ),
    _Cause(
        "scatter lists of READs are fetched late, behind the answers that the same host sends",
        ("send wqe", "pci"),
        (_BOTH_WAYS, _READ, ("sge_count >=",)),
    ),
    _Cause("address translations do not stay on chip", ("translation",), (_MANY_MRS,)),
    _Cause("receives posted in large batches are not prefetched in time", ("receive wqe cache",), (_BATCH,)),
    _Cause(
        "the receives of many or long queues do not stay on chip",
        ("receive wqe cache",),
        (("recv_wq_depth >=", "nic_recv_wqes >=", "total_recv_wqes >="),),
    ),
    _Cause("pending READ requests do not stay on chip", ("read request",), (_READ, (*_MANY_QPS, *_BATCH))),
    _Cause("queue pair contexts do not stay on chip", ("context cache",), (_MANY_QPS,)),
    _Cause("loopback traffic and traffic from the network compete for PCIe", ("pci",), (_LOOPBACK,)),
    _Cause(
        "READ responses in many small packets wait for the engine that processes them",
        ("engine",),
        (_READ, ("mtu <=",)),
    ),
    _Cause(
        "the packet engine changes again and again between sending and receiving",
        ("between sending and receiving",),
        (_BOTH_WAYS, ("mtu <=", *_BATCH)),
    ),
    _Cause(
        "short and long PCIe accesses wait for each other under strict ordering",
        ("ordering",),
        (("sge_count >=", "min_segment_bytes <=", "max_segment_bytes >="),),
    ),
)
"""Causes that need both a counter and conditions, most specific first."""

_UNITS: Final = {
    "receive wqe supply": "packets arrive when no receive work request is ready for them",
    "receive wqe": "arrivals wait for their receive work requests to be fetched",
    "send wqe": "send work requests have to be fetched again and again",
    "context": "queue pair contexts do not stay on chip",
    "translation": "address translations do not stay on chip",
    "read request": "pending READ requests do not stay on chip",
    "pci": "the way to memory over PCIe is held up",
    "staging": "packets of several segments do not stay on chip until they are acknowledged",
    "receive buffer": "the receive buffer fills faster than it is emptied",
    "engine": "packets wait for the engine that processes them",
    "acknowledge": "answers to messages wait and hold up what follows them",
    "scheduler": "senders are held back for want of credits or turns",
    "steering": "packets wait until their queue pair is found",
    "loss": "packets are lost on the way and sent again",
    "network stack": "the host's network stack refuses packets",
    "netdev": "the Ethernet device below drops packets",
}
"""Causes by words of the component's name, most specific first."""

_CONSEQUENCES: Final = frozenset({"send scheduler", "receive buffer", "loss"})
"""Components whose counters also rise when another unit is the cause."""

_EFFECTS = {
    Symptom.WRONG_PAYLOAD: "and bytes arrive wrong",
    Symptom.PAUSE: "so the host asks its peer to stop",
    Symptom.COMPLETION_ERRORS: "so work requests fail",
    Symptom.RNR_STORM: "so messages are turned away and sent again",
    Symptom.LOSS: "so packets are lost",
    Symptom.RETRANSMISSION: "so the peer sends again what has arrived",
    Symptom.UNFAIRNESS: "so a queue pair hardly gets a turn",
    Symptom.STALL: "so nothing completes for a while",
    Symptom.LOW_THROUGHPUT: "so throughput falls",
    Symptom.LATENCY: "so messages wait",
    Symptom.VICTIM_LOSS: "so the traffic of others is held up",
    Symptom.VICTIM_LATENCY: "so the messages of others wait",
}
