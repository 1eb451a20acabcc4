"""What is killed and hangs in the kernel is waited for once: the controller's deadline allows for no second time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from collie.agent.engines import Engines


class Stuck:
    """An engine that no signal ends."""

    pid = 4711
    status = None
    ended = False
    totals = SimpleNamespace(ends=())

    def __init__(self) -> None:
        self.killed = 0
        self.waited: list[float] = []

    def kill(self) -> None:
        self.killed += 1

    def reap(self, seconds: float) -> bool:
        self.waited.append(round(seconds, 1))
        return False


def test_an_engine_that_outlives_its_kill_is_waited_for_once() -> None:
    stuck: Any = Stuck()
    engines = Engines(lambda _: stuck, {"a-b/requester": 1})
    assert not engines.kill()
    assert not engines.kill()
    assert stuck.killed == 2
    assert stuck.waited == [2.0, 0.0]
