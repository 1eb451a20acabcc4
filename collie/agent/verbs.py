"""Verbs as the engine uses them, and the only import of pyverbs.

Supports pyverbs 44 (``pyverbs.enums``) and newer (``pyverbs.libibverbs_enums``). pyverbs has no type stubs, so its
objects are ``Any`` inside this package.
"""

from __future__ import annotations

import importlib
import os
from typing import Any, Optional, Set, Tuple

NAMES = {
    "AH": "addr",
    "AHAttr": "addr",
    "CQ": "cq",
    "CompChannel": "cq",
    "Context": "device",
    "GID": "addr",
    "GlobalRoute": "addr",
    "MR": "mr",
    "PD": "pd",
    "QP": "qp",
    "QPAttr": "qp",
    "QPCap": "qp",
    "QPInitAttr": "qp",
    "RecvWR": "wr",
    "SGE": "wr",
    "SRQ": "srq",
    "SendWR": "wr",
    "SrqAttr": "srq",
    "SrqInitAttr": "srq",
    "PyverbsError": "pyverbs_error",
}


class Verbs:
    """Verbs under pyverbs' names: classes (``NAMES``) as attributes, enumerations as ``e``."""

    e: Any

    def __getattr__(self, name: str) -> Any:  # for the type checker only
        raise AttributeError(name)

    def open_channel(self, context: Any) -> Tuple[Any, int]:
        """Return a new completion channel and its descriptor."""
        raise NotImplementedError


class PyVerbs(Verbs):
    """Verbs of pyverbs."""

    def __init__(self) -> None:
        self.e = self._enums()
        for name, module in NAMES.items():
            setattr(self, name, getattr(importlib.import_module(f"pyverbs.{module}"), name))

    def open_channel(self, context: Any) -> Tuple[Any, int]:
        """Return a new completion channel and its descriptor.

        pyverbs hides the descriptor, which a wait with a time limit needs.
        """
        before = _event_files()
        channel = self.CompChannel(context)
        return channel, (_event_files() - before).pop()

    @staticmethod
    def _enums() -> Any:
        try:
            return importlib.import_module("pyverbs.enums")
        except ImportError:
            return importlib.import_module("pyverbs.libibverbs_enums")


def _event_files() -> Set[int]:
    """Return the descriptors of this process that deliver verbs events."""
    found = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            if "infinibandevent" in os.readlink(f"/proc/self/fd/{number}"):
                found.add(int(number))
        except OSError:  # the descriptor of the listing itself
            continue
    return found


verbs: Optional[PyVerbs] = None
missing: Optional[str] = None


def load() -> Optional[PyVerbs]:
    """Import pyverbs once, or record the reason that it fails."""
    global verbs, missing
    if verbs is None and missing is None:
        try:
            verbs = PyVerbs()
        except (ImportError, AttributeError, OSError) as error:
            missing = f"{type(error).__name__}: {error}"
    return verbs


def version() -> Optional[str]:
    """Return the version of pyverbs, None without metadata (Debian)."""
    try:
        from importlib.metadata import PackageNotFoundError, version as metadata_version

        try:
            return metadata_version("pyverbs")
        except PackageNotFoundError:
            return None
    except ImportError:
        return None


# enum ibv_wc_status by number, as ibv_wc_status_str() writes it.
WC_STATUS = (
    "success",
    "local length error",
    "local QP operation error",
    "local EE context operation error",
    "local protection error",
    "Work Request Flushed Error",
    "memory management operation error",
    "bad response error",
    "local access error",
    "remote invalid request error",
    "remote access error",
    "remote operation error",
    "transport retry counter exceeded",
    "RNR retry exceeded",
    "local RDD violation error",
    "remote invalid RD request",
    "aborted error",
    "invalid EE context number",
    "invalid EE context state",
    "fatal error",
    "response timeout error",
    "general error",
)
WC_FLUSHED = 5
