"""An agent without an RDMA device: it speaks the protocol, counts imaginary bytes, and fails on request.

`LocalRemote` runs it as a program with `Archive.of(fake_agent_program())`. It reads the file `behaviour.json` in its
working directory (all keys optional)::

    {"data_paths": ["pyverbs"],        the available data paths
     "devices": ["rxe0", "rxe1"],
     "die": "start",                   the agent ends without an answer to this request
     "die_times": 1,                   it ends at most this often, over all agents of the directory
     "hang": "connect",                it never answers this request
     "fail": {"prepare": {"kind": "setup", "step": "create_qp", "message": "...", "errno_name": "ENOMEM"}},
     "engine_dies": true,              the engine ends half a window after `start`
     "engine_dies_at_rest": true,      the engine ends after `stop`, once
     "silent": true,                   the agent sends no samples
     "bytes_per_second": 1e9,          per flow, at most its offered load
     "latencies": [[1000000, 100]],    rounds that each requester times per sample: (ns, number)
     "swing": 0.25,                    share of that rate by which pairs of samples are alternately above and below it
     "victim_keeps": 0.25,             share of that rate that the flow `victim` keeps beside others
     "victim_keeps_beside": {"4": 0.25},               likewise, beside workloads with so many queue pairs
     "wrong_bytes": 16,                in the payload of each responder
     "counters": {"hw_counters": {"rcvd_pkts": 1000}},   increase per second
     "idle_counters": {"hw_counters": {"rcvd_pkts": 9}}, likewise while there is no run, 0 by default
     "qps": [{"qpn": 17, "type": "RC", "state": "RTS", "pid": 7, "comm": "other"}],
     "drains": false,                  work requests are still outstanding after `stop`
     "failed_qps": 1,                  queue pairs that have failed when `stop` is answered
     "qps_left": 2,                    queue pairs that are left at the end
     "usable_cpus": 4,                 CPUs, 1 by default
     "port": {"link_layer": "InfiniBand"},             replaces fields of the port
     "fingerprint": {"nic.firmware": "2.0"},           replaces fields of the fingerprint
     "errors": {"transport retry counter exceeded": 2}}  failed work requests, in runs of several queue pairs

While a file `cut` exists, connections fail and nothing arrives.

It appends each request's name as a line to the file `asked`, and with its deadline in seconds to `deadlines`. The last
`prepare` is in the file `prepared`.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

GID = "0000:0000:0000:0000:0000:ffff:c000:0201"
GID_ENTRY = {"index": 3, "gid": GID, "address": "192.0.2.1", "type": "RoCE v2", "netdev": "eth1"}
PORT = {
    "port": 1,
    "state": "ACTIVE",
    "rate": "100 Gb/sec (4X EDR)",
    "active_mtu": 4096,
    "netdev": "eth1",
    "link_layer": "Ethernet",
    "gids": [GID_ENTRY],
}
DEVICE = {"name": "rxe0", "driver": "rxe", "numa_node": None, "open_error": None}
LATENCIES = [[10240, 1900], [20480, 90], [40960, 10]]
UNANSWERED = {"kind": "setup", "step": "modify_qp RTR", "message": "timed out", "errno_name": "ETIMEDOUT"}


def _is_cut() -> bool:
    return Path("cut").exists()


def fake_agent_program() -> bytes:
    """Return the source of this file."""
    return Path(__file__).read_bytes()


def _keys_of(request: dict[str, Any]) -> list[str]:
    return [f"{flow['flow']}/{flow['role']}" for flow in request["flows"]]


class FakeAgent:
    """Serves one controller on stdin and stdout."""

    def __init__(self, behaviour: dict[str, Any]) -> None:
        self._behaviour = behaviour
        self._writing = threading.Lock()
        self._workloads: dict[str, dict[str, Any]] = {}
        self._data_path = "native"
        self._keys: list[str] = []
        self._made: list[str] = []
        self._state = "idle"
        self._qps = 1
        self._running = threading.Event()
        self._began = 0.0

    def serve(self) -> None:
        """Answer requests until the controller disconnects."""
        for line in sys.stdin:
            request = json.loads(line)
            if request["do"] != "ping":
                with Path("asked").open("a") as asked:
                    asked.write(request["do"] + "\n")
                with Path("deadlines").open("a") as deadlines:
                    deadlines.write(f"{request['do']} {request['deadline_seconds']}\n")
            self._misbehave(request["do"])
            if self._behaviour.get("hang") == request["do"]:
                continue
            error = self._behaviour.get("fail", {}).get(request["do"])
            if request["do"] == "connect" and _is_cut():
                error = UNANSWERED
            if request.get("workload", {}).get("offered_bps") and request.get("data_path", self._data_path) != "native":
                error = {"kind": "unsupported", "step": "post", "message": "only native can offer a load"}
            if error:
                self._send({"id": request["id"], "ok": False, "error": error})
                continue
            answer = getattr(self, f"_{request['do']}")(request)
            self._send({"id": request["id"], "ok": True, **answer})
            if request["do"] == "stop" and self._behaviour.pop("engine_dies_at_rest", False):
                self._send({"event": "engine_died", "message": "engine killed by signal 9"})
            if request["do"] == "bye":
                self._send({"event": "bye", "reason": "request"})
                return

    def _misbehave(self, do: str) -> None:
        if self._behaviour.get("die") != do:
            return
        deaths = Path("deaths")
        times = len(deaths.read_text()) if deaths.exists() else 0
        if times < self._behaviour.get("die_times", 1 << 30):
            deaths.write_text("x" * (times + 1))
            sys.stderr.write("out of cheese\n")
            sys.stderr.flush()
            os._exit(1)

    def _hello(self, _request: dict[str, Any]) -> dict[str, Any]:
        usable = self._behaviour.get("data_paths", ["native", "pyverbs"])
        return {
            "protocol": 3,
            "pid": os.getpid(),
            "hostname": "fake",
            "kernel": "6.1.0",
            "python": "3.11.2",
            "data_paths": {
                name: {"usable": name in usable, "detail": "present" if name in usable else f"no {name} here"}
                for name in ("native", "pyverbs")
            },
            "numa_nodes": [0],
            "usable_cpus": self._behaviour.get("usable_cpus", 1),
            "devices": [
                {**DEVICE, "name": name, "ports": [{**PORT, **self._behaviour.get("port", {})}]}
                for name in self._behaviour.get("devices", [DEVICE["name"]])
            ],
            "clock": time.monotonic(),
        }

    def _ping(self, _request: dict[str, Any]) -> dict[str, Any]:
        return {"clock": time.monotonic(), "state": self._state}

    def _prepare(self, request: dict[str, Any]) -> dict[str, Any]:
        self._data_path = request.get("data_path", "native")
        self._made = _keys_of(request)
        self._state = "prepared"
        Path("prepared").write_text(json.dumps(request))
        return {
            "engine_pids": [1],
            "data_path": self._data_path,
            "endpoints": {key: {"of": key} for key in self._made},
            "flows": {},
        }

    def _connect(self, request: dict[str, Any]) -> dict[str, Any]:
        other = {"requester": "responder", "responder": "requester"}
        for key in self._made:
            flow, role = key.split("/")
            assert request["peers"][key] == {"of": f"{flow}/{other[role]}"}, request["peers"]
        self._state = "connected"
        return {}

    def _phase(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._state in ("connected", "stopped"), f"a phase while {self._state}"
        self._running.clear()
        self._qps = request["workload"]["qps"]
        self._keys = _keys_of(request)
        assert set(self._keys) <= set(self._made), f"{self._keys} of {self._made}"
        workloads = [flow.get("workload", request["workload"]) for flow in request["flows"]]
        self._workloads = dict(zip(self._keys, workloads, strict=True))
        self._state = "ready"
        return {"flows": {}}

    def _start(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._state == "ready", f"a start while {self._state}"
        self._state = "running"
        self._begin(request["period_seconds"])
        return {"clock": self._began}

    def _sampling(self, request: dict[str, Any]) -> dict[str, Any]:
        if request["on"]:
            self._begin(request.get("period_seconds", 0.25))
        else:
            self._running.clear()
        return {"sources": {}}

    def _begin(self, period: float) -> None:
        self._running.clear()
        self._running = threading.Event()  # one for each thread, because an earlier thread can miss a cleared event
        self._running.set()
        self._began = time.monotonic()
        threading.Thread(target=self._sample, args=(period, self._running), daemon=True).start()

    def _stop(self, _request: dict[str, Any]) -> dict[str, Any]:
        self._running.clear()
        self._state = "stopped"
        flows = {key: {"qp_messages": {"min": 100, "mean": 100, "max": 100}} for key in self._keys}
        drained = self._behaviour.get("drains", True)
        broken = self._behaviour.get("failed_qps", 0)
        return {"totals": {"flows": flows}, "drained": drained, "failed_qps": broken, "stragglers": 0}

    def _verify(self, request: dict[str, Any]) -> dict[str, Any]:
        wrong = self._behaviour.get("wrong_bytes", 0)
        first = {"qp": 3, "mr": 0, "offset": 100, "expected": "aa", "found": "bb"} if wrong else None
        found = {"checked_bytes": 4096, "wrong_bytes": wrong, "first_wrong": first}
        ends = [key for key in self._keys if key.endswith("/responder")]
        assert all(request["completed"][key] == 100 for key in ends), request
        return {"flows": dict.fromkeys(ends, found)}

    def _destroy(self, _request: dict[str, Any]) -> dict[str, Any]:
        self._running.clear()
        self._keys, self._made, self._state = [], [], "idle"
        return {"qps_left": 0, "flushed": 0, "seconds": 0.0}

    def _fingerprint(self, _request: dict[str, Any]) -> dict[str, Any]:
        taken: dict[str, dict[str, Any]] = {"nic": {"firmware": "1.0", "psid": None}, "link": {"netdev": "eth1"}}
        for field, value in self._behaviour.get("fingerprint", {}).items():
            category, name = field.split(".")
            taken.setdefault(category, {})[name] = value
        return {"fingerprint": taken}

    def _bye(self, _request: dict[str, Any]) -> dict[str, Any]:
        left = self._behaviour.get("qps_left", 0)
        return {"qps_left": left, "pids": [7] if left else []}

    def _resources(self, _request: dict[str, Any]) -> dict[str, Any]:
        return {"qps": self._behaviour.get("qps", [])}

    def _sample(self, period: float, running: threading.Event) -> None:
        number = 0
        while running.is_set() and not self._behaviour.get("silent"):
            seconds = number * period
            time.sleep(max(0.0, self._began + seconds - time.monotonic()))
            if not running.is_set():
                return
            self._send(self._sample_at(number, seconds, period))
            number += 1
            if number == 5 and self._behaviour.get("engine_dies"):
                self._send({"event": "engine_died", "message": "engine killed by signal 9"})
                return

    def _sample_at(self, number: int, seconds: float, period: float) -> dict[str, Any]:
        # Two samples up, two down. A swing of single samples averages out where the other host samples between them.
        ahead = self._behaviour.get("swing", 0.0) * period * (0, 1, 2, 1)[number % 4]
        rate = 0.0 if _is_cut() else self._behaviour.get("bytes_per_second", 1e9)
        advances = self._behaviour.get("counters", {"hw_counters": {"rcvd_pkts": 1000}})
        if not self._keys:
            idle = {source: dict.fromkeys(rates, 0) for source, rates in advances.items()}
            advances = self._behaviour.get("idle_counters", idle)
        return {
            "event": "sample",
            "n": number,
            "clock": self._began + seconds,
            "clock_end": self._began + seconds,
            "phase": "running",
            "flows": {key: self._flow(key, number, seconds + ahead, rate) for key in self._keys},
            "health": {
                "iterations": 10 * number,
                "idle_polls": 5 * number,
                "queue_empty": 0,
                "queue_outstanding": 96 * number,
                "queue_limit": 128 * number,
                "data_path": self._data_path,
                "errors": self._behaviour.get("errors", {}) if self._qps > 1 else {},
                "post_errors": 0,
            },
            "counters": {
                source: {name: int(rate * seconds) for name, rate in rates.items()}
                for source, rates in advances.items()
            },
            "dropped_samples": 0,
        }

    def _flow(self, key: str, number: int, seconds: float, rate: float) -> dict[str, Any]:
        requester, workload = key.endswith("/requester"), self._workloads[key]
        offered = workload.get("offered_bps", 0) / 8
        delivered = int(min(rate, offered or rate) * seconds)
        counts = requester == (workload["opcode"] in ("WRITE", "READ"))
        timed = requester and workload["qp_type"] == "RC" and self._data_path == "native"
        latencies = self._behaviour.get("latencies", LATENCIES)
        if key.startswith("victim/"):
            qps = str(max(each.get("qps", 1) for each in self._workloads.values()))
            beside = self._behaviour.get("victim_keeps_beside", {})
            delivered = int(delivered * beside.get(qps, self._behaviour.get("victim_keeps", 1.0)))
        return {
            "posted_messages": delivered // 100 if requester else None,
            "posted_bytes": delivered if requester else None,
            "delivered_bytes": delivered if counts else None,
            "qp_messages": {"min": delivered // 200, "mean": 0, "max": delivered // 100},
            "failed_qps": 0,
            "latencies": [[shortest, number * count] for shortest, count in latencies] if timed else None,
            "gaps": [[1_000_000, number]] if timed else None,
            "open_gap": 0 if timed else None,
            "latency_clock": "host" if timed else None,
        }

    def _send(self, message: dict[str, Any]) -> None:
        with self._writing:
            sys.stdout.write(json.dumps(message) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    file = Path("behaviour.json")
    FakeAgent(json.loads(file.read_text()) if file.exists() else {}).serve()
