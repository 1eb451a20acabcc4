"""What each engine of a run is told, and that a run begins with all of its engines or with none."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from collie.agent.engines import Engines
from collie.agent.faults import AgentFault
from collie.agent.sharing import divide, join, shares
from collie.agent.totals import Totals


@pytest.mark.parametrize("engines", [[5], ["x"], [None], []])
def test_what_a_peer_says_that_is_no_endpoint_is_refused(engines: list[Any]) -> None:
    command = {"do": "connect", "peers": {"a-b/requester": {"engines": engines}}}
    with pytest.raises(AgentFault, match="peer") as caught:
        divide(command, [{"a-b/requester": 1}])
    assert caught.value.kind == "bad_request"


def test_each_engine_uses_the_first_queue_pairs_of_its_share_in_a_phase() -> None:
    """Both hosts divide alike, so that queue pair i of an engine meets queue pair i of its peer."""
    made = shares({"a-b/requester": 7, "victim/requester": 1}, 3)
    for used in range(1, 8):
        for part, whole in zip(shares({"a-b/requester": used}, 3), made, strict=True):
            assert part.get("a-b/requester", 0) <= whole["a-b/requester"]
    ends = [{"key": "a-b/requester", "qps": 2, "role": "requester", "workload": {}}]
    commands = divide({"do": "phase", "ends": ends, "verify": True}, shares({"a-b/requester": 2}, 3))
    assert [[end["qps"] for end in command["ends"]] for command in commands] == [[1], [1], []]
    assert all(end["flow_qps"] == 2 for command in commands for end in command["ends"])


VICTIM = "victim/requester"


@pytest.mark.parametrize("used", [7, 2])
def test_what_is_apart_has_one_engine_for_itself(used: int) -> None:
    qps = {"a-b/requester": used, VICTIM: 1}
    parts = shares(qps, 3, [VICTIM])
    assert len(parts) == 4
    assert parts[-1] == {VICTIM: 1}
    assert not any(VICTIM in part for part in parts[:-1])
    workloads = [{"qp_type": "UC"}, {"qp_type": "RC"}]
    ends = [{"key": key, "qps": count, "workload": each} for (key, count), each in zip(qps.items(), workloads)]  # noqa: B905
    busy = min(used, 3)
    commands = divide({"do": "phase", "ends": ends}, parts)
    assert [command["engines"] for command in commands] == [busy] * busy + [0] * (3 - busy) + [1]
    assert not any(command["uniform"] for command in commands), "packets of a port are not those of one of its flows"
    assert [each["processes"] for each in divide({"do": "prepare", "ends": ends}, parts)][:busy] == [busy] * busy


def test_a_flow_that_is_apart_connects_to_the_last_engine_of_its_peer() -> None:
    parts = shares({"a-b/requester": 2, VICTIM: 1}, 2, [VICTIM])
    prepared = [
        {
            "ok": True,
            "endpoints": {key: {"pid": number} for key in part},
            "flows": {key: {"buffers": 0} for key in part},
        }
        for number, part in enumerate(parts)
    ]
    endpoints = join("prepare", prepared, parts)["endpoints"]
    assert endpoints == {"a-b/requester": {"engines": [{"pid": 0}, {"pid": 1}]}, VICTIM: {"engines": [{"pid": 2}]}}
    told = divide({"do": "connect", "peers": endpoints}, parts)
    assert [command["peers"] for command in told] == [reply["endpoints"] for reply in prepared]


def test_a_host_may_have_the_victim_alone() -> None:
    """With rails it runs between the other ports, of which the workload uses none."""
    engines = Engines(Forked, {VICTIM: 1}, 4, [VICTIM])  # type: ignore[arg-type]
    assert [[layout.key for layout in member.totals.ends] for member in engines.members] == [[VICTIM]]


def test_a_phase_of_the_victim_alone_leaves_the_other_engines_idle() -> None:
    engines = Engines(Forked, {"a-b/requester": 2, VICTIM: 1}, 2, [VICTIM])  # type: ignore[arg-type]
    engines.send({"do": "phase", "ends": [{"key": VICTIM, "qps": 1, "workload": {}}]})
    commands: list[Any] = [member.sent for member in engines.members]  # type: ignore[attr-defined]
    assert [len(command["ends"]) for command in commands] == [0, 0, 1]


def test_a_phase_is_at_rest_when_every_engine_is() -> None:
    rest = {"ok": True, "drained": True, "failed_qps": 0, "stragglers": 0}
    late = {"ok": True, "drained": False, "failed_qps": 1, "stragglers": 2}
    assert join("stop", [rest, rest], [{}, {}])["drained"] is True
    joined = join("stop", [rest, late], [{}, {}])
    assert (joined["drained"], joined["failed_qps"], joined["stragglers"]) == (False, 1, 2)


def test_the_plan_of_a_flow_is_that_of_an_engine_with_queue_pairs_of_it() -> None:
    plans: list[dict[str, Any]] = [
        {"ok": True, "flows": {"a-b/requester": {"returns": True}}},
        {"ok": True, "flows": {}},
    ]
    assert join("phase", plans, [{"a-b/requester": 1}, {}])["flows"] == {"a-b/requester": {"returns": True}}


class Forked:
    """An engine that was forked."""

    def __init__(self, ends: dict[str, int]) -> None:
        self.totals, self.ended, self.status = Totals(ends), False, None
        self.killed = False

    def send(self, command: dict[str, Any]) -> None:
        self.sent = command

    def kill(self) -> None:
        self.killed = True

    def reap(self, _seconds: float) -> bool:
        return True


def test_engines_that_were_forked_before_one_could_not_be_are_ended() -> None:
    forked: list[Forked] = []

    def fork(ends: dict[str, int]) -> Forked:
        if len(forked) == 2:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        forked.append(Forked(ends))
        return forked[-1]

    with pytest.raises(AgentFault, match=r"fork: Resource temporarily unavailable \(engine 3 of 4\)") as caught:
        Engines(fork, {"a-b/requester": 4}, 4)  # type: ignore[arg-type]
    assert (caught.value.kind, caught.value.errno) == ("setup", errno.EAGAIN)
    assert [one.killed for one in forked] == [True, True]
