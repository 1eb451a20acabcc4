"""The log of a campaign: what adapters note while it runs, in `log/collie.log` and nowhere else."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def logged_to(folder: Path) -> Iterator[None]:
    """Write Collie's log to a campaign's folder for as long as the context lasts."""
    logger = logging.getLogger("collie")
    handler = logging.FileHandler(folder / "collie.log", encoding="utf-8")
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
