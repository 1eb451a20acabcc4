"""Every exception that Collie raises on purpose, with its exit code.

::

    CollieError
        UsageError              2
        ContentError            2
            InventoryError      2
        TestbedError            3
            HostUnreachable     3
            HostKeyMismatch     3
            CommandFailed       3
            CommandTimeout      3
            AgentError          3
            PortShared          3
        LabError                3
        StoreError              2
            StoreUnwritable     3
            HardwareChanged     2

Three outcomes are kept apart: bad input (an exception, exit 2), a finding (a value, exit 0 or 1), and no answer (an
exception, exit 3, or an inconclusive verdict, exit 4).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from collie.untrusted import sanitized


class CollieError(Exception):
    """A foreseen failure. Its text names the fault, its place and the remedy, without control characters."""

    exit_code = 2

    def __init__(self, text: str = "") -> None:
        super().__init__(sanitized(text))


class UsageError(CollieError):
    """The command line is inconsistent, or names something that does not exist."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault in one file.

    Attributes:
        line: 1-based, or 0 for the file as a whole.
    """

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}" if self.line else f"{self.path}: {self.message}"


MAX_PROBLEMS = 50  # the problems of a file of 512 KiB could fill 5000 screens


class ContentError(CollieError):
    """A content file is wrong. The text lists every problem found, up to `MAX_PROBLEMS`."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        found = sorted(problems[: MAX_PROBLEMS + 1], key=lambda problem: (problem.path, problem.line))
        self.problems = tuple(found)
        lines = list(_with_each_list_once(found[:MAX_PROBLEMS]))
        if len(found) > MAX_PROBLEMS:
            lines.append(f"... and more: the first {MAX_PROBLEMS} problems are shown; mend these, and ask again")
        super().__init__("\n".join(lines))


def _with_each_list_once(problems: Iterable[Problem]) -> Iterator[str]:
    """Yield the problems as text. What a file may say instead is listed at the first problem that lists it."""
    listed: set[tuple[str, str]] = set()
    for problem in problems:
        text = str(problem)
        if found := re.fullmatch("(.+); (?:known:|it has) (.+)", text, re.DOTALL):
            names = problem.path, found[2]
            text = found[1] if names in listed else text
            listed.add(names)
        yield text


class Problems(list[Problem]):
    """Problems of files. A problem beyond `MAX_PROBLEMS` raises a `ContentError`."""

    def append(self, problem: Problem) -> None:
        """Add a problem."""
        super().append(problem)
        if len(self) > MAX_PROBLEMS:
            raise ContentError(self)

    def extend(self, problems: Iterable[Problem]) -> None:
        """Add problems."""
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
    """A host presents a key that is not the known one."""

    def __init__(self, host: str, address: str, reason: str) -> None:
        self.host = host
        super().__init__(f"host {host} ({address}): {reason}")


class CommandFailed(TestbedError):
    """A command on a host ended with a non-zero status."""

    def __init__(self, host: str, argv: Sequence[str], status: int, stderr: str) -> None:
        self.host = host
        tail = stderr.strip().splitlines()[-3:]
        super().__init__(f"host {host}: `{' '.join(argv)}` exited {status}: {' | '.join(tail) or 'no message'}")


class CommandTimeout(TestbedError):
    """A step on a host did not end before its deadline."""

    def __init__(self, host: str, step: str, seconds: float) -> None:
        self.host, self.step = host, step
        super().__init__(f"host {host}: {step} did not finish within {seconds:g} s")


class AgentError(TestbedError):
    """The agent on a host reports a failed step."""

    def __init__(self, host: str, step: str, message: str, *, unsupported: bool = False) -> None:
        self.host, self.step = host, step
        self.unsupported = unsupported  # the device or driver cannot do it, so a repetition is pointless
        super().__init__(f"host {host}: agent step {step}: {message}")


class PortShared(TestbedError):
    """Another program uses a port under test. A run would disturb it, and it would falsify the results."""

    def __init__(self, uses: Sequence[str]) -> None:

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
    """The record cannot be written, because the disk is full or the device is gone."""

    exit_code = 3


class HardwareChanged(StoreError):
    """The hosts of a campaign have changed, so its results would mix two testbeds."""

    def __init__(self, directory: str, differences: Sequence[str]) -> None:

        super().__init__(
            f"the testbed of {directory} has changed since the campaign began (then and now):\n  "
            + "\n  ".join(differences)
            + "\nBegin a new campaign, or continue with --accept-changes, which keeps both fingerprints"
        )
