"""A strategy that proposes what a test wants."""

from __future__ import annotations

from dataclasses import dataclass, field

from collie.search.strategy import Answer
from collie.workloads.setup import SetUp
from collie.workloads.workload import Workload
from tests.support.planted import SPACE


@dataclass
class Scripted:
    """Proposes the given workloads, and then plain traffic on set-ups of its own."""

    proposals: list[Workload]
    driven: str | None = None
    temperature: float | None = None
    told: list[Workload] = field(default_factory=list)

    def ask(self) -> Workload:
        """Propose the next workload."""
        return self.proposals.pop(0) if self.proposals else SPACE.base

    def ask_on(self, _set_up: SetUp) -> Workload | None:
        """Propose the next workload, whether it fits or not."""
        return self.proposals.pop(0) if self.proposals else None

    def tell(self, workload: Workload, _answer: Answer) -> None:
        """Keep what was answered."""
        self.told.append(workload)
