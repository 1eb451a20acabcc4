"""The clock of a device that stamps completions, in the layout of ``native/nic_clock.h``."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_double, c_int, c_int64, c_uint32, c_uint64, c_void_p
from typing import Any, Callable, Optional

from .abi import members


class ReadingStruct(ctypes.Structure):
    """``struct reading``."""

    _fields_ = [("at", c_int64), ("raw", c_uint64), ("took", c_int64)]


class ClockStruct(ctypes.Structure):
    """``struct nic_clock``."""

    _fields_ = [
        ("context", c_void_p),
        ("mask", c_uint64),
        *members(c_double, "stated rate"),
        *members(ReadingStruct, "latest first"),
        *members(c_uint32, "trusted unused"),
    ]


class ClockFunctions:
    """Functions of the shared object for stamped completion queues."""

    def __init__(self, loaded: ctypes.CDLL) -> None:
        self._open = typed(loaded.collie_clock_open, c_int, POINTER(ClockStruct), c_void_p)
        self.create_cq = typed(loaded.collie_create_stamped_cq, c_void_p, c_void_p, c_uint32, c_void_p)
        self.poll = typed(loaded.collie_poll_stamped, c_int, c_void_p, c_int, c_void_p, c_void_p)

    def open(self, context: int) -> Optional[ClockStruct]:
        """Return the clock of an open device, None if it does not stamp completions or its clock cannot be read."""
        clock = ClockStruct()
        return clock if self._open(clock, context) else None


def typed(function: Any, result: Any, *arguments: Any) -> Callable[..., Any]:
    """Give a function of a shared object its types."""
    function.restype, function.argtypes = result, arguments
    return function  # type: ignore[no-any-return]
