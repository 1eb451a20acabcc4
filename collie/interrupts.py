"""Ctrl-C and SIGTERM, as a `KeyboardInterrupt` that does arrive.

Python raises it wherever the main thread is. In a `__del__` or the callback of a weak reference, which garbage
collection begins between any two instructions, nobody can catch it: Python calls it unraisable and goes on, and whoever
asked for the end would wait for ever. Standard library only: a bundle takes this along.
"""

from __future__ import annotations

import _thread  # `threading` takes locks of its own, which the interrupted code may hold
import signal
import sys
import threading
import time

_AGAIN_SECONDS = 0.01


def heed() -> None:
    """Make SIGTERM a Ctrl-C, as who cancels a job wants it cleaned up; either comes again where it was swallowed."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    main, others = threading.main_thread(), sys.unraisablehook

    def again() -> None:
        time.sleep(_AGAIN_SECONDS)
        signal.pthread_kill(main.ident or 0, signal.SIGTERM)

    def hook(unraisable: sys.UnraisableHookArgs) -> None:
        # At the end of the process it means that nobody waits for other threads, and has been heeded.
        if issubclass(unraisable.exc_type, KeyboardInterrupt) and main.is_alive():
            _thread.start_new_thread(again, ())
        else:
            others(unraisable)

    sys.unraisablehook = hook
