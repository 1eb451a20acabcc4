"""Inputs of people and machines that mean harm: what takes each kind, where to start from, and how to spoil it.

A target takes any bytes and returns whether they were good; `ValueError` and the like never leave it, only what is a
fault of Collie does. The first byte of an input chooses the form, the rest is its content. `scripts/acceptance/fuzz.py`
runs targets for hours, `tests/property/test_hostile.py` for seconds.
"""

from __future__ import annotations

import json
import sqlite3
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from shutil import rmtree
from typing import Any

from collie.agent.faults import AgentFault
from collie.agent.pattern import send_chains
from collie.agent.requests import parse_flows, parse_request
from collie.agent.workload import parse_workload
from collie.app.adapters import ReportContext
from collie.app.cases import case_named
from collie.app.exports import bundle_of
from collie.bundle import archive
from collie.bundle.about import about
from collie.bundle.content import encode
from collie.content.anomalies import load_reference
from collie.content.applications import load_application
from collie.content.catalogs import load_catalog
from collie.content.document import read_document
from collie.content.inventory import load_inventory
from collie.content.locate import content_roots
from collie.content.prototype import load_point
from collie.content.recipes import load_recipe
from collie.content.spaces import load_space
from collie.content.subsystems import load_subsystem
from collie.content.workload import load_workload
from collie.counters.catalog import Catalog
from collie.errors import CollieError
from collie.hosts.answers import ANSWERS
from collie.hosts.host_info import parse_host_info, rdma_port
from collie.hosts.protocol import AgentGone, StepFailed
from collie.inventory.fingerprint import Fingerprint, difference
from collie.inventory.hosts import Host
from collie.plain import typed
from collie.readings.policy import WindowPolicy
from collie.readings.recording import Recording
from collie.readings.samples import AgentSample, parse_sample
from collie.readings.window import measurement
from collie.report.html.page import render_report
from collie.simulator.subsystem import SubsystemFile
from collie.store import schema
from collie.store.sqlite import SqliteStore
from collie.testing.store_suite import ANOMALY, HEADER, VERDICT, measured, phase
from collie.untrusted import read_json
from collie.wiring import ADAPTERS
from collie.workloads.workload import Workload, render
from tests.support.hostile_campaigns import LIGHT, SPOILERS
from tests.support.hostile_ground import Ground, decoys, snapshot

_SELDOM = 100
"""One input in so many is also written into a report, and one is gone on with: both take longer than all the rest."""


