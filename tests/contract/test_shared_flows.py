"""Flows that several engines share."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from collie.agent import facts
from collie.agent.child import EngineProcess
from collie.agent.engines import Engines
from collie.agent.paths import NATIVE, DataPath, DataPaths
from collie.agent.pulse import SILENCE_SECONDS, Pulse
from tests.support.data_paths import GID, PATIENCE_SECONDS, TRAFFIC


class Forked:
    """The flow in engine processes that share its queue pairs, told what to do as the resident agent tells them."""

    def __init__(
        self, path: DataPath, processes: int, silence_seconds: float = SILENCE_SECONDS, **workload: Any
    ) -> None:
        fields = {"qp_type": "RC", "messages": [1024], "qps": 3, "send_wq_depth": 32, "mtu": 4096, **workload}
        paths = DataPaths()
        paths.usable[NATIVE] = path
        roles = {f"a-a/{role}": role for role in ("requester", "responder")}
        self.pulse = Pulse()
        make_engine = partial(EngineProcess, paths, pulse=self.pulse, silence_seconds=silence_seconds)
        self.engines = Engines(make_engine, dict.fromkeys(roles, fields["qps"]), processes)
        ends = [{"key": key, "role": role, "qps": fields["qps"], "workload": fields} for key, role in roles.items()]
        where = {"device": "fake0", "port": 1, "gid_index": 0, "data_path": None}
        self.ends = ends
        self.prepared = self.ask("prepare", ends=ends, **where)
        if self.prepared["ok"]:
            endpoints = self.prepared["endpoints"]
            peers = dict(zip(endpoints, reversed(endpoints.values()), strict=True))
            assert self.ask("connect", peers=peers, seconds=1.0)["ok"]

    def start(self, **workload: Any) -> None:
        """Begin a phase, of the set-up's own workload with changes."""
        ends = [{**end, "workload": {**end["workload"], **workload}} for end in self.ends]
        ends = [{**end, "qps": end["workload"]["qps"]} for end in ends]
        begun = self.ask("phase", ends=ends, verify=True)
        assert begun["ok"], begun
        assert self.ask("start")["ok"]

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


@pytest.fixture
def fork(path: DataPath, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Forked]]:
    monkeypatch.setattr(facts, "gid", lambda *_where: GID)
    made: list[Forked] = []

    def make(processes: int, silence_seconds: float = SILENCE_SECONDS, **workload: Any) -> Forked:
        made.append(Forked(path, processes, silence_seconds, **workload))
        return made[-1]

    yield make
    assert all(forked.engines.kill() for forked in made)


@pytest.mark.parametrize(
    ("processes", "name"),
    [(count, name) for count in (1, 2) for name in TRAFFIC if count == 1 or not TRAFFIC[name].get("srq")],
)
def test_engines_that_share_a_flow_count_every_message_of_it_once(
    fork: Callable[..., Forked], processes: int, name: str
) -> None:
    run = fork(processes, **TRAFFIC[name])
    assert len(run.prepared["endpoints"]["a-a/responder"]["engines"]) == len(run.engines.pids) == processes
    run.start()
    run.wait(lambda: run.requester["qp_messages"]["min"] >= 200)
    assert run.ask("stop", drain_seconds=PATIENCE_SECONDS)["drained"]
    sent, received = run.requester, run.responder
    assert sent["posted_messages"] == sent["completed_messages"] > 0
    assert sent["qp_messages"]["mean"] == pytest.approx(sent["completed_messages"] / 3, abs=0.001)
    assert sent["delivered_messages"] + sent["returned_messages"] == sent["posted_messages"]
    if received["delivered_messages"]:
        assert received["delivered_messages"] == sent["posted_messages"]
        assert received["qp_messages"] == sent["qp_messages"]
    assert run.engines.totals.health()["errors"] == {}
    found = [end for end in run.ask("verify", completed={})["flows"].values() if end is not None]
    assert all(end["wrong_bytes"] == 0 for end in found)
    run.close()


def test_engines_do_not_outlive_an_agent_that_stands_still(fork: Callable[..., Forked]) -> None:
    run = fork(2, silence_seconds=1.0, opcode="WRITE")
    run.start()
    began = time.monotonic()
    run.wait(lambda: time.monotonic() > began + 2.0)
    assert not run.engines.ended, "its agent is at work"
    assert run.engines.reap(PATIENCE_SECONDS)
    assert run.engines.last_words().endswith("the engine ended with status 1")


def test_an_engine_that_dies_is_noticed_and_named(fork: Callable[..., Forked]) -> None:
    run = fork(2, opcode="WRITE")
    run.start()
    pid = run.engines.pids[1]
    os.kill(pid, signal.SIGKILL)
    run.wait(lambda: run.engines.receive() is None and run.engines.ended)
    assert run.engines.kill()
    assert run.engines.last_words() == f"process 2 of 2 (pid {pid}): the engine was killed by SIGKILL"


def test_what_one_engine_cannot_do_is_the_answer_of_all(fork: Callable[..., Forked]) -> None:
    failed = fork(2, opcode="WRITE", qps=60).prepared
    assert failed["error"]["message"] == "engine 1 of 2: queue pairs 120 is above the device's 64"  # 60 in each
    refused = fork(2, opcode="SEND", srq=True).prepared
    assert "a shared receive queue belongs to one process" in refused["error"]["message"]
