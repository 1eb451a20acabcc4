"""The workload of a pasted perftest command line. Inverse of `command.py`."""

from __future__ import annotations

import getopt
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from collie.errors import UsageError
from collie.perftest import options as table
from collie.suggest import did_you_mean, nearest
from collie.workloads.constraint import VERBS
from collie.workloads.units import format_count
from collie.workloads.workload import ATOMIC_BYTES, FIELD_NAMES, Direction, Memory, Opcode, QpType, Workload

_END_OF_COMMAND = ("&", "|", ";", ">", "2>", "<")
_SHARED_RECEIVE_QUEUE = (QpType.XRC, QpType.DC)
_UNRELIABLE = (QpType.UD, QpType.UC)


@dataclass(frozen=True, slots=True)
class ParsedCommands:
    """The meaning of pasted command lines. `remarks` are sentences on assumptions and lost options."""

    workload: Workload
    remarks: tuple[str, ...] = ()


def workload_of(*lines: str) -> Workload:
    """Return the workload that perftest command lines describe.

    Args:
        lines: one line, or the lines of processes that run at the same time: server, client, and for loopback another
            client to `localhost`.

    Raises:
        UsageError: not a perftest bandwidth test, an option without a workload, or inconsistent lines.
    """
    return read(*lines).workload


def read(*lines: str) -> ParsedCommands:
    """Return the workload like `workload_of`, with the assumptions made."""
    return _together([_Line.parse(line) for line in lines])


@dataclass(slots=True)
class _Line:
    """One parsed command line.

    Attributes:
        given: text of every given option, by its first name. Empty for a flag.
        host: the server that a client connects to. Empty on the server.
        pinned: whether numactl starts it.
    """

    text: str
    program: str
    given: dict[str, str]
    host: str
    pinned: bool
    remarks: list[str] = field(default_factory=list)

    @classmethod
    def parse(cls, text: str) -> _Line:
        before, program, words = _words(text)
        pairs, rest = _options(words)
        given: dict[str, str] = {}
        for name, value in pairs:
            first = _FIRST_NAMES[name]
            if first in _REFUSED:
                raise UsageError(f"perftest option {name}: {_REFUSED[first]}")
            if first in given:
                raise UsageError(f"perftest option {name} is given twice, which perftest refuses")
            given[first] = value
        if len(rest) > 1:
            raise UsageError(f"a perftest line names one server at most; this one names {', '.join(rest)}: {text}")
        return cls(text, program, given, "".join(rest), any(word.endswith("numactl") for word in before))

    @property
    def is_loopback(self) -> bool:
        return self.host in ("localhost", "::1") or self.host.startswith("127.")

    def number(self, name: str, default: int) -> int:
        if name not in self.given:
            return default
        try:
            value = int(self.given[name], 0)
        except ValueError:
            value = 0
        if value < 1:
            raise UsageError(f"perftest option {name}: {self.given[name]!r} is no whole number from 1")
        return value

    def opcode(self) -> Opcode:
        given = {"--atomic_type": "FETCH_AND_ADD"} if self.program == "ib_atomic_bw" else {}
        given |= {name: self.given[name] for name in _OPERATION if name in self.given}
        chosen = (self.program, *(f"{name}={text}" if text else name for name, text in given.items()))
        for opcode, program in table.PROGRAMS.items():
            if program == chosen:
                return opcode
        raise UsageError(f"{self.program} has no operation {' '.join(chosen[1:])}")


