"""Ctrl-C and SIGTERM as a `KeyboardInterrupt` that is never lost.

Garbage collection may start a `__del__` or a weak reference's callback at any instruction. An exception raised there is
only reported as unraisable. A compiled module that is being imported may drop one without a word: those of numpy.random
do. Standard library only: bundles carry this module.
"""

from __future__ import annotations

import _thread  # `threading` takes locks that the interrupted code may hold
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from types import FrameType

_AGAIN_SECONDS = 0.01
_NUMBERS = (signal.SIGINT, signal.SIGTERM)
_IMPORT = "<frozen importlib._bootstrap>"
_PATIENT = 2  # the second signal raises no `KeyboardInterrupt`


def install_handlers() -> None:
    """Handle SIGTERM like Ctrl-C. Repeat a signal whose `KeyboardInterrupt` Python swallowed or an import would.

    The first signal starts the clean-up, the second lets it continue, and the third ends it. An ignored SIGINT stays
    ignored.
    """
    count = 0
    main, others = threading.main_thread(), sys.unraisablehook

    def again() -> None:
        time.sleep(_AGAIN_SECONDS)
        signal.pthread_kill(main.ident or 0, signal.SIGTERM)

    def interrupted(_number: int, frame: FrameType | None) -> None:
        nonlocal count
        if _is_importing(frame):
            _thread.start_new_thread(again, ())
            return
        count += 1
        if count != _PATIENT:
            raise KeyboardInterrupt
        with suppress(OSError):  # `print` takes a lock that the interrupted code may hold
            os.write(2, b"cleaning up; once more ends it at once\n")

    def hook(unraisable: sys.UnraisableHookArgs) -> None:
        nonlocal count
        # After the end of the main thread, nothing is left to interrupt.
        if issubclass(unraisable.exc_type, KeyboardInterrupt) and main.is_alive():
            count = 0
            _thread.start_new_thread(again, ())
        else:
            others(unraisable)

    for number in _NUMBERS:
        if number == signal.SIGTERM or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, interrupted)
    sys.unraisablehook = hook


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code.co_filename != _IMPORT:
        frame = frame.f_back
    return frame is not None


def ignore_signals() -> None:
    """Ignore both signals, so that a late one cannot change the exit code."""
    for number in _NUMBERS:
        signal.signal(number, signal.SIG_IGN)
