"""The protocol of strategies. A strategy proposes workloads and receives answers, and never runs anything.

A strategy is deterministic: the same seed and answers give the same proposals. A killed campaign resumes by replaying
the recorded answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from collie.detect.measurement import Measurement
from collie.workloads.setup import SetUp
from collie.workloads.workload import Workload


class ProposalOutcome(StrEnum):
    """The outcome of a proposal."""

    MEASURED = "measured"
    SKIPPED = "skipped"
    """A known anomaly covers the proposal."""
    FAILED = "failed"
    """The traffic could not be set up."""
    UNSUPPORTED = "unsupported"
    """The device cannot run the proposal. Another attempt is pointless."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a proposal. Only `MEASURED` has a `measurement`. `found` marks a confirmed anomaly."""

    outcome: ProposalOutcome
    measurement: Measurement | None = None
    found: bool = False


class Strategy(Protocol):
    """Proposes workloads."""

    @property
    def driven(self) -> str | None:
        """The counter that the last proposal is meant to drive, if any."""
        ...

    @property
    def temperature(self) -> float | None:
        """The falling temperature, which scales the chance to accept a worse point, or None."""
        ...

    def ask(self, on: SetUp | None = None) -> Workload:
        """Propose a workload of the space. One that fits the set-up that stands costs little."""
        ...

    def tell(self, workload: Workload, answer: Answer) -> None:
        """Receive the answer to a proposal."""
        ...
