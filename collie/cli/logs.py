"""The log of a campaign: what adapters note while it runs, in `log/collie.log` and nowhere else."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from collie.store.directory import writing


class _LogFile(logging.FileHandler):
    """A log that cannot be written (the disk is full) ends no campaign, and fills nobody's screen with tracebacks."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """Pass over what the file system refuses; what else goes wrong is a fault of Collie."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)

    def close(self) -> None:
        """Close, whether or not what is buffered can still be written."""
        with suppress(OSError):
            super().close()


@contextmanager
def logged_to(folder: Path) -> Iterator[None]:
    """Write Collie's log to a campaign's folder for as long as the context lasts.

    Raises:
        StoreUnwritable: the file system refuses.
    """
    logger = logging.getLogger("collie")
    path = folder / "collie.log"
    with writing(path):
        folder.mkdir(mode=0o700, exist_ok=True)  # a copy of the record alone has none
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600))  # it names addresses
    handler = _LogFile(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    before = logger.level, logger.propagate
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        handler.close()
        logger.setLevel(before[0])
        logger.propagate = before[1]
