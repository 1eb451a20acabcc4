"""Commands that the host itself ends when they take too long, even without the connection."""

from __future__ import annotations

from collections.abc import Sequence

GRACE_SECONDS = 3.0
"""Extra time that the controller waits beyond the host's deadline."""

TIMED_OUT = (124, 137)
"""Exit status of coreutils' `timeout` after SIGTERM and after SIGKILL."""


def with_timeout(argv: Sequence[str], timeout_seconds: float) -> list[str]:
    """Return a command under coreutils' `timeout`."""
    return ["timeout", "-k", "1", f"{timeout_seconds:.3f}", *argv]
