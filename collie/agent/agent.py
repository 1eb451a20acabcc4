"""The resident agent: one handler per request."""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Dict, List, Optional

from . import PROTOCOL, facts, fingerprint
from .child import EngineProcess
from .engines import Engines
from .faults import bad_request
from .lines import Lines
from .loop import GRACE_SECONDS, Loop, Step
from .netlink import QueuePair, list_queue_pairs
from .pulse import Pulse
from .report import Run, Sampling, take
from .requests import Request, parse_flows
from .sampler import CounterReader, received_packets

DRAIN_SECONDS = 1.0
LET_GO_SECONDS = 2.0
# State of a run after each step that changes it.
AFTER = {"prepare": "prepared", "connect": "connected", "phase": "ready", "start": "running", "stop": "stopped"}


class Agent(Loop):
    """The agent of one controller."""

    def __init__(
        self,
        lines: Lines,
        make_engine: Callable[[Dict[str, int]], EngineProcess],
        pulse: Pulse,
        make_reader: Callable[[str, int, Optional[str]], CounterReader] = CounterReader,
        queue_pairs: Callable[[str], Optional[List[QueuePair]]] = list_queue_pairs,
    ) -> None:
        super().__init__(lines, Sampling(make_reader), pulse)
        self._make_engine, self._queue_pairs = make_engine, queue_pairs
        self._totals: Dict[str, Any] = {}
        self._engine_pids: List[int] = []
        self._last_device: Optional[str] = None

    def handle(self, request: Request) -> Optional[Dict[str, Any]]:
        """Carry out a request, whose name has been checked."""
        reply: Optional[Dict[str, Any]] = getattr(self, f"_do_{request.do}")(request)
        return reply

    def finish(self, step: Step, reply: Dict[str, Any]) -> Dict[str, Any]:
        """Update the run, and complete the reply."""
        do = step.request.do
        run = self._run
        if do == "hello":
            if not step.engines.reap(GRACE_SECONDS):
                step.engines.kill()
            return {"pid": os.getpid(), **reply}
        assert run is not None, "every other step belongs to a run"
        if do == "destroy":
            if reply["clean"]:
                step.engines.reap(GRACE_SECONDS)
            started = step.ends_at - step.request.deadline_seconds
            self.lose_engines()
            return {**reply, "qps_left": self._qps_left(), "seconds": round(time.monotonic() - started, 3)}
        if do == "prepare":
            run.data_path = reply["data_path"]
            reply["engine_pids"] = run.engines.pids
        if do == "phase":
            run.enter_phase(reply["flows"])
        if do == "stop":
            reply["totals"] = self._totals
        run.state = AFTER.get(do, run.state)
        if do == "start":
            self._sampling.start(step.request.fields.get("period_seconds"))
            reply["clock"] = time.monotonic()
        return reply

    def _do_hello(self, request: Request) -> None:
        if request.fields["protocol"] != PROTOCOL:
            raise bad_request(f"this agent speaks protocol {PROTOCOL}, not {request.fields['protocol']}")
        self._lease_seconds = float(request.fields.get("lease_seconds", self._lease_seconds))
        if self._run:
            raise bad_request("hello: a run is under way")
        self.hand_over(request, Engines(self._make_engine, {}), {})

    def _do_ping(self, _request: Request) -> Dict[str, Any]:
        return {"clock": time.monotonic(), "state": self._run.state if self._run else "idle"}

    def _do_sampling(self, request: Request) -> Dict[str, Any]:
        fields = request.fields
        if not fields["on"]:
            self._sampling.keep = False
            if not self._run:
                self._sampling.stop()
            elif self._run.state != "running":
                self._sampling.pause()
            return {}
        if "device" not in fields:
            raise bad_request("sampling: device is missing")
        reader = self._sampling.read_from(fields["device"], fields.get("port", 1), fields.get("netdev"))
        self._sampling.keep = True
        self._sampling.start(fields.get("period_seconds"))
        return {"sources": reader.sources}

    def _do_prepare(self, request: Request) -> None:
        if self._run:
            raise bad_request("prepare: the last run has not been destroyed")
        fields = request.fields
        ends = parse_flows("prepare", fields["flows"], fields["workload"])
        device, port = fields["device"], fields.get("port", 1)
        qps = {key: end["qps"] for key, end in ends.items()}
        apart = [key for key, end in ends.items() if end["apart"]]
        engines = Engines(self._make_engine, qps, fields.get("processes", 1), apart)
        self._engine_pids += engines.pids
        self._last_device = device
        netdev = facts.gid_netdev(device, port, fields["gid_index"])
        self._run = Run(engines, device, port, facts.physical_netdev(netdev) if netdev else None)
        command = {
            "device": device,
            "port": port,
            "gid_index": fields["gid_index"],
            "ends": list(ends.values()),
            "data_path": fields.get("data_path"),
        }
        self.hand_over(request, engines, command)
        # Opening a hundred files is slow on a slow CPU, so it overlaps with the engines' work.
        self._sampling.read_from(device, port, self._run.netdev)

    def _expect(self, request: Request, *states: str) -> Run:
        if self._run is None or self._run.state not in states:
            now = self._run.state if self._run else "idle"
            raise bad_request(f"{request.do}: the run is {now}, not {' or '.join(states)}")
        return self._run

    def _do_connect(self, request: Request) -> None:
        run = self._expect(request, "prepared")
        peers = request.fields["peers"]
        for key in run.engines.ends:
            if not isinstance(peers.get(key), dict) or not isinstance(peers[key].get("engines"), list):
                raise bad_request(f"connect: peers has no endpoint for {key}")
        self.hand_over(request, run.engines, {"peers": peers, "seconds": request.deadline_seconds * 0.8})

    def _do_phase(self, request: Request) -> None:
        run = self._expect(request, "connected", "stopped")
        fields = request.fields
        ends = parse_flows("phase", fields["flows"], fields["workload"])
        for key, end in ends.items():
            if end["qps"] > run.engines.ends.get(key, 0):
                raise bad_request(f"phase: {key} has {run.engines.ends.get(key, 0)} queue pairs, not {end['qps']}")
        if not self._sampling.keep:
            self._sampling.pause()
        command = {"ends": list(ends.values()), "verify": fields.get("verify", False)}
        self.hand_over(request, run.engines, command)

    def _do_start(self, request: Request) -> None:
        run = self._expect(request, "ready")
        reader = self._sampling.read_from(run.device, run.port, run.netdev)
        run.first_packets = received_packets(reader.read())
        self.hand_over(request, run.engines, {})

    def _do_stop(self, request: Request) -> None:
        run = self._expect(request, "running")
        self._totals = take(self._sampling.reader, run)
        drain = min(request.fields.get("drain_seconds", DRAIN_SECONDS), request.deadline_seconds * 0.8)
        self.hand_over(request, run.engines, {"drain_seconds": drain})

    def _do_verify(self, request: Request) -> None:
        run = self._expect(request, "running", "stopped")
        completed = request.fields.get("completed", {})
        if not all(type(count) is int and count >= 0 for count in completed.values()):
            raise bad_request("verify: completed must map keys to numbers of messages")
        self.hand_over(request, run.engines, {"completed": completed})

    def _do_destroy(self, request: Request) -> Optional[Dict[str, Any]]:
        if self._run is None:
            return {"flushed": 0, "clean": True, "qps_left": self._qps_left(), "seconds": 0.0}
        self.hand_over(request, self._run.engines, {})
        return None

    def _do_resources(self, request: Request) -> Dict[str, Any]:
        pairs = self._queue_pairs(request.fields["device"])
        if pairs is None:
            return {"qps": None}
        return {"qps": [pair._asdict() for pair in pairs]}

    def _do_fingerprint(self, request: Request) -> Dict[str, Any]:
        if self._run:
            raise bad_request("fingerprint: a run is under way, which reading would disturb")
        device, port = request.fields["device"], request.fields.get("port", 1)
        found = facts.device_facts(device)
        netdev = next((entry["netdev"] for entry in found["ports"] if entry["port"] == port), None)
        return {"fingerprint": fingerprint.take(device, port, found["driver"], netdev)}

    def _do_bye(self, _request: Request) -> Dict[str, Any]:
        self.end_run()
        self.reason = "request"
        left = self._left()
        # The kernel frees the queue pairs of a killed engine with a delay, longer if they have packets waiting.
        late = time.monotonic() + LET_GO_SECONDS
        while left and time.monotonic() < late:
            time.sleep(0.05)
            left = self._left()
        pids = None if left is None else sorted({pair.pid for pair in left if pair.pid is not None})
        return {"qps_left": None if left is None else len(left), "pids": pids}

    def _qps_left(self) -> Optional[int]:
        left = self._left()
        return None if left is None else len(left)

    def _left(self) -> Optional[List[QueuePair]]:
        if self._last_device is None:
            return []
        pairs = self._queue_pairs(self._last_device)
        return None if pairs is None else [pair for pair in pairs if pair.pid in self._engine_pids]
