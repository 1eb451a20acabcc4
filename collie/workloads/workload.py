"""A workload: one point of the search space, in the terms of the verbs API and the paper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import lru_cache
from math import lcm
from operator import attrgetter
from typing import Any

GRH_BYTES = 40
"""Global route header in a UD receive buffer (IBTA 1.4, 11.4.1.2)."""


class QpType(StrEnum):
    """Transport service of a queue pair."""

    RC = "RC"
    UC = "UC"
    UD = "UD"
    XRC = "XRC"
    DC = "DC"
    SRD = "SRD"


class Opcode(StrEnum):
    """Operation of a send work request."""

    SEND = "SEND"
    SEND_WITH_IMM = "SEND_WITH_IMM"
    WRITE = "WRITE"
    WRITE_WITH_IMM = "WRITE_WITH_IMM"
    READ = "READ"
    FETCH_ADD = "FETCH_ADD"
    CMP_SWP = "CMP_SWP"

    @property
    def consumes_receive(self) -> bool:
        """Whether a message takes a receive work request."""
        return self in _CONSUME_RECEIVE

    @property
    def is_atomic(self) -> bool:
        """Whether it changes memory of the responder and returns the old value."""
        return self in _ATOMICS

    @property
    def fetches(self) -> bool:
        """Whether the payload returns to the requester."""
        return self in _FETCH


_CONSUME_RECEIVE = frozenset({Opcode.SEND, Opcode.SEND_WITH_IMM, Opcode.WRITE_WITH_IMM})
_ATOMICS = frozenset({Opcode.FETCH_ADD, Opcode.CMP_SWP})
_FETCH = _ATOMICS | {Opcode.READ}

ATOMIC_BYTES = 8
"""Payload of an atomic (IBTA 1.4, 9.4.5)."""

OPCODES_BY_QP_TYPE: dict[QpType, frozenset[Opcode]] = {
    QpType.RC: frozenset(Opcode),
    QpType.UC: frozenset(Opcode) - _FETCH,
    QpType.UD: frozenset({Opcode.SEND, Opcode.SEND_WITH_IMM}),
    QpType.XRC: frozenset(Opcode),
    QpType.DC: frozenset(Opcode),
    QpType.SRD: frozenset(Opcode) - _ATOMICS,
}
"""IBTA 1.4, table 38. DC and SRD by the manuals of mlx5dv and efadv."""


class Direction(StrEnum):
    """Whether one host sends or both do."""

    UNIDIRECTIONAL = "unidirectional"
    BIDIRECTIONAL = "bidirectional"


class Memory(StrEnum):
    """Memory type of the buffers."""

    DRAM = "dram"
    GPU = "gpu"


class Connection(StrEnum):
    """The exchange of connection data: by the controller or by RDMA-CM."""

    OUT_OF_BAND = "out_of_band"
    RDMA_CM = "rdma_cm"


EVEN = "even"

_ADDED = {"added": True}
"""Marks a field that older records lack."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One point of the space (paper section 4). Fields apply to both ends of every queue pair unless stated.

    Attributes:
        direction: `unidirectional`: host A sends to or reads from host B. `bidirectional` adds the mirror image.
        loopback: the receiving host also sends the same traffic to itself over as many queue pairs.
        numa_node, peer_numa_node: NUMA distance of the buffers on host A and on host B: 0 is the NIC's node.
        memory, peer_memory: memory type of the buffers on host A and on host B.
        requesters: hosts that request from host B: A, then C, D, ..., which are like A.
        responders: hosts that host A requests from: B, then C, D, ..., which are like B. One of the two is 1.
        rails: pairs of ports that carry the same flows side by side: A and B, then C and D, ....
        remote: whether there is traffic between hosts. Without it, only the loopback of host A is left.
        huge_pages: buffers lie on huge pages (2 MiB on x86-64), on every host.
        mrs_per_qp: memory regions per queue pair and end, used in turn.
        mr_bytes: bytes of each region.
        qp_type, opcode: transport service and operation. Few devices have XRC, DC or SRD.
        more_opcodes: work requests take `opcode` and then each of these in turn.
        qps: queue pairs per direction, partner and rail.
        mtu: path MTU in bytes.
        wqe_batch: work requests per post, for sends and for receives.
        signal_every: posts per completion. It has no effect with `sq_sig_all`.
        sge_count: scatter/gather entries per work request.
        sge_split: `even`, or bytes of the leading entries. The remaining entries share the rest evenly.
        send_wq_depth, recv_wq_depth: entries of the queues, kept full without `offered_bps`.
        messages: bytes per work request, used in turn. An atomic always takes 8.
        offered_bps: payload bits/s that each flow is offered, over all its queue pairs. Loopback is a flow too. 0: send
            queues are always full.
        new_mrs_per_second: memory regions that each host registers and deregisters beside the traffic.
        new_qps_per_second: queue pairs that each host creates and destroys beside the traffic.
        new_ahs_per_second: address handles that each host creates and destroys beside the traffic.
        qp_errors_per_second: errors of an RC queue pair of each host beside the traffic: it sends from beyond the end
            of a region, and is brought back to RTS.
        control_verbs_imitated: whether hosts only use the CPU time of these verbs and errors, and make none. The second
            plain sibling has this (ADR 44).
        max_inline_data: messages up to this size travel inside the work request. 0 disables inlining.
        max_rd_atomic, max_dest_rd_atomic: READs and atomics in flight per queue pair, as requester and as responder.
        timeout: local ACK timeout, 4.096 us x 2^timeout.
        retry_cnt, rnr_retry: retries after a lost packet and after a receiver-not-ready NAK (there 7 means for ever).
        min_rnr_timer: the encoded delay of a receiver-not-ready NAK (IBTA 1.4, table 46).
        connection: `out_of_band`: the controller relays the connection data. `rdma_cm`: RDMA-CM does, RC only.
        sq_sig_all: every send completes. Otherwise the last of each post, or of every `signal_every` posts.
        srq: one shared receive queue per host in place of one queue per queue pair.
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
    rails: int = field(default=1, metadata=_ADDED)
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
    offered_bps: int = field(default=0, metadata=_ADDED)
    new_mrs_per_second: int = field(default=0, metadata=_ADDED)
    new_qps_per_second: int = field(default=0, metadata=_ADDED)
    new_ahs_per_second: int = field(default=0, metadata=_ADDED)
    qp_errors_per_second: int = field(default=0, metadata=_ADDED)
    control_verbs_imitated: bool = field(default=False, metadata=_ADDED)
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
        """Name every field, except added ones at their default (`stable_text`)."""
        written = (f for f in fields(self) if "added" not in f.metadata or self.get(f.name) != f.default)
        return f"Workload({', '.join(f'{each.name}={self.get(each.name)!r}' for each in written)})"

    def get(self, dimension: str) -> Any:
        """Return the value of a field."""
        return getattr(self, dimension)

    def with_(self, **changes: Any) -> Workload:
        """Return a copy with some fields changed."""
        values = list(_values(self))
        for name, value in changes.items():
            values[_PLACES[name]] = value
        return Workload(*values)  # the innermost step of searches: by keyword it takes 60 % longer

    def named(self) -> dict[str, Any]:
        """Return every field by its name."""
        return dict(zip(FIELD_NAMES, _values(self), strict=True))

    @property
    def directions(self) -> int:
        """Number of hosts that send at once."""
        return 2 if self.direction is Direction.BIDIRECTIONAL else 1

    @property
    def partners(self) -> int:
        """Number of hosts that the busiest host has traffic with."""
        return max(self.requesters, self.responders)

    @property
    def opcodes(self) -> tuple[Opcode, ...]:
        """Opcodes in the order of the work requests."""
        return (self.opcode, *self.more_opcodes)

    @property
    def turn(self) -> tuple[tuple[Opcode, int], ...]:
        """Opcode and payload bytes of each work request, until both lists start again."""
        return _turn(self.opcode, self.more_opcodes, self.messages)

    @property
    def payloads(self) -> tuple[int, ...]:
        """Payload bytes of each work request of `turn`."""
        return payloads(self.opcode, self.more_opcodes, self.messages)

    @property
    def mean_message_bytes(self) -> float:
        """Mean of `payloads`."""
        sizes = self.payloads
        return sum(sizes) / len(sizes)

    @property
    def messages_per_signal(self) -> int:
        """Work requests per completion at the requester."""
        return 1 if self.sq_sig_all else self.wqe_batch * self.signal_every

    @property
    def bytes_outstanding(self) -> float:
        """Payload bytes in flight in one direction, with full send queues."""
        return self.partners * self.qps * self.send_wq_depth * self.mean_message_bytes

    @property
    def makes_control_verbs(self) -> bool:
        """Whether hosts make control verbs or errors beside the traffic."""
        return any(_control_rates(self)) and not self.control_verbs_imitated

    def segments(self) -> tuple[tuple[int, ...], ...]:
        """Return the bytes of each scatter/gather entry of each work request of `turn`. Atomics have one."""
        return _segments(self.opcode, self.more_opcodes, self.messages, self.sge_count, self.sge_split)


