"""Ctrl-C and SIGTERM, as a `KeyboardInterrupt` that does arrive.

Python raises it wherever the main thread is. In a `__del__` or the callback of a weak reference, which garbage
collection begins between any two instructions, nobody can catch it: Python calls it unraisable and goes on, and whoever
asked for the end would wait for ever. Standard library only: a bundle takes this along.
"""

from __future__ import annotations

import _thread  # `threading` takes locks of its own, which the interrupted code may hold
import os
import signal
import sys
import threading
import time
from contextlib import suppress

_AGAIN_SECONDS = 0.01
_NUMBERS = (signal.SIGINT, signal.SIGTERM)
_PATIENT = 2
"""Which of several signals is no `KeyboardInterrupt`."""


def install_handlers() -> None:
    """Make SIGTERM a Ctrl-C, as who cancels a job wants it cleaned up; either comes again where it was swallowed.

    The second finds the clean-up under way, which it leaves alone; a third one ends that, too. A SIGINT that is
    ignored, as a shell does for what it runs in the background, stays so.
    """
    count = 0

    def interrupted(_number: int, _frame: object) -> None:
        nonlocal count
        count += 1
        if count != _PATIENT:
            raise KeyboardInterrupt
        with suppress(OSError):  # `print` takes a lock that the interrupted code may hold
            os.write(2, b"cleaning up; once more ends it at once\n")

    for number in _NUMBERS:
        if number == signal.SIGTERM or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, interrupted)
    main, others = threading.main_thread(), sys.unraisablehook

    def again() -> None:
        time.sleep(_AGAIN_SECONDS)
        signal.pthread_kill(main.ident or 0, signal.SIGTERM)

    def hook(unraisable: sys.UnraisableHookArgs) -> None:
        nonlocal count
        # At the end of the process it means that nobody waits for other threads, and has been heeded.
        if issubclass(unraisable.exc_type, KeyboardInterrupt) and main.is_alive():
            count = 0
            _thread.start_new_thread(again, ())
        else:
            others(unraisable)

    sys.unraisablehook = hook


def heed_no_more() -> None:
    """Let nothing change the exit code that is settled: Python ends by the signal itself where it comes that late."""
    for number in _NUMBERS:
        signal.signal(number, signal.SIG_IGN)
