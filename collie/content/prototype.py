"""Points of the search that was released with the NSDI '22 paper (bytedance/Collie), as workloads.

The prototype writes two files per point: `result/N`, a line of JSON with parameters and counters, and `reproduce/N.sh`,
the commands that run its traffic engine over SSH.

A point has one or two *traffics*. Two equal traffics make one workload (both directions, or loopback). Two unequal
traffics make two workloads: `FILE#1` and `FILE#2`.
"""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from collie.content.document import read_text
from collie.content.locate import display_path
from collie.detect.symptom import Symptom
from collie.errors import ContentError, Problem
from collie.untrusted import sanitized
from collie.workloads.constraint import VERBS
from collie.workloads.units import format_count
from collie.workloads.workload import EVEN, Direction, Memory, Opcode, QpType, Workload

_OPCODES = {"s": Opcode.SEND, "w": Opcode.WRITE, "r": Opcode.READ}
_QP_TYPES = {"2": QpType.RC, "3": QpType.UC, "4": QpType.UD}
_MTUS = {1: 256, 2: 512, 3: 1024, 4: 2048, 5: 4096}
_PAGE_BYTES = 4096
_MAX_TRAFFICS = 1000  # limit on a point, which has one or two
_MAX_WRONG = 10
_OTHERWISE = "a workload file has the ending .yaml or .yml"
_TRAFFIC_CLASS = 105  # the prototype always starts its engine with `--tos=105`

_PAUSE_MICROSECONDS = 1000.0  # per second: 0.1 %, the threshold of sent pause (paper, section 5.2)

_NEVER_GIVES_UP = (
    "The prototype's queue pairs wait for ever (qp_timeout 0, rnr_retry 7), so that one lost packet stops them; these "
    "retry and give up."
)


@dataclass(frozen=True, slots=True)
class PrototypePoint:
    """A point with equal traffics, or one traffic of a point. `remarks` are differences from the prototype's run."""

    name: str
    workload: Workload
    symptom: Symptom | None
    remarks: tuple[str, ...]