def _turn(
    opcode: Opcode, more_opcodes: tuple[Opcode, ...], messages: tuple[int, ...]
) -> tuple[tuple[Opcode, int], ...]:
    opcodes = (opcode, *more_opcodes)
    count = lcm(len(opcodes), len(messages))
    turn = ((opcodes[number % len(opcodes)], messages[number % len(messages)]) for number in range(count))
    return tuple((each, ATOMIC_BYTES if each.is_atomic else size) for each, size in turn)


def payloads(opcode: Opcode, more_opcodes: tuple[Opcode, ...], messages: tuple[int, ...]) -> tuple[int, ...]:
    """Return `Workload.payloads` of these fields."""
    if not more_opcodes and not opcode.is_atomic:
        return messages  # true of almost every workload, and called often
    return tuple(size for _, size in _turn(opcode, more_opcodes, messages))


@lru_cache(maxsize=4096)  # most workloads of a search differ in other fields
def _segments(
    opcode: Opcode,
    more_opcodes: tuple[Opcode, ...],
    messages: tuple[int, ...],
    sge_count: int,
    sge_split: str | tuple[int, ...],
) -> tuple[tuple[int, ...], ...]:
    return tuple(
        (size,) if each.is_atomic else split_message(size, sge_count, sge_split)
        for each, size in _turn(opcode, more_opcodes, messages)
    )


