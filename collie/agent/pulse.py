"""A dead man's switch between the resident agent and its engines.

An engine ends with its agent (``child.die_with_parent``), and the agent with its controller. That leaves an agent which
lives and does nothing: stopped, frozen, or stuck in a system call that waits for firmware. Nobody would hold its lease
to account then, nor look at the pause that its engine provokes. So the agent says in shared memory that it turns its
loop, and an engine that has not heard of it for a while ends itself; the kernel takes back its queue pairs.
"""

from __future__ import annotations

import mmap
import os
import sys
import threading
import time

# Between two beats at most; the loop turns more often while it samples.
BEAT_SECONDS = 1.0
# With what precedes it, less than the 10 s within which a host is silent (docs/explanation/safety.md).
SILENCE_SECONDS = 7.0
_LOOK_SECONDS = 0.5


class Pulse:
    """Counts the turns of an agent's loop, where the engines that it forks can see it."""

    def __init__(self) -> None:
        self._word = memoryview(mmap.mmap(-1, 8)).cast("Q")

    @property
    def turns(self) -> int:
        """How often the loop has turned."""
        return self._word[0]

    def beat(self) -> None:
        """Say that the loop turns."""
        self._word[0] += 1

    def end_without_it(self, silence_seconds: float) -> None:
        """End this process once the pulse has been silent for so long; watched for beside whatever else it does."""
        # The traffic loops hold the interpreter for a few milliseconds at most, the compiled one not at all.
        threading.Thread(target=self._watch, args=(silence_seconds,), daemon=True).start()

    def _watch(self, silence_seconds: float) -> None:
        turns, silent = self.turns, 0.0
        while silent < silence_seconds:
            time.sleep(_LOOK_SECONDS)
            before, turns = turns, self.turns
            # Looks are counted and not time: where the host gives nobody a CPU, the agent has had none either.
            silent = silent + _LOOK_SECONDS if turns == before else 0.0
        sys.stderr.write(f"engine {os.getpid()} ends: its agent has not moved for {silence_seconds:g} s\n")
        sys.stderr.flush()
        os._exit(1)
