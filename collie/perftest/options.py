"""Options of perftest's bandwidth tests: one table to parse and to write commands.

It follows parser and manual page of perftest 4.5 (Debian 12) and 25.01 (Debian 13). `REQUIRES` has what they lack.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from collie.workloads.parse import parse_value
from collie.workloads.workload import Connection, Opcode, QpType

PROGRAMS: Mapping[Opcode, tuple[str, ...]] = {
    Opcode.WRITE: ("ib_write_bw",),
    Opcode.WRITE_WITH_IMM: ("ib_write_bw", "--write_with_imm"),
    Opcode.SEND: ("ib_send_bw",),
    Opcode.READ: ("ib_read_bw",),
    Opcode.FETCH_ADD: ("ib_atomic_bw", "--atomic_type=FETCH_AND_ADD"),
    Opcode.CMP_SWP: ("ib_atomic_bw", "--atomic_type=CMP_AND_SWAP"),
}
"""SEND with immediate data is missing, because no program sends it."""

PROGRAM_NAMES = tuple(dict.fromkeys(program[0] for program in PROGRAMS.values()))

_ALL = frozenset(Opcode)
_FETCHES = frozenset(opcode for opcode in Opcode if opcode.fetches)
_RECEIVES = frozenset(opcode for opcode in Opcode if opcode.consumes_receive)
_ATOMICS = frozenset(opcode for opcode in Opcode if opcode.is_atomic)

PAGE_BYTES = 4096
"""Buffer of a queue pair: one page, or one message if that is longer."""

MAX_CQ_MODERATION = 1024
DEFAULT_CQ_MODERATION = 100
MODERATED_UP_TO_BYTES = 8192
"""Without `-Q`, every larger message is signalled."""

DEFAULT_RECV_DEPTH = 512
DEFAULT_ITERATIONS: Mapping[str, int] = {"ib_write_bw": 5000}
OTHER_ITERATIONS = 1000

FIXED: Mapping[str, int] = {"rnr_retry": 7, "min_rnr_timer": 12, "hop_limit": 255}
MAX_SEND_DEPTH = 15000


@dataclass(frozen=True, slots=True)
class Option:
    """An option that carries one field of a workload.

    Attributes:
        names: short name first. The first is written.
        default: the field's value without the option. None where the port or the device decides.
        read: parses the option's text. A ValueError names the remedy.
        write: formats the field's value, or None for a flag.
        most: its largest value, or None.
        opcodes: operations whose program accepts it.
    """

    names: tuple[str, ...]
    field: str
    default: Any
    read: Callable[[str], Any]
    write: Callable[[Any], str] | None = str
    most: int | None = None
    opcodes: frozenset[Opcode] = _ALL


def _number(text: str) -> int:
    try:
        return int(text, 0)  # strtol's rules: 0x is hexadecimal
    except ValueError:
        raise ValueError(f"{text!r} is no whole number") from None


def _size(text: str) -> tuple[int, ...]:
    factor = {"K": 1 << 10, "M": 1 << 20}.get(text[-1:], 1)
    size = _number(text if factor == 1 else text[:-1]) * factor
    if not 1 <= size < 1 << 31:
        raise ValueError(f"{text!r} is no size; 1 to {(1 << 31) - 1} bytes, also as 4K or 2M")
    return (size,)


def _counted(names: tuple[str, ...], field: str, default: int | None, most: int | None, **more: Any) -> Option:
    def read(text: str) -> int:
        number = int(parse_value(field, _number(text)))
        if most is not None and number > most:
            raise ValueError(f"{number} is too large; perftest takes at most {most}")
        return number

    return Option(names, field, default, read, most=most, **more)


def _flag(names: tuple[str, ...], field: str, off: Any, on: Any, **more: Any) -> Option:
    return Option(names, field, off, lambda _text: on, write=None, **more)


OPTIONS: tuple[Option, ...] = (
    Option(("-c", "--connection"), "qp_type", QpType.RC, lambda text: parse_value("qp_type", text)),
    _counted(("-q", "--qp"), "qps", 1, 16384),
    Option(("-s", "--size"), "messages", (65536,), _size, lambda sizes: str(max(sizes)), opcodes=_ALL - _ATOMICS),
    Option(("-m", "--mtu"), "mtu", None, lambda text: parse_value("mtu", _number(text))),
    _counted(("-t", "--tx-depth"), "send_wq_depth", 128, MAX_SEND_DEPTH),
    _counted(("-r", "--rx-depth"), "recv_wq_depth", DEFAULT_RECV_DEPTH, 16384, opcodes=_RECEIVES),
    _counted(("-l", "--post_list"), "wqe_batch", 1, None),
    _counted(("-I", "--inline_size"), "max_inline_data", 0, 912, opcodes=_ALL - _FETCHES),
    _counted(("-o", "--outs"), "max_rd_atomic", None, None, opcodes=_FETCHES),
    _counted(("-u", "--qp-timeout"), "timeout", 14, 31),
    _counted(("--tclass",), "traffic_class", 0, 255),
    _flag(("-R", "--rdma_cm"), "connection", Connection.OUT_OF_BAND, Connection.RDMA_CM),
    _counted(("--retry_count",), "retry_cnt", 7, 7),
    _flag(("--use-srq",), "srq", False, True, opcodes=frozenset({Opcode.SEND})),
    _flag(("--use_hugepages",), "huge_pages", False, True),
)
"""Options that alone carry a field. `-Q`, `--recv_post_list` and `--mr_per_qp` depend on others."""

WITH_RDMA_CM: Mapping[str, str] = {"traffic_class": "-T", "retry_cnt": "--retry_count"}
"""Options of two fields with `-R`. `WITHOUT_RDMA_CM` has those without `-R`. An empty text means that there is none."""
WITHOUT_RDMA_CM: Mapping[str, str] = {"traffic_class": "--tclass", "retry_cnt": ""}

TAKEN_TOGETHER: tuple[tuple[str, ...], ...] = (
    ("-Q=", "--cq-mod="),
    ("--recv_post_list=",),
    ("--mr_per_qp",),
    ("-T=", "--tos="),
)
TOPOLOGY: tuple[tuple[str, ...], ...] = (("-b", "--bidirectional"), ("--use_cuda=",), ("--use_cuda_bus_id=",))
TOPOLOGY += (("--use_rocm=",), ("--use_cuda_dmabuf",), ("--use_rocm_dmabuf",), ("--reversed",))
OPERATION: tuple[tuple[str, ...], ...] = (("--atomic_type=", "-A="), ("--write_with_imm",))
LENGTH: tuple[tuple[str, ...], ...] = (("-n=", "--iters="), ("-D=", "--duration="), ("--run_infinitely",))
"""`-n` also caps the queues, because perftest makes no queue longer than the number of messages."""

OF_NO_MEANING: tuple[tuple[str, ...], ...] = (
    ("-d=", "--ib-dev="),
    ("-i=", "--ib-port="),
    ("-p=", "--port="),
    ("-x=", "--gid-index="),
    ("-f=", "--margin="),
    ("-F", "--CPU-freq"),
    ("-N", "--noPeak"),
    ("-S=", "--sl="),
    ("-W=", "--report-counters="),
    ("-w=", "--limit_bw="),
    ("-y=", "--limit_msgrate="),
    ("-z", "--comm_rdma_cm"),
    ("-X=", "--vector="),
    ("-e", "--events"),
    ("--bind_source_ip=",),
    ("--cpu_util",),
    ("--cqe_poll=",),
    ("--dont_xchg_versions",),
    ("--disable_pcie_relaxed",),
    ("--flow_label=",),
    ("--force-link=",),
    ("--gpu_touch=",),
    ("--ipv6",),
    ("--ipv6-addr",),
    ("--no_lock",),
    ("--out_json",),
    ("--out_json_file=",),
    ("--output=",),
    ("--payload_file_path=",),
    ("--perform_warm_up",),
    ("--pkey_index=",),
    ("--report-both",),
    ("--report-per-port",),
    ("--report_gbits",),
    ("--use_old_post_send",),
    ("--wait_destroy=",),
)
"""Options that do not change the workload: placement, report, polling."""

REFUSED: Mapping[tuple[str, ...], str] = {
    ("-a", "--all"): "runs one size after another, and a workload has its sizes at once; give the one you mean with -s",
    ("-g", "--mcg"): "sends to a multicast group, which no workload does",
    ("-M=", "--MGID="): "sends to a multicast group, which no workload does",
    ("-O", "--dualport"): "uses two ports at once, and a workload has one; give the line of one port",
    ("-h", "--help"): "runs nothing",
    ("-V", "--version"): "runs nothing",
    ("--odp",): "pages memory on demand, and every region of a workload is pinned",
    ("--use-null-mr",): "sends from no memory at all",
    ("--mmap=",): "sends from the memory of a device, and a workload's is DRAM or a GPU's",
    ("--use_hl=",): "sends from memory of an accelerator, and a workload's is DRAM or a GPU's",
    ("--use_mlu=",): "sends from memory of an accelerator, and a workload's is DRAM or a GPU's",
    ("--use_neuron=",): "sends from memory of an accelerator, and a workload's is DRAM or a GPU's",
    ("--aes_xts",): "encrypts what it sends, which no workload does",
    ("--sig_offload",): "signs what it sends, which no workload does",
    (
        "--rate_limit=",
    ): "slows the sender down queue pair by queue pair or in bursts, and a workload slows a whole flow",
    (
        "--rate_limit_type=",
    ): "slows the sender down queue pair by queue pair or in bursts, and a workload slows a whole flow",
    (
        "--rate_units=",
    ): "slows the sender down queue pair by queue pair or in bursts, and a workload slows a whole flow",
    (
        "--burst_size=",
    ): "slows the sender down queue pair by queue pair or in bursts, and a workload slows a whole flow",
}
"""Options whose traffic no workload can express."""

REQUIRES: Mapping[str, str] = {
    "--write_with_imm": "a perftest newer than 4.5 (25.01 has --write_with_imm)",
    "--recv_post_list": "perftest 4.5 or newer, for --recv_post_list",
    "--use_cuda": "a perftest built with CUDA, as those of the distributions are not; 0 is the number of the GPU",
}

REASONS: Mapping[str, str] = {
    "more_opcodes": "a process carries out one operation",
    "opcode": "no program sends with immediate data",
    "messages": "all messages of a process have one size (-s)",
    "sge_count": "every work request has one scatter/gather entry",
    "sge_split": "every work request has one scatter/gather entry",
    "mrs_per_qp": "a queue pair has one memory region at most (--mr_per_qp)",
    "mr_bytes": "a queue pair uses one page, or as much as one message where that is longer",
    "qps": "a process has at most 16384 queue pairs (-q)",
    "send_wq_depth": "a send queue has at most 15000 entries (-t)",
    "recv_wq_depth": "a receive queue has an even number of entries, at most 16384 (-r)",
    "wqe_batch": "a post fits the send queue, which has at most 15000 entries (-t)",
    "signal_every": "a list is signalled at least once (-Q divides -l), single posts at least every 1024 messages",
    "sq_sig_all": "SRD is signalled for every message",
    "offered_bps": "--rate_limit paces each queue pair in hardware, or bursts of a process in software: no flow evenly",
    "new_mrs_per_second": "no process registers regions while it sends",
    "new_qps_per_second": "no process creates queue pairs while it sends",
    "new_ahs_per_second": "no process creates address handles while it sends",
    "qp_errors_per_second": "a process ends with the first error",
    "control_verbs_imitated": "no process imitates control verbs",
    "max_inline_data": "at most 912 bytes are inline (-I), and none of what is fetched",
    "max_rd_atomic": "-o sets it for both ends",
    "max_dest_rd_atomic": "-o sets it for both ends",
    "srq": "a shared receive queue is for SEND, at least as deep as there are queue pairs; XRC and DC always have one",
    "fence": "no work request is fenced",
    "sq_psn": "the first packet sequence number is drawn at random",
    "retry_cnt": "it is 7 but with RDMA-CM (--retry_count)",
    "rnr_retry": "it is always 7, which is for ever",
    "min_rnr_timer": "it is always 12, which is 0.64 ms",
    "hop_limit": "it is always 255",
}
"""Why perftest differs in a field. All other fields carry over."""
