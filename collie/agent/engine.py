"""The engine process: verbs objects and traffic of one run."""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import Any, Dict, Optional

from . import facts, rdma_cm
from .content import is_sink
from .faults import AgentFault, bad_request
from .lines import encode
from .paths import AnyTraffic, DataPath, DataPaths
from .pattern import fitting, payload_per_packet
from .queues import build_queues
from .resources import End, Resources
from .totals import ATTENTION, RunTotals, Totals
from .workload import FETCHING, RECEIVING, Workload, parse_workload

# Time for polling flushed completions, within the deadline of ``destroy``.
QUIESCE_SECONDS = 1.0


def _counted_by(workload: Workload, requester: bool, alone: bool) -> Optional[str]:
    """Return how this end counts delivered payload, or None if it does not.

    ``alone`` says that all flows have this workload. Otherwise received packets cannot be attributed to a flow.
    """
    brought = workload.opcodes - FETCHING
    if brought and brought <= RECEIVING:
        return None if requester else "responder_completions"
    if workload.qp_type == "RC":
        return "requester_completions" if requester else None
    return None if requester or not alone else "responder_packets"


def _plan(workload: Workload, requester: bool, alone: bool) -> Dict[str, Any]:
    payload, messages = payload_per_packet(workload)
    return {
        "counted_by": _counted_by(workload, requester, alone),
        "returns": requester and workload.mixed,
        "rounds_in_queue": fitting(workload.send_wq_depth, workload.wqe_batch * workload.signal_every),
        "payload_per_packet": payload,
        "messages_per_packet": messages,
    }


class Engine:
    """Carries out the commands of one run."""

    def __init__(self, paths: DataPaths, pipe: int, totals: Totals) -> None:
        self.paths, self.pipe, self.totals = paths, pipe, totals
        self.path: Optional[DataPath] = None
        self.resources: Optional[Resources] = None
        self.traffic: Optional[AnyTraffic] = None
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
        if command["processes"] > 1 and any(end.workload.srq for end in ends):
            raise bad_request("prepare: a shared receive queue belongs to one process, so processes must be 1")
        resources = Resources(path.verbs, *where, facts.gid(*where), facts.gid_netdev(*where))
        self.path, self.resources = path, resources
        resources.create(ends, command["processes"])
        if command["verify"]:
            for end in ends:
                end.fill()
        alone = len({end.workload for end in ends}) == 1
        return {
            "data_path": path.name,
            "endpoints": {end.key: resources.endpoint(end) for end in ends},
            "flows": {end.key: {**_plan(end.workload, end.requester, alone), "buffers": end.place} for end in ends},
        }

    def _do_connect(self, command: Dict[str, Any]) -> Dict[str, Any]:
        resources = self._prepared()
        for end in resources.ends:
            resources.connect(end, command["peers"][end.key])
        resources.connect_by_rdma_cm(command["seconds"])
        queues, pair_words = build_queues(resources, self.totals.ends)
        assert self.path is not None, "resources were prepared over it"
        traffic = self.path.traffic(queues, resources.cqs, self.totals.words, pair_words, self.pipe)
        traffic.post_receives()
        self.traffic = traffic
        return {}

    def _do_start(self, _command: Dict[str, Any]) -> Dict[str, Any]:
        self._connected().begin()
        return {}

    def _do_stop(self, command: Dict[str, Any]) -> Dict[str, Any]:
        # ``serve`` continues after this command, and keeps posting receives.
        return {"drained": self._connected().drain(command["drain_seconds"])}

    def _do_verify(self, command: Dict[str, Any]) -> Dict[str, Any]:
        found, totals = {}, RunTotals([self.totals])
        for end in self._prepared().ends:
            if end.content is None:
                raise bad_request("verify: prepare was called without verify")
            if is_sink(end.workload, end.requester):
                own = totals.end(end.key)["qp_messages"]["min"]
                found[end.key] = end.verify(own if end.requester else command["completed"].get(end.key, 0))
        return {"flows": found}

    def _do_destroy(self, _command: Dict[str, Any]) -> Dict[str, Any]:
        flushed = 0
        self.traffic = None
        if self.resources is not None:
            flushed = self.resources.quiesce(QUIESCE_SECONDS)
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
