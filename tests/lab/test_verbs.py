"""Every opcode and transport that rdma_rxe has: what arrives is what was sent, to the message and to the byte."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from benchmarks.agent_driver import AgentRefused, RemoteAgent, begin, ends

pytestmark = [pytest.mark.lab, pytest.mark.slow]

BASE: dict[str, Any] = {
    "qp_type": "RC",
    "mtu": 4096,
    "messages": [4096],
    "qps": 2,
    "send_wq_depth": 32,
    "recv_wq_depth": 128,
    "max_rd_atomic": 16,
    "max_dest_rd_atomic": 16,
    "timeout": 18,  # a deep queue on an emulated CPU answers later than 67 ms (14)
    # For ever: a receiver that shares its one CPU with the device and a login may post its receives late.
    "rnr_retry": 7,
}
EVERY_OPCODE = ["WRITE", "READ", "FETCH_ADD", "CMP_SWP", "SEND_WITH_IMM", "WRITE_WITH_IMM"]

RELIABLE: dict[str, dict[str, Any]] = {
    "SEND": {"opcode": "SEND"},
    "SEND_WITH_IMM": {"opcode": "SEND_WITH_IMM", "messages": [64, 2000]},
    "WRITE": {"opcode": "WRITE", "messages": [65536]},
    "WRITE_WITH_IMM": {"opcode": "WRITE_WITH_IMM"},
    "READ": {"opcode": "READ", "mrs_per_qp": 3},
    "FETCH_ADD": {"opcode": "FETCH_ADD"},
    "CMP_SWP": {"opcode": "CMP_SWP", "sq_sig_all": True},
    "SEND to one receive queue for all": {"opcode": "SEND", "srq": True},
    "WRITE inline, a completion every 8 posts": {
        "opcode": "WRITE",
        "messages": [64, 256],
        "max_inline_data": 128,
        "signal_every": 8,
    },
    "WRITE and READ": {"opcode": "WRITE", "more_opcodes": ["READ"], "messages": [64, 8192], "wqe_batch": 3},
    "SEND and WRITE": {"opcode": "SEND", "more_opcodes": ["WRITE"], "mrs_per_qp": 4, "sge_count": 3, "sge_split": [64]},
    "everything at once": {
        "opcode": "SEND",
        "more_opcodes": EVERY_OPCODE,
        "messages": [64, 4096, 300],
        "max_inline_data": 128,
        "fence": True,
        "traffic_class": 32,
        "sq_psn": 0xFFFFF0,
        "wqe_batch": 4,
        "signal_every": 2,
        "sge_count": 3,
        "mrs_per_qp": 3,
    },
}
UNRELIABLE: dict[str, dict[str, Any]] = {
    "UC SEND": {"qp_type": "UC", "opcode": "SEND"},
    "UC WRITE": {"qp_type": "UC", "opcode": "WRITE"},
    "UC SEND and WRITE_WITH_IMM": {"qp_type": "UC", "opcode": "SEND", "more_opcodes": ["WRITE_WITH_IMM"]},
    "UD SEND": {"qp_type": "UD", "opcode": "SEND", "messages": [1024, 64]},
    "UD SEND_WITH_IMM": {"qp_type": "UD", "opcode": "SEND_WITH_IMM", "messages": [1024], "srq": True},
}


class Drained:
    """A run that has been stopped: what both ends say once nothing is under way any more."""

    def __init__(
        self,
        agents: list[RemoteAgent],
        workload: dict[str, Any],
        seconds: float = 1.0,
        data_path: str = "native",
        processes: int = 1,
    ) -> None:
        self._agents = agents
        for agent in agents:
            agent.samples.clear()
        try:
            begin(agents, workload, ends(), verify=True, data_path=data_path, processes=processes)
            self.during(seconds)
            self.drained = agents[0].ask("stop", drain_seconds=20, deadline_seconds=30)["drained"]
            time.sleep(0.6)  # two samples more
            self.sent, self.received = (agent.samples[-1] for agent in agents)
            completed = self.sent["flows"]["a-b/requester"]["qp_messages"]["min"]
            asked = {"completed": {"a-b/responder": completed}, "deadline_seconds": 30}
            self.verified = {
                key: found for agent in agents for key, found in agent.ask("verify", **asked)["flows"].items()
            }
        finally:
            self.left = [agent.ask("destroy")["qps_left"] for agent in agents]

    def during(self, seconds: float) -> None:
        """Let traffic run."""
        time.sleep(seconds)

    @property
    def arrived(self) -> int:
        """Messages that reached the sink of the flow, and those that came back."""
        requester, responder = self.sent["flows"]["a-b/requester"], self.received["flows"]["a-b/responder"]
        (delivered,) = (
            end["delivered_messages"] for end in (requester, responder) if end["delivered_messages"] is not None
        )
        return int(delivered + (requester["returned_messages"] or 0))

    @property
    def posted(self) -> int:
        """Messages that were posted."""
        return int(self.sent["flows"]["a-b/requester"]["posted_messages"])

    @property
    def wrong(self) -> list[Any]:
        """Everything that arrived other than it was sent."""
        return [found for found in self.verified.values() if found and found["wrong_bytes"]]


@pytest.mark.parametrize("name", RELIABLE)
def test_every_message_of_a_reliable_connection_arrives_and_is_counted(agents: list[RemoteAgent], name: str) -> None:
    run = Drained(agents, {**BASE, **RELIABLE[name]})
    assert run.drained
    assert run.sent["health"]["errors"] == run.received["health"]["errors"] == {}
    assert run.arrived == run.posted > 0
    assert run.wrong == []
    atomic = {"FETCH_ADD", "CMP_SWP"} & {RELIABLE[name]["opcode"], *RELIABLE[name].get("more_opcodes", [])}
    assert all((found is None) == bool(atomic) for found in run.verified.values())
    assert atomic or all(found["checked_bytes"] > 0 for found in run.verified.values())
    assert run.left == [0, 0]


@pytest.mark.parametrize("name", UNRELIABLE)
def test_no_more_arrives_than_was_sent_without_a_reliable_connection(agents: list[RemoteAgent], name: str) -> None:
    run = Drained(agents, {**BASE, **UNRELIABLE[name]})
    assert run.drained
    assert 100 < run.arrived <= run.posted
    assert run.wrong == []
    assert run.verified["a-b/responder"]["checked_bytes"] > 0
    assert run.left == [0, 0]


@pytest.mark.parametrize("connection", ["out_of_band", "rdma_cm"])
def test_engines_that_share_a_flow_deliver_every_message(agents: list[RemoteAgent], connection: str) -> None:
    workload = {**BASE, **RELIABLE["everything at once"], "qps": 3, "connection": connection}
    run = Drained(agents, workload, processes=2)
    assert all(len(agent.prepared["engine_pids"]) == 2 for agent in agents)
    assert run.drained
    assert run.sent["health"]["errors"] == run.received["health"]["errors"] == {}
    assert run.arrived == run.posted > 0
    assert run.left == [0, 0]


def connection_ids(agents: list[RemoteAgent]) -> list[list[str]]:
    """States of the ids of RDMA-CM that the kernel of each host lists."""
    return [
        [found["state"] for found in json.loads(agent.host.run("rdma -j resource show cm_id") or "[]")]
        for agent in agents
    ]


class Completed(Drained):
    """A run whose queue pairs are connected by RDMA-CM."""

    def during(self, seconds: float) -> None:
        self.ids = connection_ids(self._agents)
        time.sleep(seconds)


@pytest.mark.parametrize("data_path", ["native", "pyverbs"])
@pytest.mark.parametrize("opcode", ["WRITE", "SEND"])
def test_queue_pairs_connected_by_rdma_cm_carry_every_message(
    agents: list[RemoteAgent], opcode: str, data_path: str
) -> None:
    workload = {**BASE, "opcode": opcode, "qps": 4, "connection": "rdma_cm", "sq_psn": 0xFFFFF0}
    run = Completed(agents, workload, data_path=data_path)
    assert run.ids == [["CONNECT"] * 4] * 2  # no listener is left
    assert run.drained
    assert run.sent["health"]["errors"] == run.received["health"]["errors"] == {}
    assert run.arrived == run.posted > 0
    assert run.wrong == []
    assert run.left == [0, 0]
    assert connection_ids(agents) == [[], []]


def test_one_engine_may_hold_both_ends_of_a_connection_of_rdma_cm(agents: list[RemoteAgent]) -> None:
    try:
        begin(agents, {**BASE, "opcode": "WRITE", "connection": "rdma_cm"}, ends(bidirectional=True, loopback=True))
        time.sleep(1.0)
        totals = [agent.ask("stop")["totals"]["flows"] for agent in agents]
    finally:
        left = [agent.ask("destroy")["qps_left"] for agent in agents]
    assert totals[0]["a-b/requester"]["delivered_messages"] > 0
    assert totals[1]["b-a/requester"]["delivered_messages"] > 0
    assert totals[1]["b-b/requester"]["delivered_messages"] > 0
    assert left == [0, 0]
    assert connection_ids(agents) == [[], []]


def test_a_listener_that_never_accepts_ends_the_run_at_its_deadline(agents: list[RemoteAgent]) -> None:
    workload = {**BASE, "opcode": "WRITE", "connection": "rdma_cm"}
    prepared = [
        agent.ask("prepare", device=agent.host.device, gid_index=agent.host.gid_index, workload=workload, flows=own)
        for agent, own in zip(agents, ends(), strict=True)
    ]
    peers = {"a-b/requester": prepared[1]["endpoints"]["a-b/responder"]}
    with pytest.raises(AgentRefused, match="2 of 2 queue pairs were not connected by RDMA-CM") as caught:
        agents[0].ask("connect", peers=peers, deadline_seconds=3)
    assert caught.value.error["kind"] == "timeout"
    assert [agent.ask("destroy")["qps_left"] for agent in agents] == [0, 0]
    assert connection_ids(agents) == [[], []]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"qp_type": "XRC"}, "device rxe0 reports no XRC"),
        ({"qp_type": "DC"}, "driver rxe of device rxe0 has no DC transport"),
        ({"qp_type": "SRD"}, "driver rxe of device rxe0 has no SRD transport"),
        ({"memory": "gpu"}, "GPU memory"),
        ({"qp_type": "UC", "connection": "rdma_cm"}, "RDMA-CM connects only RC queue pairs"),
    ],
)
def test_what_the_device_does_not_offer_is_unsupported_with_its_reason(
    agents: list[RemoteAgent], fields: dict[str, Any], reason: str
) -> None:
    with pytest.raises(AgentRefused, match=reason) as caught:
        begin(agents, {**BASE, "opcode": "SEND", **fields}, ends())
    assert caught.value.error["kind"] == "unsupported"
    assert [agent.ask("destroy")["qps_left"] for agent in agents] == [0, 0]


class Corrupted(Drained):
    """A run during which 16 bytes of the first source buffer are changed behind the device's back."""

    def __init__(self, agents: list[RemoteAgent], workload: dict[str, Any], source: int) -> None:
        self._source = source
        super().__init__(agents, workload)

    def during(self, seconds: float) -> None:
        agent = self._agents[self._source]
        (buffers,) = agent.prepared["flows"]["a-b/responder" if self._source else "a-b/requester"]["buffers"]
        program = f"import os; fd = os.open('/proc/{agent.prepared['engine_pids'][0]}/mem', os.O_WRONLY); "
        program += f"os.pwrite(fd, b'sixteen bad ones', {buffers['base'] + 100})"
        agent.host.run(f'{agent.host.python} -c "{program}"')
        time.sleep(seconds)


