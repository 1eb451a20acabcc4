"""A workload: one point of the search space, in the words of the verbs API and the paper.

Every field is what both ends of every queue pair use, unless its description says otherwise. A space (`space.py`)
decides which fields vary and over which values; fields that it does not name keep the default given here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import lru_cache
from math import lcm
from operator import attrgetter
from typing import Any

GRH_BYTES = 40
"""Global route header in front of every UD receive buffer (IBTA 1.4, 11.4.1.2)."""


class QpType(StrEnum):
    """Transport service of a queue pair."""

    RC = "RC"
    UC = "UC"
    UD = "UD"
    XRC = "XRC"
    DC = "DC"
    SRD = "SRD"


class Opcode(StrEnum):
    """What a send work request asks for."""

    SEND = "SEND"
    SEND_WITH_IMM = "SEND_WITH_IMM"
    WRITE = "WRITE"
    WRITE_WITH_IMM = "WRITE_WITH_IMM"
    READ = "READ"
    FETCH_ADD = "FETCH_ADD"
    CMP_SWP = "CMP_SWP"

    @property
    def consumes_receive(self) -> bool:
        """Whether a message takes a receive work request at the responder."""
        return self in _CONSUME_RECEIVE

    @property
    def is_atomic(self) -> bool:
        """Whether it changes 8 bytes of the responder's memory, and brings back what they were."""
        return self in _ATOMICS

    @property
    def fetches(self) -> bool:
        """Whether the payload comes back to the requester."""
        return self in _FETCH


_CONSUME_RECEIVE = frozenset({Opcode.SEND, Opcode.SEND_WITH_IMM, Opcode.WRITE_WITH_IMM})
_ATOMICS = frozenset({Opcode.FETCH_ADD, Opcode.CMP_SWP})
_FETCH = _ATOMICS | {Opcode.READ}

ATOMIC_BYTES = 8
"""Payload of an atomic, whatever `messages` says (IBTA 1.4, 9.4.5)."""

OPCODES_BY_QP_TYPE: dict[QpType, frozenset[Opcode]] = {
    QpType.RC: frozenset(Opcode),
    QpType.UC: frozenset(Opcode) - _FETCH,
    QpType.UD: frozenset({Opcode.SEND, Opcode.SEND_WITH_IMM}),
    QpType.XRC: frozenset(Opcode),
    QpType.DC: frozenset(Opcode),
    QpType.SRD: frozenset(Opcode) - _ATOMICS,
}
"""What each transport service can carry (IBTA 1.4, table 38; DC and SRD by the manuals of mlx5dv and efadv)."""


class Direction(StrEnum):
    """Whether one host sends, or both at once."""

    UNIDIRECTIONAL = "unidirectional"
    BIDIRECTIONAL = "bidirectional"


class Memory(StrEnum):
    """Kind of memory that holds the buffers."""

    DRAM = "dram"
    GPU = "gpu"


class Connection(StrEnum):
    """How the two queue pairs of a connection learn of each other."""

    OUT_OF_BAND = "out_of_band"
    RDMA_CM = "rdma_cm"


EVEN = "even"

