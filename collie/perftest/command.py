"""The perftest commands of a workload, and the fields that they cannot express.

The written commands are parsed again. A field whose parsed value differs is reported as a difference, with a reason.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from collie.perftest import options as table
from collie.perftest.parse import option_name, workload_of
from collie.workloads.effect import fetches, is_unreliable, receives
from collie.workloads.feature import Mfs
from collie.workloads.plan import Flow, flows, is_peer
from collie.workloads.workload import FIELD_NAMES, Connection, Memory, Opcode, Workload

_ALWAYS_WRITTEN = frozenset({"qp_type", "qps", "messages", "send_wq_depth", "recv_wq_depth", "wqe_batch"})
"""Fields whose option is always written, even at perftest's default, because readers look for it."""

_FOR_SOME_TIME = ("-D", "10")
"""A duration, because a number of messages (`-n`) would cap the queues."""

_BY_PROCESSES = (
    *("direction", "loopback", "requesters", "responders", "rails", "remote"),
    *("numa_node", "peer_numa_node", "memory", "peer_memory"),
)
"""Fields expressed by the placement of processes, not by common options."""

_INCIDENTAL = frozenset(table.FIXED) | {"retry_cnt", "mr_bytes", "sq_psn", "max_dest_rd_atomic"}
"""Fields in which perftest may differ, unless a condition names them."""


@dataclass(frozen=True, slots=True)
class PerftestCommand:
    """One perftest process.

    Attributes:
        role: of its host: `a`, `b`, ...
        server: role of the host that a client connects to. Empty for a server.
        argv: program and options, without the duration (`-D`) and those that depend on the hosts.
        numa_node: NUMA distance of its buffers from the NIC.
    """

    role: str
    server: str
    argv: tuple[str, ...]
    numa_node: int


@dataclass(frozen=True, slots=True)
class PerftestPair:
    """Server and requesting client of a flow. All pairs run at the same time."""

    flow: Flow
    server: PerftestCommand
    client: PerftestCommand


@dataclass(frozen=True, slots=True)
class PerftestDifference:
    """A field in which perftest differs: the value `asked`, the value that perftest `runs`, and the reason."""

    field: str
    asked: Any
    runs: Any
    reason: str


@dataclass(frozen=True, slots=True)
class Expression:
    """A workload in perftest's terms.

    Attributes:
        runs: the workload of the commands.
        pairs: one pair of commands per flow, or none when perftest cannot express the workload.
        lacks: differences that change the workload or break a condition of the anomaly.
        requires: prerequisites on the hosts.
    """

    runs: Workload
    pairs: tuple[PerftestPair, ...]
    lacks: tuple[PerftestDifference, ...]
    differs: tuple[PerftestDifference, ...]
    requires: tuple[str, ...]

    @property
    def is_faithful(self) -> bool:
        """Whether perftest can express the workload."""
        return not self.lacks


def command_of(workload: Workload, conditions: Mfs | None = None) -> Expression:
    """Return the perftest commands of a workload, or the differences that prevent them.

    Fields that no condition of the anomaly needs may differ. Without `conditions` only incidental fields may, such as
    the size of the memory regions.
    """
    argv = (*table.PROGRAMS.get(workload.opcode, table.PROGRAMS[Opcode.SEND]), *_options(workload))
    runs = workload_of(shlex.join((*argv, *_FOR_SOME_TIME))).with_(
        **{name: workload.get(name) for name in _BY_PROCESSES}
    )
    different = tuple(_differences(workload, runs))
    lacks = _lacking(workload, runs, different, conditions)
    pairs = () if lacks else tuple(_pair(workload, flow, argv) for flow in flows(workload))
    rest = tuple(difference for difference in different if difference not in lacks)
    return Expression(runs, pairs, lacks, rest, _requires(pairs))


def _options(workload: Workload) -> Iterator[str]:
    """Yield the options nearest to a workload, in the order of the table."""
    receives = workload.opcode.consumes_receive
    for option in table.OPTIONS:
        if workload.opcode not in option.opcodes:
            continue
        name = option_name(option, rdma_cm=workload.connection is Connection.RDMA_CM)
        value = _nearest(option, workload)
        if not name or (value == option.default and option.field not in _ALWAYS_WRITTEN):
            continue
        yield from _given(name, option.write(value)) if option.write else (name,)
    if (every := _moderation(workload)) is not None:
        yield from _given("-Q", str(every))
    if receives and workload.wqe_batch > 1:
        yield from _given("--recv_post_list", str(workload.wqe_batch))
    if workload.qps > 1:
        yield "--mr_per_qp"


