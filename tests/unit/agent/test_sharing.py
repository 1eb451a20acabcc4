"""What each engine of a run is told, and that a run begins with all of its engines or with none."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from collie.agent.engines import Engines
from collie.agent.faults import AgentFault
from collie.agent.sharing import divide
from collie.agent.totals import Totals


@pytest.mark.parametrize("engines", [[5], ["x"], [None], []])
def test_what_a_peer_says_that_is_no_endpoint_is_refused(engines: list[Any]) -> None:
    command = {"do": "connect", "peers": {"a-b/requester": {"engines": engines}}}
    with pytest.raises(AgentFault, match="peer") as caught:
        divide(command, [{"a-b/requester": 1}])
    assert caught.value.kind == "bad_request"


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
