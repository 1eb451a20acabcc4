"""The engine process: the verbs objects of one set-up, and the traffic of its phases."""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from typing import Any, Dict, List, Optional, Sequence, Tuple

from . import facts, rdma_cm
from .content import is_sink
from .control_verbs import ControlVerbs
from .echoes import Echoes
from .faults import AgentFault, bad_request
from .lines import encode
from .native_traffic import NativeTraffic
from .paths import NATIVE, AnyTraffic, DataPath, DataPaths
from .pattern import fitting, payload_per_packet
from .queues import GENERATION_MASK, QUEUE_MASK, build_queues, idle_queues
from .resources import End, Resources
from .totals import ATTENTION, RunTotals, Totals
from .used_end import UsedEnd
from .workload import CONTROL_VERBS, FETCHING, RECEIVING, Workload, parse_workload

# Time for polling flushed completions, within the deadline of ``destroy``.
QUIESCE_SECONDS = 1.0
# A sender without acknowledgements is done before its last packets arrive. They are waited for.
QUIET_SECONDS = 0.02
# Time for the completions that came after ``stop``.
LATE_SECONDS = 0.5
# How long a loop polls before it sleeps. Waking takes some 5 us, more than a round trip of a NIC.
SPIN_SECONDS = 100e-6


def _counted_by(workload: Workload, requester: bool, uniform: bool) -> Optional[str]:
    """Return how this end counts delivered payload, or None if it does not.

    ``uniform`` says that all flows of the host have this workload. Otherwise received packets are of no known flow.
    """
    brought = workload.opcodes - FETCHING
    if brought and brought <= RECEIVING:
        return None if requester else "responder_completions"
    if workload.qp_type == "RC":
        return "requester_completions" if requester else None
    return None if requester or not uniform else "responder_packets"


def _plan(workload: Workload, requester: bool, uniform: bool) -> Dict[str, Any]:
    payload, messages = payload_per_packet(workload)
    return {
        "counted_by": _counted_by(workload, requester, uniform),
        "returns": requester and workload.mixed,
        "rounds_in_queue": fitting(workload.send_wq_depth, workload.wqe_batch * workload.signal_every),
        "payload_per_packet": payload,
        "messages_per_packet": messages,
    }


def _check_path(path: DataPath, parts: Sequence[Tuple[Workload, bool]]) -> None:
    """Refuse what only the loop in C can do. The parts are workloads, and whether this end is their requester."""
    if path.paces:
        return
    if any(workload.offered_bps for workload, requester in parts if requester):
        message = f"{path.name} keeps send queues full; only data path {NATIVE} can offer a flow less (offered_bps)"
        raise AgentFault("unsupported", "post", message)
    if any(getattr(workload, rate) for workload, _ in parts for rate in CONTROL_VERBS):
        message = f"{path.name} makes no control verbs beside the traffic ({', '.join(CONTROL_VERBS)})"
        raise AgentFault("unsupported", "control verbs", f"{message}; only data path {NATIVE} does")


