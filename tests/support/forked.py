"""A flow from the fake device to itself, in engine processes that share its queue pairs, and a victim in another."""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from collie.agent.child import EngineProcess
from collie.agent.engines import Engines
from collie.agent.paths import NATIVE, DataPath, DataPaths
from collie.agent.pulse import SILENCE_SECONDS, Pulse
from tests.support.data_paths import PATIENCE_SECONDS

PEER_ROLE = {"requester": "responder", "responder": "requester"}
PLAIN = {"qp_type": "RC", "opcode": "WRITE", "messages": [65536], "qps": 1, "send_wq_depth": 16, "mtu": 4096}


class Forked:
    """The flow in engine processes that share its queue pairs, told what to do as the resident agent tells them."""

    def __init__(
        self,
        path: DataPath,
        processes: int,
        silence_seconds: float = SILENCE_SECONDS,
        *,
        victim: bool = False,
        **workload: Any,
    ) -> None:
        fields = {"qp_type": "RC", "messages": [1024], "qps": 3, "send_wq_depth": 32, "mtu": 4096, **workload}
        paths = DataPaths()
        paths.usable[NATIVE] = path
        ends = [{"key": f"a-a/{role}", "role": role, "qps": fields["qps"], "workload": fields} for role in PEER_ROLE]
        beside = [f"victim/{role}" for role in PEER_ROLE] if victim else []
        ends += [{"key": key, "role": key.split("/")[1], "qps": 1, "workload": PLAIN} for key in beside]
        self.pulse = Pulse()
        make_engine = partial(EngineProcess, paths, pulse=self.pulse, silence_seconds=silence_seconds)
        self.engines = Engines(make_engine, {end["key"]: end["qps"] for end in ends}, processes, beside)
        where = {"device": "fake0", "port": 1, "gid_index": 0, "data_path": None}
        self.ends = ends
        self.prepared = self.ask("prepare", ends=ends, **where)
        if self.prepared["ok"]:
            endpoints = self.prepared["endpoints"]
            flow_and_role = (key.split("/") for key in endpoints)
            peers = {f"{flow}/{role}": endpoints[f"{flow}/{PEER_ROLE[role]}"] for flow, role in flow_and_role}
            assert self.ask("connect", peers=peers, seconds=1.0)["ok"]

    def start(self, **workload: Any) -> None:
        """Begin a phase, of the set-up's own workload with changes."""
        ends = [
            {**end, "workload": {**end["workload"], **workload}} if end["key"].startswith("a-a/") else end
            for end in self.ends
        ]
        ends = [{**end, "qps": end["workload"]["qps"]} for end in ends]
        begun = self.ask("phase", ends=ends, verify=True)
        assert begun["ok"], begun
        assert self.ask("start")["ok"]

    def phase(self, **workload: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Run a phase until each queue pair has completed 100 messages, and stop. Return both ends' totals."""
        self.start(**workload)
        self.wait(lambda: self.requester["qp_messages"]["min"] >= 100)
        stopped = self.ask("stop", drain_seconds=PATIENCE_SECONDS)
        assert (stopped["drained"], stopped["failed_qps"], stopped["stragglers"]) == (True, 0, 0)
        return self.requester, self.responder

    def ask(self, do: str, **fields: Any) -> dict[str, Any]:
        """Return the one answer of all engines."""
        self.engines.send({"do": do, **fields})
        while (reply := self.engines.receive()) is None:
            assert not self.engines.ended, self.engines.last_words()
            poller = select.poll()
            self.engines.register(poller)
            assert poller.poll(PATIENCE_SECONDS * 1000), f"{do} takes longer than {PATIENCE_SECONDS} s"
        return reply

    def wait(self, until: Callable[[], bool]) -> None:
        """Let the engines work."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not until():
            assert time.monotonic() < end, self.requester
            self.pulse.beat()
            time.sleep(0.001)

    @property
    def requester(self) -> dict[str, Any]:
        return self.engines.totals.end("a-a/requester")

    @property
    def responder(self) -> dict[str, Any]:
        return self.engines.totals.end("a-a/responder")

    def close(self) -> None:
        """Destroy and reap; the kernel, and not this, would find what an engine left behind."""
        assert self.ask("destroy")["clean"]
        assert self.engines.reap(PATIENCE_SECONDS)
