"""Errors of the protocol."""

from __future__ import annotations

import errno as errno_module
import os
from typing import Any, Dict, Optional

UNSUPPORTED_ERRNOS = frozenset({errno_module.EOPNOTSUPP, errno_module.ENOSYS, errno_module.EPROTONOSUPPORT})


class AgentFault(Exception):
    """A failed step: kind, step, message and errno."""

    def __init__(self, kind: str, step: str, message: str, errno: Optional[int] = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.step = step
        self.message = message
        self.errno = errno
        self.request_id: Optional[int] = None  # the id in a refused line

    def to_json(self) -> Dict[str, Any]:
        """Return the ``error`` object of a reply."""
        name = errno_module.errorcode.get(self.errno) if self.errno is not None else None
        return {"kind": self.kind, "step": self.step, "message": self.message, "errno": self.errno, "errno_name": name}

    @classmethod
    def from_json(cls, error: Dict[str, Any]) -> AgentFault:
        """Rebuild an engine's fault."""
        return cls(error["kind"], error["step"], error["message"], error["errno"])


def bad_request(message: str) -> AgentFault:
    """Build the fault of a request that cannot be carried out."""
    return AgentFault("bad_request", "request", message)


def from_errno(step: str, errno: int, detail: str) -> AgentFault:
    """Build the fault of a failed verb, ``unsupported`` or ``setup``."""
    kind = "unsupported" if errno in UNSUPPORTED_ERRNOS else "setup"
    return AgentFault(kind, step, f"{step}: {os.strerror(errno)} ({detail})", errno)
