"""The one funnel through which every probe of an extraction goes: validity, memory, repetition, budget."""

from __future__ import annotations

from collections.abc import Callable, Generator

from collie.detect.symptom import Symptom, Verdict
from collie.search.recipe import Extraction
from collie.workloads.space import Space
from collie.workloads.workload import Workload

Ask = Generator[Workload, Verdict | None, bool]
"""Yields workloads; receives a verdict, or None when the workload cannot be run; returns whether the probe shows."""

_MOST_VOID = 3
"""A probe that says nothing is asked again this often before it counts as "does not show"."""


class Prober:
    """Asks for verdicts on probes, as often as a decision takes, and remembers them.

    Args:
        symptom: what has to show.
        space: its constraints rule probes out.
        policy: how many runs decide, and how many there may be.
        known: whether an anomaly found before covers a workload; such a probe is not asked.

    Attributes:
        exhausted: the most runs were used up; probes since then were not asked.
    """

    def __init__(self, symptom: Symptom, space: Space, policy: Extraction, known: Callable[[Workload], bool]) -> None:
        self._symptom = symptom
        self._elsewhere = known
        self._space = space
        self._policy = policy
        self._votes: dict[Workload, dict[bool, int]] = {}
        self._silent: set[Workload] = set()
        self._runs = 0
        self.exhausted = False

    def possible(self, probe: Workload) -> bool:
        """Whether a probe may be run and would tell something about this anomaly."""
        return self._space.allows(probe) and not self._elsewhere(probe)

    def shows(self, probe: Workload) -> Ask:
        """Whether a probe shows the anomaly; False when it cannot be run or says nothing.

        One run that shows is enough: a disturbance hardly ever takes the shape of the symptom, while an anomaly that
        shows in most runs does not show in all.
        """
        return (yield from self._decide(probe, 1))

    def surely_shows(self, probe: Workload) -> Ask:
        """Whether a probe shows so often that the finding may be moved there."""
        return (yield from self._decide(probe, self._policy.accepting))

    def refuted(self, probe: Workload) -> bool:
        """Whether a probe ran and did not show: only that proves a condition."""
        return self._votes.get(probe, {}).get(False, 0) >= self._policy.agreeing

    def _decide(self, probe: Workload, needed: int) -> Ask:
        if probe in self._silent or not self.possible(probe):
            return False
        votes = self._votes.setdefault(probe, {True: 0, False: 0})
        void = 0
        while votes[True] < needed and votes[False] < self._policy.agreeing:
            if self._runs >= self._policy.most_runs:
                self.exhausted = True
                return False
            self._runs += 1
            verdict = yield probe
            void += verdict is None or verdict.is_inconclusive
            if verdict is None or void >= _MOST_VOID:
                self._silent.add(probe)
                return False
            if not verdict.is_inconclusive:
                votes[self._symptom.is_kin(verdict.symptom)] += 1
        return votes[True] >= needed
