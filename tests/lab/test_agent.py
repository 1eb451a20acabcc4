"""The agent on real verbs: traffic arrives and is counted, and whatever dies leaves no queue pair.

`test_verbs.py` asks the same of the native path, to the message.
"""

from __future__ import annotations

import dataclasses
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from benchmarks.agent_driver import AgentRefused, RemoteAgent, begin, ends, measure, read_inventory
from tests.lab.conftest import RunningLab

pytestmark = [pytest.mark.lab, pytest.mark.slow]

# A deep queue on an emulated CPU answers later than 67 ms (timeout 14), and repeats itself into a collapse.
BASE: dict[str, Any] = {"qp_type": "RC", "mtu": 4096, "messages": [4096], "qps": 2, "send_wq_depth": 32, "timeout": 18}

TRAFFIC: dict[str, dict[str, Any]] = {
    "RC WRITE": {"opcode": "WRITE", "messages": [65536]},
    "RC WRITE_WITH_IMM": {"opcode": "WRITE_WITH_IMM"},
    "RC SEND": {"opcode": "SEND", "messages": [65536, 100]},
    "RC SEND, one receive queue for all": {"opcode": "SEND", "srq": True},
    "RC READ": {"opcode": "READ", "max_rd_atomic": 16, "max_dest_rd_atomic": 16},
    "RC SEND, every option": {
        "opcode": "SEND_WITH_IMM",
        "messages": [64, 100, 2000],
        "wqe_batch": 8,
        "sge_count": 4,
        "sge_split": [8],
        "mrs_per_qp": 5,
        "max_inline_data": 128,
        "sq_sig_all": True,
        "fence": True,
        "sq_psn": 0xFFFFF0,
        "traffic_class": 32,
    },
    "UC WRITE": {"qp_type": "UC", "opcode": "WRITE"},
    "UC SEND": {"qp_type": "UC", "opcode": "SEND"},
    "UD SEND": {"qp_type": "UD", "opcode": "SEND", "messages": [1024, 64]},
    "UD SEND, one receive queue for all": {"qp_type": "UD", "opcode": "SEND", "messages": [1024], "srq": True},
}


class Crew:
    """One agent on each machine, kept from test to test: starting one takes seconds on an emulated CPU."""

    def __init__(self, inventory: Path) -> None:
        self._hosts = read_inventory(inventory)
        self._agents: list[RemoteAgent] = []

    def agents(self) -> list[RemoteAgent]:
        """The agents that still live, or new ones in place of all of them."""
        if any(agent.process.poll() is not None or agent.stop_pinging.is_set() for agent in self._agents):
            self.close()
        if not self._agents:
            with ThreadPoolExecutor() as pool:
                self._agents = list(pool.map(RemoteAgent, self._hosts))
        return self._agents

    def close(self) -> None:
        for agent in self._agents:
            agent.close()
        self._agents = []


@pytest.fixture(scope="module")
def crew(running_lab: RunningLab) -> Iterator[Crew]:
    crew = Crew(running_lab.inventory)
    yield crew
    crew.close()


@pytest.fixture
def agents(crew: Crew) -> list[RemoteAgent]:
    return crew.agents()


def foreign_queue_pairs(agent: RemoteAgent) -> list[str]:
    """The queue pairs on a machine that belong to a process."""
    listing = agent.host.run("rdma resource show qp")
    return [line for line in listing.splitlines() if " pid " in line]


def processes(agent: RemoteAgent) -> list[str]:
    listing = agent.host.run("ps -eo pid,args")
    return [line for line in listing.splitlines() if "/agent-" in line and ".pyz" in line]


@pytest.mark.parametrize("name", TRAFFIC)
def test_traffic_of_pyverbs_arrives_and_is_counted_where_it_arrives(agents: list[RemoteAgent], name: str) -> None:
    workload = {**BASE, **TRAFFIC[name]}
    measured = measure(agents, workload, 1.0, warm_up=0.5, data_path="pyverbs")
    assert measured.totals[0]["health"]["data_path"] == "pyverbs"
    counting = "requester" if workload["opcode"] in ("WRITE", "READ") and workload["qp_type"] == "RC" else "responder"
    assert list(measured.bytes_per_second) == [f"a-b/{counting}"]
    assert measured.bytes_per_second[f"a-b/{counting}"] > 0
    mean = sum(workload["messages"]) / len(workload["messages"])
    messages, size = (values[f"a-b/{counting}"] for values in (measured.messages_per_second, measured.bytes_per_second))
    assert size == pytest.approx(messages * mean, rel=0.2)
    assert [answer["qps_left"] for answer in measured.destroyed] == [0, 0]
    assert all(foreign_queue_pairs(agent) == [] for agent in agents)


def test_both_directions_and_loopback_at_once(agents: list[RemoteAgent]) -> None:
    flows = ends(bidirectional=True, loopback=True)
    measured = measure(agents, {**BASE, "opcode": "SEND"}, 1.0, warm_up=0.5, flows=flows)
    assert set(measured.bytes_per_second) == {"a-b/responder", "b-a/responder", "b-b/responder"}
    assert [answer["qps_left"] for answer in measured.destroyed] == [0, 0]


