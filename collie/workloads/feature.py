"""Features of workloads, conditions on them, and the minimal feature set (MFS): a conjunction of conditions.

A feature is a dimension or derives from several, as in the paper's "mix of <= 1 KB and >= 64 KB" (section 5.3).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from collie.workloads.units import format_value
from collie.workloads.workload import FIELD_NAMES, Memory, Workload

DERIVED: Mapping[str, Callable[[Workload], int]] = {
    "min_message_bytes": lambda w: min(w.messages),
    "max_message_bytes": lambda w: max(w.messages),
    "mean_message_bytes": lambda w: sum(w.messages) // len(w.messages),
    "min_segment_bytes": lambda w: min(min(entries) for entries in w.segments()),
    "max_segment_bytes": lambda w: max(max(entries) for entries in w.segments()),
    "gpu_hosts": lambda w: (w.memory is Memory.GPU) + (w.peer_memory is Memory.GPU),
    "far_hosts": lambda w: (w.numa_node > 0) + (w.peer_numa_node > 0),
    "total_qps": lambda w: w.qps * w.directions * w.partners,
    "total_mrs": lambda w: w.qps * w.mrs_per_qp,
    "total_recv_wqes": lambda w: w.qps * w.recv_wq_depth,
    "total_send_wqes": lambda w: w.qps * w.send_wq_depth,
    "nic_qps": lambda w: w.qps * _ends(w),
    "nic_mrs": lambda w: w.qps * _ends(w) * w.mrs_per_qp,
    "nic_recv_wqes": lambda w: w.qps * (w.partners + w.loopback) * w.recv_wq_depth,
    "nic_send_wqes": lambda w: w.qps * (w.partners + w.loopback) * w.send_wq_depth,
    "nic_offered_bps": lambda w: w.offered_bps * _ends(w),
    "offered_messages_per_second": lambda w: w.offered_bps * len(w.messages) // (8 * sum(w.messages)),
    "post_bytes": lambda w: w.wqe_batch * sum(w.messages) // len(w.messages),
}
"""`gpu_hosts` and `far_hosts` count the hosts with buffers in GPU memory or on another socket. `total_qps` counts
both directions and all partners of a host, other totals one flow. `nic_...` count what the busiest NIC holds for all
flows. A network flow has one of its ends there, loopback has both. One end of a flow sends and the other receives.
`nic_offered_bps` is the load of all flows with an end there, `offered_messages_per_second` that of one flow. A post of
`wqe_batch` messages has `post_bytes`. The last two are those of a mean message, rounded down.
"""


def _ends(workload: Workload) -> int:
    return workload.directions * workload.partners + 2 * workload.loopback


SIZES = frozenset(
    {"min_message_bytes", "max_message_bytes", "mean_message_bytes", "min_segment_bytes", "max_segment_bytes"}
)
"""Bytes of a message or of one of its entries, so that their steps are those of `messages`."""

FLOWS = ("direction", "loopback", "requesters", "responders")
"""The dimensions that decide how many flows a NIC has ends of."""

SOURCES: Mapping[str, tuple[str, ...]] = {
    "total_mrs": ("qps", "mrs_per_qp"),
    "total_recv_wqes": ("qps", "recv_wq_depth"),
    "total_send_wqes": ("qps", "send_wq_depth"),
    "nic_qps": ("qps", *FLOWS),
    "nic_mrs": ("qps", "mrs_per_qp", *FLOWS),
    "nic_recv_wqes": ("qps", "recv_wq_depth", "loopback", "requesters", "responders"),
    "nic_send_wqes": ("qps", "send_wq_depth", "loopback", "requesters", "responders"),
    "nic_offered_bps": ("offered_bps", *FLOWS),
    "offered_messages_per_second": ("offered_bps", "messages"),
    "post_bytes": ("wqe_batch", "messages"),
    "min_message_bytes": ("messages",),
    "max_message_bytes": ("messages",),
    "mean_message_bytes": ("messages",),
    "min_segment_bytes": ("messages", "sge_count", "sge_split", "opcode", "more_opcodes"),
    "max_segment_bytes": ("messages", "sge_count", "sge_split", "opcode", "more_opcodes"),
    "gpu_hosts": ("memory", "peer_memory"),
    "far_hosts": ("numa_node", "peer_numa_node"),
    "total_qps": ("qps", "direction", "requesters", "responders"),
}
"""The dimensions that a derived feature is computed from."""

assert SOURCES.keys() == DERIVED.keys()
assert all(name in FIELD_NAMES for names in SOURCES.values() for name in names)

FEATURE_NAMES = FIELD_NAMES + tuple(DERIVED)


def feature_value(workload: Workload, feature: str) -> Any:
    """Return the value of a dimension or derived feature."""
    derived = DERIVED.get(feature)
    return derived(workload) if derived else workload.get(feature)


def sources(feature: str) -> tuple[str, ...]:
    """Return the dimensions that a feature is computed from."""
    return SOURCES.get(feature, (feature,))


class Op(StrEnum):
    """The comparison of a condition."""

    AT_LEAST = ">="
    AT_MOST = "<="
    EQUAL = "=="
    ONE_OF = "in"


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of an MFS.

    Attributes:
        dimension: a dimension or a derived feature.
        op: the comparison with `value`.
        value: a number, a name, or with `in` a tuple of values.
    """

    dimension: str
    op: Op
    value: Any

    def holds(self, workload: Workload) -> bool:
        """Whether a workload satisfies the condition."""
        return self.admits(feature_value(workload, self.dimension))

    def admits(self, actual: Any) -> bool:
        """Whether a value satisfies the condition."""
        match self.op:
            case Op.AT_LEAST:
                return bool(actual >= self.value)
            case Op.AT_MOST:
                return bool(actual <= self.value)
            case Op.EQUAL:
                return bool(actual == self.value)
            case Op.ONE_OF:
                return actual in self.value

    def __str__(self) -> str:
        if self.op is Op.ONE_OF:
            return f"{self.dimension} in {{{', '.join(format_value(value) for value in self.value)}}}"
        return f"{self.dimension} {self.op} {format_value(self.value)}"


@dataclass(frozen=True, slots=True)
class Mfs:
    """Minimal feature set: break one condition and the anomaly goes, keep them all and it stays."""

    conditions: tuple[Condition, ...]

    def covers(self, workload: Workload) -> bool:
        """Whether a workload satisfies every condition. An empty MFS covers nothing."""
        return bool(self.conditions) and all(condition.holds(workload) for condition in self.conditions)

    def __str__(self) -> str:
        return " and ".join(str(condition) for condition in self.conditions) or "(no condition found)"
