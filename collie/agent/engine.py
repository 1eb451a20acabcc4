"""The engine process: one run's verbs objects and traffic, told what to do over a pipe by the resident agent."""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from typing import Any, Callable, Dict, List, Optional

from . import facts
from .faults import AgentFault, bad_request
from .lines import encode
from .pattern import fitting, payload_per_packet
from .queues import Queue, SendBuilder, receive_queues, shared_receive_queue
from .resources import End, Resources
from .totals import ATTENTION, Totals
from .traffic import Traffic
from .verbs import Verbs
from .workload import FETCHING, RECEIVING, Workload, parse_workload

# Part of destroy's deadline spent on polling flushed completions before queue pairs go.
QUIESCE_SECONDS = 1.0


def counted_by(workload: Workload, requester: bool, alone: bool) -> Optional[str]:
    """Return how this end knows what was delivered to the sink of its flow, None when only the other end does.

    ``alone``: every flow of the run has this workload. A device's packets cannot be told apart otherwise.
    """
    brought = workload.opcodes - FETCHING
    if brought and brought <= RECEIVING:
        return None if requester else "responder_completions"
    if workload.qp_type == "RC":
        return "requester_completions" if requester else None
    return None if requester or not alone else "responder_packets"


def plan(workload: Workload, requester: bool, alone: bool) -> Dict[str, Any]:
    """Return what the controller and the sampler may want to know of one end."""
    payload, messages = payload_per_packet(workload)
    return {
        "counted_by": counted_by(workload, requester, alone),
        "returns": requester and workload.mixed,
        "rounds_in_queue": fitting(workload.send_wq_depth, workload.wqe_batch * workload.signal_every),
        "payload_per_packet": payload,
        "messages_per_packet": messages,
    }


class Engine:
    """Serves the commands of one run: hello, prepare, connect, start, stop, destroy."""

    def __init__(self, v: Optional[Verbs], pipe: int, totals: Totals) -> None:
        self.v, self.pipe, self.totals = v, pipe, totals
        self.resources: Optional[Resources] = None
        self.traffic: Optional[Traffic] = None
        self._buffer = b""
        self._commands: Dict[str, Callable[[Dict[str, Any]], Dict[str, Any]]] = {
            "hello": self._hello,
            "prepare": self._prepare,
            "connect": self._connect,
            "start": self._start,
            "stop": self._stop,
            "destroy": self._destroy,
        }

    def serve(self) -> None:
        """Carry out commands until ``destroy``, ``hello`` or the end of the pipe; drive traffic in between."""
        last = ""
        while last not in ("destroy", "hello"):
            if self.traffic is not None:
                self.traffic.run(lambda: False)
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
            reply = {"ok": True, **self._commands[command["do"]](command)}
        except AgentFault as fault:
            reply = {"ok": False, "error": fault.to_json()}
        except Exception as error:  # the process boundary: a bug here must reach the controller as an answer
            traceback.print_exc(file=sys.stderr)
            bug = AgentFault("internal", command["do"], f"{type(error).__name__}: {error}")
            reply = {"ok": False, "error": bug.to_json()}
        data = encode(reply)
        while data:
            data = data[os.write(self.pipe, data) :]

    def _hello(self, _command: Dict[str, Any]) -> Dict[str, Any]:
        return facts.gather(self.v)

    def _prepare(self, command: Dict[str, Any]) -> Dict[str, Any]:
        if self.v is None:
            raise AgentFault("unsupported", "import", "pyverbs is missing on this host")
        ends = [
            End(entry["key"], entry["role"], entry["qps"], parse_workload(entry["workload"]))
            for entry in command["ends"]
        ]
        gid = facts.gid(command["device"], command["port"], command["gid_index"])
        resources = Resources(self.v, command["device"], command["port"], command["gid_index"], gid)
        self.resources = resources
        resources.create(ends)
        alone = len({end.workload for end in ends}) == 1
        return {
            "endpoints": {end.key: resources.endpoint(end) for end in ends},
            "flows": {end.key: plan(end.workload, end.requester, alone) for end in ends},
        }

    def _connect(self, command: Dict[str, Any]) -> Dict[str, Any]:
        resources = self._prepared()
        queues: List[Queue] = []
        pair_words: Dict[int, int] = {}
        for place, end in enumerate(resources.ends):
            layout = self.totals.ends[place]
            resources.connect(end, command["peers"][end.key])
            pair_words.update({pair.qp_num: layout.first_qp + number for number, pair in enumerate(end.pairs)})
            if end.requester:
                builder = SendBuilder(resources, end)
                for pair in range(end.qps):
                    queues.append(builder.build(len(queues), pair, layout))
            elif end.srq is not None:
                queues.append(shared_receive_queue(resources, end, layout, len(queues)))
            elif end.workload.receives:
                queues += receive_queues(resources, end, layout, len(queues))
        words, error = self.totals.words, resources.v.PyverbsError
        traffic = Traffic(queues, resources.cqs, words, pair_words, self.pipe, error)
        traffic.post_receives()
        self.traffic = traffic
        return {}

    def _start(self, _command: Dict[str, Any]) -> Dict[str, Any]:
        self._connected().begin()
        return {}

    def _stop(self, command: Dict[str, Any]) -> Dict[str, Any]:
        """End posting, then serve until what is outstanding has completed; receives are served on by ``serve``."""
        traffic = self._connected()
        traffic.sending = False
        end = time.monotonic() + command["drain_seconds"]
        traffic.run(lambda: not traffic.outstanding() or time.monotonic() > end)
        return {"drained": not traffic.outstanding()}

    def _destroy(self, _command: Dict[str, Any]) -> Dict[str, Any]:
        flushed = 0
        self.traffic = None
        if self.resources is not None:
            flushed = self.resources.quiesce(QUIESCE_SECONDS)
            self.resources.destroy()
            self.resources = None
        return {"flushed": flushed, "clean": True}

    def _prepared(self) -> Resources:
        if self.resources is None:
            raise bad_request("nothing is prepared")
        return self.resources

    def _connected(self) -> Traffic:
        if self.traffic is None:
            raise bad_request("nothing is connected")
        return self.traffic