_ADDED = {"added": True}
"""Of a field that campaigns have been recorded without."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One point of the space (paper section 4): topology, memory, transport and message pattern.

    Attributes:
        direction: `unidirectional` is host A sending to or reading from host B; `bidirectional` adds its mirror image.
        loopback: the host that receives from its peer also sends as many queue pairs of the same traffic to itself.
        numa_node, peer_numa_node: NUMA distance of the buffers on host A and on host B: 0 is the NIC's own node.
        memory, peer_memory: kind of memory of the buffers on host A and on host B.
        requesters: hosts that request from host B: A, then C, D, ...; those beyond A are like A.
        responders: hosts that host A requests from: B, then C, D, ...; those beyond B are like B. One of the two is 1.
        remote: there is traffic between hosts. Without, only the loopback of host A is left.
        huge_pages: buffers lie on huge pages (2 MiB on x86-64), on every host.
        mrs_per_qp: memory regions per queue pair and end, used in turn.
        mr_bytes: bytes of each region.
        qp_type, opcode: transport service and operation. Few devices have XRC, DC or SRD.
        more_opcodes: work requests take `opcode` and then each of these in turn.
        qps: queue pairs per direction, and with several requesters or responders to each of them.
        mtu: path MTU in bytes.
        wqe_batch: work requests per post, for sends and for receives.
        signal_every: posts per entry in the completion queue; without effect with `sq_sig_all`.
        sge_count: scatter/gather entries per work request.
        sge_split: `even`, or bytes of the leading entries; the rest is spread evenly over the remaining entries.
        send_wq_depth, recv_wq_depth: entries of the queues, kept full.
        messages: bytes per work request, used in turn; an atomic takes 8 whatever stands here.
        max_inline_data: messages up to this size are carried inside the work request; 0 switches inlining off.
        max_rd_atomic, max_dest_rd_atomic: READs and atomics in flight per queue pair, as requester and as responder.
        timeout: local ACK timeout, 4.096 us x 2^timeout.
        retry_cnt, rnr_retry: retries after a lost packet and after a receiver-not-ready NAK (there 7 means for ever).
        min_rnr_timer: the encoded time that a receiver-not-ready NAK asks for (IBTA 1.4, table 46).
        connection: `out_of_band`: the controller relays what both ends must know; `rdma_cm`: RDMA-CM does, RC only.
        sq_sig_all: every send completes with an entry in the completion queue; otherwise the last of each post, or of
            every `signal_every` posts.
        srq: receives come from one shared receive queue per host instead of one queue per queue pair.
        fence: the first work request of each post waits for earlier READs.
        sq_psn: first packet sequence number (24 bit).
        traffic_class, hop_limit: of the global route header.
    """

    direction: Direction = Direction.UNIDIRECTIONAL
    loopback: bool = False
    numa_node: int = 0
    peer_numa_node: int = 0
    memory: Memory = Memory.DRAM
    peer_memory: Memory = Memory.DRAM
    huge_pages: bool = field(default=False, metadata=_ADDED)
    requesters: int = field(default=1, metadata=_ADDED)
    responders: int = field(default=1, metadata=_ADDED)
    remote: bool = field(default=True, metadata=_ADDED)
    mrs_per_qp: int = 1
    mr_bytes: int = 65536
    qp_type: QpType = QpType.RC
    opcode: Opcode = Opcode.WRITE
    more_opcodes: tuple[Opcode, ...] = field(default=(), metadata=_ADDED)
    qps: int = 1
    mtu: int = 4096
    wqe_batch: int = 1
    signal_every: int = field(default=1, metadata=_ADDED)
    sge_count: int = 1
    sge_split: str | tuple[int, ...] = EVEN
    send_wq_depth: int = 128
    recv_wq_depth: int = 128
    messages: tuple[int, ...] = (65536,)
    max_inline_data: int = 0
    max_rd_atomic: int = 16
    max_dest_rd_atomic: int = 16
    timeout: int = 14
    retry_cnt: int = 7
    rnr_retry: int = 6
    min_rnr_timer: int = 1
    connection: Connection = field(default=Connection.OUT_OF_BAND, metadata=_ADDED)
    sq_sig_all: bool = False
    srq: bool = False
    fence: bool = False
    sq_psn: int = 0
    traffic_class: int = 0
    hop_limit: int = 64

    def __repr__(self) -> str:
        """Name every field, but for added ones that have their default.

        Extraction draws its probes with a generator that is seeded by this text, and a campaign is resumed by replaying
        it: a new field must leave the text of an old workload as it was.
        """
        written = (f for f in fields(self) if "added" not in f.metadata or self.get(f.name) != f.default)
        return f"Workload({', '.join(f'{each.name}={self.get(each.name)!r}' for each in written)})"

    def get(self, dimension: str) -> Any:
        """Return the value of a field by its name."""
        return getattr(self, dimension)

    def with_(self, **changes: Any) -> Workload:
        """Return a copy with some fields changed."""
        return Workload(**{**self.named(), **changes})

    def named(self) -> dict[str, Any]:
        """Return every field by its name."""
        return dict(zip(FIELD_NAMES, _values(self), strict=True))

    @property
    def directions(self) -> int:
        """Hosts that send at once: 1 or 2."""
        return 2 if self.direction is Direction.BIDIRECTIONAL else 1

    @property
    def partners(self) -> int:
        """Hosts that one host has traffic with: the larger of `requesters` and `responders`."""
        return max(self.requesters, self.responders)

    @property
    def opcodes(self) -> tuple[Opcode, ...]:
        """Opcodes in the order in which work requests take them."""
        return (self.opcode, *self.more_opcodes)

    @property
    def turn(self) -> tuple[tuple[Opcode, int], ...]:
        """One turn of the request vector: opcode and payload bytes of each work request."""
        return request_turn(self.opcode, self.more_opcodes, self.messages)

    @property
    def payloads(self) -> tuple[int, ...]:
        """Payload bytes of each work request of one turn."""
        return payloads(self.opcode, self.more_opcodes, self.messages)

    @property
    def mean_message_bytes(self) -> float:
        """Payload bytes per work request, on average over one turn."""
        sizes = self.payloads
        return sum(sizes) / len(sizes)

    @property
    def messages_per_signal(self) -> int:
        """Work requests that one entry in the requester's completion queue stands for."""
        return 1 if self.sq_sig_all else self.wqe_batch * self.signal_every

    @property
    def bytes_outstanding(self) -> float:
        """Payload bytes that one direction can have in flight: its send queues, full."""
        return self.partners * self.qps * self.send_wq_depth * self.mean_message_bytes

    def segments(self) -> tuple[tuple[int, ...], ...]:
        """Return the bytes of each scatter/gather entry, for each work request of one turn; an atomic has one entry."""
        return segments(self.opcode, self.more_opcodes, self.messages, self.sge_count, self.sge_split)


