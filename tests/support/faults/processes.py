"""Collie as a process of its own that can be hit at any instant, and whatever it leaves running."""

from __future__ import annotations

import os
import resource
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import collie

MARK = "COLLIE_FAULTS"
"""Variable in the environment of everything that a `Controller` starts, by which it is found again."""

_OWN_MOUNTS = "COLLIE_FAULTS_OWN_MOUNTS"
_POLL_SECONDS = 0.005
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class Hung(AssertionError):
    """A process did not end before its deadline."""


@dataclass(frozen=True)
class Ended:
    """How a process ended.

    Attributes:
        code: exit code; minus the number of the signal that killed it.
        out, err: what it printed.
        seconds: how long it lived.
        cpu_seconds: what it, and every other child that ended meanwhile, computed.
    """

    code: int
    out: str
    err: str
    seconds: float
    cpu_seconds: float

    @property
    def traceback(self) -> bool:
        """Whether it ended, or complained, in a way that nobody foresaw."""
        return "Traceback (most recent call last)" in self.err or "unforeseen" in self.err


@dataclass
class Controller:
    """A `collie` command as a process. Use as a context manager, so that it is never left behind.

    Args:
        words: after `collie`.
        folder: where it runs; what it prints goes to files beside that folder, so that a full disk there hides nothing.
        launcher: a command that takes the place of `python -m collie`.
        environment: what it finds besides this process's.
    """

    words: Sequence[str]
    folder: Path
    launcher: Sequence[str] = (sys.executable, "-m", "collie")
    environment: Mapping[str, str] = field(default_factory=dict)

    def __enter__(self) -> Self:
        self.mark = secrets.token_hex(8)
        place = self.folder.parent
        self._printed = tuple(place / f"{self.folder.name}.{self.mark}.{name}" for name in ("out", "err"))
        root = str(Path(collie.__file__).parents[1])
        environment = {**os.environ, "PYTHONPATH": root, **self.environment, MARK: self.mark}
        self._began, self._computed_before = time.monotonic(), _of_ended_children()
        with self._printed[0].open("wb") as out, self._printed[1].open("wb") as err:
            self.process = subprocess.Popen(
                [*self.launcher, *self.words],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=environment,
                preexec_fn=_heed_interrupts,
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for path in self._printed:
            path.unlink(missing_ok=True)

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self.process.poll() is None

    def has_open(self, path: Path) -> bool:
        """Whether it has not ended, and has a file open."""
        descriptors = Path(f"/proc/{self.process.pid}/fd")
        return self.running and any(os.path.realpath(each) == os.path.realpath(path) for each in descriptors.iterdir())

    @property
    def has_answered(self) -> bool:
        """Whether it has printed its answer on standard output, which a campaign does at its end."""
        return self._printed[0].stat().st_size > 0

    @property
    def said(self) -> str:
        """What it has printed on standard error by now."""
        return self._printed[1].read_text(errors="replace")

    def send(self, number: signal.Signals) -> None:
        """Send a signal; nothing happens where it has ended."""
        self.process.send_signal(number)

    def wait_until_it_has_computed(self, seconds: float, deadline_seconds: float) -> bool:
        """Wait until it has used so much CPU time: an instant that a busy machine does not move.

        Returns:
            Whether it still runs.

        Raises:
            Hung: it neither computes nor ends.
        """
        deadline = time.monotonic() + deadline_seconds
        while self.running and cpu_seconds(self.process.pid) < seconds:
            if time.monotonic() > deadline:
                raise Hung(f"{' '.join(self.words)} did not get on within {deadline_seconds:g} s")
            time.sleep(_POLL_SECONDS)
        return self.running

    def end(self, deadline_seconds: float) -> Ended:
        """Wait for its end.

        Raises:
            Hung: it did not end in time; it is killed.
        """
        deadline = time.monotonic() + deadline_seconds
        while self.running:
            if time.monotonic() > deadline:
                raise Hung(f"{' '.join(self.words)} did not end within {deadline_seconds:g} s")
            time.sleep(_POLL_SECONDS)
        out, err = (path.read_text(errors="replace") for path in self._printed)
        computed = _of_ended_children() - self._computed_before
        return Ended(self.process.returncode, out, err, time.monotonic() - self._began, computed)


def _heed_interrupts() -> None:
    """A shell starts background jobs with SIGINT ignored, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process; of one that has ended, zero."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND


def _of_ended_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def marked(mark: str) -> list[int]:
    """Return the processes, zombies aside, that carry a mark in their environment."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and wanted in Path(f"/proc/{entry}/environ").read_bytes().split(b"\0"):
                found.append(int(entry))
        except OSError:
            continue  # it has ended, or is not ours to read
    return found


def footprint(pid: int) -> tuple[float, float] | None:
    """Return the resident memory of a process in MiB and its open descriptors; None of one that has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        descriptors = len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return None
    kibibytes = next((line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")), None)
    return None if kibibytes is None else (int(kibibytes) / 1024, float(descriptors))


def own_mounts() -> None:
    """Go on in a mount namespace of this process's own: the program starts again in it."""
    if not os.environ.get(_OWN_MOUNTS):
        words = ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv]
        os.execvpe(words[0], words, {**os.environ, _OWN_MOUNTS: "1"})


def collie_command(words: Sequence[str], folder: Path, deadline_seconds: float, **how: object) -> Ended:
    """Run a `collie` command to its end.

    Raises:
        Hung: it did not end in time.
    """
    with Controller(words, folder, **how) as controller:  # type: ignore[arg-type]
        return controller.end(deadline_seconds)