def _given(name: str, text: str) -> tuple[str, ...]:
    return (f"{name}={text}",) if name.startswith("--") else (name, text)


def _nearest(option: table.Option, workload: Workload) -> Any:
    value = workload.get(option.field)
    if option.field == "recv_wq_depth":
        value += value % 2
    if option.field == "srq" and workload.qps > workload.recv_wq_depth:
        return False
    if option.field == "wqe_batch":
        return min(value, table.MAX_SEND_DEPTH)  # a longer post fits no queue
    return value if option.most is None else min(value, option.most)


def _moderation(workload: Workload) -> int | None:
    """Messages per completion (`-Q`). None for a post list above perftest's limit: the list implies it."""
    if workload.sq_sig_all:
        return 1
    if workload.wqe_batch == 1:
        return min(workload.signal_every, table.MAX_CQ_MODERATION)
    return workload.wqe_batch if workload.wqe_batch <= table.MAX_CQ_MODERATION else None


def _pair(workload: Workload, flow: Flow, argv: tuple[str, ...]) -> PerftestPair:
    server = _command(workload, flow.responder, argv)
    client = _command(workload, flow.requester, argv, server=flow.responder)
    return PerftestPair(flow, server, client)


def _command(workload: Workload, role: str, argv: tuple[str, ...], server: str = "") -> PerftestCommand:
    peer = is_peer(workload, role)
    memory = workload.peer_memory if peer else workload.memory
    cuda = ("--use_cuda=0",) if memory is Memory.GPU else ()
    return PerftestCommand(role, server, (*argv, *cuda), workload.peer_numa_node if peer else workload.numa_node)


def _requires(pairs: tuple[PerftestPair, ...]) -> tuple[str, ...]:
    commands = [command for pair in pairs for command in (pair.server, pair.client)]
    names = {word.partition("=")[0] for command in commands for word in command.argv}
    needs = [need for name, need in table.REQUIRES.items() if name in names]
    far = any(command.numa_node for command in commands)
    return (*needs, *(["numactl on the hosts"] if far else []))


def _always_ready(asked: Workload, runs: Workload) -> bool:
    return is_unreliable(asked) or not receives(runs)


_WITHOUT_EFFECT: Mapping[str, Callable[[Workload, Workload], bool]] = {
    "messages": lambda asked, runs: set(asked.payloads) == set(runs.payloads),
    "sge_count": lambda asked, _: all(opcode.is_atomic for opcode in asked.opcodes),
    "sge_split": lambda asked, _: asked.sge_count == 1 or all(opcode.is_atomic for opcode in asked.opcodes),
    "recv_wq_depth": lambda _, runs: not receives(runs),
    "signal_every": lambda asked, runs: asked.messages_per_signal == runs.messages_per_signal,
    "sq_sig_all": lambda asked, runs: asked.messages_per_signal == runs.messages_per_signal,
    "max_rd_atomic": lambda _, runs: not fetches(runs),
    "max_dest_rd_atomic": lambda asked, runs: not fetches(runs) or asked.max_dest_rd_atomic >= asked.max_rd_atomic,
    "retry_cnt": lambda asked, _: is_unreliable(asked),
    "rnr_retry": _always_ready,
    "min_rnr_timer": _always_ready,
    "fence": lambda asked, _: not fetches(asked),
}
"""Whether a difference in a field has no effect."""


def _differences(asked: Workload, runs: Workload) -> Iterator[PerftestDifference]:
    for name in FIELD_NAMES:
        if asked.get(name) == runs.get(name):
            continue
        if name not in _WITHOUT_EFFECT or not _WITHOUT_EFFECT[name](asked, runs):
            yield PerftestDifference(name, asked.get(name), runs.get(name), table.REASONS[name])


def _lacking(
    asked: Workload, runs: Workload, different: tuple[PerftestDifference, ...], conditions: Mfs | None
) -> tuple[PerftestDifference, ...]:
    if conditions is None or not conditions.conditions:
        return tuple(difference for difference in different if difference.field not in _INCIDENTAL)
    broken = [condition for condition in conditions.conditions if not condition.holds(runs)]
    return tuple(
        difference
        for difference in different
        if any(not condition.holds(asked.with_(**{difference.field: difference.runs})) for condition in broken)
    )
