"""An anomaly: a confirmed workload, its minimal feature set, and its sentence."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from collie.detect.interval import Interval, wilson
from collie.detect.symptom import Symptom, Verdict, severity_in_words
from collie.search.likely_cause import DiscriminatingCounter, component
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.setup import SetUp
from collie.workloads.units import format_bytes, format_rate, format_sizes
from collie.workloads.workload import FIELD_NAMES, QpType, Workload

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""An id appears on the command line and names a folder."""


def require_id(name: str) -> str:
    """Return the id of an anomaly, or raise ValueError for an invalid one."""
    if not _ID.fullmatch(name):
        raise ValueError(f"{name[:40]!r} is no id of an anomaly")
    return name


def anomaly_id(name: str) -> str:
    """Return a name as an id: unchanged if valid, else its valid characters and a digest that keeps it unique."""
    if _ID.fullmatch(name):
        return name
    plain = re.sub(r"[^A-Za-z0-9._-]", ".", name).lstrip("._-")
    return f"{plain[:48]}-{hashlib.sha256(name.encode()).hexdigest()[:12]}".lstrip("-")


@dataclass(frozen=True, slots=True)
class LikelySame:
    """The explained anomaly that most likely has the cause of another one, and the chance that it has."""

    id: str
    chance: float


NOT_BEGUN = "not explained yet: its explanation has not begun"


@dataclass(frozen=True, slots=True)
class Anomaly:
    """One finding of a campaign.

    Attributes:
        id: `a1`, `a2`, ... within the campaign.
        severity: max(pause ratio, 1 - delivered / bound) of the run of middle severity of `workload`: of those that
            confirmed it, or of all once the extraction has simplified it.
        workload: the simplest workload that extraction found. It satisfies `mfs`.
        found_as: the workload that was confirmed: the search's, or a control of it that showed this second cause.
        reason: the sentence of this run with its figures.
        found_severity, found_reason: the same of `found_as`, or None and empty if `workload` is no simpler.
        found_at_run: number of the run that raised the suspicion.
        found_at_seconds: elapsed testbed time at the end of confirmation.
        extraction_runs: runs of the extraction, with those of revisions.
        complete: False if the budget or the limit of runs cut the extraction short.
        trials, passed: runs inside the conditions, and those of them that reproduced the symptom.
        confidence: chance that the next run reproduces it, or None without an explanation.
        revised: earlier explanations that a measurement contradicted, oldest first.
        telling, hint: counters that moved most against plain traffic, and the cause that they suggest.
        same_as: id of the anomaly that has the same cause, as control runs showed.
        likely_same_as: without an explanation, the anomaly that most likely has the same cause (`search.familiarity`).
        fresh_runs, fresh_shows: runs drawn anew inside the finished `mfs`, and those of them that were anomalous.
        history: the shortest sequence of workloads after which it shows on the same set-up. Empty if it needs none.
        made_for: the workload whose set-up it needs, or None if a set-up of its own shows it.
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
    trials: int = 0
    passed: int = 0
    confidence: float | None = None
    telling: tuple[DiscriminatingCounter, ...] = ()
    hint: str = ""
    same_as: str | None = None
    likely_same_as: LikelySame | None = None
    revised: tuple[Mfs, ...] = ()
    fresh_runs: int = 0
    fresh_shows: int = 0
    history: tuple[Workload, ...] = ()
    made_for: Workload | None = None
    found_severity: float | None = None
    found_reason: str = ""

    def reduced_to(self, workload: Workload, typical: Verdict | None) -> Anomaly:
        """Return the anomaly with a simpler workload, and the figures of a `typical` run of it if there is one."""
        if typical is None or workload == self.workload:
            return replace(self, workload=workload)
        found = self.found_severity, self.found_reason
        if self.workload == self.found_as:
            found = self.severity, self.reason
        if workload == self.found_as:
            found = None, ""
        figures = replace(self, severity=typical.severity, reason=typical.reason, host=typical.host)
        return replace(figures, workload=workload, found_severity=found[0], found_reason=found[1])

    def with_reproduction(self) -> Anomaly:
        """Return the anomaly with one more reproducing run inside its conditions."""
        trials, passed = self.trials + 1, self.passed + 1
        return replace(self, trials=trials, passed=passed, confidence=chance_of_next(passed, trials))

    def without_explanation(self) -> Anomaly:
        """Return the anomaly after a measurement contradicted its explanation."""
        open_again = replace(self, mfs=Mfs(()), complete=False, trials=0, passed=0, confidence=None)
        return replace(open_again, fresh_runs=0, fresh_shows=0, revised=(*self.revised, self.mfs))

    @property
    def set_up(self) -> SetUp | None:
        """The set-up that it needs, after the phases that bring it. None: any set-up of its own."""
        return None if self.made_for is None else SetUp(self.made_for, self.history)

    @property
    def figure(self) -> str:
        """The severity in words, see `severity_in_words`."""
        return severity_in_words(self.symptom, self.severity, self.reason)

    @property
    def found_figure(self) -> str:
        """The severity of the workload that was found in words, or an empty string if `workload` is no simpler."""
        if self.found_severity is None:
            return ""
        return severity_in_words(self.symptom, self.found_severity, self.found_reason)

    @property
    def component(self) -> str:
        """The component that `hint` blames, or an empty string if no counter moved."""
        return component(self.telling, self.mfs)

    @property
    def shown_interval(self) -> Interval | None:
        """The interval that the fresh runs give for the share of runs inside `mfs` that show an anomaly, if any."""
        return wilson(self.fresh_shows, self.fresh_runs)

    @property
    def explanation_begun(self) -> bool:
        """Whether its conditions were looked for. The budget can end before."""
        return bool(self.complete or self.extraction_runs or self.mfs.conditions)

    @property
    def sentence(self) -> str:
        """The summary for an engineer."""
        if self.same_as is not None:
            return f"Explained by {self.same_as}: {self.reason}."
        if not self.mfs.conditions:
            workload = self.workload
            unexplained = f"{workload.qp_type} {workload.opcode}, not explained yet"
            return f"{'Any workload of the space' if self.complete else unexplained}{self._only}: {self.reason}."
        traffic = describe_traffic(self.workload, self.mfs, complete=self.complete)
        phrases = _phrases(self.mfs.conditions)
        needs = f" when {_enumerate(phrases)}" if phrases else ""
        cut_short = "" if self.complete else " (not explained to the end)"
        return f"{traffic}{needs}{self._only}: {self.reason}{cut_short}."

    @property
    def _only(self) -> str:
        """The phases, or else the set-up, without which it does not show, in words."""
        if self.made_for is None:
            return ""
        if self.history:
            phases = " and then ".join(f"a phase with {differences(each, self.workload)}" for each in self.history)
            return f", only after {phases} on the same set-up"
        return f", only on a set-up for traffic with {differences(self.made_for, self.workload)}"


def chance_of_next(passed: int, trials: int) -> float:
    """Return (passed + 1) / (trials + 2), Laplace's estimate that the next trial passes."""
    return (passed + 1) / (trials + 2)


