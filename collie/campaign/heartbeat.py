"""The sign of life of a process that runs a campaign. The record does not need it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from collie.campaign.progress import CampaignProgress

PERIOD_SECONDS = 3.0


class ProcessState(StrEnum):
    """What a process says of its campaign."""

    RUNNING = "running"
    ENDED = "ended"
    INTERRUPTED = "interrupted"
    """By the operator. It can be resumed."""
    FAILED = "failed"
    """An error ended it. It can be resumed."""


@dataclass(frozen=True)
class Heartbeat:
    """The last words of a process.

    Attributes:
        state: what it was doing.
        machine, pid: where it runs.
        began, updated: RFC 3339, UTC: when the process began with the campaign, and when it said this.
        standing: how the campaign stood.
        ended_by: what ended it, `budget` or another, None while it runs or if nothing did.
        error: what went wrong, if it failed.
    """

    state: ProcessState
    machine: str
    pid: int
    began: str
    updated: str
    standing: CampaignProgress = field(default_factory=CampaignProgress)
    ended_by: str | None = None
    error: str | None = None

    @property
    def updated_at(self) -> datetime:
        """When the process said this.

        Raises:
            ValueError: `updated` is no time of day with its offset from UTC.
        """
        moment = datetime.fromisoformat(self.updated)
        if moment.tzinfo is None:
            raise ValueError(f"{self.updated!s:.40} says nothing of its time zone")
        return moment
