"""What a look at hosts has found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class CheckState(StrEnum):
    """How a finding stands."""

    OK = "ok"
    MISSING = "missing"
    """Without it this host cannot measure."""
    ADVICE = "advice"
    """It can, but less, or less well."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at on one host.

    Attributes:
        host: its name.
        item: what was looked at, in a word or two.
        state: ok, missing, advice.
        detail: what was found.
        command: what mends it, to be typed on the host unless it says otherwise; empty when nothing is to be mended.
    """

    host: str
    item: str
    state: CheckState
    detail: str
    command: str = ""
