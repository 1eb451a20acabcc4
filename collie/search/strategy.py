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

    def ask(self) -> Workload:
        """Propose a workload of the space."""
        ...

    def ask_on(self, set_up: SetUp) -> Workload | None:
        """Propose a workload while a set-up stands, or None to end it. What fits the set-up costs little."""
        ...

    def tell(self, workload: Workload, answer: Answer) -> None:
        """Receive the answer to a proposal."""
        ...