def split_message(message_bytes: int, sge_count: int, sge_split: str | tuple[int, ...]) -> tuple[int, ...]:
    """Return the bytes of at most `sge_count` scatter/gather entries of a message."""
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

CONTROL_VERBS = ("new_mrs_per_second", "new_qps_per_second", "new_ahs_per_second", "qp_errors_per_second")
"""Rates of what each host makes or breaks beside the traffic."""
BESIDE_TRAFFIC = (*CONTROL_VERBS, "control_verbs_imitated")


def reader(names: Sequence[str]) -> Callable[[Workload], tuple[Any, ...]]:
    """Return a fast reader of several fields."""
    return attrgetter(*names) if len(names) > 1 else lambda workload: tuple(workload.get(name) for name in names)


_values = reader(FIELD_NAMES)
_control_rates = reader(CONTROL_VERBS)
_PLACES = {name: place for place, name in enumerate(FIELD_NAMES)}


def stable_text(workload: Workload) -> str:
    """Return the seed text of a workload. If a new field changed it, older campaigns could not be resumed."""
    return repr(workload)


def render(workload: Workload) -> dict[str, Any]:
    """Return a workload as plain JSON/YAML values."""
    return {name: _plain(value) for name, value in workload.named().items()}


def _plain(value: Any) -> Any:
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, tuple):
        return list(value)
    return value
