"""The log of a campaign."""

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
    """A log whose failures, such as a full disk, cause no traceback."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """Ignore errors of the file system."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)


@contextmanager
def logged_to(folder: Path) -> Iterator[None]:
    """Write Collie's log to a folder within the context.

    Raises:
        StoreUnwritable: the file cannot be opened.
    """
    logger = logging.getLogger("collie")
    with _log_file(folder) as file:
        handler = _LogFile(file)
        handler.setFormatter(LineFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        level, propagate = logger.level, logger.propagate
        logger.setLevel(logging.INFO)
        logger.propagate = False
        logger.addHandler(handler)
        try:
            yield
        finally:
            logger.removeHandler(handler)
            logger.setLevel(level)
            logger.propagate = propagate


@contextmanager
def _log_file(folder: Path) -> Iterator[TextIO]:
    with (
        writing(folder / _NAME),
        Folder(folder.parent) as campaign,
        campaign.below(folder.name, create_mode=0o700) as inside,  # a copied campaign may lack it
    ):
        descriptor = inside.open(_NAME, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)  # the log contains addresses
    file = os.fdopen(descriptor, "a", encoding="utf-8", errors="backslashreplace")
    try:
        yield file
    finally:
        with suppress(OSError):  # the last flush can fail
            file.close()
