"""The native data path without a device: its layouts agree with C, its object is current and loads anywhere."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from collie.agent import (
    abi,
    cma_abi,
    compiler,
    histogram,
    native_traffic,
    nic_clock,
    queues,
    resources,
    shared_object,
    totals,
    traffic,
    verbs,
)
from collie.agent.build import build
from collie.agent.faults import AgentFault
from collie.agent.paths import DataPaths, load_native, load_pyverbs
from collie.agent.work_requests import RecvWR, SendWR

NATIVE = Path(compiler.__file__).parent / "native"
NEWEST_GLIBC = (2, 28)

needs_compiler = pytest.mark.skipif(
    shutil.which("cc") is None, reason="no C compiler (cc): on Debian apt-get install gcc libc6-dev"
)

VERBS = {
    "ibv_global_route": abi.GlobalRoute,
    "ibv_ah_attr": abi.AHAttr,
    "ibv_qp_cap": abi.QPCap,
    "ibv_qp_init_attr": abi.QPInitAttr,
    "ibv_qp_attr": abi.QPAttr,
    "ibv_srq_attr": abi.SrqAttr,
    "ibv_srq_init_attr": abi.SrqInitAttr,
    "ibv_device_attr": abi.DeviceAttr,
    "ibv_port_attr": abi.PortAttr,
    "ibv_mr": abi.Mr,
    "ibv_comp_channel": abi.CompChannel,
    "ibv_wc": abi.Wc,
    "ibv_context": abi.Context,
    "ibv_qp": abi.Qp,
}
CM = {
    "rdma_event_channel": cma_abi.EventChannel,
    "rdma_conn_param": cma_abi.ConnParam,
    "rdma_cm_event": cma_abi.Event,
}
HEADS = {"ibv_context", "ibv_qp", "rdma_cm_event"}
SAME_IN_C = {"abi_wc": "ibv_wc", "abi_ops": "ibv_context_ops"}
HEADS_IN_C = {"abi_cq_ex": "ibv_cq_ex"}
EXTENDED = {
    "abi_context": "ibv_context",
    "abi_poll_cq_attr": "ibv_poll_cq_attr",
    "abi_cq_init_attr_ex": "ibv_cq_init_attr_ex",
    "abi_values_ex": "ibv_values_ex",
}
LOOP = {
    "reading": nic_clock.ReadingStruct,
    "nic_clock": nic_clock.ClockStruct,
    "proof": native_traffic.ProofStruct,
    "timed": native_traffic.TimedStruct,
    "queue": native_traffic.QueueStruct,
    "completion_queue": native_traffic.CompletionQueueStruct,
    "pair": native_traffic.PairStruct,
    "traffic": native_traffic.TrafficStruct,
    "pollfd": native_traffic.PollFd,
}


def layout(name: str, structure: type[ctypes.Structure]) -> Iterator[str]:
    """The assertions that a structure of C is laid out as that of ctypes."""
    if name not in HEADS:
        yield f"_Static_assert(sizeof(struct {name}) == {ctypes.sizeof(structure)}, {name!r});".replace("'", '"')
    for member, *_ in structure._fields_:
        if not member.startswith(("unused", "op")):
            where = f"offsetof(struct {name}, {member})"
            yield f'_Static_assert({where} == {getattr(structure, member).offset}, "{name}.{member}");'


def packed() -> Iterator[str]:
    """The assertions that work requests are packed as libibverbs declares them, each member with a byte of its own."""
    send = SendWR(1, 4, 5, 6, [], 7, None)
    send.remote = bytes([8])
    yield from _packed("ibv_send_wr", send, "wr_id next sg_list opcode num_sge imm_data send_flags wr")
    yield from _packed("ibv_recv_wr", RecvWR(1, 4, [], None), "wr_id next sg_list num_sge")
    send.set_wr_rdma(rkey=2, addr=1)
    yield from _offsets("ibv_send_wr", send.remote, "wr.rdma.remote_addr wr.rdma.rkey", 40)
    send.set_wr_atomic(rkey=4, addr=1, compare_add=2, swap=3)
    members = "wr.atomic.remote_addr wr.atomic.compare_add wr.atomic.swap wr.atomic.rkey"
    yield from _offsets("ibv_send_wr", send.remote, members, 40)
    send.set_wr_ud(SimpleNamespace(address=1), rqpn=2, rqkey=3)
    yield from _offsets("ibv_send_wr", send.remote, "wr.ud.ah wr.ud.remote_qpn wr.ud.remote_qkey", 40)


def _packed(name: str, request: SendWR | RecvWR, members: str) -> Iterator[str]:
    memory = bytearray(request.size)
    request.pack(memory, 0, 2, 3)
    yield f'_Static_assert(sizeof(struct {name}) == {request.size}, "{name}");'
    yield from _offsets(name, memory, members, 0)


def _offsets(name: str, memory: bytes | bytearray, members: str, base: int) -> Iterator[str]:
    """The assertions that the members are where the bytes 1, 2, ... stand."""
    for value, member in enumerate(members.split(), start=1):
        yield f'_Static_assert(offsetof(struct {name}, {member}) == {base + memory.index(value)}, "{name}.{member}");'


def check(folder: Path, *lines: str) -> str:
    """Compile lines of C; returns what the compiler says against them."""
    (folder / "check.c").write_text("#include <stddef.h>\n" + "\n".join(lines) + "\n")
    argv = ["cc", "-std=gnu11", "-fsyntax-only", f"-I{NATIVE}", '-DSOURCE_DIGEST="check"', "check.c"]
    return subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False).stderr


@needs_compiler
def test_structures_and_numbers_are_those_of_libibverbs(tmp_path: Path) -> None:
    header = "#include <infiniband/verbs.h>"
    if check(tmp_path, header):
        pytest.skip("infiniband/verbs.h is not installed: on Debian apt-get install libibverbs-dev")
    lines = [line for name, structure in VERBS.items() for line in layout(name, structure)]
    for position, (name, _) in enumerate(abi.OPS):
        if not name.startswith("op"):
            lines.append(f'_Static_assert(offsetof(struct ibv_context_ops, {name}) == {8 * position}, "ops.{name}");')
    lines += packed()
    numbers = {name: value for name, value in vars(abi.Enums).items() if name.startswith("IBV_")}
    lines += [f'_Static_assert({name} == {value}, "{name}");' for name, value in numbers.items()]
    assert check(tmp_path, header, *lines) == ""


def same_members(own: str, other: str) -> Iterator[str]:
    """The assertions that the members of a structure in `verbs_abi.h` are those of one in libibverbs."""
    body = re.search(rf"^struct {own} \{{\n(.*?)^\}};", (NATIVE / "verbs_abi.h").read_text(), re.MULTILINE | re.DOTALL)
    assert body is not None
    for member in re.findall(r"(\w+)(?:\)\(.*?\)|\[\d+\])?;", body[1]):
        if not member.startswith("unused"):
            for what in ("offsetof(struct {}, {})", "sizeof(((struct {} *)0)->{})"):
                same = " == ".join(what.format(name, member) for name in (own, other))
                yield f'_Static_assert({same}, "{own}.{member}");'


@needs_compiler
def test_the_extended_verbs_in_c_are_those_of_libibverbs(tmp_path: Path) -> None:
    header = "#include <infiniband/verbs.h>"
    if check(tmp_path, header):
        pytest.skip("infiniband/verbs.h is not installed: on Debian apt-get install libibverbs-dev")
    lines = [line for own, other in {**EXTENDED, **HEADS_IN_C}.items() for line in same_members(own, other)]
    for own, other in EXTENDED.items():
        lines.append(f'_Static_assert(sizeof(struct {own}) == sizeof(struct {other}), "{own}");')
    lines += same_members("abi_device_attr_ex", "ibv_device_attr_ex")
    # A library of today is told the size of an earlier structure, which it accepts.
    lines.append('_Static_assert(sizeof(struct abi_device_attr_ex) <= sizeof(struct ibv_device_attr_ex), "attr");')
    # A member of verbs_context lies at a place before its end, because the structure grows at its head.
    for member in ("query_rt_values", "create_cq_ex", "priv", "query_device_ex", "sz", "context"):
        place = "sizeof(struct {0}) - offsetof(struct {0}, {1})"
        same = " == ".join(place.format(name, member) for name in ("abi_verbs_context", "verbs_context"))
        lines.append(f'_Static_assert({same}, "verbs_context.{member}");')
    for name in ("WC_EX_WITH_BYTE_LEN", "WC_EX_WITH_IMM", "WC_EX_WITH_QP_NUM", "WC_EX_WITH_COMPLETION_TIMESTAMP"):
        lines.append(f'_Static_assert((int)ABI_{name} == (int)IBV_{name}, "{name}");')
    lines.append('_Static_assert((int)ABI_VALUES_MASK_RAW_CLOCK == (int)IBV_VALUES_MASK_RAW_CLOCK, "raw clock");')
    lines.append('_Static_assert(ABI_EXTENDED == __VERBS_ABI_IS_EXTENDED, "abi_compat");')
    assert check(tmp_path, header, '#include "verbs_abi.h"', *lines) == ""


@needs_compiler
def test_structures_and_numbers_are_those_of_librdmacm(tmp_path: Path) -> None:
    header = "#include <rdma/rdma_cma.h>"
    if check(tmp_path, header):
        pytest.skip("rdma/rdma_cma.h is not installed: on Debian apt-get install librdmacm-dev")
    lines = [line for name, structure in CM.items() for line in layout(name, structure)]
    numbers = {name: value for name, value in vars(cma_abi.Enums).items() if name.startswith("RDMA_")}
    lines += [f'_Static_assert({name} == {value}, "{name}");' for name, value in numbers.items()]
    assert check(tmp_path, header, *lines) == ""


@needs_compiler
def test_the_loop_in_c_has_its_own_layout_of_libibverbs_right(tmp_path: Path) -> None:
    both = ['#include "verbs_abi.h"', *layout("abi_wc", abi.Wc)]
    for name in ("poll_cq", "req_notify_cq", "post_srq_recv", "post_send", "post_recv"):
        offset = getattr(abi.ContextOps, name).offset
        both.append(f'_Static_assert(offsetof(struct abi_ops, {name}) == {offset}, "ops.{name}");')
    both.append(f'_Static_assert(sizeof(struct abi_ops) == {ctypes.sizeof(abi.ContextOps)}, "ops");')
    both.append(f'_Static_assert(offsetof(struct abi_context, ops) == {abi.Context.ops.offset}, "context.ops");')
    request, memory = SendWR(1, 4, 5, 6, [], 7, None), bytearray(SendWR.size)
    request.pack(memory, 0, 2, 3)
    both += _offsets("abi_send_wr", memory, "wr_id next sg_list opcode num_sge imm_data send_flags", 0)
    for name in ("IBV_WC_WITH_IMM", "IBV_WR_SEND", "IBV_WR_SEND_WITH_IMM"):
        both.append(f'_Static_assert({name.replace("IBV", "ABI")} == {getattr(abi.Enums, name)}, "{name}");')
    assert check(tmp_path, *both) == ""


@needs_compiler
def test_the_loops_in_c_and_in_python_share_layouts_and_numbers(tmp_path: Path) -> None:
    lines = [line for name, structure in LOOP.items() for line in layout(name, structure)]
    names = (NATIVE / "traffic.c").read_text().split("/* The structures below")[0]
    shared = re.findall(r"\b[A-Z][A-Z_]{3,}\b", " ".join(re.findall(r"enum \{(.*?)\}", names)))
    modules = (verbs, traffic, totals, queues, histogram, resources)
    python: dict[str, Any] = {name: value for module in modules for name, value in vars(module).items()}
    assert {"ATTENTION", "QUEUE_LIMIT", "RETURNED_BYTES", "GAPS", "BUCKETS", "QUEUE_MASK"} <= set(shared)
    lines += [f'_Static_assert({name} == {python[name]}, "{name}");' for name in shared]
    assert check(tmp_path, '#include "traffic.c"', *lines) == ""


@needs_compiler
def test_the_object_needs_libc_alone_and_no_new_one(tmp_path: Path) -> None:
    (tmp_path / "traffic.so").write_bytes(compiler.current(str(NATIVE)))
    dynamic = subprocess.run(
        ["readelf", "--wide", "--dynamic", "--dyn-syms", str(tmp_path / "traffic.so")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert re.findall(r"Shared library: \[(.*?)\]", dynamic) == ["libc.so.6"]
    versions = {tuple(map(int, found.split("."))) for found in re.findall(r"@GLIBC_([\d.]+)", dynamic)}
    assert versions
    assert max(versions) <= NEWEST_GLIBC


@needs_compiler
def test_an_object_of_other_sources_is_never_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in compiler.SOURCES:
        shutil.copy(NATIVE / name, tmp_path)
    made, folder = tmp_path / compiler.OBJECT, str(tmp_path)
    assert compiler.current(folder) == made.read_bytes()
    first = made.stat().st_ino
    assert compiler.current(folder) == made.read_bytes()
    assert made.stat().st_ino == first
    (tmp_path / "traffic.c").write_text((tmp_path / "traffic.c").read_text() + "/* changed */\n")
    assert not compiler.is_current(made.read_bytes(), compiler.read(folder))
    assert compiler.is_current(compiler.current(folder), compiler.read(folder))
    assert compiler.is_current(made.read_bytes(), compiler.read(folder))
    (tmp_path / "traffic.c").write_text("changed again")
    monkeypatch.setattr(compiler, "COMPILERS", ("no-such-compiler",))
    with pytest.raises(compiler.NotCompiled, match=r"there is no C compiler \(no-such-compiler\)"):
        compiler.current(folder)
    assert not made.exists()


@needs_compiler
def test_an_object_for_another_machine_is_not_shipped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in compiler.SOURCES:
        shutil.copy(NATIVE / name, tmp_path)
    monkeypatch.setattr(compiler, "ELF_X86_64", 183)
    with pytest.raises(compiler.NotCompiled, match="does not target x86_64"):
        compiler.current(str(tmp_path))


@needs_compiler
def test_source_that_does_not_compile_is_said_with_the_compilers_words() -> None:
    with pytest.raises(compiler.NotCompiled, match=r"error"):
        compiler.compile_object({**dict.fromkeys(compiler.SOURCES, b""), "traffic.c": b"nonsense"})


def test_a_compiler_that_does_not_end_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    slow = tmp_path / "slow-cc"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setattr(compiler, "COMPILERS", (str(slow),))
    monkeypatch.setattr(compiler, "MAX_SECONDS", 0.2)
    with pytest.raises(compiler.NotCompiled, match=r"slow-cc: it did not end in 0\.2 s"):
        compiler.compile_object(dict.fromkeys(compiler.SOURCES, b""))


@needs_compiler
def test_the_archive_carries_the_object_and_its_source() -> None:
    names = set(zipfile.ZipFile(BytesIO(build())).namelist())
    assert {f"collie/agent/native/{name}" for name in (*compiler.SOURCES, compiler.OBJECT)} <= names


@needs_compiler
def test_the_object_is_loaded_from_memory_and_else_from_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    data = compiler.compile_object(shared_object.sources())
    assert shared_object.load_bytes(data).collie_traffic_run

    def forbidden(name: str) -> int:
        raise PermissionError(name)

    monkeypatch.setattr(os, "memfd_create", forbidden)
    assert shared_object.load_bytes(data).collie_traffic_run
    with pytest.raises(OSError, match="invalid ELF header"):
        shared_object.load_bytes(b"no object" * 100)


@needs_compiler
def test_a_host_that_the_object_does_not_fit_compiles_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv128")
    _, detail = shared_object.load()
    assert detail == "compiled here: the shipped object is for x86_64, this host is riscv128"
    monkeypatch.setattr(compiler, "COMPILERS", ())
    with pytest.raises(OSError, match=r"this host is riscv128\. It cannot be compiled here: there is no C compiler"):
        shared_object.load()


def test_a_data_path_that_cannot_be_used_is_refused_with_its_reason() -> None:
    paths = DataPaths()
    paths.add("native", lambda: load_native("libnone.so.1"))
    paths.add("pyverbs", load_pyverbs)
    assert "libnone.so.1" in paths.facts()["data_paths"]["native"]["detail"]
    with pytest.raises(AgentFault, match=r"native: .*libnone\.so\.1") as caught:
        paths.choose("native")
    assert caught.value.kind == "unsupported"
    with pytest.raises(AgentFault, match="must be one of native, pyverbs") as caught:
        paths.choose("tcp")
    assert caught.value.kind == "bad_request"