class Target(ABC):
    """Something that reads what strangers write. It works in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    @abstractmethod
    def seeds(self) -> list[bytes]:
        """Return good inputs."""

    @abstractmethod
    def read(self, data: bytes) -> bool:
        """Take an input; return whether it was good."""

    def _written(self, data: bytes, name: str = "file.yaml") -> str:
        path = self.folder / name
        path.write_bytes(data)
        return str(path)


class Inventories(Target):
    """Hosts files."""

    def seeds(self) -> list[bytes]:
        """Return the example, as YAML and as JSON."""
        path = Path(__file__).resolve().parents[2] / "hosts.example.yaml"
        raw = read_document(path).data
        short = {"version": 1, "hosts": {"a": {"address": "h", "data_address": "192.0.2.1", "device": "d"}}}
        return [b"\x00" + text.encode() for text in (json.dumps(raw), json.dumps(short), _brief(path.read_text()))]

    def read(self, data: bytes) -> bool:
        """Load a hosts file."""
        return _ours(lambda: load_inventory(self._written(data[1:])))


class Contents(Target):
    """Every kind of content file, and points of the prototype."""

    LOADERS: tuple[tuple[str, Callable[[str], object]], ...] = (
        ("workloads/spaces/soft-roce.yaml", load_space),
        ("workloads/anomalies/nsdi22-09.yaml", load_reference),
        ("workloads/applications/rpc-library.yaml", load_application),
        ("search/recipes/guided.yaml", load_recipe),
        ("counters/rxe/catalog.yaml", load_catalog),
        ("subsystems/A.yaml", lambda path: load_subsystem(path, SubsystemFile)),
        ("", load_workload),
    )

    def seeds(self) -> list[bytes]:
        """Return one file of each kind, as YAML and as JSON, and a point of the prototype."""
        found = []
        for number, (name, _) in enumerate(self.LOADERS):
            paths = [root / name for root in content_roots() if name and (root / name).is_file()]
            for path in paths[:1]:
                found.append(bytes([number]) + _brief(path.read_text()).encode())
                found.append(bytes([number]) + json.dumps(read_document(path).data).encode())
        end = {"ip": "a", "numa_node": 0, "use_gpu": False, "mr_num": 1, "buf_num": 1, "buf_size": 4096}
        end |= {"send_wq_depth": 8, "recv_wq_depth": 8, "send_batch": 1, "recv_batch": 1}
        traffic = {"qp_num": 1, "process_num": 1, "mtu": 3, "qp_type": "RC", "reqs": "w_1_64,"}
        point = {"Traffics": [{**traffic, "client": end, "server": {**end, "ip": "b"}}]}
        workload = {"qp_type": "RC", "opcode": "WRITE", "messages": ["4KiB", 64], "qps": 8}
        return [*found, b"\x06" + json.dumps(workload).encode(), b"\x07" + json.dumps(point).encode()]

    def read(self, data: bytes) -> bool:
        """Load a file of the kind that the first byte names."""
        number = data[0] % (len(self.LOADERS) + 1) if data else 0
        if number == len(self.LOADERS):
            return _ours(lambda: load_point(self._written(data[1:], "point")))
        return _ours(lambda: self.LOADERS[number][1](self._written(data[1:])))


class Bundles(Target):
    """Bundles: the whole file, or the member that is read of it."""

    def seeds(self) -> list[bytes]:
        """Return a bundle of either form."""
        content = json.dumps(encode(bundle_of(ADAPTERS, case_named(ADAPTERS, "nsdi22-04")))).encode()
        return [b"\x01" + content, b"\x00" + Path(self._zipped(content)).read_bytes()]

    def read(self, data: bytes) -> bool:
        """Read a bundle, and what it says of itself."""
        path = self._zipped(data[1:]) if data[:1] == b"\x01" else self._written(data[1:], "a.pyz")
        return _ours(lambda: about(archive.read(Path(path)), "a.pyz").encode())

    def _zipped(self, content: bytes) -> str:
        path = self.folder / "b.pyz"
        with zipfile.ZipFile(path, "w") as file:
            file.writestr(archive.CONTENT, content)
            file.writestr("../../up", "x")
        return str(path)


class Stores(Target):
    """Campaigns: the file, or one value in it, read as reports read it, and now and then gone on with."""

    COLUMNS = (
        *("campaign.header", "campaign.calibration", "runs.workload", "runs.result", "runs.verdict", "runs.purpose"),
        *("anomalies.anomaly", "runs.series", "runs.driven", "runs.finished_at_seconds", "runs.made_for"),
    )

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._whole = self._made()
        self._turn = 0

    def seeds(self) -> list[bytes]:
        """Return the file, and every value in it."""
        with closing(sqlite3.connect(self.folder / "made" / "campaign.sqlite")) as connection:
            names = [one.split(".") for one in self.COLUMNS]
            values = [connection.execute(f"SELECT {one} FROM {table}").fetchone() for table, one in names]
        texts = [value if isinstance(value, bytes) else str(value).encode() for (value,) in values]
        return [bytes([number]) + text for number, text in enumerate(texts, start=1)] + [b"\x00" + self._whole]

    def read(self, data: bytes) -> bool:
        """Open a campaign, read all of it, and write its report."""
        self._turn += 1
        number = data[0] % (1 + len(self.COLUMNS)) if data else 0
        place = self.folder / "campaign"
        place.mkdir(exist_ok=True)
        for leftover in place.glob("campaign.sqlite*"):
            leftover.unlink()
        file = place / "campaign.sqlite"
        file.write_bytes(data[1:] if number == 0 else self._whole)
        if number:
            table, column = self.COLUMNS[number - 1].split(".")
            with closing(sqlite3.connect(file)) as connection, connection:
                connection.execute("PRAGMA synchronous = OFF")
                value = data[1:] if column == "series" else data[1:].decode(errors="replace")
                connection.execute(f"UPDATE {table} SET {column} = ?", (value,))
                schema.stamp(connection)
        return _ours(lambda: self._use(place))

    def _use(self, place: Path) -> None:
        with SqliteStore.open(place, read_only=self._turn % _SELDOM != 0) as store:
            runs, anomalies = list(store.runs()), store.anomalies()
            text = "".join(anomaly.sentence for anomaly in anomalies) + str((runs, store.calibration(), store.tally()))
            text.encode()
            if self._turn % _SELDOM == 1:
                render_report(store, ReportContext()).encode()

    def _made(self) -> bytes:
        place = self.folder / "made"
        if not place.exists():
            with SqliteStore.create(place, HEADER) as store:
                store.add_run(phase(1, 1))
                store.annotate(1, VERDICT, "rx_packets")
                store.add_anomaly(replace(ANOMALY, found_at_run=1))
        with closing(sqlite3.connect(place / "campaign.sqlite")) as connection:
            connection.execute("PRAGMA journal_mode = DELETE")
        return (place / "campaign.sqlite").read_bytes()


class Directories(Target):
    """Campaign directories: each byte after the first spoils one, as `hostile_campaigns.SPOILERS` has it."""

    MAX_UNUSUAL = 3

    def seeds(self) -> list[bytes]:
        """Return a good directory."""
        return [b"\x00"]

    def read(self, data: bytes) -> bool:
        """Spoil a campaign, and look at it: nothing of it, and beside it, changes."""
        rmtree(self.folder, ignore_errors=True)
        campaign = self.folder / "campaign"
        with SqliteStore.create(campaign, HEADER) as store:
            store.add_run(measured(1))
            store.add_anomaly(replace(ANOMALY, found_at_run=1))
        ground = Ground(campaign, decoys(self.folder / "decoys"), Random(len(data)))
        for byte in data[1 : 1 + self.MAX_UNUSUAL]:
            SPOILERS[LIGHT[byte % len(LIGHT)]](ground)
        before = snapshot(self.folder)
        good = _ours(lambda: self._use(campaign))
        if snapshot(self.folder) != before:
            raise AssertionError("a reader changed something")
        return good

    def _use(self, campaign: Path) -> None:
        with SqliteStore.open(campaign, read_only=True) as store:
            str((list(store.runs()), store.anomalies(), store.calibration(), store.tally())).encode()


class Requests(Target):
    """What a controller may send to an agent."""

    def seeds(self) -> list[bytes]:
        """Return a request of every kind that has fields."""
        reported = render(Workload())
        for name in ("requesters", "responders", "rails", "remote"):
            del reported[name]
        flows = [{"flow": "a-b", "role": "requester"}, {"flow": "b-a", "role": "responder", "workload": reported}]
        requests: list[dict[str, Any]] = [
            {"do": "hello", "protocol": 3, "lease_seconds": 8},
            {"do": "prepare", "device": "rxe0", "gid_index": 1, "workload": reported, "flows": flows, "processes": 2},
            {"do": "connect", "peers": {"a-b/requester": {"engines": [{"qps": [[1, 2]]}]}}, "deadline_seconds": 2},
            {"do": "phase", "workload": reported, "flows": flows, "verify": True},
            {"do": "sampling", "on": True, "device": "rxe0", "port": 1, "netdev": "eth0", "period_seconds": 0.25},
            {"do": "verify", "completed": {"a-b/responder": 3}},
        ]
        return [b"\x00" + json.dumps({"id": 1, **each}).encode() for each in requests]

    def read(self, data: bytes) -> bool:
        """Check a request as an agent does before it does anything."""
        try:
            request = parse_request(data[1:])
            if request.do in ("prepare", "phase"):
                for end in parse_flows(request.do, request.fields["flows"], request.fields["workload"]).values():
                    workload = parse_workload(end["workload"])
                    if workload.wqe_batch * workload.signal_every <= 256 and workload.sge_count <= 32:
                        send_chains(workload, max(end["qps"], 256))
        except AgentFault as fault:
            json.dumps(fault.to_json())
            return False
        return True


class Answers(Target):
    """What an agent may say to its controller."""

    def seeds(self) -> list[bytes]:
        """Return an answer of every kind, and samples."""
        gid = {"index": 1, "address": "192.0.2.1", "type": "RoCE v2", "netdev": "eth1"}
        port = {"port": 1, "state": "ACTIVE", "rate": "100 Gb/sec (4X EDR)", "active_mtu": 4096, "netdev": "eth1"}
        device = {"name": "rxe0", "driver": "rxe", "numa_node": None, "open_error": None, "limits": {"max_qp": 9}}
        hello = {"kernel": "6", "python": "3", "numa_nodes": [0], "numa_cpus": {"0": 2}, "usable_cpus": 2}
        hello["data_paths"] = {"native": {"usable": True, "detail": "here"}}
        hello["devices"] = [{**device, "ports": [{**port, "gids": [gid]}]}]
        place = {"qp": 0, "mr": 1, "offset": 2, "expected": "00", "found": "ff"}
        answers = {
            "prepare": {"endpoints": {"a-b/requester": {"engines": []}}},
            "stop": {
                "totals": {"flows": {"a-b/requester": {"qp_messages": {"min": 1, "mean": 1, "max": 1}}}},
                "drained": True,
                "failed_qps": 0,
            },
            "verify": {"flows": {"a-b/responder": {"wrong_bytes": 1, "checked_bytes": 9, "first_wrong": place}}},
            "bye": {"qps_left": 0, "pids": [1]},
            "resources": {"qps": [{"qpn": 1, "state": "RTS", "type": "RC", "pid": 1, "comm": "x"}]},
            "fingerprint": {"fingerprint": {"nic": {"firmware": "1", "list": ["a"]}, "link": {"mtu": 4096}}},
            "failed": {"error": {"kind": "setup", "step": "create_qp", "message": "no", "errno_name": "ENOMEM"}},
            "hello": hello,
            "samples": [_sample(number) for number in range(4)],
        }
        return [b"\x00" + json.dumps({"do": do, "answer": answer}).encode() for do, answer in answers.items()]

    def read(self, data: bytes) -> bool:
        """Read an answer, and use it as a run does."""
        return _ours(lambda: self._use(data[1:].decode(errors="replace")))

    def _use(self, line: str) -> None:
        try:
            raw = typed(Mapping[str, Any], read_json(line))
            do, answer = typed(str, raw.get("do")), raw.get("answer")
            if do == "samples":
                samples = [parse_sample(each, 0.0) for each in typed(Sequence[Mapping[str, Any]], answer)]
            elif do == "hello":
                info = parse_host_info(typed(Mapping[str, Any], answer))
            elif do == "failed":
                error = typed(Mapping[str, Any] | None, typed(Mapping[str, Any], answer).get("error"))
            else:
                said = typed(ANSWERS.get(do, Mapping[str, Any]), answer)
        except ValueError as wrong:
            raise AgentGone("h", str(wrong)) from None  # as `AgentClient` words it
        if do == "samples":
            _measured(samples)
        elif do == "hello":
            rdma_port(Host("h", "h", "192.0.2.1", "rxe0"), info)
        elif do == "failed":
            str(StepFailed("h", dict(error or {}), "prepare")).encode()
        elif do == "fingerprint":
            one, other = Fingerprint(said["fingerprint"]), Fingerprint({"nic": {"firmware": "2"}})
            "".join(map(str, difference(one, other))).encode()
            one.digest.encode()


TARGETS: Mapping[str, Callable[[Path], Target]] = {
    "inventory": Inventories,
    "content": Contents,
    "bundle": Bundles,
    "store": Stores,
    "directory": Directories,
    "agent-hears": Requests,
    "controller-hears": Answers,
}


def _ours(read: Callable[[], object]) -> bool:
    try:
        read()
    except CollieError as error:
        str(error).encode()  # it will be printed
        return False
    return True


def _brief(text: str) -> str:
    """Return YAML without its comments: a fuzzer finds nothing in them."""
    return "\n".join(line for line in text.splitlines() if line.split("#")[0].strip())


def _sample(number: int) -> dict[str, Any]:
    flow: dict[str, Any] = {
        "posted_messages": number,
        "delivered_bytes": 1000 * number,
        "failed_qps": 0,
        "returned_bytes": None,
    }
    flow["qp_messages"] = {"min": number, "mean": number, "max": number}
    health = {"iterations": number, "idle_polls": 0, "queue_empty": 0, "errors": {"x": 1}, "post_errors": 0}
    return {
        "clock": 0.25 * number,
        "clock_end": 0.25 * number,
        "flows": {"a-b/requester": flow, "a-b/responder": flow},
        "health": {**health, "cpu_seconds": 0.1, "wait_seconds": None, "data_path": "native"},
        "counters": {"hw_counters": {"rcvd_pkts": 10 * number, "sent_pkts": None, "duplicate_request": 1}},
        "link": {"state": "ACTIVE", "carrier_changes": 1, "rate": None},
        "host": {"cpu_seconds": {"user": 1.0, "softirq": 0.5, "idle": 3.0}, "agent_cpu_seconds": 0.1},
        "dropped_samples": 0,
    }


def _measured(samples: Sequence[AgentSample]) -> None:
    recording = Recording({"a": tuple(samples), "b": tuple(samples)}, 0.0)
    measurement(Workload(), recording, _catalog(), WindowPolicy())


@cache
def _catalog() -> Catalog:
    return load_catalog("rxe")
