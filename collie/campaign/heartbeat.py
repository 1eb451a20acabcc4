"""The sign of life of a process that runs a campaign."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from collie.campaign.progress import CampaignProgress

PERIOD_SECONDS = 3.0


class ProcessState(StrEnum):
    """State of a campaign in its process. An interrupted or failed one can be resumed."""

    RUNNING = "running"
    ENDED = "ended"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


@dataclass(frozen=True)
class Heartbeat:
    """A sign of life of a process. Times are RFC 3339, UTC: begin of the process, and this sign.

    `ended_by` is `budget` or another reason of the end, `error` the message of a failure.
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
        """Time of this sign.

        Raises:
            ValueError: `updated` is no time of day with its offset from UTC.
        """
        moment = datetime.fromisoformat(self.updated)
        if moment.tzinfo is None:
            raise ValueError(f"{self.updated!s:.40} says nothing of its time zone")
        return moment
