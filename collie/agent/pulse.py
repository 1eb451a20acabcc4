"""A dead man's switch between the resident agent and its engines.

An agent that is stopped, frozen or stuck enforces no lease and does not watch for pause. It therefore counts the turns
of its loop in shared memory. An engine that sees no turn for some time ends, and the kernel frees its queue pairs.
"""

from __future__ import annotations

import mmap
import os
import sys
import threading
import time

# Longest time between two beats.
BEAT_SECONDS = 1.0
# An engine ends a little later than this after the last beat, within the 10 s of docs/explanation/safety.md.
SILENCE_SECONDS = 7.0
_LOOK_SECONDS = 0.5


class Pulse:
    """Turns of an agent's loop, shared with its engines."""

    def __init__(self) -> None:
        self._word = memoryview(mmap.mmap(-1, 8)).cast("Q")

    @property
    def turns(self) -> int:
        """Turns so far."""
        return self._word[0]

    def beat(self) -> None:
        """Count one turn."""
        self._word[0] += 1

    def end_without_it(self, silence_seconds: float) -> None:
        """End this process after ``silence_seconds`` without a beat."""
        # A thread gets to run: the Python loop holds the interpreter lock for milliseconds, the compiled loop never.
        threading.Thread(target=self._watch, args=(silence_seconds,), daemon=True).start()

    def _watch(self, silence_seconds: float) -> None:
        turns, silent = self.turns, 0.0
        while silent < silence_seconds:
            time.sleep(_LOOK_SECONDS)
            before, turns = turns, self.turns
            # The watch counts its own wake-ups, not time. A host without free CPU delays both agent and watch.
            silent = silent + _LOOK_SECONDS if turns == before else 0.0
        sys.stderr.write(f"engine {os.getpid()} ends: its agent has not moved for {silence_seconds:g} s\n")
        sys.stderr.flush()
        os._exit(1)