class _Lenient(BaseModel):
    """Base of the prototype's records. Extra keys are ignored, because forks add some. Declared keys are required."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class _Host(_Lenient):
    ip: str
    use_gpu: bool = False
    numa_node: int = Field(ge=0)
    mr_num: int = Field(ge=1)
    buf_num: int = Field(ge=1)
    buf_size: int = Field(ge=1)
    send_wq_depth: int = Field(ge=0)
    recv_wq_depth: int = Field(ge=0)
    send_batch: int = Field(ge=0)
    recv_batch: int = Field(ge=0)


class _Traffic(_Lenient):
    process_num: int = Field(ge=1)
    qp_num: int = Field(ge=1)
    mtu: int = Field(ge=1, le=5)
    qp_type: QpType
    reqs: str
    client: _Host
    server: _Host


class _Point(_Lenient):
    traffics: list[_Traffic] = Field(alias="Traffics", min_length=1, max_length=_MAX_TRAFFICS)


def load_point(name: str) -> PrototypePoint:
    """Read `FILE`, or `FILE#N` for one of its traffics."""
    file, _, number = name.partition("#")
    path = Path(file)
    text = read_text(path, display_path(path))
    try:
        point = read_point(text)
        chosen = _chosen(point.traffics, number, name)
        workload, remarks = _workload(chosen)
        return PrototypePoint(name, workload, _symptom(text), tuple(remarks))
    except RecursionError:
        message = "no point of the released prototype: nested too deep"
    except ValueError as error:
        message = sanitized(str(error))
    raise ContentError([Problem(display_path(path), 0, message)])


def read_point(text: str) -> _Point:
    """Read a file of the prototype. Raises `ValueError`."""
    raw = json.JSONDecoder().raw_decode(text.lstrip())[0] if text.lstrip().startswith("{") else _script(text)
    try:
        return _Point.model_validate(raw)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        wrong = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in found[:_MAX_WRONG]]
        more = f"; and {len(found) - _MAX_WRONG} more" if len(found) > _MAX_WRONG else ""
        raise ValueError(f"no point of the released prototype: {'; '.join(wrong)}{more}; {_OTHERWISE}") from None


def workloads_of(point: _Point) -> list[Workload]:
    """Return the workload of a point with equal traffics, else one per traffic, each with its parameters for all.

    Raises `ValueError` if the prototype cannot have sent anything.
    """
    traffics = point.traffics
    if _is_one_workload(traffics):
        return [_workload(traffics)[0]]
    return [_workload([each, *(other for other in traffics if other is not each)])[0] for each in traffics]


def _script(text: str) -> Mapping[str, Any]:
    """Return the commands of a `reproduce/N.sh` in the form of `result/N`."""
    started = list(_started(text))
    servers = {(host, flags["port"]): (flags, node) for host, flags, node in started if "server" in flags}
    clients = [(host, flags, node) for host, flags, node in started if "connect" in flags]
    if not clients:
        raise ValueError(
            f"neither a result nor a reproduce script of the released prototype: nothing in it sends; {_OTHERWISE}"
        )
    traffics: Counter[str] = Counter()
    for host, flags, node in clients:
        peer, port = flags["connect"], flags["port"]
        if (peer, port) not in servers:
            raise ValueError(f"a client connects to {peer} port {port}, where no server is started")
        traffics[json.dumps(_as_traffic(host, flags, node, peer, *servers[peer, port]))] += 1
    return {"Traffics": [{**json.loads(each), "process_num": processes} for each, processes in traffics.items()]}


def _started(text: str) -> Iterator[tuple[str, dict[str, str], str]]:
    for line in text.splitlines():
        words = shlex.split(line)
        if not words or words[0] != "ssh" or len(words) < 3:
            continue
        command = words[-1].split()
        flags = dict(re.findall(r"--(\w+)(?:=(\S*))?", words[-1]))
        node = command[command.index("-m") + 1] if "-m" in command[:-1] else "0"
        if "port" in flags:
            yield words[1].rpartition("@")[2], flags, node


def _as_traffic(
    host: str, flags: Mapping[str, str], node: str, peer: str, served: Mapping[str, str], far: str
) -> Mapping[str, Any]:
    def end(ip: str, given: Mapping[str, str], numa_node: str) -> Mapping[str, Any]:
        numbers = ("mr_num", "buf_num", "buf_size", "send_wq_depth", "recv_wq_depth", "send_batch", "recv_batch")
        gpu = given.get("use_cuda", "False") in ("True", "true", "1")
        return {"ip": ip, "use_gpu": gpu, "numa_node": numa_node, **{name: given.get(name) for name in numbers}}

    return {
        "qp_num": flags.get("qp_num"),
        "mtu": flags.get("mtu"),
        "qp_type": _QP_TYPES.get(flags.get("qp_type", ""), flags.get("qp_type")),
        "reqs": flags.get("request"),
        "client": end(host, flags, node),
        "server": end(peer, served, far),
    }


def _chosen(traffics: Sequence[_Traffic], number: str, name: str) -> Sequence[_Traffic]:
    if number:
        if not number.isdecimal() or not 1 <= int(number) <= len(traffics):
            raise ValueError(f"has no traffic #{number}; it has #1" + (f" to #{len(traffics)}" if traffics[1:] else ""))
        return [traffics[int(number) - 1]]
    if _is_one_workload(traffics):
        return traffics
    raise ValueError(
        f"runs {len(traffics)} unlike traffics at once, and a workload has one kind; run one of them alone: "
        + ", ".join(f"{name}#{each + 1}" for each in range(len(traffics)))
    )


def _is_one_workload(traffics: Sequence[_Traffic]) -> bool:
    return len(traffics) == 1 or (len(traffics) == 2 and _equal_traffics(*traffics))


def _equal_traffics(first: _Traffic, second: _Traffic) -> bool:
    ours, theirs = _fields(first)[0], _fields(second)[0]
    if second.client.ip == second.server.ip:  # loopback must be on the host that the first traffic delivers to
        sink = first.client if ours.opcode.fetches else first.server
        return sink.ip == second.server.ip and ours == theirs.with_(
            numa_node=ours.numa_node,
            memory=ours.memory,
            peer_numa_node=ours.peer_numa_node,
            peer_memory=ours.peer_memory,
        )
    ends = (first.client.ip, first.server.ip) == (second.server.ip, second.client.ip)
    back = theirs.with_(
        numa_node=theirs.peer_numa_node,
        peer_numa_node=theirs.numa_node,
        memory=theirs.peer_memory,
        peer_memory=theirs.memory,
    )
    return ends and ours == back


def _workload(traffics: Sequence[_Traffic]) -> tuple[Workload, list[str]]:
    workload, remarks = _fields(traffics[0])
    itself = [traffic.client.ip == traffic.server.ip for traffic in traffics]
    workload = workload.with_(
        direction=Direction.BIDIRECTIONAL if len(traffics) == 2 and not any(itself) else Direction.UNIDIRECTIONAL,
        loopback=any(itself),
        remote=not all(itself),
    )
    for constraint in VERBS:
        if wrong := constraint.check(workload):
            raise ValueError(f"the prototype cannot have sent anything here: {wrong}")
    return workload, remarks


def _unlike(quantity: str, one: int, other: int, taken: int) -> list[str]:
    if one == other:
        return []
    return [f"{quantity} differ between the ends ({one} and {other}); {taken} is taken for both."]


def _fields(traffic: _Traffic) -> tuple[Workload, list[str]]:
    client, server, remarks = traffic.client, traffic.server, [_NEVER_GIVES_UP]
    requests = _requests(traffic.reqs)
    opcodes = tuple(opcode for opcode, _ in requests)
    longest = max(sum(entries) for _, entries in requests)
    receives = any(opcode.consumes_receive for opcode in opcodes)
    regions, size = max(client.mr_num, server.mr_num), max(each.buf_num * each.buf_size for each in (client, server))
    remarks += _unlike("memory regions of a process", client.mr_num, server.mr_num, regions)
    if receives:
        remarks += _unlike("batches", client.send_batch, server.recv_batch, client.send_batch)
    if regions % traffic.qp_num:
        serve = f"{format_count(regions, 'memory region')} serve{'s' if regions == 1 else ''}"
        remarks.append(f"{serve} {format_count(traffic.qp_num, 'queue pair')}; each has its own here.")
    if client.numa_node or server.numa_node:
        remarks.append("Which NUMA node the NIC is at is not on record; node 0 is taken to be it.")
    sge_count, sge_split = _split([entries for _, entries in requests], remarks)
    gpu = [Memory.GPU if end.use_gpu else Memory.DRAM for end in (client, server)]
    workload = Workload(
        numa_node=client.numa_node,
        peer_numa_node=server.numa_node,
        memory=gpu[0],
        peer_memory=gpu[1],
        mrs_per_qp=max(1, regions // traffic.qp_num),
        mr_bytes=-(-max(size, longest) // _PAGE_BYTES) * _PAGE_BYTES,
        qp_type=traffic.qp_type,
        opcode=opcodes[0],
        more_opcodes=opcodes[1:] if len(set(opcodes)) > 1 else (),
        qps=traffic.process_num * traffic.qp_num,
        mtu=_MTUS[traffic.mtu],
        wqe_batch=max(1, client.send_batch),
        sge_count=sge_count,
        sge_split=sge_split,
        send_wq_depth=max(1, client.send_wq_depth),
        recv_wq_depth=max(1, server.recv_wq_depth),
        messages=tuple(sum(entries) for _, entries in requests),
        traffic_class=_TRAFFIC_CLASS,
    )
    return workload, remarks


def _requests(text: str) -> list[tuple[Opcode, tuple[int, ...]]]:
    """Parse a request vector such as `w_2_128_64,r_1_65536,` into opcodes and entry sizes."""
    found = []
    for request in filter(None, text.split(",")):
        opcode, _, rest = request.partition("_")
        count, *sizes = (int(word) if word.isdecimal() else -1 for word in rest.split("_"))
        if opcode not in _OPCODES or count != len(sizes) or min(sizes, default=0) < 1:
            raise ValueError(f"request {request!r} is none of the prototype's, such as w_2_128_64")
        found.append((_OPCODES[opcode], tuple(sizes)))
    if not found:
        raise ValueError("its request vector is empty: it sends nothing")
    return found


def _split(requests: Iterable[tuple[int, ...]], remarks: list[str]) -> tuple[int, str | tuple[int, ...]]:
    """Return the number of entries per work request, and their split."""
    cuts = list(requests)
    most = max(cuts, key=len)
    if any(len(cut) != len(most) or cut[:-1] != most[:-1] for cut in cuts):
        remarks.append(f"Its requests are cut in several ways; all are cut like {list(most)} here.")
    even = max(most) - min(most) <= 1 and sorted(most, reverse=True) == list(most)
    return len(most), EVEN if len(most) == 1 or even else most[:-1]


def _symptom(text: str) -> Symptom | None:
    """Return the symptom that the counters of a `result/N` show, or None if they are not trustworthy."""
    readings = {name: float(value) for name, value in re.findall(r"^(\w+):\s+(-?[\d.]+)\s*$", text, re.MULTILINE)}
    if not any(value > 0 for value in readings.values()):
        return None  # the prototype writes 0 for a missing counter, and -1 if its tool fails
    pauses = [value for name, value in readings.items() if name.endswith("pause_duration")]
    return Symptom.PAUSE if any(value > _PAUSE_MICROSECONDS for value in pauses) else Symptom.LOW_THROUGHPUT