def test_samples_come_at_their_period_and_hold_the_device_counters(agents: list[RemoteAgent]) -> None:
    measure(agents, {**BASE, "opcode": "WRITE"}, 2.0, warm_up=0.5)
    samples = [sample for sample in agents[0].samples if sample["state"] == "running"]
    assert len(samples) >= 6
    assert samples[-1]["counters"]["hw_counters"]["sent_pkts"] > samples[0]["counters"]["hw_counters"]["sent_pkts"]
    assert samples[-1]["counters"]["netdev"]["tx_bytes"] > samples[0]["counters"]["netdev"]["tx_bytes"]
    assert samples[-1]["health"]["cpu_seconds"] > 0


def test_many_queue_pairs_are_set_up_and_gone_again(agents: list[RemoteAgent]) -> None:
    # 2,000 messages at once take an emulated machine up to a second, after which `timeout: 18` repeats them. On kernel
    # 6.12 that became a storm in which nothing arrived, and no process got a CPU to take queue pairs down with.
    workload = {**BASE, "opcode": "WRITE", "qps": 500, "messages": [1024], "send_wq_depth": 4, "timeout": 20}
    measured = measure(agents, workload, 1.0, warm_up=0.5)
    assert [answer["qps_left"] for answer in measured.destroyed] == [0, 0]


def test_a_queue_pair_that_fails_is_reported_and_the_run_goes_on(agents: list[RemoteAgent]) -> None:
    workload = {**BASE, "opcode": "SEND", "recv_wq_depth": 1, "rnr_retry": 0, "min_rnr_timer": 20}
    measured = measure(agents, workload, 1.0, warm_up=0.5)
    assert "RNR retry exceeded" in measured.totals[0]["health"]["errors"]
    assert measured.totals[0]["flows"]["a-b/requester"]["failed_qps"] > 0


def test_what_the_device_cannot_do_is_unsupported(agents: list[RemoteAgent]) -> None:
    workload = {**BASE, "opcode": "WRITE", "sge_count": 40}
    with pytest.raises(AgentRefused, match="above the device's") as caught:
        begin(agents, workload, ends())
    assert caught.value.error["kind"] == "unsupported"
    assert agents[0].ask("destroy")["qps_left"] == 0


def test_buffers_that_do_not_fit_are_refused_before_the_machine_suffers(agents: list[RemoteAgent]) -> None:
    with pytest.raises(AgentRefused) as caught:
        begin(agents, {**BASE, "opcode": "WRITE", "qps": 100, "messages": [1 << 22], "mrs_per_qp": 8}, ends())
    assert caught.value.error["errno_name"] == "ENOMEM"


def gone_within(agent: RemoteAgent, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not processes(agent) and not foreign_queue_pairs(agent):
            return True
        time.sleep(0.2)
    return False


def test_a_controller_that_is_killed_leaves_nothing_within_ten_seconds(agents: list[RemoteAgent]) -> None:
    begin(agents, {**BASE, "opcode": "WRITE"}, ends())
    for agent in agents:
        agent.process.send_signal(signal.SIGKILL)
    assert all(gone_within(agent, 10) for agent in agents)


def test_a_controller_that_falls_silent_leaves_nothing(agents: list[RemoteAgent]) -> None:
    begin(agents, {**BASE, "opcode": "WRITE"}, ends())
    for agent in agents:
        agent.stop_pinging.set()
    assert all(gone_within(agent, 15) for agent in agents)
    assert {"event": "bye", "reason": "lease"} in agents[0].events


def test_an_engine_dies_with_its_agent(agents: list[RemoteAgent]) -> None:
    begin(agents, {**BASE, "opcode": "WRITE"}, ends())
    agents[0].host.run(f"kill -9 {agents[0].facts['pid']}")
    agents[0].process.wait(5)
    assert gone_within(agents[0], 5)
    agents[1].ask("destroy")


def test_an_engine_that_hangs_is_killed_at_the_deadline(agents: list[RemoteAgent]) -> None:
    begin(agents, {**BASE, "opcode": "WRITE"}, ends())
    engine = next(line.split()[0] for line in processes(agents[0]) if line.split()[0] != str(agents[0].facts["pid"]))
    agents[0].host.run(f"kill -STOP {engine}")
    with pytest.raises(AgentRefused, match="took longer"):
        agents[0].ask("stop", deadline_seconds=1)
    assert agents[0].ask("destroy")["qps_left"] == 0
    agents[1].ask("destroy")


def test_a_host_without_pyverbs_drives_traffic_natively(running_lab: RunningLab, crew: Crew) -> None:
    crew.close()
    host = read_inventory(running_lab.inventory)[0]
    # -S leaves out the distribution's packages, and pyverbs with them.
    agent = RemoteAgent(dataclasses.replace(host, python=f"{host.python} -S"))
    loopback = [[{"flow": "a-a", "role": "requester"}, {"flow": "a-a", "role": "responder"}]]
    try:
        assert "ModuleNotFoundError" in agent.facts["pyverbs_error"]
        assert agent.facts["data_paths"]["native"] == {"usable": True, "detail": "shipped object"}
        assert agent.facts["devices"][0]["limits"]["max_qp"] > 0
        measured = measure([agent], {**BASE, "opcode": "WRITE"}, 1.0, warm_up=0.5, flows=loopback)
        assert measured.bytes_per_second["a-a/requester"] > 0
        with pytest.raises(AgentRefused, match="pyverbs: ModuleNotFoundError") as caught:
            begin([agent], {**BASE, "opcode": "WRITE"}, loopback, data_path="pyverbs")
        assert caught.value.error["kind"] == "unsupported"
    finally:
        agent.close()
