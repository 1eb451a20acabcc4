"""An anomaly: a confirmed workload with its minimal feature set, and the sentence that says it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from collie.detect.symptom import Symptom
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.units import format_bytes
from collie.workloads.workload import Opcode, QpType, Workload


@dataclass(frozen=True, slots=True)
class Anomaly:
    """One finding of a campaign.

    Attributes:
        id: `a1`, `a2`, ... within its campaign.
        symptom: how it shows.
        severity: max(pause ratio, 1 - delivered / bound) of the confirming runs, median.
        workload: the simplest workload that extraction left; satisfies `mfs`.
        found_as: the workload as the search met it.
        mfs: the conditions; empty when extraction did not finish.
        reason: the verdict's sentence with its figures.
        host: the host that shows it.
        found_at_run: number of the run that raised the suspicion.
        found_at_seconds: elapsed testbed time at the end of confirmation.
        extraction_runs: runs that extraction took.
        complete: extraction ended by itself, and not because the budget did.
    """

    id: str
    symptom: Symptom
    severity: float
    workload: Workload
    found_as: Workload
    mfs: Mfs
    reason: str
    host: str | None
    found_at_run: int
    found_at_seconds: float
    extraction_runs: int
    complete: bool

    @property
    def sentence(self) -> str:
        """What an engineer reads first."""
        traffic = describe_traffic(self.workload, self.mfs)
        conditions = [phrase for condition in self.mfs.conditions if (phrase := _phrase(condition))]
        needs = f" when {_enumerate(conditions)}" if conditions else ""
        return f"{traffic}{needs}: {self.reason}."


class KnownAnomalies:
    """The minimal feature sets found so far; a search does not measure what one of them covers."""

    def __init__(self, sets: Iterable[Mfs] = ()) -> None:
        self._sets = list(sets)

    def add(self, mfs: Mfs) -> None:
        """Remember one more."""
        self._sets.append(mfs)

    def covers(self, workload: Workload) -> bool:
        """Whether a known anomaly explains a workload (paper, MatchMFS)."""
        return any(mfs.covers(workload) for mfs in self._sets)


def describe_traffic(workload: Workload, mfs: Mfs) -> str:
    """Name the traffic of an anomaly: transport and operation, as far as they matter or one forces the other."""
    stated = {condition.dimension: condition for condition in mfs.conditions}
    qp_type, opcode = stated.get("qp_type"), stated.get("opcode")
    if qp_type is None and opcode is None:
        return f"Any traffic (seen with {workload.qp_type} {workload.opcode})"
    forced = (qp_type is None and workload.opcode is Opcode.READ) or (opcode is None and workload.qp_type is QpType.UD)
    parts = [
        _alternatives(condition, value)
        for condition, value in ((qp_type, workload.qp_type), (opcode, workload.opcode))
        if condition is not None or forced
    ]
    return " ".join(parts)


def _alternatives(condition: Condition | None, value: object) -> str:
    if condition is not None and condition.op is Op.ONE_OF:
        return "/".join(str(choice) for choice in condition.value)
    return str(value)


_SIZES = {
    "mr_bytes",
    "max_inline_data",
    "min_message_bytes",
    "max_message_bytes",
    "min_segment_bytes",
    "max_segment_bytes",
}

_NOUNS = {
    "qps": "queue pairs per direction",
    "total_qps": "queue pairs over both directions",
    "mrs_per_qp": "memory regions per queue pair",
    "total_mrs": "memory regions in all",
    "mr_bytes": "bytes per memory region",
    "wqe_batch": "work requests per post",
    "sge_count": "scatter/gather entries",
    "send_wq_depth": "send queue entries",
    "recv_wq_depth": "receive queue entries",
    "total_send_wqes": "send queue entries in all",
    "total_recv_wqes": "receive queue entries in all",
    "max_rd_atomic": "outstanding READs per queue pair",
    "max_dest_rd_atomic": "inbound READs per queue pair",
    "min_message_bytes": "the smallest message",
    "max_message_bytes": "the largest message",
    "min_segment_bytes": "the smallest scatter/gather entry",
    "max_segment_bytes": "the largest scatter/gather entry",
}


def _phrase(condition: Condition) -> str:
    name, op, value = condition.dimension, condition.op, condition.value
    if name in {"qp_type", "opcode"}:
        return ""
    if name == "direction" and op is not Op.ONE_OF:
        return "both hosts send at once" if value == "bidirectional" else "only one host sends"
    if name == "loopback" and op is not Op.ONE_OF:
        return "loopback traffic runs beside it" if value else "no loopback traffic runs beside it"
    if op is Op.ONE_OF:
        return f"{name} is {' or '.join(_value(choice) for choice in value)}"
    if op is Op.EQUAL:
        return f"{name} is {_value(value)}"
    side = "at least" if op is Op.AT_LEAST else "at most"
    shown = format_bytes(value) if name in _SIZES else str(value)
    if name.endswith("_bytes") and name != "mr_bytes":
        return f"{_NOUNS[name]} has {side} {shown}"
    if name == "mr_bytes":
        return f"a memory region has {side} {shown}"
    noun = _NOUNS.get(name)
    return f"there are {side} {shown} {noun}" if noun else f"{name} is {side} {shown}"


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(list(value)) if isinstance(value, tuple) else str(value)


def _enumerate(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
