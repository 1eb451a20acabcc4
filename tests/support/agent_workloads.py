"""Workloads as the agent reads them."""

from __future__ import annotations

from typing import Any

from collie.agent.workload import Workload, parse_workload


def workload(**fields: Any) -> Workload:
    """Return RC WRITE of 4 KiB, but for the given fields."""
    return parse_workload({"qp_type": "RC", "opcode": "WRITE", "messages": [4096], **fields})
