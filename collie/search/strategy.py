"""Strategies propose workloads and hear what came of them. They never run anything.

A strategy is deterministic: with one seed and the same answers it asks the same workloads, which is what lets a killed
campaign be resumed by telling it again what is on record.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from collie.detect.measurement import Measurement
from collie.workloads.workload import Workload


class ProposalOutcome(StrEnum):
    """What became of a proposal."""

    MEASURED = "measured"
    SKIPPED = "skipped"
    """A known anomaly covers it."""
    FAILED = "failed"
    """Its traffic could not be set up: neither good nor bad."""
    UNSUPPORTED = "unsupported"
    """The device cannot run it; proposing it again is pointless."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a strategy hears of its proposal.

    Attributes:
        fate: what became of it.
        measurement: with `measured` only.
        found: it was confirmed as an anomaly.
    """

    fate: ProposalOutcome
    measurement: Measurement | None = None
    found: bool = False


class Strategy(Protocol):
    """Who proposes workloads."""

    @property
    def driven(self) -> str | None:
        """The counter that the next proposal is meant to drive, if any."""
        ...

    @property
    def temperature(self) -> float | None:
        """How readily the strategy accepts what is worse, falling from 1; None when it knows no temperature."""
        ...

    def ask(self) -> Workload:
        """Propose a workload of the space."""
        ...

    def tell(self, workload: Workload, answer: Answer) -> None:
        """Hear what became of the last proposal."""
        ...
