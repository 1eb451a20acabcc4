"""The resident agent against a fake engine: answers, deadlines, the lease, and what is left when it ends."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from collie.agent.agent import Agent
from collie.agent.faults import AgentFault
from collie.agent.lines import Lines
from collie.agent.netlink import QueuePair
from collie.agent.pulse import BEAT_SECONDS, Pulse
from collie.agent.totals import Totals

WORKLOAD: dict[str, Any] = {"qp_type": "RC", "opcode": "WRITE", "messages": [64], "qps": 2}
FLOWS = [{"flow": "a-b", "role": "requester"}]

PHASE: dict[str, Any] = {"do": "phase", "workload": WORKLOAD, "flows": FLOWS}
PREPARE = {"do": "prepare", "device": "rxe0", "gid_index": 1, "workload": WORKLOAD, "flows": FLOWS}
ENDPOINT = {"gid": "::", "lid": 0, "qps": [[1, 0], [2, 0]]}
PEER = {"engines": [ENDPOINT]}


class FakeEngine:
    """Answers at once with what ``answers`` has for a command, or never."""

    def __init__(self, ends: dict[str, int], answers: dict[str, Any]) -> None:
        self.totals = Totals(ends)
        self.pid = 4711
        self.status: int | None = None
        self.ended = self._dies = False
        self.wants_write = False
        self.commands: list[dict[str, Any]] = []
        self._answers, self._waiting = answers, list[dict[str, Any]]()
        self._read, self._write = os.pipe()

    def fileno(self) -> int:
        return self._read

    def flush(self) -> None:
        pass

    def send(self, command: dict[str, Any]) -> None:
        self.commands.append(command)
        answer = self._answers.get(command["do"])
        if answer == "dies":
            self._dies = True
        elif answer is not None:
            self._waiting.append(dict(answer))
        os.write(self._write, b"!")

    def receive(self) -> list[dict[str, Any]]:
        self.ended |= self._dies  # the end of its pipe is read like anything in it
        waiting, self._waiting = self._waiting, []
        return waiting

    def times(self) -> dict[str, float]:
        return {"cpu_seconds": 0.0, "cpu_user_seconds": 0.0, "wait_seconds": 0.0}

    def reap(self, seconds: float) -> bool:
        if any(command["do"] in ("destroy", "hello") for command in self.commands):
            self.status = 0
        return self.status is not None

    def kill(self) -> None:
        self.status = 9 if self.status is None else self.status

    def last_words(self) -> str:
        return "the engine was killed by SIGKILL"


class FakeReader:
    def __init__(self, device: str) -> None:
        self.sources = {"hw_counters": "sysfs"}
        self.closed = False
        self._device = device

    def read(self) -> dict[str, dict[str, int | None]]:
        assert not self.closed
        return {"hw_counters": {"rcvd_pkts": 1, self._device: 1}}

    def close(self) -> None:
        self.closed = True


ANSWERS: dict[str, Any] = {
    "hello": {"ok": True, "protocol": 3, "devices": []},
    "prepare": {
        "ok": True,
        "data_path": "native",
        "endpoints": {"a-b/requester": ENDPOINT},
        "flows": {"a-b/requester": {"buffers": {"base": 4096, "stride": 4096}}},
    },
    "connect": {"ok": True},
    "phase": {"ok": True, "flows": {"a-b/requester": {"counted_by": None}}},
    "start": {"ok": True},
    "stop": {"ok": True, "drained": True, "failed_qps": 0, "stragglers": 0},
    "destroy": {"ok": True, "flushed": 0, "clean": True},
}


class Controller:
    """The other end of the agent's pipes, with the agent in a thread."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self._to: int | None
        agent_in, self._to = os.pipe()
        self._from, agent_out = os.pipe()
        self._out = os.fdopen(self._from, "rb")
        self.engines: list[FakeEngine] = []
        self.readers: list[FakeReader] = []
        self.left = [QueuePair(2, "RC", "RTS", 4711, "python3"), QueuePair(1, "GSI", "RTS", None, "ib_core")]

        def make_engine(ends: dict[str, int]) -> Any:
            self.engines.append(FakeEngine(ends, answers))
            return self.engines[-1]

        def make_reader(device: str, port: int, netdev: str | None) -> Any:
            self.readers.append(FakeReader(device))
            return self.readers[-1]

        def queue_pairs(device: str) -> list[QueuePair]:
            return [] if self.engines and self.engines[-1].status is not None else self.left

        self.pulse = Pulse()
        self.agent = Agent(Lines(agent_in, agent_out), make_engine, self.pulse, make_reader, queue_pairs)
        self.thread = threading.Thread(target=self.agent.serve, daemon=True)
        self.thread.start()
        self._number = 0

    def write(self, data: bytes) -> None:
        assert self._to is not None
        os.write(self._to, data)

    def line(self) -> dict[str, Any]:
        return dict(json.loads(self._out.readline()))

    def ask(self, do: str, **fields: Any) -> dict[str, Any]:
        self._number += 1
        self.write(json.dumps({"id": self._number, "do": do, **fields}).encode() + b"\n")
        while True:
            message = self.line()
            if message.get("id") == self._number:
                return message

    def bring_to(self, state: str) -> None:
        connect = {"do": "connect", "peers": {"a-b/requester": PEER}}
        steps: list[dict[str, Any]] = [PREPARE, connect, PHASE, {"do": "start"}]
        for step, reached in zip(steps, ("prepared", "connected", "ready", "running"), strict=True):
            assert self.ask(**step)["ok"]
            if reached == state:
                return

    def hang_up(self) -> None:
        if self._to is not None:
            os.close(self._to)
            self._to = None
            self.thread.join(5)

    def close(self) -> None:
        self.hang_up()
        self._out.close()


