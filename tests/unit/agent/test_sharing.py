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
    ends = [{"key": "a-b/requester", "qps": 2, "role": "requester"}]
    commands = divide({"do": "phase", "ends": ends, "verify": True}, shares({"a-b/requester": 2}, 3))
    assert [[end["qps"] for end in command["ends"]] for command in commands] == [[1], [1], []]
    assert all(end["flow_qps"] == 2 for command in commands for end in command["ends"])


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
