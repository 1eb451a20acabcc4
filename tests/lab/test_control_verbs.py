"""Control verbs and errors beside the traffic on real verbs: the traffic stays exact, and nothing is left."""

from __future__ import annotations

import time
from typing import Any

import pytest

from benchmarks.agent_driver import AgentRefused, RemoteAgent, begin, begin_phase, ends, set_up

pytestmark = pytest.mark.lab

SECONDS = 6.0
PLAIN: dict[str, Any] = {"mtu": 4096, "timeout": 18, "messages": [1024], "qps": 2, "offered_bps": 400_000}
"""50 messages/s leave most of an emulated CPU to the control verbs."""
KINDS = ("new_mrs", "new_qps", "new_ahs", "qp_errors")
RATES = {"new_mrs_per_second": 10, "new_qps_per_second": 3}
"""Slow enough for an emulated machine whose CPU others use: one was busy with 17 regions and 4 queue pairs."""
RELATIVE, ABSOLUTE = 0.2, 0.5


def made(agent: RemoteAgent) -> tuple[float, ...]:
    """Return the control verbs a second of the running samples."""
    own = [sample for sample in agent.samples if sample["state"] == "running"]
    first, last = own[0], own[-1]
    seconds = last["clock"] - first["clock"]
    return tuple((last["health"][kind] - first["health"][kind]) / seconds for kind in KINDS)


def exact(agents: list[RemoteAgent]) -> None:
    """Stop a phase whose sender is known to have sent each message once."""
    stopped = [agent.ask("stop", drain_seconds=8, deadline_seconds=15) for agent in agents]
    assert all(each["drained"] and each["failed_qps"] == 0 for each in stopped)
    time.sleep(0.6)  # two periods, for the last samples
    ends_of = {"a-b/requester": agents[0], "a-b/responder": agents[1]}
    counted = {key: agent.samples[-1]["flows"][key] for key, agent in ends_of.items()}
    sent = counted["a-b/requester"]
    got = counted["a-b/responder"]
    assert sent["completed_messages"] == sent["posted_messages"] > 0
    delivered = sent if got["delivered_messages"] is None else got
    assert delivered["delivered_messages"] == sent["posted_messages"]


@pytest.mark.parametrize(
    "workload",
    [
        {"qp_type": "RC", "opcode": "WRITE", **RATES},
        {"qp_type": "RC", "opcode": "SEND", "new_mrs_per_second": 5, "mr_bytes": 1 << 18},
        {"qp_type": "UD", "opcode": "SEND", "new_qps_per_second": 3},
        {"qp_type": "UD", "opcode": "SEND", "new_ahs_per_second": 10, "qp_errors_per_second": 3},
        {"qp_type": "RC", "opcode": "SEND", "srq": True, "qp_errors_per_second": 3},
    ],
    ids=[
        "RC WRITE, regions and queue pairs",
        "RC SEND, regions of 256 KiB",
        "UD SEND, queue pairs",
        "UD SEND, address handles and errors",
        "RC SEND, errors",
    ],
)
def test_both_hosts_make_them_at_their_rates(agents: list[RemoteAgent], workload: dict[str, Any]) -> None:
    asked = tuple(workload.get(f"{kind}_per_second", 0) for kind in KINDS)
    try:
        begin(agents, {**PLAIN, **workload}, ends(), data_path="native")
        for agent in agents:
            agent.samples.clear()
        time.sleep(SECONDS)
        assert [made(agent) for agent in agents] == [pytest.approx(asked, rel=RELATIVE, abs=ABSOLUTE)] * 2
        if workload["qp_type"] == "RC":
            exact(agents)
        else:
            for agent in agents:
                agent.ask("stop", drain_seconds=8, deadline_seconds=15)
    finally:
        destroyed = [agent.ask("destroy", deadline_seconds=60) for agent in agents]
    assert all(each["clean"] and each["qps_left"] == 0 for each in destroyed)


def test_phases_of_one_set_up_have_rates_of_their_own(agents: list[RemoteAgent]) -> None:
    """Engines share the rates."""
    made_for = {**PLAIN, "qp_type": "RC", "opcode": "WRITE"}
    try:
        set_up(agents, made_for, ends(), data_path="native", processes=2)
        for rates in (RATES, {}, {"new_mrs_per_second": 16}):
            for agent in agents:
                agent.samples.clear()
            begin_phase(agents, {**made_for, **rates}, ends())
            time.sleep(SECONDS)
            asked = tuple(rates.get(f"{kind}_per_second", 0) for kind in KINDS)
            assert [made(agent) for agent in agents] == [pytest.approx(asked, rel=RELATIVE, abs=ABSOLUTE)] * 2
            exact(agents)
    finally:
        destroyed = [agent.ask("destroy", deadline_seconds=60) for agent in agents]
    assert all(each["clean"] and each["qps_left"] == 0 for each in destroyed)


def test_pyverbs_names_the_path_that_makes_them(agents: list[RemoteAgent]) -> None:
    with pytest.raises(AgentRefused, match="only data path native does") as refused:
        begin(
            agents,
            {**PLAIN, "offered_bps": 0, "qp_type": "RC", "opcode": "WRITE", **RATES},
            ends(),
            data_path="pyverbs",
        )
    assert refused.value.error["kind"] == "unsupported"
    for agent in agents:
        agent.ask("destroy", deadline_seconds=60)