@pytest.fixture
def controllers() -> Iterator[Any]:
    made: list[Controller] = []

    def make(**changed: Any) -> Controller:
        made.append(Controller({**ANSWERS, **changed}))
        return made[-1]

    yield make
    for controller in made:
        controller.close()


def test_a_whole_run(controllers: Any) -> None:
    controller = controllers()
    assert controller.ask("hello", protocol=3)["devices"] == []
    prepared = controller.ask(**PREPARE)
    assert prepared["engine_pids"] == [4711]
    assert controller.ask("ping")["state"] == "prepared"
    assert controller.ask("connect", peers={"a-b/requester": PEER})["ok"]
    assert controller.ask(**PHASE)["ok"]
    assert controller.ask("start", period_seconds=0.01)["ok"]
    sample = controller.line()
    assert sample["event"] == "sample"
    assert sample["counters"] == {"hw_counters": {"rcvd_pkts": 1, "rxe0": 1}}
    assert sample["flows"]["a-b/requester"]["posted_messages"] == 0
    stopped = controller.ask("stop")
    assert stopped["totals"]["state"] == "running"
    assert controller.ask("destroy")["qps_left"] == 0
    assert controller.ask("destroy")["clean"] is True
    assert controller.ask("bye")["ok"]
    assert controller.line() == {"event": "bye", "reason": "request"}


def test_phases_follow_each_other_on_one_set_up(controllers: Any) -> None:
    controller = controllers()
    controller.bring_to("running")
    assert "the run is running" in controller.ask(**PHASE)["error"]["message"]
    assert controller.ask("stop")["failed_qps"] == 0
    assert "the run is stopped" in controller.ask("start")["error"]["message"]
    assert controller.ask(**{**PHASE, "workload": {**WORKLOAD, "qps": 1}}, verify=True)["ok"]
    assert controller.engines[-1].commands[-1]["ends"][0]["qps"] == 1
    assert controller.engines[-1].commands[-1]["verify"] is True
    assert controller.ask("start", period_seconds=0.01)["ok"]
    assert len(controller.engines) == 1
    assert controller.ask("destroy")["clean"]


@pytest.mark.parametrize(
    ("flows", "reason"),
    [
        ([{"flow": "a-b", "role": "requester", "qps": 3}], "a-b/requester has 2 queue pairs, not 3"),
        ([{"flow": "b-a", "role": "requester"}], "b-a/requester has 0 queue pairs, not 2"),
        ([], "flows must list 1 to 16 ends"),
    ],
)
def test_a_phase_on_what_the_set_up_lacks_is_refused_and_costs_nothing(
    controllers: Any, flows: list[Any], reason: str
) -> None:
    controller = controllers()
    controller.bring_to("connected")
    assert reason in controller.ask(**{**PHASE, "flows": flows})["error"]["message"]
    assert controller.ask(**PHASE)["ok"]


def test_no_sample_of_one_phase_comes_in_the_next(controllers: Any) -> None:
    """The controller forgets what it has when a phase has begun."""
    controller = controllers()
    controller.bring_to("running")
    assert controller.ask("stop")["ok"]
    assert controller.ask(**PHASE)["ok"]
    assert controller.agent._sampling.next is None
    assert controller.readers[-1].closed is False


def test_samples_end_at_rest_if_the_controller_says_so(controllers: Any) -> None:
    controller = controllers()
    controller.bring_to("running")
    assert controller.ask("sampling", on=False)["ok"]
    assert controller.agent._sampling.next is not None, "a running phase is sampled"
    assert controller.ask("stop")["ok"]
    assert controller.ask("sampling", on=False)["ok"]
    assert controller.agent._sampling.next is None


