"""The samples of a run on one clock. Pure.

A host's offset places its samples on the controller's clock: the minimum of (arrival - clock), from the fastest sample.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from collie.readings.samples import AgentSample

Placed = Sequence[tuple[float, AgentSample]]
"""Samples of one host with their seconds since traffic began."""

SAME_MOMENT_SECONDS = 0.005
"""Hosts' clocks are compared to within the travel time of a message."""


@dataclass(frozen=True, slots=True)
class Recording:
    """The samples of one run.

    Attributes:
        samples: by role, in order of time.
        began: the controller's clock when all hosts had started.
        machines: host of each role, several devices having a role each. Empty where each role has its own.
    """

    samples: Mapping[str, Sequence[AgentSample]]
    began: float
    machines: Mapping[str, str] = field(default_factory=dict)

    def placed(self, role: str) -> Placed:
        """Return a host's timeline."""
        samples = self.samples[role]
        offset = min((sample.arrived - sample.clock for sample in samples), default=0.0)
        return [(sample.clock + offset - self.began, sample) for sample in samples]

    def all_placed(self) -> dict[str, Placed]:
        """Return the timelines of all hosts, by role."""
        return {role: self.placed(role) for role in self.samples}

    @property
    def end(self) -> float:
        """Seconds since traffic began up to which every host has sent samples."""
        return min((samples[-1][0] if (samples := self.placed(role)) else -math.inf) for role in self.samples)


def between(placed: Mapping[str, Placed], begin: float, end: float) -> dict[str, Placed]:
    """Return the samples of a window, by role."""
    return {
        role: [entry for entry in samples if begin <= entry[0] <= end + SAME_MOMENT_SECONDS]
        for role, samples in placed.items()
    }
