"""`collie` under a clock that somebody sets: `python -m tests.support.faults.stepped FILE WORDS...`.

The time of day is this machine's plus the seconds that FILE holds, which another process may change at any moment;
nobody else's clock moves. The kernel offers no time namespace for the time of day, only for the monotonic clock.
"""

from __future__ import annotations

import datetime
import sys
from pathlib import Path

_REAL = datetime.datetime


def step(offset: Path) -> None:
    """Replace the time of day of this process, before anything else of Collie is imported."""

    class Stepped(_REAL):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:  # type: ignore[override]
            return _REAL.now(tz) + datetime.timedelta(seconds=float(offset.read_text()))

    datetime.datetime = Stepped  # type: ignore[misc]


if __name__ == "__main__":
    step(Path(sys.argv[1]))
    from collie.cli.main import main

    main(sys.argv[2:])