def test_a_phase_that_fails_in_the_engine_ends_the_run(controllers: Any) -> None:
    fault = AgentFault("setup", "modify_qp RESET", "modify_qp RESET: Invalid argument", 22)
    controller = controllers(phase={"ok": False, "error": fault.to_json()})
    controller.bring_to("connected")
    assert controller.ask(**PHASE)["error"]["step"] == "modify_qp RESET"
    assert controller.ask("ping")["state"] == "idle"


def test_queue_pairs_that_stay_behind_are_counted(controllers: Any) -> None:
    controller = controllers()
    controller.bring_to("prepared")
    assert controller.ask("resources", device="rxe0")["qps"][0]["pid"] == 4711


@pytest.mark.parametrize(
    "line",
    [
        *(
            b"nonsense\n",
            b"[]\n",
            b'{"id": 1, "do": "fly"}\n',
            b'{"do": "ping"}\n',
            b'{"id": 1, "do": "ping", "x": 1}\n',
        ),
        *(b"[" * 100_000 + b"\n", b'{"id": %s, "do": "ping"}\n' % (b"9" * 4000), b"\xff\x00\n"),
    ],
)
def test_nonsense_is_refused_and_the_agent_lives_on(controllers: Any, line: bytes) -> None:
    controller = controllers()
    controller.write(line)
    assert controller.line()["error"]["kind"] == "bad_request"
    assert controller.ask("ping")["ok"]


@pytest.mark.parametrize("do", ["start", "stop"])
def test_a_request_out_of_order_is_refused(controllers: Any, do: str) -> None:
    controller = controllers()
    controller.bring_to("prepared")
    assert controller.ask(do)["error"]["kind"] == "bad_request"
    assert controller.ask("ping")["state"] == "prepared"


def test_a_step_past_its_deadline_costs_the_engine_and_not_the_agent(controllers: Any) -> None:
    controller = controllers(connect=None)
    controller.bring_to("prepared")
    reply = controller.ask("connect", peers={"a-b/requester": PEER}, deadline_seconds=0.05)
    assert reply["error"]["kind"] == "timeout"
    assert controller.engines[0].status == 9
    assert controller.ask("ping")["state"] == "idle"
    assert controller.ask(**PREPARE)["ok"]


def test_pings_are_answered_while_a_step_is_under_way_and_other_steps_are_not(controllers: Any) -> None:
    controller = controllers(connect=None)
    controller.bring_to("prepared")
    request = {"id": 90, "do": "connect", "deadline_seconds": 5, "peers": {"a-b/requester": PEER}}
    controller.write(json.dumps(request).encode() + b"\n")
    assert controller.ask("ping")["ok"]
    assert "still under way" in controller.ask("destroy")["error"]["message"]


def test_an_engine_that_dies_in_a_step_is_its_answer(controllers: Any) -> None:
    controller = controllers(connect="dies")
    controller.bring_to("prepared")
    reply = controller.ask("connect", peers={"a-b/requester": PEER})
    assert reply["error"]["kind"] == "died"
    assert "SIGKILL" in reply["error"]["message"]


def test_an_engine_that_dies_while_running_is_an_event(controllers: Any) -> None:
    controller = controllers()
    controller.bring_to("running")
    controller.engines[0].ended = True
    while controller.line().get("event") != "engine_died":
        pass
    assert controller.ask("ping")["state"] == "idle"


def test_destroy_succeeds_when_the_engine_has_to_be_killed(controllers: Any) -> None:
    controller = controllers(destroy=None)
    controller.bring_to("connected")
    reply = controller.ask("destroy", deadline_seconds=0.05)
    assert (reply["ok"], reply["clean"], reply["qps_left"]) == (True, False, 0)


def test_a_refusal_of_the_engine_reaches_the_controller_and_ends_the_run(controllers: Any) -> None:
    fault = AgentFault("setup", "create_qp", "create_qp: Cannot allocate memory", 12)
    controller = controllers(prepare={"ok": False, "error": fault.to_json()})
    reply = controller.ask(**PREPARE)
    assert reply["error"]["errno_name"] == "ENOMEM"
    assert reply["error"]["step"] == "create_qp"
    assert controller.ask("ping")["state"] == "idle"


def test_the_pulse_beats_while_nothing_happens(controllers: Any) -> None:
    controller = controllers()
    turns = controller.pulse.turns
    controller.thread.join(2 * BEAT_SECONDS)
    assert controller.pulse.turns > turns


def test_a_silent_controller_loses_its_lease(controllers: Any) -> None:
    controller = controllers()
    controller.ask("hello", protocol=3, lease_seconds=0.2)
    controller.bring_to("running")
    started = time.monotonic()
    while controller.line().get("event") != "bye":
        pass
    controller.thread.join(5)
    assert controller.agent.reason == "lease"
    assert time.monotonic() - started < 3
    assert controller.engines[-1].status is not None


