"""The engine as the resident agent sees it: a forked process behind a socket, which can always be killed."""

from __future__ import annotations

import contextlib
import ctypes
import errno
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
from .lines import Lines
from .paths import DataPaths
from .pulse import SILENCE_SECONDS, Pulse
from .sampler import waited
from .totals import ATTENTION, Totals

PR_SET_PDEATHSIG = 1
# Resolved here instead of in every fork.
_prctl = ctypes.CDLL(None).prctl


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent ends."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # the parent ended before prctl
        os._exit(1)


class EngineProcess:
    """One forked engine."""

    def __init__(self, paths: DataPaths, ends: Dict[str, int], pulse: Pulse) -> None:
        """Fork an engine with totals for ``ends`` (flow key: queue pairs). It ends when ``pulse`` stops."""
        self.totals = Totals(ends)
        ours, theirs = socket.socketpair()
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            ours.close()
            self._child(paths, theirs, parent, pulse)
        theirs.close()
        self._socket = ours
        self._lines = Lines(ours.fileno(), ours.fileno())
        self.status: Optional[int] = None

    def _child(self, paths: DataPaths, pipe: socket.socket, parent: int, pulse: Pulse) -> None:
        code = 1
        try:
            die_with_parent(parent)
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            signal.set_wakeup_fd(-1)
            gc.disable()  # the process lasts one run, and collection would pause it
            os.setpriority(os.PRIO_PROCESS, 0, max(0, os.getpriority(os.PRIO_PROCESS, 0)))
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, 0)
            os.dup2(null, 1)
            pulse.end_without_it(SILENCE_SECONDS)
            Engine(paths, pipe.fileno(), self.totals).serve()
            code = 0
        except BaseException:  # the process ends without Python's own handler
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when the engine answers or ends."""
        return self._socket.fileno()

    @property
    def wants_write(self) -> bool:
        """Whether part of a command is unwritten."""
        return self._lines.backlog > 0

    def flush(self) -> None:
        """Write pending commands without blocking."""
        self._lines.flush()

    def send(self, command: Dict[str, Any]) -> None:
        """Send a command and set the word that the traffic loop watches."""
        # Set first: the engine clears the word when it reads the line.
        self.totals.words[ATTENTION] = 1
        self._lines.send(command)

    def receive(self) -> List[Dict[str, Any]]:
        """Return the replies that have arrived."""
        return [dict(json.loads(line)) for line in self._lines.receive()]

    @property
    def ended(self) -> bool:
        """Whether the engine has closed its socket."""
        return self._lines.closed

    def cpu_seconds(self) -> Optional[float]:
        """Return the CPU time, by the clock that Linux derives from a pid."""
        if self.status is not None:
            return None
        try:
            return time.clock_gettime(~self.pid << 3 | 2)
        except OSError:
            return None

    def wait_seconds(self) -> Optional[float]:
        """Return the time for which the engine was ready and had no CPU, None where the kernel does not report it."""
        return None if self.status is not None else waited(self.pid)

    def cpu_user_seconds(self) -> Optional[float]:
        """Return the CPU time outside the kernel, in clock ticks (10 ms)."""
        try:
            with open(f"/proc/{self.pid}/stat", encoding="ascii") as file:
                after_name = file.read().rpartition(")")[2].split()
        except OSError:
            return None
        return int(after_name[11]) / os.sysconf("SC_CLK_TCK")

    def reap(self, seconds: float) -> bool:
        """Wait at most ``seconds``. Return whether the process is gone."""
        end = time.monotonic() + seconds
        while self.status is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except OSError as error:
                if error.errno != errno.ECHILD:
                    raise
                pid, status = self.pid, 0
            if pid:
                self.status = status
                self._socket.close()
            elif time.monotonic() > end:
                return False
            else:
                time.sleep(0.005)
        return True

    def kill(self, seconds: float = 2.0) -> bool:
        """Kill the process, so that the kernel frees its queue pairs. Return whether it is gone within ``seconds``."""
        if self.status is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        return self.reap(seconds)

    def last_words(self) -> str:
        """Describe how the process ended."""
        if self.status is None:
            return "the engine does not answer"
        if os.WIFSIGNALED(self.status):
            return f"the engine was killed by {signal.Signals(os.WTERMSIG(self.status)).name}"
        return f"the engine ended with status {os.WEXITSTATUS(self.status)}"
