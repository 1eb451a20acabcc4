"""The samples of a run on the controller's clock. Pure.

A host's clock is shifted by the smallest (arrival - clock) of its samples, which the fastest sample has.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from collie.readings.samples import AgentSample

Timeline = Sequence[tuple[float, AgentSample]]
"""Samples of one host with their seconds since traffic began."""

SAME_MOMENT_SECONDS = 0.005
"""Travel time of a message. It limits how finely clocks of hosts can be compared."""


@dataclass(frozen=True, slots=True)
class Recording:
    """The samples of one run by role, in order of time.

    Attributes:
        began: the controller's clock when all hosts had started.
        machines: hosts by role. Empty where each role has a separate host.
    """

    samples: Mapping[str, Sequence[AgentSample]]
    began: float
    machines: Mapping[str, str] = field(default_factory=dict)

    def timeline(self, role: str) -> Timeline:
        """Return the timeline of one role."""
        samples = self.samples[role]
        offset = min((sample.arrived - sample.clock for sample in samples), default=0.0)
        return [(sample.clock + offset - self.began, sample) for sample in samples]

    def timelines(self) -> dict[str, Timeline]:
        """Return all timelines, by role."""
        return {role: self.timeline(role) for role in self.samples}

    @property
    def end(self) -> float:
        """Seconds since traffic began up to which every host has sent samples."""
        return min((samples[-1][0] if (samples := self.timeline(role)) else -math.inf) for role in self.samples)


def samples_of(timeline: Timeline) -> list[AgentSample]:
    """Return the samples of a timeline without their times."""
    return [sample for _, sample in timeline]


def between(timelines: Mapping[str, Timeline], begin: float, end: float) -> dict[str, Timeline]:
    """Return the samples of a window, by role."""
    return {
        role: [entry for entry in samples if begin <= entry[0] <= end + SAME_MOMENT_SECONDS]
        for role, samples in timelines.items()
    }
