"""Verbs as the engine uses them. Only this module imports pyverbs (44 and newer), which has no type stubs."""

from __future__ import annotations

import importlib
import os
from typing import Any, Optional, Set, Tuple

# Classes by module of pyverbs.
CLASSES = {
    "addr": ("AH", "AHAttr", "GID", "GlobalRoute"),
    "cq": ("CQ", "CompChannel"),
    "device": ("Context",),
    "mr": ("MR",),
    "pd": ("PD",),
    "pyverbs_error": ("PyverbsError",),
    "qp": ("QP", "QPAttr", "QPCap", "QPInitAttr"),
    "srq": ("SRQ", "SrqAttr", "SrqInitAttr"),
    "wr": ("RecvWR", "SGE", "SendWR"),
}


class Verbs:
    """Verbs under pyverbs' names: ``CLASSES`` as attributes, enumerations as ``e``.

    ``open_channel`` returns a completion channel and its descriptor.
    """

    def __getattr__(self, name: str) -> Any:  # for the type checker only
        raise AttributeError(name)

    def clock(self, _context: Any) -> Any:
        """Return the clock with which a device stamps completions of ``stamped_cq``, None if there is none."""
        return None


class PyVerbs(Verbs):
    """Verbs of pyverbs."""

    def __init__(self) -> None:
        self.e = self._enums()
        for module, names in CLASSES.items():
            loaded = importlib.import_module(f"pyverbs.{module}")
            vars(self).update({name: getattr(loaded, name) for name in names})

    def open_channel(self, context: Any) -> Tuple[Any, int]:
        """Return a completion channel and its descriptor, which pyverbs hides."""
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
    found = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            if "infinibandevent" in os.readlink(f"/proc/self/fd/{number}"):
                found.add(int(number))
        except OSError:  # the descriptor that `listdir` used, closed since
            continue
    return found


def version() -> Optional[str]:
    """Return the version of pyverbs, None without metadata (Debian)."""
    from importlib import metadata

    try:
        return metadata.version("pyverbs")
    except metadata.PackageNotFoundError:
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
