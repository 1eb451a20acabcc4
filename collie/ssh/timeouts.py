"""Deadlines of commands. The host itself ends a command that takes too long, even after the connection is lost."""

from __future__ import annotations

from collections.abc import Sequence

SEND_TIMEOUT_SECONDS = 10.0
CLOSE_SECONDS = 2.0
SLICE_SECONDS = 0.2
"""A long wait consists of slices of this length, so that it can end early."""

GRACE_SECONDS = 3.0
"""The controller waits this long beyond the host's deadline."""

TIMED_OUT = (124, 137)
"""Exit status of `timeout` after SIGTERM and SIGKILL."""


def with_timeout(argv: Sequence[str], timeout_seconds: float) -> list[str]:
    """Return a command under `timeout`."""
    return ["timeout", "-k", "1", f"{timeout_seconds:.3f}", *argv]
