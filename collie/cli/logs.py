"""The log of a campaign: what adapters note while it runs, in `log/collie.log` and nowhere else."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from collie.files import Folder
from collie.store.directory import writing
from collie.untrusted import LineFormatter

_NAME = "collie.log"


class _LogFile(logging.StreamHandler[TextIO]):
    """A log that cannot be written (the disk is full) ends no campaign, and fills nobody's screen with tracebacks."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """Pass over what the file system refuses; what else goes wrong is a fault of Collie."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)


@contextmanager
def logged_to(folder: Path) -> Iterator[None]:
    """Write Collie's log to a campaign's folder for as long as the context lasts.

    Raises:
        StoreUnwritable: the file system refuses, or something other than a file stands in its place.
    """
    logger = logging.getLogger("collie")
    with _log_file(folder) as file:
        handler = _LogFile(file)
        handler.setFormatter(LineFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        before = logger.level, logger.propagate
        logger.setLevel(logging.INFO)
        logger.propagate = False
        logger.addHandler(handler)
        try:
            yield
        finally:
            logger.removeHandler(handler)
            logger.setLevel(before[0])
            logger.propagate = before[1]


@contextmanager
def _log_file(folder: Path) -> Iterator[TextIO]:
    """Open the log to add to it; that what is buffered cannot be written in the end is passed over."""
    with (
        writing(folder / _NAME),
        Folder(folder.parent) as campaign,
        campaign.below(folder.name, create_mode=0o700) as inside,  # a copy of the record alone has none
    ):
        descriptor = inside.open(_NAME, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)  # it names addresses
    file = os.fdopen(descriptor, "a", encoding="utf-8", errors="backslashreplace")
    try:
        yield file
    finally:
        with suppress(OSError):
            file.close()
