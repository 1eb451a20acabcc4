"""Clock and date of this computer."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime


class SystemClock:
    """A `ports.Clock`."""

    def monotonic(self) -> float:
        """Return seconds since some moment."""
        return time.monotonic()

    def sleep(self, seconds: float, until: threading.Event | None = None) -> None:
        """Wait for a time, or until an event is set."""
        (until or threading.Event()).wait(seconds)


def utc_now() -> str:
    """Return the current time, RFC 3339, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
