"""Loads the traffic loop from memory: the shipped object, or one compiled on this host.

An anonymous file works in home directories mounted ``noexec``. Where it is forbidden, a private file serves.
"""

from __future__ import annotations

import ctypes
import os
import pkgutil
import platform
import tempfile
from typing import Dict, Tuple

from . import compiler


def sources() -> Dict[str, bytes]:
    """Return the sources in this program."""
    return {name: _carried(name) for name in compiler.SOURCES}


def _carried(name: str) -> bytes:
    data = pkgutil.get_data(__package__, f"native/{name}")
    if data is None:
        raise FileNotFoundError(f"native/{name} is not part of this program")
    return data


def load() -> Tuple[ctypes.CDLL, str]:
    """Return the loaded object and its origin, or raise OSError with the reasons."""
    try:
        return load_bytes(_shipped()), "shipped object"
    except OSError as error:
        shipped = str(error)
    try:
        return load_bytes(compiler.compile_object(sources())), f"compiled here: {shipped}"
    except (OSError, compiler.NotCompiled) as error:
        raise OSError(f"{shipped}. It cannot be compiled here: {error}") from error


def _shipped() -> bytes:
    if platform.machine() != compiler.SHIPPED_MACHINE:
        raise OSError(f"the shipped object is for {compiler.SHIPPED_MACHINE}, this host is {platform.machine()}")
    data = _carried(compiler.OBJECT)
    if not compiler.is_current(data, sources()):
        raise OSError("the shipped object does not match its source")
    return data


def load_bytes(data: bytes) -> ctypes.CDLL:
    """Load a shared object from memory, or raise OSError."""
    try:
        number = os.memfd_create("collie-traffic")
    except (OSError, AttributeError):  # forbidden, or Python built on an old libc
        return _load_from_file(data)
    try:
        with os.fdopen(number, "wb", closefd=False) as file:
            file.write(data)
        return ctypes.CDLL(f"/proc/self/fd/{number}")
    except OSError:
        return _load_from_file(data)
    finally:
        os.close(number)


def _load_from_file(data: bytes) -> ctypes.CDLL:
    with tempfile.TemporaryDirectory(prefix="collie-") as folder:
        path = os.path.join(folder, "traffic.so")
        with open(path, "wb") as file:
            file.write(data)
        return ctypes.CDLL(path)
