"""Commands that the host itself ends when they take too long, whatever becomes of the connection."""

from __future__ import annotations

from collections.abc import Sequence

GRACE_SECONDS = 3.0
"""How much longer than the host itself the controller waits for a command with a deadline."""

TIMED_OUT = (124, 137)
"""Exit status of coreutils' `timeout` when it ended the command, by SIGTERM or by SIGKILL."""


def with_timeout(argv: Sequence[str], timeout_seconds: float) -> list[str]:
    """Return a command under coreutils' `timeout`."""
    return ["timeout", "-k", "1", f"{timeout_seconds:.3f}", *argv]
