"""The one funnel through which every probe of an extraction goes: validity, memory, repetition, cause, budget."""

from __future__ import annotations

from collections.abc import Callable, Generator

from collie.detect.signature import Signature, alike
from collie.detect.symptom import Symptom, Verdict
from collie.search.recipe import Extraction
from collie.workloads.feature import Condition
from collie.workloads.space import Space
from collie.workloads.workload import Workload

Ask = Generator[Workload, Verdict | None, bool]
"""Yields workloads; receives a verdict, or None when the workload cannot be run; returns whether the probe shows."""

Conditions = Generator[Workload, Verdict | None, list[Condition]]
"""Yields and receives the same; returns conditions."""

_SURE_MARGIN = 5.0
"""Times its threshold from where on a reading owes nothing to a disturbance."""
_SURE_VOTES = 100
"""Such a reading decides by itself."""
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
        runs: verdicts asked for.
        plain_refuted: dimensions that could not be made plain.
        exhausted: the most runs were used up; probes since then were not asked.
        shown: probes that show, in the order in which they did.
        healthy: probes that are healthy, in the order in which they turned out so.
    """

    def __init__(self, symptom: Symptom, space: Space, policy: Extraction, known: Callable[[Workload], bool]) -> None:
        self._symptom = symptom
        self._elsewhere = known
        self._space = space
        self._policy = policy
        self._votes: dict[Workload, dict[bool, int]] = {}
        self._signatures: dict[Workload, Signature | None] = {}
        self._foreign: set[Workload] = set()
        self._silent: set[Workload] = set()
        self._cause: Signature | None = None
        self.runs = 0
        self.plain_refuted: set[str] = set()
        self.exhausted = False
        self.shown: list[Workload] = []
        self.healthy: list[Workload] = []

    def possible(self, probe: Workload) -> bool:
        """Whether a probe may be run and would tell something about this anomaly."""
        return self._space.allows(probe) and not self._elsewhere(probe)

    def shows(self, probe: Workload) -> Ask:
        """Whether a probe shows the anomaly; False when it cannot be run or says nothing.

        One run that shows is enough: a disturbance hardly ever takes the shape of the symptom, while an anomaly that
        shows in most runs does not show in all.
        """
        return (yield from self._decide(probe, 1))

    def surely_shows(self, probe: Workload, needed: int) -> Ask:
        """Whether a probe shows so often that the finding may be moved there."""
        return (yield from self._decide(probe, needed))

    def refuted(self, probe: Workload) -> bool:
        """Whether a probe ran and did not show: only that proves a condition."""
        return self._votes.get(probe, {}).get(False, 0) >= self._policy.agreeing

    def is_healthy(self, probe: Workload) -> bool:
        """Whether a probe ran and showed nothing at all, not even another anomaly."""
        return self.refuted(probe) and probe not in self._foreign

    def is_foreign(self, probe: Workload) -> bool:
        """Whether a probe showed another anomaly than this one."""
        return probe in self._foreign

    def passes_into(self, shown: Workload, beside: Workload) -> bool:
        """Whether a probe that seems to show another anomaly is like one beside it that shows this one.

        What stands out may change gradually along a dimension: packets of another size wait elsewhere.
        """
        return self.is_foreign(beside) and alike(self._signatures.get(shown), self._signatures.get(beside))

    def settle(self, shown: Workload) -> None:
        """From now on a probe shows when its counters move like those of this workload."""
        signature = self._signatures.get(shown)
        if signature and signature.raised:
            self._cause = signature

    def _decide(self, probe: Workload, needed: int) -> Ask:
        if probe in self._silent or not self.possible(probe):
            return False
        votes = self._votes.setdefault(probe, {True: 0, False: 0})
        void = 0
        while votes[True] < needed and votes[False] < self._policy.agreeing:
            if self.runs >= self._policy.most_runs:
                self.exhausted = True
                return False
            self.runs += 1
            verdict = yield probe
            void += verdict is None or verdict.is_inconclusive
            if verdict is None or void >= _MOST_VOID:
                self._silent.add(probe)
                return False
            if not verdict.is_inconclusive:
                self._count(probe, verdict, votes)
        return votes[True] >= needed

    def _count(self, probe: Workload, verdict: Verdict, votes: dict[bool, int]) -> None:
        shows = self._symptom.is_kin(verdict.symptom) and alike(self._cause, verdict.signature)
        votes[shows] += _SURE_VOTES if shows and verdict.margin >= _SURE_MARGIN else 1
        if verdict.is_anomalous:
            self._signatures[probe] = verdict.signature
        if shows:
            self.shown.append(probe)
        elif verdict.is_anomalous:
            self._foreign.add(probe)
        else:
            self.healthy.append(probe)