class Engine:
    """Carries out the commands of one run."""

    def __init__(self, paths: DataPaths, pipe: int, totals: Totals) -> None:
        self.paths, self.pipe, self.totals = paths, pipe, totals
        self.path: Optional[DataPath] = None
        self.resources: Optional[Resources] = None
        self.traffic: Optional[AnyTraffic] = None
        self.control_verbs: Optional[ControlVerbs] = None
        self.echoes: Optional[Echoes] = None
        self._spin_seconds = 0.0
        self.parts: List[UsedEnd] = []
        self._phases = 0
        self._buffer = b""

    def serve(self) -> None:
        """Drive traffic and carry out commands until ``destroy``, ``hello`` or the end of the pipe."""
        last = ""
        while last not in ("destroy", "hello"):
            if self.traffic is not None:
                self.traffic.serve()
            command = self._next_command()
            if command is None:
                return
            last = command["do"]
            self._answer(command)

    def _next_command(self) -> Optional[Dict[str, Any]]:
        while b"\n" not in self._buffer:
            data = os.read(self.pipe, 1 << 20)
            if not data:
                return None
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\n", 1)
        self.totals.words[ATTENTION] = 0
        return dict(json.loads(line))

    def _answer(self, command: Dict[str, Any]) -> None:
        try:
            reply = {"ok": True, **getattr(self, f"_do_{command['do']}")(command)}
        except AgentFault as fault:
            reply = {"ok": False, "error": fault.to_json()}
        except Exception as error:  # the process boundary: the controller must receive a bug as a reply
            traceback.print_exc(file=sys.stderr)
            bug = AgentFault("internal", command["do"], f"{type(error).__name__}: {error}")
            reply = {"ok": False, "error": bug.to_json()}
        data = encode(reply)
        while data:
            data = data[os.write(self.pipe, data) :]

    def _do_hello(self, _command: Dict[str, Any]) -> Dict[str, Any]:
        best = next(iter(self.paths.usable.values()), None)
        return {**facts.gather(best.verbs if best else None), **self.paths.facts(), "rdma_cm_error": rdma_cm.why_not()}

    def _do_prepare(self, command: Dict[str, Any]) -> Dict[str, Any]:
        path = self.paths.choose(command["data_path"])
        where = (command["device"], command["port"], command["gid_index"])
        ends = [
            End(entry["key"], entry["role"], entry["qps"], parse_workload(entry["workload"]), entry["flow_qps"])
            for entry in command["ends"]
        ]
        _check_path(path, [(end.workload, end.requester) for end in ends])
        if command["processes"] > 1 and any(end.workload.srq for end in ends):
            raise bad_request("prepare: a shared receive queue belongs to one process, so processes must be 1")
        resources = Resources(path.verbs, *where, facts.gid(*where), facts.gid_netdev(*where))
        self.path, self.resources = path, resources
        self.control_verbs = ControlVerbs(resources, self.totals.words)
        self.echoes = Echoes(path.verbs, resources.pd) if path.paces else None
        self._spin_seconds = 0.0 if facts.is_software(command["device"]) else SPIN_SECONDS
        resources.create(ends, command["processes"])
        return {
            "data_path": path.name,
            "endpoints": {end.key: {**resources.endpoint(end), "echoes": path.paces} for end in ends},
            "flows": {end.key: {"buffers": end.place} for end in ends},
        }

    def _do_connect(self, command: Dict[str, Any]) -> Dict[str, Any]:
        resources = self._prepared()
        for end in resources.ends:
            resources.connect(end, command["peers"][end.key])
        resources.connect_by_rdma_cm(command["seconds"])
        slots = sum(end.queues for end in resources.ends)
        if slots > QUEUE_MASK:
            raise AgentFault("unsupported", "connect", f"{slots} queues in a process, above {QUEUE_MASK}; use more")
        pair_words = {
            pair.qp_num: layout.first_qp + number
            for end, layout in zip(resources.ends, self.totals.ends)  # noqa: B905 - Python 3.9 has no `strict`
            for number, pair in enumerate(end.pairs)
        }
        assert self.path is not None, "resources were prepared over it"
        self.traffic = self.path.traffic(
            slots, resources.cqs, self.totals.words, pair_words, self.pipe, self._spin_seconds
        )
        return {}

    def _do_phase(self, command: Dict[str, Any]) -> Dict[str, Any]:
        resources, traffic = self._prepared(), self._connected()
        assert self.path is not None, "resources were prepared over it"
        ends = {end.key: end for end in resources.ends}
        parts = [
            UsedEnd(ends[entry["key"]], parse_workload(entry["workload"]), entry["qps"], entry["flow_qps"])
            for entry in command["ends"]
        ]
        _check_path(self.path, [(part.workload, part.end.requester) for part in parts])
        if not traffic.drain(LATE_SECONDS):
            raise AgentFault("setup", "phase", "work requests of the phase before are still outstanding")
        if isinstance(traffic, NativeTraffic):
            traffic.end_echoes()
        for part in parts:
            for pair in part.outdated:
                if part.workload.qp_type != "UD" or not part.end.requester:
                    resources.restart(part.end, pair)
                part.end.posted[pair] = None
            path = (part.workload.traffic_class, part.workload.hop_limit)
            if part.end.address_handle is not None and path != part.end.address_path:
                resources.address(part.end, part.workload)
        self.parts = parts
        self._admit(resources, traffic)
        if self.control_verbs is not None:
            self.control_verbs.admit([part.workload for part in parts], command["engines"])
        if command["verify"]:
            for part in parts:
                part.fill()
        return {
            "flows": {
                part.end.key: {
                    **_plan(part.workload, part.end.requester, command["uniform"]),
                    "timed": self.path.paces and part.timed,
                }
                for part in parts
            }
        }

    def _admit(self, resources: Resources, traffic: AnyTraffic) -> None:
        """Give the traffic loop the queues of a new phase."""
        generation, self._phases = self._phases & GENERATION_MASK, self._phases + 1
        layouts = {layout.key: layout for layout in self.totals.ends}
        queues, used = {}, {part.end.key for part in self.parts}
        for end in resources.ends:
            if end.requester and end.key not in used:
                queues.update(idle_queues(end.first_queue, end.qps))
        for part in self.parts:
            queues.update(build_queues(resources.v, part, layouts[part.end.key], generation))
        echoes = [self.echoes.build(part) for part in self.parts] if self.echoes is not None else []
        self.totals.restart()
        traffic.admit(queues)
        if isinstance(traffic, NativeTraffic):
            for each in echoes:
                traffic.admit_echoes(each)
        for part in self.parts:
            end = part.end
            if part.receives is not None:
                if not end.requester and end.srq is None:
                    part.first_receives = {
                        pair: traffic.next_receive(end.first_queue + pair) for pair in range(part.qps)
                    }
                for pair in part.unfilled:
                    end.posted[pair] = part.receives

    def _do_start(self, _command: Dict[str, Any]) -> Dict[str, Any]:
        self._connected().begin()
        if self.control_verbs is not None:
            self.control_verbs.begin()
        return {}

    def _do_stop(self, command: Dict[str, Any]) -> Dict[str, Any]:
        # ``serve`` continues after this command, and keeps posting receives.
        ends_at = time.monotonic() + command["drain_seconds"]
        if self.control_verbs is not None:
            self.control_verbs.want_end()
        drained = self._connected().drain(command["drain_seconds"]) and self._settled(ends_at)
        self._end_control_verbs(ends_at)
        counted = RunTotals([self.totals])
        failed = sum(counted.end(layout.key)["failed_qps"] for layout in self.totals.ends)
        return {"drained": drained, "failed_qps": failed, "stragglers": counted.health()["stragglers"]}

    def _end_control_verbs(self, ends_at: float) -> None:
        """Serve the peer's sends while the last control verb is under way."""
        if self.control_verbs is None:
            return
        while self.control_verbs.is_running and time.monotonic() < ends_at:
            time.sleep(QUIET_SECONDS)
            self._connected().drain(LATE_SECONDS)
        self.control_verbs.end()

    def _settled(self, ends_at: float) -> bool:
        """Wait until no receive completes any more where no acknowledgement proves that. Return whether that came.

        Writes of UC take no receive. Only the NIC's counters, which the sampler reads, show their packets, and some
        NICs refresh these once a second. So they get QUIET_SECONDS, without a proof.
        """
        unproved = [part for part in self.parts if part.workload.qp_type != "RC" and not part.end.requester]
        if not unproved:
            return True
        counted, before = RunTotals([self.totals]), -1
        while time.monotonic() < ends_at:
            arrived = sum(counted.end(part.end.key)["delivered_messages"] for part in unproved)
            if arrived == before:
                return True
            before = arrived
            time.sleep(QUIET_SECONDS)
            self._connected().drain(LATE_SECONDS)
        return False

    def _do_verify(self, command: Dict[str, Any]) -> Dict[str, Any]:
        found, totals = {}, RunTotals([self.totals])
        totals.use([{part.end.key: part.qps for part in self.parts}])
        for part in self.parts:
            key, requester = part.end.key, part.end.requester
            if is_sink(part.workload, requester):
                own = totals.end(key)["qp_messages"]["min"]
                found[key] = part.verify(own if requester else command["completed"].get(key, 0))
        return {"flows": found}

    def _do_destroy(self, _command: Dict[str, Any]) -> Dict[str, Any]:
        flushed = 0
        self.traffic = None
        if self.control_verbs is not None:
            control_verbs, self.control_verbs = self.control_verbs, None
            control_verbs.close()
        if self.resources is not None:
            flushed = self.resources.quiesce(QUIESCE_SECONDS)
            if self.echoes is not None:
                self.echoes.close()
            self.resources.destroy()
            self.resources = None
        return {"flushed": flushed, "clean": True}

    def _prepared(self) -> Resources:
        if self.resources is None:
            raise bad_request("no run is prepared")
        return self.resources

    def _connected(self) -> AnyTraffic:
        if self.traffic is None:
            raise bad_request("no run is connected")
        return self.traffic
