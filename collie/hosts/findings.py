"""Findings of a check of hosts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class CheckState(StrEnum):
    """State of a checked item."""

    OK = "ok"
    MISSING = "missing"
    """The host cannot measure without this item."""
    ADVICE = "advice"
    """The host can measure, with limits."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One checked item of one host. The repair `command` runs on the host unless its text names another place."""

    host: str
    item: str
    state: CheckState
    detail: str
    command: str = ""
