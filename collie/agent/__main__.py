"""Run the agent. In the archive, ``start.py`` runs first."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
from typing import Dict

from . import paths
from .agent import Agent
from .child import EngineProcess
from .lines import Lines
from .loop import log
from .pulse import Pulse

# Samples must be on time even while an engine uses the whole CPU of a small machine.
AGENT_NICE = -10


def main() -> int:
    """Serve one controller on stdin and stdout."""
    source, sink = os.dup(0), os.dup(1)
    # Stray output of a library must not reach the protocol.
    os.dup2(2, 1)
    loaded = paths.load()
    with contextlib.suppress(OSError):  # this user may not raise the priority
        os.setpriority(os.PRIO_PROCESS, 0, AGENT_NICE)
    gc.collect()
    gc.freeze()
    pulse = Pulse()

    def make_engine(ends: Dict[str, int]) -> EngineProcess:
        return EngineProcess(loaded, ends, pulse)

    agent = Agent(Lines(source, sink), make_engine, pulse)
    wakeup, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)

    def end(_number: int, _frame: object) -> None:
        agent.reason = agent.reason or "signal"

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, end)
    reason = agent.serve(wakeup)
    log(f"ends: {reason}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
