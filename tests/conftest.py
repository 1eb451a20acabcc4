"""What holds for all tests."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings

from collie.interrupts import install_handlers

# Hypothesis would refuse an example that takes 0.2 s, and on a busy machine any may: no test asserts a time.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture
def heeded() -> Iterator[None]:
    """Signals raise KeyboardInterrupt as under `collie`; in the background of a shell SIGINT would be ignored."""
    terminated, interrupted, hook = (
        signal.getsignal(signal.SIGTERM),
        signal.getsignal(signal.SIGINT),
        sys.unraisablehook,
    )
    signal.signal(signal.SIGINT, signal.default_int_handler)
    install_handlers()
    yield
    sys.unraisablehook = hook
    signal.signal(signal.SIGINT, interrupted)
    signal.signal(signal.SIGTERM, terminated)