@pytest.mark.parametrize(
    ("fields", "source", "sink"),
    [
        ({"opcode": "WRITE"}, 0, "a-b/responder"),
        ({"opcode": "SEND", "srq": True}, 0, "a-b/responder"),
        ({"opcode": "READ"}, 1, "a-b/requester"),
        ({"opcode": "SEND", "qp_type": "UD"}, 0, "a-b/responder"),
    ],
)
def test_payload_that_was_changed_on_the_way_is_found(
    agents: list[RemoteAgent], fields: dict[str, Any], source: int, sink: str
) -> None:
    # One queue pair: another one's right payload could land on top in a shared receive queue.
    found = Corrupted(agents, {**BASE, "qps": 1, **fields}, source).verified[sink]
    assert found["wrong_bytes"] >= 12  # by chance, one of ours may be the right one
    assert found["first_wrong"]["offset"] == 100
    assert bytes.fromhex(found["first_wrong"]["found"]) == b"sixteen bad ones"


def test_flows_of_one_run_may_have_workloads_of_their_own(agents: list[RemoteAgent]) -> None:
    victim = {**BASE, "opcode": "READ", "messages": [64], "qps": 1}
    flows: list[list[dict[str, Any]]] = [
        [*own, {"flow": "victim", "role": role, "workload": victim}]
        for own, role in zip(ends(), ("requester", "responder"), strict=True)
    ]
    try:
        begin(agents, {**BASE, "opcode": "SEND"}, flows)
        time.sleep(1.0)
        totals = [agent.ask("stop")["totals"]["flows"] for agent in agents]
    finally:
        left = [agent.ask("destroy")["qps_left"] for agent in agents]
    requester = totals[0]["victim/requester"]
    assert requester["delivered_bytes"] == 64 * requester["delivered_messages"] > 0
    assert totals[1]["a-b/responder"]["delivered_bytes"] > 0
    assert left == [0, 0]
