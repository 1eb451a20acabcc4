"""Every exception that Collie raises on purpose.

::

    CollieError                 exit code
    ├── UsageError              2   the command line asks for something that does not exist
    ├── ContentError            2   a file under workloads/, search/ or counters/ is wrong; its problems with path:line
    │   └── InventoryError      2   a hosts file is wrong; same shape
    ├── TestbedError            3   no trustworthy measurement can be had
    │   ├── HostUnreachable     3   which host, on which address
    │   ├── HostKeyMismatch     3   the host is not the one that the inventory pins
    │   ├── CommandFailed       3   argv, exit status, last lines of stderr
    │   ├── CommandTimeout      3   what was waited for, and how long
    │   ├── AgentError          3   what the agent said; `unsupported` when the device cannot do it
    │   └── PortShared          3   somebody else uses a port under test: who, and how much
    ├── LabError                3   the Soft-RoCE machines cannot be built, started or found
    └── StoreError              2   campaign unknown, locked, or of a newer schema
        ├── StoreUnwritable     3   the record cannot be written: disk full, device gone
        └── HardwareChanged     2   a campaign would go on with hosts that are not what they were

Three outcomes are never mixed: bad input (these, exit 2), a finding (a value, exit 0 or 1), no answer (exit 3 or an
inconclusive verdict, exit 4).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from collie.untrusted import sanitized


class CollieError(Exception):
    """A situation that Collie foresaw; its text says what was wrong, where, and what to do.

    What hosts and files say is in such texts, and these go to terminals, logs and records: none can steer one.
    """

    exit_code = 2

    def __init__(self, text: str = "") -> None:
        super().__init__(sanitized(text))


class UsageError(CollieError):
    """The command line names something that does not exist or does not fit together."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong in one file.

    Attributes:
        path: the file as the user named it.
        line: 1-based line, or 0 when the file as a whole is meant.
        message: what is wrong and what would be right.
    """

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}" if self.line else f"{self.path}: {self.message}"


MAX_PROBLEMS = 50
"""That one message shows. A file of 512 KiB could fill a screen 5000 times."""


class ContentError(CollieError):
    """A content file is wrong; shows every problem found, not only the first, up to `MAX_PROBLEMS`.

    Attributes:
        problems: by place; one more than are shown where there are more.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        found = sorted(problems[: MAX_PROBLEMS + 1], key=lambda problem: (problem.path, problem.line))
        self.problems = tuple(found)
        lines = [str(problem) for problem in found[:MAX_PROBLEMS]]
        if len(found) > MAX_PROBLEMS:
            lines.append(f"... and more: the first {MAX_PROBLEMS} problems are shown; mend these, and ask again")
        super().__init__("\n".join(lines))


class Problems(list[Problem]):
    """Collects what is wrong with files. Reading ends with a `ContentError` once there is more than one shows."""

    def append(self, problem: Problem) -> None:
        """Add a problem.

        Raises:
            ContentError: it is one too many.
        """
        super().append(problem)
        if len(self) > MAX_PROBLEMS:
            raise ContentError(self)

    def extend(self, problems: Iterable[Problem]) -> None:
        """Add problems, one at a time, as `append` does."""
        for problem in problems:
            self.append(problem)

    def __iadd__(self, problems: Iterable[Problem]) -> Self:  # type: ignore[misc,override]
        self.extend(problems)
        return self


class InventoryError(ContentError):
    """A hosts file is wrong."""


class TestbedError(CollieError):
    """The testbed cannot give a trustworthy measurement."""

    __test__ = False  # not a test class, whatever pytest thinks of the name
    exit_code = 3


class HostUnreachable(TestbedError):
    """A host does not answer."""

    def __init__(self, host: str, address: str, reason: str) -> None:
        self.host = host
        super().__init__(f"host {host} ({address}) cannot be reached: {reason}")


class HostKeyMismatch(TestbedError):
    """A host presents a key other than the one known for it."""

    def __init__(self, host: str, address: str, reason: str) -> None:
        self.host = host
        super().__init__(f"host {host} ({address}): {reason}")


class CommandFailed(TestbedError):
    """A command on a host ended with a status other than zero."""

    def __init__(self, host: str, argv: Sequence[str], status: int, stderr: str) -> None:
        self.host, self.argv, self.status, self.stderr = host, tuple(argv), status, stderr
        tail = stderr.strip().splitlines()[-3:]
        super().__init__(f"host {host}: `{' '.join(argv)}` exited {status}: {' | '.join(tail) or 'no message'}")


class CommandTimeout(TestbedError):
    """A step on a host did not end before its deadline."""

    def __init__(self, host: str, step: str, seconds: float) -> None:
        self.host, self.step = host, step
        super().__init__(f"host {host}: {step} did not finish within {seconds:g} s")


class AgentError(TestbedError):
    """The agent on a host reports that a step failed.

    Attributes:
        unsupported: the device or driver cannot do this at all, so trying again is pointless.
    """

    def __init__(self, host: str, step: str, message: str, *, unsupported: bool = False) -> None:
        self.host, self.step, self.unsupported = host, step, unsupported
        super().__init__(f"host {host}: agent step {step}: {message}")


class PortShared(TestbedError):
    """Somebody else uses a port under test: their traffic would be disturbed, and ours misjudged."""

    def __init__(self, uses: Sequence[str]) -> None:
        self.uses = tuple(uses)
        super().__init__(
            "a port under test is in use, so nothing was started:\n  "
            + "\n  ".join(uses)
            + "\nEnd it, or go on beside it with --shared-port: what it does will disturb, and be disturbed"
        )


class LabError(CollieError):
    """The Soft-RoCE machines cannot be built, started or found."""

    exit_code = 3


class StoreError(CollieError):
    """A campaign on disk cannot be opened or continued."""


class StoreUnwritable(StoreError):
    """The record cannot be written, so nothing can be measured: the disk is full, or the device is gone."""

    exit_code = 3


class HardwareChanged(StoreError):
    """A campaign would go on with hosts that are not what they were: its results would mix two of them."""

    def __init__(self, directory: str, differences: Sequence[str]) -> None:
        self.differences = tuple(differences)
        super().__init__(
            f"since {directory} was begun, its testbed has changed (then and now):\n  "
            + "\n  ".join(differences)
            + "\nBegin a new campaign, or go on all the same with --accept-changes, which keeps both fingerprints"
        )
