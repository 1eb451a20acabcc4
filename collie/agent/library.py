"""A verbs library loaded by ctypes, with errors as exceptions."""

from __future__ import annotations

import ctypes
import os
from ctypes import c_int, c_size_t, c_uint, c_uint8, c_void_p
from typing import Any, ClassVar, Dict, Tuple

LIBRARY = "libibverbs.so.1"

# name: (result, arguments). Success is a pointer or 0. A failed verb returns its error number or sets errno.
Functions = Dict[str, Tuple[Any, Tuple[Any, ...]]]
VERBS: Functions = {
    "get_device_list": (c_void_p, (c_void_p,)),
    "free_device_list": (None, (c_void_p,)),
    "get_device_name": (ctypes.c_char_p, (c_void_p,)),
    "open_device": (c_void_p, (c_void_p,)),
    "close_device": (c_int, (c_void_p,)),
    "query_device": (c_int, (c_void_p, c_void_p)),
    "query_port": (c_int, (c_void_p, c_uint8, c_void_p)),
    "alloc_pd": (c_void_p, (c_void_p,)),
    "dealloc_pd": (c_int, (c_void_p,)),
    "reg_mr": (c_void_p, (c_void_p, c_void_p, c_size_t, c_int)),
    "dereg_mr": (c_int, (c_void_p,)),
    "create_comp_channel": (c_void_p, (c_void_p,)),
    "destroy_comp_channel": (c_int, (c_void_p,)),
    "create_cq": (c_void_p, (c_void_p, c_int, c_void_p, c_void_p, c_int)),
    "destroy_cq": (c_int, (c_void_p,)),
    "get_cq_event": (c_int, (c_void_p, c_void_p, c_void_p)),
    "ack_cq_events": (None, (c_void_p, c_uint)),
    "create_srq": (c_void_p, (c_void_p, c_void_p)),
    "destroy_srq": (c_int, (c_void_p,)),
    "create_qp": (c_void_p, (c_void_p, c_void_p)),
    "modify_qp": (c_int, (c_void_p, c_void_p, c_int)),
    "destroy_qp": (c_int, (c_void_p,)),
    "create_ah": (c_void_p, (c_void_p, c_void_p)),
    "destroy_ah": (c_int, (c_void_p,)),
}


class VerbsError(OSError):
    """A verb failed."""


class Library:
    """Functions of libibverbs without their prefix."""

    prefix = "ibv_"
    functions: ClassVar[Functions] = VERBS

    def __init__(self, path: str = LIBRARY) -> None:
        """Load the library. Raises OSError if it is missing or lacks a symbol."""
        if ctypes.sizeof(c_void_p) != 8:
            raise OSError("the Python interpreter is not 64-bit")
        self._library = ctypes.CDLL(path, use_errno=True)
        for name, (result, arguments) in self.functions.items():
            try:
                function = getattr(self._library, f"{self.prefix}{name}")
            except AttributeError as error:
                raise OSError(f"{path}: {error}") from error
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)

    def __getattr__(self, name: str) -> Any:  # for the type checker only
        raise AttributeError(name)

    def make(self, name: str, *arguments: Any) -> int:
        """Call a verb that returns an object."""
        made = getattr(self, name)(*arguments)
        if not made:
            code = ctypes.get_errno()
            raise VerbsError(code, f"{name}: {os.strerror(code)}")
        return int(made)

    def do(self, name: str, *arguments: Any) -> None:
        """Call a verb that returns an error number, or -1 with errno."""
        code = getattr(self, name)(*arguments)
        if code:
            code = ctypes.get_errno() if code < 0 else code
            raise VerbsError(code, f"{name}: {os.strerror(code)}")