def causes_of(anomalies: Sequence[Anomaly]) -> list[tuple[Anomaly, tuple[Anomaly, ...]]]:
    """Return each anomaly that is not joined to another one, with those that are joined to it."""
    by_id = {anomaly.id: anomaly for anomaly in anomalies}

    def root(anomaly: Anomaly) -> Anomaly:
        seen = {anomaly.id}
        while anomaly.same_as in by_id and anomaly.same_as not in seen:
            anomaly = by_id[anomaly.same_as]
            seen.add(anomaly.id)
        return anomaly

    roots = {anomaly.id: root(anomaly).id for anomaly in anomalies}
    return [
        (anomaly, tuple(other for other in anomalies if other is not anomaly and roots[other.id] == anomaly.id))
        for anomaly in anomalies
        if roots[anomaly.id] == anomaly.id
    ]


class KnownAnomalies:
    """The minimal feature sets found so far. A search skips workloads that they cover."""

    def __init__(self, sets: Iterable[Mfs] = ()) -> None:
        self._sets = list(sets)

    def copy(self) -> KnownAnomalies:
        """Return the sets known now, to which later ones are not added."""
        return KnownAnomalies(self._sets)

    def add(self, mfs: Mfs) -> None:
        """Add a set."""
        self._sets.append(mfs)

    def remove(self, mfs: Mfs) -> None:
        """Remove a set that proved wrong."""
        self._sets.remove(mfs)

    def covers(self, workload: Workload, but: Mfs | None = None) -> bool:
        """Whether a known anomaly explains a workload (paper, MatchMFS), other than one set."""
        return any(mfs != but and mfs.covers(workload) for mfs in self._sets)


def differences(workload: Workload, other: Workload) -> str:
    """Return the fields of a workload that another one has otherwise: `qps 64 and opcode READ`."""
    names = [name for name in FIELD_NAMES if workload.get(name) != other.get(name)]
    values = ((name, workload.get(name)) for name in names)
    with_unit = {*_SIZES, "offered_bps"}
    found = [f"{name} {_amount(name, value) if name in with_unit else _value(value)}" for name, value in values]
    return _enumerate(found) if found else "the same traffic"


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
}

_NOUNS = {
    "mr_bytes": "a memory region",
    "min_message_bytes": "the smallest message",
    "max_message_bytes": "the largest message",
    "mean_message_bytes": "the mean message",
    "min_segment_bytes": "the smallest scatter/gather entry",
    "max_segment_bytes": "the largest scatter/gather entry",
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
    is_quantity = name in _SIZES or name in _COUNTED or name in {"mtu", "offered_bps"}
    return _quantity(name, "exactly", value) if is_quantity else f"{name} is {_value(value)}"


def _quantity(name: str, how: str, value: Any) -> str:
    amount = f"{how} {_amount(name, value)}"
    if name in _NOUNS:
        return f"{_NOUNS[name]} has {amount}"
    if name == "mtu":
        return f"the path MTU is {amount}"
    if name == "offered_bps":  # 0 means full queues, and satisfies each "at most"
        return f"each flow is offered {amount}{' or has full send queues' if how == 'at most' else ''}"
    if name not in _COUNTED:
        return f"{name} is {amount}"
    one, several, where = _COUNTED[name]
    is_one = value == 1 and not how.endswith("to")
    return f"there {'is' if is_one else 'are'} {amount} {one if is_one else several}{where}"


def _amount(name: str, value: Any) -> str:
    if name == "offered_bps":
        return format_rate(value)
    return format_bytes(value) if name in _SIZES else str(value)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return format_sizes(value) if isinstance(value, tuple) else str(value)


def _enumerate(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