def request_turn(
    opcode: Opcode, more_opcodes: tuple[Opcode, ...], messages: tuple[int, ...]
) -> tuple[tuple[Opcode, int], ...]:
    """Return opcode and payload bytes of each work request, until both lists are at their beginning again."""
    opcodes = (opcode, *more_opcodes)
    count = lcm(len(opcodes), len(messages))
    turn = ((opcodes[number % len(opcodes)], messages[number % len(messages)]) for number in range(count))
    return tuple((each, ATOMIC_BYTES if each.is_atomic else size) for each, size in turn)


def payloads(opcode: Opcode, more_opcodes: tuple[Opcode, ...], messages: tuple[int, ...]) -> tuple[int, ...]:
    """Return the payload bytes of each work request of one turn."""
    if not more_opcodes and not opcode.is_atomic:
        return messages  # of almost every workload, and asked for many times
    return tuple(size for _, size in request_turn(opcode, more_opcodes, messages))


@lru_cache(maxsize=4096)  # a search asks for the same few again and again, as most of its workloads differ elsewhere
def segments(
    opcode: Opcode,
    more_opcodes: tuple[Opcode, ...],
    messages: tuple[int, ...],
    sge_count: int,
    sge_split: str | tuple[int, ...],
) -> tuple[tuple[int, ...], ...]:
    """Return the bytes of each scatter/gather entry, for each work request of one turn; an atomic has one entry."""
    return tuple(
        (size,) if each.is_atomic else split_message(size, sge_count, sge_split)
        for each, size in request_turn(opcode, more_opcodes, messages)
    )


def split_message(message_bytes: int, sge_count: int, sge_split: str | tuple[int, ...]) -> tuple[int, ...]:
    """Cut one message into scatter/gather entries.

    Args:
        message_bytes: payload of the work request, >= 1.
        sge_count: entries that the work request may have.
        sge_split: `even`, or bytes of the leading entries; what they leave is spread evenly over the remaining ones.

    Returns:
        The bytes of each entry in order; entries that would be empty are left out. Their sum is `message_bytes`.
    """
    leading = () if isinstance(sge_split, str) else sge_split[:sge_count]
    entries: list[int] = []
    rest = message_bytes
    for index, size in enumerate(leading):
        taken = rest if index == sge_count - 1 else min(size, rest)
        entries.append(taken)
        rest -= taken
    remaining = sge_count - len(leading)
    for index in range(remaining):
        entries.append(rest // remaining + (1 if index < rest % remaining else 0))
    return tuple(entry for entry in entries if entry)


FIELD_NAMES: tuple[str, ...] = tuple(field.name for field in fields(Workload))
"""Names of all dimensions that any space may vary, in the order of the paper: topology, memory, transport, pattern."""


def reader(names: Sequence[str]) -> Callable[[Workload], tuple[Any, ...]]:
    """Return what reads several fields at once, which a search does for every workload that it looks at."""
    return attrgetter(*names) if len(names) > 1 else lambda workload: tuple(workload.get(name) for name in names)


_values = reader(FIELD_NAMES)

_FIRST_FIELDS = frozenset(
    {
        *("direction", "loopback", "numa_node", "peer_numa_node", "memory", "peer_memory", "mrs_per_qp", "mr_bytes"),
        *("qp_type", "opcode", "qps", "mtu", "wqe_batch", "sge_count", "sge_split", "send_wq_depth", "recv_wq_depth"),
        *("messages", "max_inline_data", "max_rd_atomic", "max_dest_rd_atomic", "timeout", "retry_cnt", "rnr_retry"),
        *("min_rnr_timer", "sq_sig_all", "srq", "fence", "sq_psn", "traffic_class", "hop_limit"),
    }
)
"""Fields that every version of Collie has had."""


def stable_text(workload: Workload) -> str:
    """Return what seeds the draws that belong to a workload: the same in every version of Collie.

    A field that came later is left out at its default; else each new field would turn every campaign into another one,
    and none that an earlier Collie began could be resumed.
    """
    default = Workload()
    named = [name for name in FIELD_NAMES if name in _FIRST_FIELDS or workload.get(name) != default.get(name)]
    return f"Workload({', '.join(f'{name}={workload.get(name)!r}' for name in named)})"


def render(workload: Workload) -> dict[str, Any]:
    """Turn a workload into plain JSON/YAML values, every field named."""
    return {name: _plain(value) for name, value in _items(workload)}


def _items(workload: Workload) -> Iterator[tuple[str, Any]]:
    for name in FIELD_NAMES:
        yield name, workload.get(name)


def _plain(value: Any) -> Any:
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, tuple):
        return list(value)
    return value
