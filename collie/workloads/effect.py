"""Fields that some traffic cannot use."""

from __future__ import annotations

from collie.workloads.workload import QpType, Workload

_UNRELIABLE = frozenset({QpType.UD, QpType.UC})
_OF_READS = frozenset({"max_rd_atomic", "max_dest_rd_atomic", "fence"})
_OF_ACKS = frozenset({"timeout", "retry_cnt"})
_OF_RECEIVES = frozenset({"rnr_retry", "min_rnr_timer"})


def is_unreliable(workload: Workload) -> bool:
    """Whether the transport acknowledges nothing, and so repeats nothing."""
    return workload.qp_type in _UNRELIABLE


def fetches(workload: Workload) -> bool:
    """Whether data comes back to the requester: READs and atomics."""
    return any(opcode.fetches for opcode in workload.opcodes)


def receives(workload: Workload) -> bool:
    """Whether the responder needs receives."""
    return any(opcode.consumes_receive for opcode in workload.opcodes)


def has_effect(field: str, workload: Workload) -> bool:
    """Whether the verbs API lets a field act on traffic of this transport and these operations (IBTA 1.4, 9.7)."""
    if field in _OF_READS:
        return fetches(workload)
    if field in _OF_ACKS:
        return not is_unreliable(workload)
    if field in _OF_RECEIVES:
        return receives(workload) and not is_unreliable(workload)
    return True