def test_the_end_of_input_ends_agent_and_engine(controllers: Any) -> None:
    controller = controllers()
    controller.bring_to("running")
    controller.hang_up()
    assert controller.agent.reason == "eof"
    assert controller.engines[-1].commands[-1] == {"do": "destroy"}
    assert controller.engines[-1].status is not None


def test_sampling_without_a_run_starts_and_stops(controllers: Any) -> None:
    controller = controllers()
    assert controller.ask("sampling", on=True, device="rxe0", port=1, netdev="eth0", period_seconds=0.01)["sources"]
    sample = controller.line()
    assert sample["state"] == "idle"
    assert "flows" not in sample
    assert controller.ask("sampling", on=False)["ok"]
    assert controller.ask("ping")["ok"]


def test_counters_are_opened_once_for_a_run_and_closed_after_it(controllers: Any) -> None:
    controller = controllers()
    controller.bring_to("running")
    assert controller.ask("destroy")["ok"]
    assert [reader.closed for reader in controller.readers] == [True]
    controller.bring_to("prepared")
    assert controller.ask("connect", peers={"a-b/requester": PEER})["ok"]
    assert controller.ask(**PHASE)["ok"]
    # Whatever else is looked at in the meantime, a run samples its own device.
    assert controller.ask("sampling", on=True, device="rxe1", period_seconds=30)["ok"]
    assert controller.ask("sampling", on=False)["ok"]
    assert controller.ask("start", period_seconds=0.01)["ok"]
    while "flows" not in (sample := controller.line()) or sample["state"] != "running":
        pass
    assert "rxe0" in sample["counters"]["hw_counters"]
    assert [reader.closed for reader in controller.readers] == [True, True, True, False]


def test_two_engines_look_like_one(controllers: Any) -> None:
    controller = controllers()
    prepared = controller.ask(**PREPARE, processes=2)
    assert len(prepared["engine_pids"]) == 2
    assert prepared["endpoints"]["a-b/requester"] == {"engines": [ENDPOINT, ENDPOINT]}
    assert [engine.commands[0]["ends"][0]["qps"] for engine in controller.engines] == [1, 1]
    fewer = controller.ask("connect", peers={"a-b/requester": {"engines": [ENDPOINT]}})
    assert "engine 2 has queue pairs of a-b/requester, its peer has none" in fewer["error"]["message"]
    assert controller.ask("connect", peers={"a-b/requester": {"engines": [ENDPOINT, {**ENDPOINT, "lid": 7}]}})["ok"]
    assert [engine.commands[-1]["peers"]["a-b/requester"]["lid"] for engine in controller.engines] == [0, 7]
    assert controller.ask(**PHASE)["ok"]
    assert controller.ask("start")["ok"]
    controller.engines[1].ended = True
    while (event := controller.line()).get("event") != "engine_died":
        pass
    assert event["message"].startswith("process 2 of 2 (pid 4711): ")
    assert [engine.status for engine in controller.engines] == [9, 9]


def test_a_flow_that_is_apart_has_one_engine_more(controllers: Any) -> None:
    controller = controllers()
    flows = [*FLOWS, {"flow": "victim", "role": "requester", "qps": 1, "apart": True}]
    assert len(controller.ask(**PREPARE | {"flows": flows}, processes=2)["engine_pids"]) == 3
    ends = [[end["key"] for end in engine.commands[0]["ends"]] for engine in controller.engines]
    assert ends == [["a-b/requester"], ["a-b/requester"], ["victim/requester"]]


@pytest.mark.parametrize(
    ("processes", "reason"), [(3, "3 processes for 2 queue pairs"), (0, "1 to 64"), (65, "1 to 64")]
)
def test_a_number_of_engines_that_makes_no_sense_is_refused(controllers: Any, processes: int, reason: str) -> None:
    controller = controllers()
    assert reason in controller.ask(**PREPARE, processes=processes)["error"]["message"]
    assert controller.ask(**PREPARE)["ok"]


def test_another_protocol_is_refused(controllers: Any) -> None:
    assert "protocol 3" in controllers().ask("hello", protocol=2)["error"]["message"]


def test_the_last_answer_leaves_behind_whatever_is_still_under_way(controllers: Any) -> None:
    controller = controllers()
    controller.bring_to("prepared")
    controller.left = [QueuePair(number, "RC", "RTS", 4711, "python3") for number in range(5000)]
    controller.write(b'{"id": 100, "do": "resources", "device": "rxe0"}\n{"id": 101, "do": "bye"}\n')
    while controller.agent.reason is None:
        time.sleep(0.001)
    said = bytearray()

    def read() -> None:
        while b'"event"' not in said:
            said.extend(os.read(controller._from, 1 << 16))

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    controller.thread.join(5)
    reader.join(1)
    assert [json.loads(line).get("id") for line in said.splitlines()] == [100, 101, None]
