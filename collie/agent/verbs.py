"""The one place that imports pyverbs: its names, whatever the version, or the reason they are missing.

The code runs on pyverbs 44 (``pyverbs.enums``) and newer ones (``pyverbs.libibverbs_enums``). pyverbs has no type
stubs: everything it gives is ``Any`` here and stays inside this package.
"""

from __future__ import annotations

import importlib
from typing import Any, Optional

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
    """pyverbs' classes as attributes, and its enumerations as ``e``."""

    def __init__(self) -> None:
        self.e: Any = self._enums()
        for name, module in NAMES.items():
            setattr(self, name, getattr(importlib.import_module(f"pyverbs.{module}"), name))

    def __getattr__(self, name: str) -> Any:  # only for the type checker: every name is set above
        raise AttributeError(name)

    @staticmethod
    def _enums() -> Any:
        try:
            return importlib.import_module("pyverbs.enums")
        except ImportError:
            return importlib.import_module("pyverbs.libibverbs_enums")


verbs: Optional[Verbs] = None
missing: Optional[str] = None


def load() -> Optional[Verbs]:
    """Import pyverbs once, and remember why where it cannot be had.

    The resident agent calls this before it forks, as the import takes a second on an emulated CPU.
    """
    global verbs, missing
    if verbs is None and missing is None:
        try:
            verbs = Verbs()
        except (ImportError, AttributeError, OSError) as error:
            missing = f"{type(error).__name__}: {error}"
    return verbs


def version() -> Optional[str]:
    """Return the version of the distribution's pyverbs, null where it does not say (Debian's has no metadata)."""
    try:
        from importlib.metadata import PackageNotFoundError
        from importlib.metadata import version as metadata_version

        try:
            return metadata_version("pyverbs")
        except PackageNotFoundError:
            return None
    except ImportError:
        return None


# enum ibv_wc_status, by number, in the words of ibv_wc_status_str().
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
