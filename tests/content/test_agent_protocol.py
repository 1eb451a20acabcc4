"""docs/reference/agent-protocol.md lists the requests, replies, errors and events of the agent that the code has."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest

from collie.agent import PROTOCOL, agent, facts, kernel_threads, loop, pulse, report, requests, workload
from collie.agent.content import Content, verify
from collie.agent.lines import LONGEST_LINE_BYTES
from collie.agent.netlink import QueuePair
from collie.agent.requests import FIELDS, NUMBER, SECONDS
from collie.agent.workload import IGNORED, LIMITS, Workload, parse_workload
from collie.hosts.answers import ANSWERS
from tests.support.fake_libraries import compiled

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "agent-protocol.md").read_text(encoding="utf-8")
SOURCES = {path: path.read_text(encoding="utf-8") for path in (ROOT / "collie" / "agent").glob("*.py")}
GID = "0000:0000:0000:0000:0000:ffff:c000:0201"
TYPES = {bool: "boolean", int: "integer", str: "string", list: "list", dict: "object", NUMBER: "number"}
DEFAULTS: dict[str, Any] = {
    "lease_seconds": loop.LEASE_SECONDS,
    "period_seconds": report.PERIOD_SECONDS,
    "drain_seconds": agent.DRAIN_SECONDS,
}
CONTENTS_ELSEWHERE = {
    "hello": ("devices[].limits",),
    "prepare": ("endpoints.KEY",),
    "stop": ("totals",),
    "fingerprint": ("fingerprint.CATEGORY",),
    "sample": ("counters.SOURCE",),
}
"""Fields of replies whose contents other places describe: an opaque endpoint, names that a device gives."""
MAPS = {
    "data_paths": "NAME",
    "numa_cpus": "NODE",
    "sources": "SOURCE",
    "counters": "SOURCE",
    "endpoints": "KEY",
    "flows": "KEY",
    "errors": "STATUS",
    "fingerprint": "CATEGORY",
}
"""Objects whose keys depend on the host or the run, and the word for a key of theirs in the page."""
AGENT = """
import sys
from collie.agent import __main__, facts, paths
facts.gid = lambda *place: sys.argv[2]
found = paths.DataPaths()
found.add(paths.NATIVE, lambda: paths.load_native(sys.argv[1]))
found.missing[paths.PYVERBS] = "not here"
paths.load = lambda: found
sys.exit(__main__.main())
"""
"""The agent, on a libibverbs that has a device without files in sysfs."""


def table(heading: str, column: str) -> list[list[str]]:
    """Return the rows of the table in a section of the page whose first column has this name."""
    section = re.split(r"^#+ ", PAGE.split(f"# {heading}\n", 1)[1], maxsplit=1, flags=re.M)[0]
    tables = re.split(r"\n\n", section)
    found = next(text.strip() for text in tables if text.strip().startswith(f"| {column} |"))
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in found.splitlines()[2:]]


def names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def listed(heading: str, column: str) -> set[str]:
    return {name for row in table(heading, column) for name in names(row[0])}


def fields_of(request: str) -> set[str]:
    return {name for row in table("Fields of replies", "request") if row[0] == f"`{request}`" for name in names(row[1])}


def paths_of(value: Any, elsewhere: Collection[str], path: str = "") -> Iterator[str]:
    """Yield the fields of a reply as the page writes them."""
    word = MAPS.get(path.rpartition(".")[2])
    children: list[tuple[str, Any]] = []
    if path not in elsewhere and isinstance(value, Mapping):
        children = [(f"{path}.{word or key}".lstrip("."), child) for key, child in value.items()]
    elif path not in elsewhere and isinstance(value, list):
        children = [(f"{path}[]", child) for child in value if isinstance(child, Mapping)]
    if not children and path:
        yield f"{path}.{word}" if word and isinstance(value, Mapping) else path
    for place, child in children:
        yield from paths_of(child, elsewhere, place)


class Conversation:
    """A controller of one agent process, and the lines that it has received."""

    def __init__(self, library: Path) -> None:
        argv = [sys.executable, "-c", AGENT, str(library), GID]
        self._process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT
        )
        assert self._process.stdout is not None
        self.replies: dict[str, list[dict[str, Any]]] = {}
        self.events: list[dict[str, Any]] = []
        self._lines = map(json.loads, self._process.stdout)

    def ask(self, do: str, **sent: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"id": 1, "do": do, "deadline_seconds": 60, **sent}).encode() + b"\n")
        self._process.stdin.flush()
        for line in self._lines:
            if "event" not in line:
                assert line.pop("ok"), line
                assert line.pop("id") == 1
                self.replies.setdefault(do, []).append(line)
                return dict(line)
            self.events.append(line)
        raise AssertionError("the agent has ended")

    def hear(self) -> None:
        """Read the next line, an event."""
        self.events.append(next(self._lines))

    def end(self) -> None:
        with self._process:
            self.events += self._lines
        assert self._process.returncode == 0


@pytest.fixture(scope="module")
def conversation(tmp_path_factory: pytest.TempPathFactory) -> Conversation:
    """A whole run against one agent, with every request."""
    talk = Conversation(compiled("libibverbs", tmp_path_factory.mktemp("fake")))
    talk.ask("hello", protocol=PROTOCOL, lease_seconds=60)
    talk.ask("sampling", on=True, device="fake0")
    talk.ask("sampling", on=False)
    talk.ask("fingerprint", device="fake0")
    talk.ask("resources", device="fake0")
    ends = [{"flow": "a-a", "role": role} for role in ("requester", "responder")]
    sent = {"qp_type": "RC", "opcode": "WRITE", "messages": [1024]}
    prepared = talk.ask("prepare", device="fake0", gid_index=0, workload=sent, flows=ends)
    requester, responder = prepared["endpoints"]
    swapped = {
        requester: prepared["endpoints"][responder],
        responder: prepared["endpoints"][requester],
    }
    talk.ask("connect", peers=swapped)
    talk.ask("phase", workload=sent, flows=ends, verify=True)
    talk.ask("start", period_seconds=0.01)
    while not any(event["state"] == "running" for event in talk.events):
        talk.hear()
    for do in ("verify", "ping", "stop", "destroy", "bye"):
        talk.ask(do)
    talk.end()
    return talk


def test_every_request_and_each_of_its_fields_is_listed() -> None:
    assert listed("Requests", "request") == set(FIELDS)
    rows = table("Fields of requests", "request")
    found = {(names(request)[0], names(field)[0]): (kind, default) for request, field, kind, default, _ in rows}
    assert set(found) == {(do, name) for do, known in FIELDS.items() for name in known}
    for (do, name), (kind, default) in found.items():
        expected, required = FIELDS[do][name]
        bounds = f", {SECONDS[name][0]:g} to {SECONDS[name][1]:g}" if name in SECONDS else ""
        assert kind == TYPES[expected] + bounds, (do, name)
        assert (default == "required") == required, (do, name)
        assert name not in DEFAULTS or default == f"{DEFAULTS[name]:g}", (do, name)


def test_the_limits_are_those_of_the_code() -> None:
    limits = {row[0]: row[1] for row in table("Transport", "limit")}
    assert limits["line"].startswith(f"{LONGEST_LINE_BYTES >> 20} MiB")
    assert list(limits.values())[1:] == [
        str(limit)
        for limit in (requests.MAX_ENDS, requests.MAX_QPS, requests.MAX_PROCESSES, workload.MAX_REQUESTS_IN_TURN)
    ]
    low, high = SECONDS["deadline_seconds"]
    stated = f"Its default is {requests.DEFAULT_DEADLINE_SECONDS:g}, and its range is {low:g} to {high:g}."
    assert stated in " ".join(PAGE.split())
    assert f"version {PROTOCOL} of the protocol" in PAGE
    assert f"If the agent's loop stops, they end by themselves after {pulse.SILENCE_SECONDS:g} s." in PAGE


def test_every_kind_of_error_is_listed() -> None:
    kinds = {
        call.args[0].value
        for source in SOURCES.values()
        for call in ast.walk(ast.parse(source))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "AgentFault"
        if isinstance(call.args[0], ast.Constant)
    }
    assert listed("Errors", "kind") == kinds


def test_every_state_is_listed() -> None:
    states = {name for row in table("Requests", "request") for name in names(row[1])}
    assert states == {"idle", *agent.AFTER.values()}


def test_every_field_of_a_flow_is_listed() -> None:
    assert listed("Flows", "field") == requests.FLOW_FIELDS


def test_every_field_of_a_workload_is_listed_with_its_default_and_range() -> None:
    rows = {names(row[0])[0]: row for row in table("Workload", "field")}
    assert set(rows) == {field.name for field in fields(Workload)}
    for field in fields(Workload):
        default = "required" if field.default is MISSING else field.default
        written = default if isinstance(default, str) else json.dumps(default)
        assert rows[field.name][1] == written, field.name
        if field.name in LIMITS:
            assert rows[field.name][2] == "{} to {}".format(*LIMITS[field.name]), field.name
    values = {"qp_type": workload.QP_TYPES, "opcode": workload.OPCODES, "connection": workload.CONNECTIONS}
    for name, allowed in {**values, "mtu": workload.MTUS}.items():
        assert rows[name][2] == ", ".join(map(str, allowed))
    assert all(f"`{name}`" in PAGE for name in IGNORED)


def test_every_event_and_reason_is_listed(conversation: Conversation) -> None:
    code = "\n".join(SOURCES.values())
    assert listed("Events", "event") == set(re.findall(r'"event": "(\w+)"', code))
    reasons = {name for row in table("Events", "event") if row[0] == "`bye`" for name in names(row[1])} - {"reason"}
    assert reasons == set(re.findall(r'\.reason = (?:\w+\.reason or )?"(\w+)"', code))
    assert conversation.events[-1] == {"event": "bye", "reason": "request"}


@pytest.mark.parametrize("do", FIELDS)
def test_every_field_of_a_reply_is_listed(conversation: Conversation, tmp_path: Path, do: str) -> None:
    replies = conversation.replies[do]
    known = {path for reply in replies for path in paths_of(reply, CONTENTS_ELSEWHERE.get(do, ()))}
    if do == "hello":
        (tmp_path / "fake0" / "ports" / "1" / "gids").mkdir(parents=True)
        (tmp_path / "fake0" / "ports" / "1" / "gids" / "0").write_text(GID)
        known |= set(paths_of({"devices": [facts.device_facts("fake0", str(tmp_path))]}, CONTENTS_ELSEWHERE[do]))
        known -= {"devices"}
    elif do == "resources":
        known = {f"qps[].{name}" for name in QueuePair._fields}
    elif do == "verify":
        known |= {f"flows.KEY.first_wrong.{name}" for name in first_wrong()}
        known -= {"flows.KEY.first_wrong"}
    assert fields_of(do) == known


def test_the_limits_of_a_device_are_listed() -> None:
    row = next(row for row in table("Fields of replies", "request") if "`devices[].limits`" in row[1])
    assert set(names(row[2])) - {"ibv_query_device"} == set(facts.LIMITS)


def first_wrong() -> Mapping[str, Any]:
    sent = parse_workload({"qp_type": "RC", "opcode": "WRITE", "messages": [64]})
    found: Mapping[str, Any] = verify(sent, False, Content(sent, 1, 64), lambda pair, mr: bytes(64), 1, 1, {})[
        "first_wrong"
    ]
    return found


def test_every_field_of_a_sample_is_listed(conversation: Conversation) -> None:
    samples = [event for event in conversation.events if event["event"] == "sample"]
    elsewhere = CONTENTS_ELSEWHERE["sample"]
    idle, running = (
        {path for sample in samples if ("flows" in sample) == of_a_run for path in paths_of(sample, elsewhere)}
        for of_a_run in (False, True)
    )
    software = {f"host.{name}" for name in kernel_threads._FIELDS.values()}
    rows = {name: row[1] for row in table("Sample", "field") for name in names(row[0])}
    assert set(rows) == running | software
    assert {name for name, present in rows.items() if present == "always"} == idle
    assert {name for name, present in rows.items() if present == "software device"} == software
    totals = conversation.replies["stop"][0]["totals"]
    assert set(totals) == set(samples[-1]) - {"event", "n", "dropped_samples"}
    assert set(samples[-1]["counters"]) <= set(
        names(next(r[2] for r in table("Sample", "field") if "counters" in r[0]))
    )


def test_the_controller_reads_no_field_that_is_not_listed() -> None:
    for answer in ANSWERS.values():
        documented = {name for do, other in ANSWERS.items() if other is answer for name in fields_of(do)}
        assert set(answer.__annotations__) <= {re.split(r"[.[]", name)[0] for name in documented}, answer
