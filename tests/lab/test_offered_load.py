"""An offered load and latencies on real verbs."""

from __future__ import annotations

import time
from typing import Any

import pytest

from benchmarks.agent_driver import AgentRefused, RemoteAgent, begin, begin_phase, ends, set_up
from collie.readings.latency import Histogram

pytestmark = pytest.mark.lab

SECONDS = 4.0
MESSAGES_PER_SECOND = 100
"""A sixth of what one queue pair moves between two emulated machines, each on one CPU that it shares with others."""
PLAIN: dict[str, Any] = {"qp_type": "RC", "mtu": 4096, "timeout": 18, "max_rd_atomic": 16, "max_dest_rd_atomic": 16}
KEY = "a-b/requester"
ROLES = ("requester", "responder")


def load(size: int, **fields: Any) -> dict[str, Any]:
    return {**PLAIN, "messages": [size], "offered_bps": 8 * size * MESSAGES_PER_SECOND, **fields}


def settled(agents: list[RemoteAgent], workload: dict[str, Any]) -> tuple[dict[str, Any], float, dict[str, Any]]:
    """Let a phase run, and stop it. Return what its requester gained in the meantime, the seconds, and the answer."""
    for agent in agents:
        agent.samples.clear()
    time.sleep(0.5 + SECONDS)
    own = [sample for sample in agents[0].samples if sample["state"] == "running"]
    first, last = next(sample for sample in own if sample["clock"] > own[0]["clock"] + 0.4), own[-1]
    before, after = first["flows"][KEY], last["flows"][KEY]
    gained = {name: after[name] - before[name] for name in ("posted_bytes", "posted_messages")}
    gained["latencies"] = Histogram.between(before["latencies"], after["latencies"])
    stopped = agents[0].ask("stop", drain_seconds=8, deadline_seconds=15)
    return gained, last["clock"] - first["clock"], stopped


@pytest.mark.parametrize(
    "workload",
    [
        load(64, opcode="WRITE"),
        load(1024, opcode="WRITE", qps=4),
        load(4096, opcode="WRITE"),
        load(64, opcode="READ"),
        load(4096, opcode="READ"),
        load(8, opcode="FETCH_ADD"),
        load(1024, opcode="SEND", wqe_batch=2, signal_every=2, qps=2),
        load(1024, opcode="SEND", qp_type="UC"),
        load(4096, opcode="WRITE_WITH_IMM", qp_type="UC"),
        load(64, opcode="SEND", qp_type="UD"),
        load(1024, opcode="SEND_WITH_IMM", qp_type="UD", srq=True, qps=2),
    ],
    ids=lambda workload: f"{workload['qp_type']} {workload['opcode']} {workload['messages'][0]}",
)
def test_an_offered_load_is_posted_evenly_and_each_message_arrives_once(
    agents: list[RemoteAgent], workload: dict[str, Any]
) -> None:
    try:
        begin(agents, workload, ends(), data_path="native")
        gained, seconds, stopped = settled(agents, workload)
        time.sleep(0.6)  # two periods, for the last samples
    finally:
        destroyed = [agent.ask("destroy", deadline_seconds=60) for agent in agents]
    assert all(each["clean"] for each in destroyed)
    assert stopped["drained"]
    assert stopped["failed_qps"] == 0
    sent, got = (agent.samples[-1]["flows"][f"a-b/{role}"] for agent, role in zip(agents, ROLES, strict=True))
    assert sent["posted_messages"] == sent["completed_messages"]
    counting = sent if got["delivered_messages"] is None else got
    assert counting["delivered_messages"] == sent["posted_messages"]
    assert counting["delivered_bytes"] == sent["posted_bytes"]
    posted = gained["posted_messages"] / seconds
    assert posted <= 1.02 * MESSAGES_PER_SECOND + 4, "no more than is offered, but for what had been late"
    assert posted == pytest.approx(MESSAGES_PER_SECOND, rel=0.1)
    timed = gained["latencies"]
    assert timed.total >= 0.8 * gained["posted_messages"] / (
        workload.get("wqe_batch", 1) * workload.get("signal_every", 1)
    )
    median = timed.quantile(0.5)
    assert median is not None
    assert median > 0


def test_phases_of_one_set_up_have_loads_of_their_own(agents: list[RemoteAgent]) -> None:
    """Engines share the load."""
    made_for = load(1024, opcode="WRITE", qps=4)
    try:
        set_up(agents, made_for, ends(), data_path="native", processes=2)
        for rate in (50, 0, 150):
            phase = {**made_for, "offered_bps": 8 * 1024 * rate}
            begin_phase(agents, phase, ends())
            gained, seconds, stopped = settled(agents, phase)
            assert stopped["drained"]
            totals = stopped["totals"]["flows"][KEY]
            assert totals["delivered_bytes"] == 1024 * totals["completed_messages"]
            posted = gained["posted_messages"] / seconds
            if rate:
                assert posted == pytest.approx(rate, rel=0.1)
            else:
                assert posted > 150
            agents[1].ask("stop", drain_seconds=8, deadline_seconds=15)
    finally:
        for agent in agents:
            agent.ask("destroy", deadline_seconds=60)


def test_pyverbs_names_the_path_that_can_offer_a_load(agents: list[RemoteAgent]) -> None:
    with pytest.raises(AgentRefused, match="only data path native can offer a flow less") as refused:
        begin(agents, load(64, opcode="WRITE"), ends(), data_path="pyverbs")
    assert refused.value.error["kind"] == "unsupported"
    for agent in agents:
        agent.ask("destroy", deadline_seconds=60)
