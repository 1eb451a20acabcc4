"""Flows that several engines share."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.support.data_paths import PATIENCE_SECONDS, TRAFFIC
from tests.support.forked import Forked


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


@pytest.mark.parametrize(
    "workload", [{"opcode": "WRITE"}, {"opcode": "SEND", "srq": True}, {"opcode": "SEND", "qp_type": "UD"}]
)
def test_a_victim_has_an_engine_of_its_own(fork: Callable[..., Forked], workload: dict[str, Any]) -> None:
    processes = 1 if workload.get("srq") else 2
    run = fork(processes, victim=True, **workload)
    assert len(run.engines.pids) == processes + 1
    engines = {key: len(place["engines"]) for key, place in run.prepared["endpoints"].items()}
    assert [*engines.values()] == [processes, processes, 1, 1]
    run.start()
    victim = partial(run.engines.totals.end, "victim/requester")
    run.wait(lambda: run.requester["qp_messages"]["min"] >= 200 and victim()["completed_messages"] >= 200)
    assert run.ask("stop", drain_seconds=PATIENCE_SECONDS)["drained"]
    assert run.requester["posted_messages"] == run.requester["completed_messages"]
    assert run.engines.totals.health()["errors"] == {}
    checked = {key: end for key, end in run.ask("verify", completed={})["flows"].items() if end is not None}
    assert {key.split("/")[0] for key in checked} == {"a-a", "victim"}
    assert all(end["checked_bytes"] and not end["wrong_bytes"] for end in checked.values())
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
