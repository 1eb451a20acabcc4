"""The checked workload of one run."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from itertools import cycle, islice
from math import lcm
from typing import Any, Dict, FrozenSet, Mapping, Optional, Sequence, Tuple, Union

from .faults import AgentFault, bad_request
from .memory import why_no_gpu

QP_TYPES = ("RC", "UC", "UD", "XRC", "DC", "SRD")
OPCODES = ("SEND", "SEND_WITH_IMM", "WRITE", "WRITE_WITH_IMM", "READ", "FETCH_ADD", "CMP_SWP")
SENDS = frozenset({"SEND", "SEND_WITH_IMM"})
RECEIVING = SENDS | frozenset({"WRITE_WITH_IMM"})
ATOMICS = frozenset({"FETCH_ADD", "CMP_SWP"})
# Opcodes whose payload the requester receives.
FETCHING = frozenset({"READ"}) | ATOMICS
ATOMIC_BYTES = 8
# Limit of a turn, because each of its requests is built at least once per queue pair.
MAX_REQUESTS_IN_TURN = 4096
CONNECTIONS = ("out_of_band", "rdma_cm")
MTUS = (256, 512, 1024, 2048, 4096)
MTU_CODES = {mtu: code for code, mtu in enumerate(MTUS, start=1)}  # enum ibv_mtu

# Fields that are accepted and ignored, because `flows` of `prepare` states them in more detail.
IGNORED = ("direction", "loopback")

# Rates of what each host makes or breaks beside the traffic.
CONTROL_VERBS = ("new_mrs_per_second", "new_qps_per_second", "new_ahs_per_second", "qp_errors_per_second")
BESIDE_TRAFFIC = (*CONTROL_VERBS, "control_verbs_imitated")

# Field widths of the verbs API, which cuts larger values silently.
LIMITS: Dict[str, Tuple[int, int]] = {
    "qps": (1, 1 << 20),
    "mrs_per_qp": (1, 1 << 20),
    "mr_bytes": (0, 1 << 40),
    "wqe_batch": (1, 1 << 16),
    "signal_every": (1, 1 << 16),
    "sge_count": (1, 1 << 10),
    "send_wq_depth": (1, 1 << 20),
    "recv_wq_depth": (1, 1 << 20),
    "offered_bps": (0, (1 << 63) - 1),
    **dict.fromkeys(CONTROL_VERBS, (0, 1_000_000)),
    "max_rd_atomic": (0, 255),
    "max_dest_rd_atomic": (0, 255),
    "timeout": (0, 31),
    "retry_cnt": (0, 7),
    "rnr_retry": (0, 7),
    "min_rnr_timer": (0, 31),
    "max_inline_data": (0, 1 << 16),
    "sq_psn": (0, (1 << 24) - 1),
    "traffic_class": (0, 255),
    "hop_limit": (0, 255),
}


@dataclass(frozen=True)
class Workload:
    """A workload in the names and encodings of the verbs API. Sizes are bytes."""

    qp_type: str
    opcode: str
    messages: Tuple[int, ...]
    more_opcodes: Tuple[str, ...] = ()
    qps: int = 1
    mrs_per_qp: int = 1
    mr_bytes: int = 0
    mtu: int = 1024
    wqe_batch: int = 1
    signal_every: int = 1
    sge_count: int = 1
    sge_split: Union[str, Tuple[int, ...]] = "even"
    send_wq_depth: int = 128
    recv_wq_depth: int = 128
    max_rd_atomic: int = 1
    max_dest_rd_atomic: int = 1
    timeout: int = 14
    retry_cnt: int = 7
    rnr_retry: int = 6
    min_rnr_timer: int = 12
    max_inline_data: int = 0
    sq_sig_all: bool = False
    srq: bool = False
    fence: bool = False
    sq_psn: int = 0
    traffic_class: int = 0
    hop_limit: int = 64
    numa_node: Optional[int] = None
    peer_numa_node: Optional[int] = None
    memory: str = "dram"
    peer_memory: str = "dram"
    huge_pages: bool = False
    connection: str = "out_of_band"
    offered_bps: int = 0
    new_mrs_per_second: int = 0
    new_qps_per_second: int = 0
    new_ahs_per_second: int = 0
    qp_errors_per_second: int = 0
    control_verbs_imitated: bool = False

    @property
    def by_rdma_cm(self) -> bool:
        """Whether RDMA-CM connects the queue pairs."""
        return self.connection == "rdma_cm"

    @property
    def opcodes(self) -> FrozenSet[str]:
        """All opcodes."""
        return frozenset((self.opcode, *self.more_opcodes))

    @property
    def turn(self) -> Tuple[Tuple[str, int], ...]:
        """Opcode and payload bytes of each request, until both lists repeat together. An atomic takes 8 bytes."""
        pairs = zip(cycle((self.opcode, *self.more_opcodes)), cycle(self.messages))
        return tuple(
            (opcode, ATOMIC_BYTES if opcode in ATOMICS else size)
            for opcode, size in islice(pairs, self.requests_in_turn)
        )

    @property
    def requests_in_turn(self) -> int:
        """Requests until the lists of opcodes and messages repeat together."""
        return lcm(1 + len(self.more_opcodes), len(self.messages))

    @property
    def receives(self) -> bool:
        """Whether the responder must post receives."""
        return bool(self.opcodes & RECEIVING)

    @property
    def mixed(self) -> bool:
        """Whether some requests fetch payload and others send it."""
        return bool(self.opcodes & FETCHING) and not self.opcodes <= FETCHING

    @property
    def reliable(self) -> bool:
        """Whether a completion proves that its requests were carried out."""
        return self.qp_type not in ("UC", "UD")

    @property
    def echoable(self) -> bool:
        """Whether only an echo proves that messages arrived, and the responder notices them."""
        return not self.reliable and self.opcodes <= RECEIVING

    @property
    def messages_per_signal(self) -> int:
        """Work requests per completion of the send queue."""
        return 1 if self.sq_sig_all else self.wqe_batch * self.signal_every

    @property
    def largest_message(self) -> int:
        """Payload bytes of the largest request."""
        return max(size for _, size in self.turn)

    @property
    def buffer_bytes(self) -> int:
        """Bytes of each MR, by default those of the largest message."""
        return self.mr_bytes or self.largest_message


def parse_workload(data: Any) -> Workload:
    """Parse the workload of a request. GPU memory is ``unsupported``."""
    if not isinstance(data, Mapping):
        raise bad_request("workload: not an object")
    fields = {field.name for field in dataclasses.fields(Workload)}
    unknown = sorted(set(data) - fields - set(IGNORED))
    if unknown:
        raise bad_request(f"workload: unknown field {', '.join(unknown)[:200]}")
    values = {name: value for name, value in data.items() if name in fields}
    for name in ("qp_type", "opcode", "messages"):
        if name not in values:
            raise bad_request(f"workload: {name} is missing")
    for name in ("messages", "sge_split", "more_opcodes"):
        if isinstance(values.get(name), (list, tuple)):
            values[name] = tuple(values[name])
    workload = Workload(**values)
    _check_types(workload)
    _check_meaning(workload)
    return workload


def _check_types(workload: Workload) -> None:
    for name, (low, high) in LIMITS.items():
        value = getattr(workload, name)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise bad_request(f"workload: {name} must be an integer {low}..{high}, not {value!r}")
    for name in ("sq_sig_all", "srq", "fence", "huge_pages", "control_verbs_imitated"):
        if not isinstance(getattr(workload, name), bool):
            raise bad_request(f"workload: {name} must be true or false")
    for name in ("numa_node", "peer_numa_node"):
        value = getattr(workload, name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise bad_request(f"workload: {name} must be an integer or null")
    if not isinstance(workload.more_opcodes, tuple) or not all(isinstance(o, str) for o in workload.more_opcodes):
        raise bad_request("workload: more_opcodes must be a list of opcodes")
    if not _byte_list(workload.messages, 1) or not workload.messages:
        raise bad_request("workload: messages must be a list of byte counts, each at least 1")
    if workload.sge_split != "even" and not _byte_list(workload.sge_split, 0):
        raise bad_request("workload: sge_split must be 'even' or a list of byte counts")


def _byte_list(value: Any, lowest: int) -> bool:
    return isinstance(value, tuple) and all(type(item) is int and lowest <= item < 1 << 31 for item in value)


def _check_meaning(workload: Workload) -> None:
    choices: Dict[str, Sequence[Any]] = {"qp_type": QP_TYPES, "mtu": MTUS, "connection": CONNECTIONS}
    for name, allowed in choices.items():
        if getattr(workload, name) not in allowed:
            raise bad_request(f"workload: {name} must be one of {', '.join(map(str, allowed))}")
    for name in ("memory", "peer_memory"):
        if getattr(workload, name) not in ("dram", "gpu"):
            raise bad_request(f"workload: {name} must be dram or gpu")
        if getattr(workload, name) == "gpu":
            raise AgentFault("unsupported", "register", why_no_gpu())
    if workload.by_rdma_cm and workload.qp_type != "RC":
        raise AgentFault("unsupported", "rdma_cm", f"RDMA-CM connects only RC queue pairs here, not {workload.qp_type}")
    _check_opcodes(workload)
    if workload.qp_type == "UD" and workload.largest_message > workload.mtu:
        raise bad_request("workload: a UD message must fit one packet (mtu)")
    if workload.largest_message > workload.buffer_bytes:
        raise bad_request("workload: a message must fit one MR (mr_bytes)")
    if workload.wqe_batch * workload.signal_every > workload.send_wq_depth:
        raise bad_request(
            "workload: wqe_batch is deeper than send_wq_depth"
            if workload.signal_every == 1
            else "workload: wqe_batch x signal_every is above send_wq_depth, so a full queue signals nothing"
        )
    if len(workload.sge_split) > workload.sge_count and workload.sge_split != "even":
        raise bad_request("workload: sge_split lists more entries than sge_count")


def _check_opcodes(workload: Workload) -> None:
    for opcode in (workload.opcode, *workload.more_opcodes):
        if opcode not in OPCODES:
            raise bad_request(f"workload: an opcode must be one of {', '.join(OPCODES)}, not {opcode!r}")
    if workload.requests_in_turn > MAX_REQUESTS_IN_TURN:
        raise bad_request(f"workload: a turn of opcodes and messages has more than {MAX_REQUESTS_IN_TURN} requests")
    no_carrier = {"UC": FETCHING, "UD": frozenset(OPCODES) - SENDS}
    wrong = sorted(workload.opcodes & no_carrier.get(workload.qp_type, frozenset()))
    if wrong:
        raise bad_request(f"workload: {workload.qp_type} has no {' or '.join(wrong)}")
    if workload.qp_type == "UC" and len(workload.opcodes) > 1 and not workload.opcodes <= RECEIVING:
        # UC acknowledges no WRITE, and its packets cannot be told apart from those of other messages.
        raise bad_request("workload: UC mixes only opcodes that consume receives")
