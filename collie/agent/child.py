"""The engine as the resident agent sees it: a forked process behind a socket."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import signal
import socket
import sys
import time
import traceback
from typing import Any, Dict, List, Optional

from .engine import Engine
from .kernel_files import read_text
from .lines import Lines
from .paths import DataPaths
from .pulse import SILENCE_SECONDS, Pulse
from .sampler import waited
from .totals import ATTENTION, Totals

PR_SET_PDEATHSIG = 1
# The function is looked up once, not in every fork.
_prctl = ctypes.CDLL(None).prctl


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent ends."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # the parent ended before prctl
        os._exit(1)


class EngineProcess:
    """One forked engine."""

    def __init__(
        self, paths: DataPaths, ends: Dict[str, int], pulse: Pulse, silence_seconds: float = SILENCE_SECONDS
    ) -> None:
        """Fork an engine for ``ends`` (flow key: queue pairs). It ends after ``silence_seconds`` without a beat."""
        self.totals = Totals(ends)
        ours, theirs = socket.socketpair()
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            ours.close()
            self._child(paths, theirs, parent, pulse, silence_seconds)
        theirs.close()
        self._socket = ours
        self._lines = Lines(ours.fileno(), ours.fileno())
        self.status: Optional[int] = None

    def _child(self, paths: DataPaths, pipe: socket.socket, parent: int, pulse: Pulse, silence_seconds: float) -> None:
        code = 1
        try:
            die_with_parent(parent)
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            signal.set_wakeup_fd(-1)
            gc.disable()  # the process lasts one run, and garbage collection would pause it
            os.setpriority(os.PRIO_PROCESS, 0, max(0, os.getpriority(os.PRIO_PROCESS, 0)))
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, 0)
            os.dup2(null, 1)
            # Some versions of libmlx5 write five lines for each failed completion, of which there can be many.
            os.environ.setdefault("MLX5_DEBUG_FILE", os.devnull)
            pulse.end_without_it(silence_seconds)
            Engine(paths, pipe.fileno(), self.totals).serve()
            code = 0
        except BaseException:  # `os._exit` below skips Python's own report of errors
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)

    def fileno(self) -> int:
        """Return the descriptor that becomes readable at a reply and at the end of the engine."""
        return self._socket.fileno()

    @property
    def wants_write(self) -> bool:
        """Whether a part of a command is not written yet."""
        return self._lines.backlog > 0

    def flush(self) -> None:
        """Write waiting commands without blocking."""
        self._lines.flush()

    def send(self, command: Dict[str, Any]) -> None:
        """Send a command, and interrupt the traffic loop."""
        # The word is set before the line is sent, because the engine clears it when it reads the line.
        self.totals.words[ATTENTION] = 1
        self._lines.send(command)

    def receive(self) -> List[Dict[str, Any]]:
        """Return the replies so far."""
        return [dict(json.loads(line)) for line in self._lines.receive()]

    @property
    def ended(self) -> bool:
        """Whether the engine has closed its socket."""
        return self._lines.closed

    def times(self) -> Dict[str, Optional[float]]:
        """Return the CPU times and the wait for a CPU in seconds, None if unknown."""
        times: Dict[str, Optional[float]] = dict.fromkeys(("cpu_seconds", "cpu_user_seconds", "wait_seconds"))
        if self.status is not None:
            return times
        with contextlib.suppress(OSError):
            times["cpu_seconds"] = time.clock_gettime(~self.pid << 3 | 2)  # the clock that Linux derives from a pid
        if stat := read_text(f"/proc/{self.pid}/stat"):
            times["cpu_user_seconds"] = int(stat.rpartition(")")[2].split()[11]) / os.sysconf("SC_CLK_TCK")
        times["wait_seconds"] = waited(self.pid)
        return times

    def reap(self, seconds: float) -> bool:
        """Wait for the end of the process, at most ``seconds``. Return whether it ended."""
        end = time.monotonic() + seconds
        while self.status is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                pid, status = self.pid, 0
            if pid:
                self.status = status
                self._socket.close()
            elif time.monotonic() > end:
                return False
            else:
                time.sleep(0.005)
        return True

    def kill(self) -> None:
        """Kill the process. The kernel then frees its queue pairs."""
        if self.status is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def last_words(self) -> str:
        """Describe how the process ended."""
        if self.status is None:
            return "the engine does not answer"
        if os.WIFSIGNALED(self.status):
            return f"the engine was killed by {signal.Signals(os.WTERMSIG(self.status)).name}"
        return f"the engine ended with status {os.WEXITSTATUS(self.status)}"