def _words(text: str) -> tuple[list[str], str, list[str]]:
    """Split a line into the words before the program (prompt, sudo, numactl), the program and its arguments."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{error} in perftest line: {text}") from None
    for number, word in enumerate(words):
        program = word.rpartition("/")[2]
        if program in table.PROGRAM_NAMES:
            after = words[number + 1 :]
            end = next((at for at, each in enumerate(after) if each.startswith(_END_OF_COMMAND)), len(after))
            return words[:number], program, after[:end]
        meant = did_you_mean(program, table.PROGRAM_NAMES)
        if program.startswith("ib_") and program.endswith("_bw") and meant:
            raise UsageError(f"no perftest program is called {program}{meant}")
        if program.startswith("raw_ethernet_"):
            raise UsageError(f"{program} uses no RDMA: only {', '.join(table.PROGRAM_NAMES)} run a workload")
        if program.startswith("ib_"):
            raise UsageError(f"{program} keeps no queue full: only {', '.join(table.PROGRAM_NAMES)} run a workload")
    raise UsageError(f"no perftest program ({', '.join(table.PROGRAM_NAMES)}) in: {text}")


def _options(words: Sequence[str]) -> tuple[list[tuple[str, str]], list[str]]:
    try:
        return getopt.gnu_getopt(list(words), _SHORT, _LONG)
    except getopt.GetoptError as error:
        if error.msg.endswith("not recognized"):
            dashes = "--" if len(error.opt) > 1 else "-"
            # Without the dashes, which would make any two short names close.
            alike = {name.lstrip("-"): name for name in _FIRST_NAMES if name.startswith("--") == (len(dashes) > 1)}
            meant = nearest(error.opt, alike)
            hint = f"; did you mean {alike[meant]}?" if meant is not None else ""
            raise UsageError(f"perftest option {dashes}{error.opt} is unknown{hint}") from None
        raise UsageError(f"perftest {error.msg}") from None


def _rows() -> Iterable[tuple[str, ...]]:
    for option in table.OPTIONS:
        yield tuple(f"{name}=" if option.write else name for name in option.names)
    for rows in (table.TAKEN_TOGETHER, table.TOPOLOGY, table.OPERATION, table.LENGTH, table.OF_NO_MEANING):
        yield from rows
    yield from table.REFUSED


_FIRST_NAMES = {name.rstrip("="): row[0].rstrip("=") for row in _rows() for name in row}
_SHORT = "".join(name[1] + (":" if name.endswith("=") else "") for row in _rows() for name in row if name[1] != "-")
_LONG = [name[2:] for row in _rows() for name in row if name[1] == "-"]
_REFUSED = {row[0].rstrip("="): reason for row, reason in table.REFUSED.items()}
_OPERATION = tuple(row[0].rstrip("=") for row in table.OPERATION)
_GPU = ("--use_cuda", "--use_cuda_bus_id", "--use_rocm")


def _traffic(line: _Line) -> Workload:
    opcode = line.opcode()
    values: dict[str, Any] = {"opcode": opcode, **table.FIXED}
    for option in table.OPTIONS:
        given = line.given.get(option_name(option, rdma_cm="-R" in line.given))
        if given is not None and opcode not in option.opcodes:
            if option.field == "recv_wq_depth":  # perftest ignores it silently
                continue
            raise UsageError(f"perftest option {option.names[0]} has no effect on {opcode}; leave it out")
        if opcode in option.opcodes:
            values[option.field] = _value(option, given, line)
    if opcode.is_atomic:
        values["messages"] = (ATOMIC_BYTES,)
    values |= _depths(line, values)
    values |= _completions(line, values)
    if values["qp_type"] in _SHARED_RECEIVE_QUEUE and opcode.consumes_receive:
        values["srq"] = True
    values["max_dest_rd_atomic"] = values.setdefault("max_rd_atomic", 1)
    if values["qp_type"] is QpType.UD:
        if max(values["messages"]) > values["mtu"]:
            line.remarks.append(f"A datagram is cut to the MTU of {values['mtu']} bytes, as perftest does.")
        values["messages"] = (min(*values["messages"], values["mtu"]),)
    if "-R" in line.given:
        line.remarks.append("RDMA-CM has a say in the MTU and the ACK timeout; those of the line are taken.")
    if values["qps"] > 1 and "--mr_per_qp" not in line.given:
        line.remarks.append("Its queue pairs share one memory region; those of a workload have one each (--mr_per_qp).")
    values["mr_bytes"] = -(-max(*values["messages"], table.PAGE_BYTES) // table.PAGE_BYTES) * table.PAGE_BYTES
    return Workload(**values)


def option_name(option: table.Option, *, rdma_cm: bool) -> str:
    """Return the option that carries a field, or an empty string."""
    names = table.WITH_RDMA_CM if rdma_cm else table.WITHOUT_RDMA_CM
    return names.get(option.field, option.names[0])


def _value(option: table.Option, given: str | None, line: _Line) -> Any:
    if given is None:
        if option.default is None:
            assumed = getattr(Workload(), option.field)
            line.remarks.append(f"Without {option.names[0]} the port or device decides; {assumed} is assumed.")
            return assumed
        return option.default
    try:
        return option.read(given)
    except ValueError as error:
        raise UsageError(f"perftest option {option.names[0]}: {error}") from None


def _depths(line: _Line, values: Mapping[str, Any]) -> dict[str, int]:
    """Queue depths as perftest adjusts them: at most the number of messages, and an even number for receives."""
    send, receive = values["send_wq_depth"], values.get("recv_wq_depth", 1)
    if "-D" not in line.given and "--run_infinitely" not in line.given:
        default = table.DEFAULT_ITERATIONS.get(line.program, table.OTHER_ITERATIONS)
        iterations = line.number("-n", default)
        if iterations < max(send, receive if receive != table.DEFAULT_RECV_DEPTH else 1):
            line.remarks.append(f"It sends {iterations} messages, and perftest makes no queue longer than that.")
        if values["qp_type"] in _UNRELIABLE and receive == table.DEFAULT_RECV_DEPTH:
            receive = iterations
        send, receive = min(send, iterations), min(receive, iterations)
    if values["opcode"].consumes_receive:
        receive += receive % 2
    return {"send_wq_depth": send, "recv_wq_depth": receive}


def _completions(line: _Line, values: Mapping[str, Any]) -> dict[str, Any]:
    batch, size = values["wqe_batch"], values["messages"][0]
    moderated = size <= table.MODERATED_UP_TO_BYTES or values["qp_type"] is QpType.UD
    if "-Q" in line.given:
        every = line.number("-Q", 1)
    elif batch > 1:
        every = batch
    else:
        every = table.DEFAULT_CQ_MODERATION if moderated else 1
    if "-Q" in line.given and batch > 1 and batch % every:
        raise UsageError(
            f"perftest option -Q {every}: perftest refuses a post list (-l {batch}) that it does not divide"
        )
    if values["opcode"].consumes_receive and line.number("--recv_post_list", 1) != batch:
        line.remarks.append(
            f"It posts sends by {batch} and receives by {line.number('--recv_post_list', 1)}; a workload has one batch "
            f"for both, and {batch} is taken."
        )
    every = min(every, values["send_wq_depth"])
    if values["qp_type"] is QpType.SRD:
        every = 1
    if batch == 1:
        return {"signal_every": every}
    if 1 < every < batch:
        line.remarks.append(f"A completion per {every} messages is taken as one per post of {batch}.")
    return {"sq_sig_all": every == 1}


def _together(lines: Sequence[_Line]) -> ParsedCommands:
    if not lines:
        raise UsageError("no perftest line")
    workloads = [_traffic(line) for line in lines]
    for line, other in zip(lines, workloads, strict=True):
        _same_traffic(lines[0], workloads[0], line, other)
    servers, loopback = _servers(lines)
    both_ways = len(servers) == 2 or any("-b" in line.given for line in lines)
    workload = workloads[0].with_(
        direction=Direction.BIDIRECTIONAL if both_ways else Direction.UNIDIRECTIONAL,
        loopback=loopback,
        remote=bool(servers) or not loopback,
        **_memory(lines),
    )
    for constraint in VERBS:
        if wrong := constraint.check(workload):
            raise UsageError(f"perftest line {lines[0].text}: {wrong}")
    remarks = [remark for line in lines for remark in line.remarks]
    return ParsedCommands(workload, tuple(dict.fromkeys((*remarks, *_assumed(lines, servers)))))


def _servers(lines: Sequence[_Line]) -> tuple[list[str], bool]:
    """Return the hosts that clients connect to, and whether one connects to itself."""
    clients = [line for line in lines if line.host]
    remote = sorted({line.host for line in clients if not line.is_loopback})
    loopback = any(line.is_loopback for line in clients)
    if len(clients) > len(remote) + loopback:
        raise UsageError("two clients connect to the same host: add their queue pairs up (-q) in one line")
    if (alone := len(lines) - len(clients)) > max(1, len(clients)):
        raise UsageError(
            f"{alone} lines are servers (they name no host) for {format_count(len(clients), 'client')}: add the queue "
            "pairs of one host up (-q) in one line, or give each server's client, too"
        )
    if len(remote) > 2:
        raise UsageError(f"these lines run between more than two hosts ({', '.join(remote)}): write a workload file")
    return remote, loopback


def _assumed(lines: Sequence[_Line], servers: Sequence[str]) -> Iterable[str]:
    if len(servers) == 2:
        yield f"Clients of {' and '.join(servers)} are taken as the two directions between them."
    if any("-b" in line.given for line in lines):
        yield (
            "With -b each queue pair sends in both directions; a workload has as many for each direction, so twice as "
            "many in all."
        )
    if any(line.pinned for line in lines):
        yield "Which socket numactl means is up to the host; the NIC's own is assumed."


def _same_traffic(first: _Line, workload: Workload, line: _Line, other: Workload) -> None:
    if workload == other:
        return
    name = next(name for name in FIELD_NAMES if workload.get(name) != other.get(name))
    raise UsageError(
        f"these lines differ in {name} ({workload.get(name)} and {other.get(name)}), and a workload is the same "
        f"everywhere:\n  {first.text}\n  {line.text}"
    )


def _memory(lines: Sequence[_Line]) -> dict[str, Memory]:
    """Memory types of both ends. One line stands for both, because perftest wants the same options."""
    ends = {bool(line.host) != ("--reversed" in line.given): _kind(line) for line in lines}
    either = next(iter(ends.values()))
    return {"memory": ends.get(True, either), "peer_memory": ends.get(False, either)}


def _kind(line: _Line) -> Memory:
    return Memory.GPU if any(name in line.given for name in _GPU) else Memory.DRAM
