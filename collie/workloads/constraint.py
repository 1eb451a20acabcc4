"""Combinations of values that no RDMA device can run, or that a space forbids."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from math import lcm
from typing import Any

from collie.workloads.units import format_bytes, format_count, format_rate, format_short_seconds
from collie.workloads.workload import EVEN, OPCODES_BY_QP_TYPE, Connection, Direction, Opcode, QpType, payloads

MAX_REQUESTS_IN_TURN = 4096
"""An agent builds each request of a turn for every queue pair."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """A rule between `fields`. A sampler checks it as soon as they are drawn.

    Attributes:
        check: takes a workload or a draft with at least `fields`. Returns the fault and its remedy, or None.
        more: ordered fields whose increase never breaks the rule. For other ordered fields, a decrease never does.
        apart: ordered fields of which either can break it.
    """

    fields: frozenset[str]
    check: Callable[[Any], str | None]
    more: frozenset[str] = frozenset()
    apart: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class HostLimits:
    """Capacity of one host of a testbed, and what a measurement of it can tell.

    Attributes:
        total_mrs: memory regions over all queue pairs.
        pinned_bytes: memory over all regions.
        outstanding_bytes: payload in flight in one direction. A device that needs longer for it than the ACK timeout
            retransmits queued packets and shows nothing else.
        round_seconds: longest time from one round of an offered load to the next. A round is `wqe_batch` x
            `signal_every` messages. A window without a round shows a flow that offers nothing.
    """

    total_mrs: int = 200_000
    pinned_bytes: int = 1 << 40
    outstanding_bytes: int = 1 << 62
    round_seconds: float = math.inf


def _opcode(w: Any) -> str | None:
    allowed = OPCODES_BY_QP_TYPE[w.qp_type]
    if w.opcode in allowed:
        return None
    names = ", ".join(opcode for opcode in Opcode if opcode in allowed)
    return f"{w.qp_type} queue pairs cannot {w.opcode}; they can {names}"


def _more_opcodes(w: Any) -> str | None:
    if not w.more_opcodes:
        return None
    if set(w.more_opcodes) == {w.opcode}:
        return f"more_opcodes adds nothing to {w.opcode}; leave it empty"
    allowed = OPCODES_BY_QP_TYPE[w.qp_type]
    for opcode in w.more_opcodes:
        if opcode not in allowed:
            return f"{w.qp_type} queue pairs cannot {opcode}; mix {w.opcode} with another opcode, or use RC"
    if w.qp_type is QpType.UC and not all(opcode.consumes_receive for opcode in (w.opcode, *w.more_opcodes)):
        return "what a UC WRITE delivers cannot be told beside other opcodes; mix SEND, SEND_WITH_IMM, WRITE_WITH_IMM"
    return None


def _turn(w: Any) -> str | None:
    requests = lcm(1 + len(w.more_opcodes), len(w.messages))
    if requests <= MAX_REQUESTS_IN_TURN:
        return None
    return (
        f"{1 + len(w.more_opcodes)} opcodes and {len(w.messages)} messages repeat after {requests} requests; at most "
        f"{MAX_REQUESTS_IN_TURN}"
    )


def _ud_message(w: Any) -> str | None:
    if w.qp_type is not QpType.UD or max(w.messages) <= w.mtu:
        return None
    return (
        f"a UD message is one packet: messages of {format_bytes(max(w.messages))} do not fit mtu {w.mtu}; "
        f"send at most {w.mtu} bytes or raise mtu"
    )


def _send_batch(w: Any) -> str | None:
    if w.wqe_batch <= w.send_wq_depth:
        return None
    return f"wqe_batch {w.wqe_batch} is deeper than send_wq_depth {w.send_wq_depth}: such a post never fits the queue"


def _signal_every(w: Any) -> str | None:
    if w.signal_every == 1 or w.wqe_batch * w.signal_every <= w.send_wq_depth:
        return None
    return (
        f"{w.signal_every} posts of wqe_batch {w.wqe_batch} fill send_wq_depth {w.send_wq_depth} before one of them is "
        "signalled: the queue would stand still"
    )


def _signal_all(w: Any) -> str | None:
    if w.signal_every == 1 or not w.sq_sig_all:
        return None
    return f"signal_every {w.signal_every} has no effect with sq_sig_all, which signals every work request"


def _recv_batch(w: Any) -> str | None:
    if not _receives(w) or w.wqe_batch <= w.recv_wq_depth:
        return None
    return f"wqe_batch {w.wqe_batch} is deeper than recv_wq_depth {w.recv_wq_depth}: such a post never fits the queue"


def _receives(w: Any) -> bool:
    return bool(w.opcode.consumes_receive or any(opcode.consumes_receive for opcode in w.more_opcodes))


def _message_in_mr(w: Any) -> str | None:
    longest = max(payloads(w.opcode, w.more_opcodes, w.messages))
    if longest <= w.mr_bytes:
        return None
    return f"messages of {format_bytes(longest)} do not fit mr_bytes {format_bytes(w.mr_bytes)}"


def _split(w: Any) -> str | None:
    if w.sge_split == EVEN or len(w.sge_split) <= w.sge_count:
        return None
    return f"sge_split names {format_count(len(w.sge_split), 'entry')} but sge_count is {w.sge_count}"


def _srq(w: Any) -> str | None:
    if not w.srq or _receives(w):
        return None
    return f"srq has no effect on {w.opcode}, which takes no receive; use SEND or leave srq off"


def _connection(w: Any) -> str | None:
    if w.connection is Connection.OUT_OF_BAND or w.qp_type is QpType.RC:
        return None
    return f"{w.qp_type} queue pairs cannot meet by rdma_cm here; use RC or connection out_of_band"


def _one_hub(w: Any) -> str | None:
    if min(w.requesters, w.responders) == 1:
        return None
    return f"{w.requesters} requesters and {w.responders} responders: one of the two has to be 1"


def _rails_alone(w: Any) -> str | None:
    if w.rails == 1 or (w.remote and w.requesters == w.responders == 1):
        return None
    return f"{w.rails} rails are pairs of ports: they need remote traffic, one requester and one responder"


def _loopback_alone(w: Any) -> str | None:
    if w.remote or (w.loopback and w.requesters == w.responders == 1 and w.direction is not Direction.BIDIRECTIONAL):
        return None
    return (
        "without remote traffic there is loopback alone: it needs loopback, unidirectional, one requester and one "
        "responder"
    )


VERBS: tuple[Constraint, ...] = (
    Constraint(frozenset({"requesters", "responders"}), _one_hub),
    Constraint(frozenset({"rails", "remote", "requesters", "responders"}), _rails_alone),
    Constraint(frozenset({"remote", "loopback", "direction", "requesters", "responders"}), _loopback_alone),
    Constraint(frozenset({"more_opcodes", "messages"}), _turn),
    Constraint(frozenset({"qp_type", "opcode"}), _opcode),
    Constraint(frozenset({"qp_type", "opcode", "more_opcodes"}), _more_opcodes),
    Constraint(frozenset({"qp_type", "mtu", "messages"}), _ud_message, frozenset({"mtu"})),
    Constraint(frozenset({"wqe_batch", "send_wq_depth"}), _send_batch, frozenset({"send_wq_depth"})),
    Constraint(frozenset({"wqe_batch", "send_wq_depth", "signal_every"}), _signal_every, frozenset({"send_wq_depth"})),
    Constraint(frozenset({"sq_sig_all", "signal_every"}), _signal_all),
    Constraint(
        frozenset({"wqe_batch", "recv_wq_depth", "opcode", "more_opcodes"}), _recv_batch, frozenset({"recv_wq_depth"})
    ),
    Constraint(frozenset({"messages", "mr_bytes", "opcode", "more_opcodes"}), _message_in_mr, frozenset({"mr_bytes"})),
    Constraint(frozenset({"sge_split", "sge_count"}), _split, frozenset({"sge_count"})),
    Constraint(frozenset({"srq", "opcode", "more_opcodes"}), _srq),
    Constraint(frozenset({"qp_type", "connection"}), _connection),
)
"""Rules of the verbs API."""


_HUB = frozenset({"requesters", "responders"})
"""Fields that decide the number of partners of the busiest host."""
_ROUND = frozenset({"offered_bps", "wqe_batch", "signal_every", "messages", "opcode", "more_opcodes"})
"""Fields that decide how often a flow posts."""


def largest_round_bytes(w: Any) -> int:
    """Return the payload bytes of the largest round of a flow: `wqe_batch` x `signal_every` messages in a row."""
    sizes = payloads(w.opcode, w.more_opcodes, w.messages)
    messages: int = w.wqe_batch * w.signal_every
    turns, rest = divmod(messages, len(sizes))
    before = tuple(accumulate(sizes + sizes, initial=0))
    return turns * sum(sizes) + max(before[first + rest] - before[first] for first in range(len(sizes)))


def _partners(w: Any) -> int:
    return max(int(w.requesters), int(w.responders))


def _queue_pairs(w: Any) -> str:
    return f"{w.qps} qps to each of {_partners(w)} hosts" if _partners(w) > 1 else f"{w.qps} qps"


def within(limits: HostLimits) -> tuple[Constraint, ...]:
    """Return the constraints of the hosts' capacity."""

    def total_mrs(w: Any) -> str | None:
        total = w.qps * w.mrs_per_qp * _partners(w)
        if total <= limits.total_mrs:
            return None
        queues = f"{_queue_pairs(w)} x {w.mrs_per_qp} mrs_per_qp"
        return f"{queues} = {total} memory regions; at most {limits.total_mrs}"

    def pinned(w: Any) -> str | None:
        total = w.qps * w.mrs_per_qp * w.mr_bytes * _partners(w)
        if total <= limits.pinned_bytes:
            return None
        return f"the regions pin {format_bytes(total)} of memory; at most {format_bytes(limits.pinned_bytes)}"

    def outstanding(w: Any) -> str | None:
        sizes = payloads(w.opcode, w.more_opcodes, w.messages)
        total = w.qps * w.send_wq_depth * sum(sizes) / len(sizes) * _partners(w)
        if total <= limits.outstanding_bytes:
            return None
        queues = f"{_queue_pairs(w)} x send_wq_depth {w.send_wq_depth}"
        return f"{queues} keep {format_bytes(total)} in flight; at most {format_bytes(limits.outstanding_bytes)}"

    def rounds(w: Any) -> str | None:
        if not w.offered_bps:
            return None
        size = largest_round_bytes(w)
        if size * 8 <= limits.round_seconds * w.offered_bps:
            return None
        seconds = format_short_seconds(size * 8 / w.offered_bps)
        return (
            f"at offered_bps {format_rate(w.offered_bps)}, rounds of wqe_batch {w.wqe_batch} x signal_every "
            f"{w.signal_every} messages come every {seconds}; at most {format_short_seconds(limits.round_seconds)}"
        )

    of_load = (
        [Constraint(_ROUND, rounds, apart=frozenset({"offered_bps"}))] if math.isfinite(limits.round_seconds) else []
    )
    return (
        Constraint(_HUB | {"qps", "mrs_per_qp"}, total_mrs),
        Constraint(_HUB | {"qps", "mrs_per_qp", "mr_bytes"}, pinned),
        Constraint(_HUB | {"qps", "send_wq_depth", "messages", "opcode", "more_opcodes"}, outstanding),
        *of_load,
    )
