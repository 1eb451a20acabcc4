"""Traffic, and the conditions of a minimal feature set, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.units import format_bytes, format_rate, format_sizes
from collie.workloads.workload import FIELD_NAMES, QpType, Workload


def differences(workload: Workload, other: Workload) -> str:
    """Return the fields of a workload that another one has otherwise: `qps 64 and opcode READ`."""
    names = [name for name in FIELD_NAMES if workload.get(name) != other.get(name)]
    return _enumerate([_field(name, workload) for name in names]) or "the same traffic"


def plain_traffic(workload: Workload) -> str:
    """Name plain traffic by what siblings keep: `plain traffic (RC WRITE, qps 8, messages [64 KiB])`."""
    sizes = ("qps", "messages", "offered_bps") if workload.offered_bps else ("qps", "messages")
    kept = [f"{workload.qp_type} {'/'.join(workload.opcodes)}", *(_field(name, workload) for name in sizes)]
    return f"plain traffic ({', '.join(kept)})"


def describe_traffic(workload: Workload, mfs: Mfs, *, complete: bool) -> str:
    """Name the transport and the operation if the conditions name them, or if one forces the other.

    An incomplete explanation names both, and says of what it does not condition that it was seen.
    """
    stated = {condition.dimension: condition for condition in mfs.conditions}
    qp_type, opcode = stated.get("qp_type"), stated.get("opcode")
    if qp_type is None and opcode is None:
        seen = f"{workload.qp_type} {workload.opcode}"
        return f"Any traffic (seen with {seen})" if complete else seen
    if not complete and opcode is None:
        return f"{_alternatives(qp_type, workload.qp_type)} (seen with {workload.opcode})"
    if not complete and qp_type is None:
        return f"{_alternatives(opcode, workload.opcode)} (seen with {workload.qp_type})"
    forced = (qp_type is None and workload.opcode.fetches) or (opcode is None and workload.qp_type is QpType.UD)
    parts = [
        _alternatives(condition, value)
        for condition, value in ((qp_type, workload.qp_type), (opcode, workload.opcode))
        if condition is not None or forced
    ]
    return " ".join(parts)


def describe_conditions(mfs: Mfs) -> str:
    """Return the conditions in words, but those that `describe_traffic` names: `this, that and another`."""
    return _enumerate(_phrases(mfs.conditions))


def _alternatives(condition: Condition | None, value: object) -> str:
    if condition is not None and condition.op is Op.ONE_OF:
        return "/".join(str(choice) for choice in condition.value)
    return str(value)


_SIZES = {
    "mr_bytes",
    "max_inline_data",
    "min_message_bytes",
    "max_message_bytes",
    "mean_message_bytes",
    "min_segment_bytes",
    "max_segment_bytes",
    "post_bytes",
}
_RATES = {"offered_bps", "nic_offered_bps"}
_OFFERED = {"offered_bps": "each flow", "offered_messages_per_second": "each flow", "nic_offered_bps": "one NIC"}

_NOUNS = {
    "mr_bytes": "a memory region",
    "min_message_bytes": "the smallest message",
    "max_message_bytes": "the largest message",
    "mean_message_bytes": "the mean message",
    "min_segment_bytes": "the smallest scatter/gather entry",
    "max_segment_bytes": "the largest scatter/gather entry",
    "post_bytes": "one post",
}

_PHRASES = {
    "direction == unidirectional": "only one host sends",
    "direction == bidirectional": "both hosts send at once",
    "loopback == false": "no loopback traffic runs beside it",
    "loopback == true": "loopback traffic runs beside it",
    "remote == true": "there is traffic between hosts",
    "remote == false": "loopback runs alone",
    "numa_node == 0": "the buffers of host a are on the NIC's socket",
    "numa_node == 1": "the buffers of host a are on the other socket",
    "peer_numa_node == 0": "the buffers of host b are on the NIC's socket",
    "peer_numa_node == 1": "the buffers of host b are on the other socket",
    "memory == dram": "the buffers of host a are DRAM",
    "memory == gpu": "the buffers of host a are GPU memory",
    "peer_memory == dram": "the buffers of host b are DRAM",
    "peer_memory == gpu": "the buffers of host b are GPU memory",
    "gpu_hosts >= 1": "the buffers of either host are GPU memory",
    "gpu_hosts >= 2": "the buffers of both hosts are GPU memory",
    "gpu_hosts == 1": "the buffers of exactly one host are GPU memory",
    "gpu_hosts <= 1": "the buffers of at most one host are GPU memory",
    "gpu_hosts <= 0": "no buffers are GPU memory",
    "far_hosts >= 1": "the buffers of either host are on another socket than its NIC",
    "far_hosts >= 2": "the buffers of both hosts are on another socket than their NIC",
    "far_hosts == 1": "the buffers of exactly one host are on another socket than its NIC",
    "far_hosts <= 1": "the buffers of at most one host are on another socket than its NIC",
    "far_hosts <= 0": "all buffers are on their NIC's socket",
    "huge_pages == false": "buffers are on ordinary pages",
    "huge_pages == true": "buffers are on huge pages",
    "connection == out_of_band": "queue pairs are connected out of band",
    "connection == rdma_cm": "queue pairs are connected by RDMA-CM",
    "wqe_batch <= 1": "work requests are posted one by one",
    "signal_every <= 1": "every post completes",
    "offered_bps <= 0": "send queues are always full",
    "offered_bps == 0": "send queues are always full",
}

_COUNTED = {
    "requesters": ("host requests", "hosts request", " from one"),
    "responders": ("host responds", "hosts respond", " to one"),
    "rails": ("pair of ports carries", "pairs of ports carry", " the same traffic"),
    "qps": ("queue pair", "queue pairs", " per direction"),
    "total_qps": ("queue pair", "queue pairs", " over both directions"),
    "mrs_per_qp": ("memory region", "memory regions", " per queue pair"),
    "total_mrs": ("memory region", "memory regions", " in all"),
    "new_mrs_per_second": ("memory region", "memory regions", " per second registered and deregistered"),
    "new_qps_per_second": ("queue pair", "queue pairs", " per second created and destroyed"),
    "new_ahs_per_second": ("address handle", "address handles", " per second created and destroyed"),
    "qp_errors_per_second": ("error of a queue pair", "errors of a queue pair", " per second"),
    "wqe_batch": ("work request", "work requests", " per post"),
    "signal_every": ("post", "posts", " per completion"),
    "sge_count": ("scatter/gather entry", "scatter/gather entries", ""),
    "send_wq_depth": ("send queue entry", "send queue entries", ""),
    "recv_wq_depth": ("receive queue entry", "receive queue entries", ""),
    "total_send_wqes": ("send queue entry", "send queue entries", " in all"),
    "total_recv_wqes": ("receive queue entry", "receive queue entries", " in all"),
    "nic_qps": ("queue pair", "queue pairs", " on one NIC"),
    "nic_mrs": ("memory region", "memory regions", " on one NIC"),
    "nic_send_wqes": ("send queue entry", "send queue entries", " on one NIC"),
    "nic_recv_wqes": ("receive queue entry", "receive queue entries", " on one NIC"),
    "max_rd_atomic": ("outstanding READ or atomic", "outstanding READs or atomics", " per queue pair"),
    "max_dest_rd_atomic": ("inbound READ or atomic", "inbound READs or atomics", " per queue pair"),
}
"""Singular, plural and suffix of each counted feature."""


def _field(name: str, workload: Workload) -> str:
    value = workload.get(name)
    return f"{name} {_amount(name, value) if name in _SIZES | _RATES else _value(value)}"


def _mix(value: object) -> str:
    return " and ".join(map(str, value)) or "nothing" if isinstance(value, tuple) else _value(value)


def _phrases(conditions: Sequence[Condition]) -> list[str]:
    """Return the conditions in words. Both limits of a feature are one range."""
    limits = {(each.dimension, each.op): each.value for each in conditions}
    found = []
    for condition in conditions:
        name = condition.dimension
        low, high = limits.get((name, Op.AT_LEAST)), limits.get((name, Op.AT_MOST))
        if low is None or high is None:
            found.append(_phrase(condition))
        elif condition.op is Op.AT_LEAST:
            equal = Condition(name, Op.EQUAL, low)
            found.append(_phrase(equal) if low == high else _quantity(name, f"{_amount(name, low)} to", high))
    return [phrase for phrase in found if phrase]


def _phrase(condition: Condition) -> str:
    name, op, value = condition.dimension, condition.op, condition.value
    if name in {"qp_type", "opcode"}:
        return ""
    if said := _PHRASES.get(str(condition)):
        return said
    if name == "more_opcodes":
        mixes = value if op is Op.ONE_OF else (value,)
        return f"{' or '.join(_mix(mix) for mix in mixes)} is mixed in"
    if op is Op.ONE_OF:
        return f"{name} is {' or '.join(_value(choice) for choice in value)}"
    if op is not Op.EQUAL:
        return _quantity(name, "at least" if op is Op.AT_LEAST else "at most", value)
    is_quantity = name in _SIZES or name in _COUNTED or name == "mtu" or name in _OFFERED
    return _quantity(name, "exactly", value) if is_quantity else f"{name} is {_value(value)}"


def _quantity(name: str, how: str, value: Any) -> str:
    amount = f"{how} {_amount(name, value)}"
    if name in _NOUNS:
        return f"{_NOUNS[name]} has {amount}"
    if name == "mtu":
        return f"the path MTU is {amount}"
    if flows := _OFFERED.get(name):  # 0 means full queues, and satisfies each "at most"
        return f"{flows} is offered {amount}{' or has full send queues' if how == 'at most' else ''}"
    if name not in _COUNTED:
        return f"{name} is {amount}"
    one, several, where = _COUNTED[name]
    is_one = value == 1 and not how.endswith("to")
    return f"there {'is' if is_one else 'are'} {amount} {one if is_one else several}{where}"


def _amount(name: str, value: Any) -> str:
    if name in _RATES:
        return format_rate(value)
    if name == "offered_messages_per_second":
        return f"{value:,} messages/s"
    return format_bytes(value) if name in _SIZES else str(value)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return format_sizes(value) if isinstance(value, tuple) else str(value)


def _enumerate(parts: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))
