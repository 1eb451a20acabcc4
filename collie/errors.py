"""Every exception that Collie raises on purpose.

::

    CollieError                 exit code
    ├── UsageError              2   the command line asks for something that does not exist
    ├── ContentError            2   a file under workloads/, search/ or counters/ is wrong; its problems with path:line
    │   └── InventoryError      2   a hosts file is wrong; same shape
    ├── TestbedError            3   no trustworthy measurement is possible
    │   ├── HostUnreachable     3   which host, on which address
    │   ├── HostKeyMismatch     3   the host is not the one that the inventory pins
    │   ├── CommandFailed       3   argv, exit status, last lines of stderr
    │   ├── CommandTimeout      3   the step and its deadline
    │   ├── AgentError          3   the agent's message; `unsupported` when the device cannot do it
    │   └── PortShared          3   a port under test is in other use: by what, and how much
    ├── LabError                3   the Soft-RoCE machines cannot be built, started or found
    └── StoreError              2   campaign unknown, locked, or of a newer schema
        ├── StoreUnwritable     3   the record cannot be written: disk full, device gone
        └── HardwareChanged     2   the hosts of a campaign have changed

Three outcomes are never mixed: bad input (these, exit 2), a finding (a value, exit 0 or 1), no answer (exit 3 or an
inconclusive verdict, exit 4).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from collie.untrusted import sanitized


class CollieError(Exception):
    """A foreseen failure. Its text names the fault, its place and the remedy.

    Texts quote hosts and files, and go to terminals, logs and records. Control characters are removed.
    """

    exit_code = 2

    def __init__(self, text: str = "") -> None:
        super().__init__(sanitized(text))


class UsageError(CollieError):
    """The command line names something that does not exist or is inconsistent."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault in one file.

    Attributes:
        path: the file as the operator named it.
        line: 1-based line, or 0 for the file as a whole.
        message: the fault and its remedy.
    """

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}" if self.line else f"{self.path}: {self.message}"


MAX_PROBLEMS = 50
"""Problems in one message. A file of 512 KiB could fill a screen 5000 times."""


class ContentError(CollieError):
    """A content file is wrong. The text lists every problem found, up to `MAX_PROBLEMS`.

    Attributes:
        problems: by place. One more than listed where there are more.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        found = sorted(problems[: MAX_PROBLEMS + 1], key=lambda problem: (problem.path, problem.line))
        self.problems = tuple(found)
        lines = [str(problem) for problem in found[:MAX_PROBLEMS]]
        if len(found) > MAX_PROBLEMS:
            lines.append(f"... and more: the first {MAX_PROBLEMS} problems are shown; mend these, and ask again")
        super().__init__("\n".join(lines))


class Problems(list[Problem]):
    """Collects problems of files. One problem beyond `MAX_PROBLEMS` raises a `ContentError`."""

    def append(self, problem: Problem) -> None:
        """Add a problem.

        Raises:
            ContentError: it exceeds the limit.
        """
        super().append(problem)
        if len(self) > MAX_PROBLEMS:
            raise ContentError(self)

    def extend(self, problems: Iterable[Problem]) -> None:
        """Add problems one at a time, like `append`."""
        for problem in problems:
            self.append(problem)

    def __iadd__(self, problems: Iterable[Problem]) -> Self:  # type: ignore[misc,override]
        self.extend(problems)
        return self


class InventoryError(ContentError):
    """A hosts file is wrong."""


class TestbedError(CollieError):
    """The testbed cannot give a trustworthy measurement."""

    __test__ = False  # not a test class, despite the name
    exit_code = 3


class HostUnreachable(TestbedError):
    """A host does not answer."""

    def __init__(self, host: str, address: str, reason: str) -> None:
        self.host = host
        super().__init__(f"host {host} ({address}) cannot be reached: {reason}")


class HostKeyMismatch(TestbedError):
    """A host presents a key other than the known one."""

    def __init__(self, host: str, address: str, reason: str) -> None:
        self.host = host
        super().__init__(f"host {host} ({address}): {reason}")


class CommandFailed(TestbedError):
    """A command on a host ended with a non-zero status."""

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
    """The agent on a host reports a failed step.

    Attributes:
        unsupported: the device or driver cannot do this, so another attempt is pointless.
    """

    def __init__(self, host: str, step: str, message: str, *, unsupported: bool = False) -> None:
        self.host, self.step, self.unsupported = host, step, unsupported
        super().__init__(f"host {host}: agent step {step}: {message}")


class PortShared(TestbedError):
    """A port under test is in other use, which would be disturbed and would falsify results."""

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
    """The record cannot be written, because the disk is full or the device is gone, so no run can begin."""

    exit_code = 3


class HardwareChanged(StoreError):
    """The hosts of a campaign have changed, so its results would mix two testbeds."""

    def __init__(self, directory: str, differences: Sequence[str]) -> None:
        self.differences = tuple(differences)
        super().__init__(
            f"since {directory} was begun, its testbed has changed (then and now):\n  "
            + "\n  ".join(differences)
            + "\nBegin a new campaign, or go on all the same with --accept-changes, which keeps both fingerprints"
        )
