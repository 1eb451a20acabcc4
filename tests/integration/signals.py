"""What processes that tests start owe to signals."""

from __future__ import annotations

import signal


def heed_interrupts() -> None:
    """A shell starts background jobs with SIGINT ignored, and children inherit that: for `preexec_fn`."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
