"""What the runs so far say about one anomaly."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from collie.detect.signature import Signature, likeness
from collie.detect.symptom import Symptom, Verdict
from collie.search.candidates import Candidate
from collie.search.hypotheses import Hypotheses
from collie.search.limits import CandidateLimits
from collie.search.plainness import Plainness
from collie.search.recipe import Extraction
from collie.workloads.feature import Mfs
from collie.workloads.space import Space
from collie.workloads.workload import Workload

Floats = NDArray[np.float64]

_UNLIKE, _ALIKE = 0.4, 0.95
"""Likeness of counters at which an anomalous run begins to speak for the same cause, and at which it does so fully."""
_BY_CHANCE = 0.6
"""Weight of an anomalous run that the search met: more than one cause may be at work there."""
_SURELY = 0.75
"""Weight from which on a run is taken to show."""
_HIDDEN = 0.3
"""Weight below which an anomalous run is taken to hide whether this anomaly would show."""
_SURE_MARGIN = 2.0
"""Times its threshold from where on one run is enough for a finding to be moved there."""
_MAX_HEALTHY = 200
"""Healthy runs of the campaign that are used, those of the same transport and the latest first."""
_EVERYTHING = 3
"""Workloads that have to show before it is said that all do."""
_NEARNESS = 3.0
"""What was met the whole length of a dimension away counts e^-3 of what was met right here."""
_OPEN_UNLESS_MET = 0.1


def weigh(verdict: Verdict, symptom: Symptom, cause: Signature | None) -> float:
    """Return what a run says about an anomaly.

    Args:
        verdict: of the run.
        symptom: of the anomaly.
        cause: the counters that stood out where it was found.

    Returns:
        1 for a run that shows it, -1 for a healthy one; between 0 and 1 the less the more other counters stand out; 0
        for one that says nothing.
    """
    if verdict.is_inconclusive:
        return 0.0
    if verdict.is_normal:
        return -1.0
    if not symptom.is_related(verdict.symptom):
        # A host that pauses is not judged by its throughput. So one judged by that did not pause; the other way round
        # nothing is known.
        absent = verdict.symptom is not None and symptom.is_looked_for_before(verdict.symptom)
        return -1.0 if absent else 0.0
    like = likeness(cause, verdict.signature)
    return max(0.0, min(1.0, (like - _UNLIKE) / (_ALIKE - _UNLIKE)))


@dataclass(slots=True)
class _Votes:
    """Verdicts on one workload since the extraction began.

    Attributes:
        asked: runs.
        shows, healthy: those of them that showed, and that were healthy.
        margin: the furthest beyond its threshold that one of them was.
    """

    asked: int = 0
    shows: int = 0
    healthy: int = 0
    margin: float = 0.0


class Evidence:
    """What is known about one finding, run by run.

    Args:
        finding: anomalous, and confirmed to be.
        symptom: how it shows.
        space: gives plain values.
        known: whether an anomaly found before covers a workload.
        measured: every verdict of the campaign, the finding's own among them.

    Attributes:
        limits: what an explanation of the finding may require.
    """

    def __init__(
        self,
        finding: Workload,
        symptom: Symptom,
        space: Space,
        known: Callable[[Workload], bool],
        measured: Iterable[tuple[Workload, Verdict]],
    ) -> None:
        self.limits = CandidateLimits(space, finding)
        self._finding = finding
        self._symptom = symptom
        self._plainness = Plainness(space)
        self._votes = {finding: _Votes(shows=1, margin=_SURE_MARGIN)}
        self._observed_weights: dict[Workload, float] = {}
        self._silent: set[Workload] = set()
        self._places = [self._plainness.place(finding)]
        self._hides = [False]
        own = [verdict.signature for workload, verdict in measured if workload == finding and verdict.is_anomalous]
        self._cause = next((signature for signature in own if signature and signature.raised), None)
        self._look_back([(w, v) for w, v in measured if w != finding and not known(w)])

    def _look_back(self, measured: list[tuple[Workload, Verdict]]) -> None:
        finding = self._finding
        healthy = [workload for workload, verdict in reversed(measured) if verdict.is_normal]
        healthy.sort(key=lambda w: (w.qp_type is not finding.qp_type) + (w.opcode is not finding.opcode))
        for workload in healthy[:_MAX_HEALTHY]:
            self._observed_weights[workload] = -1.0
            self._note(workload, hides=False)
        for workload, verdict in measured:
            if verdict.is_anomalous:
                weight = _BY_CHANCE * weigh(verdict, self._symptom, self._cause)
                self._note(workload, hides=weight < _HIDDEN)
                if weight > 0:
                    self._observed_weights[workload] = weight

    def hypotheses(self, policy: Extraction, seed: int) -> Hypotheses:
        """Return which explanations are possible before the first probe."""
        points = np.array([self.limits.coordinates(workload) for workload in (self._finding, *self._observed_weights)])
        weights = np.array([1.0, *self._observed_weights.values()])
        return Hypotheses(
            self.limits.limits, policy.false_negative_rate, policy.false_positive_rate, seed, points, weights
        )

    def add(self, workload: Workload, verdict: Verdict | None) -> float:
        """Take in the verdict on a probe, None when it could not be run; return its weight."""
        weight = 0.0 if verdict is None else weigh(verdict, self._symptom, self._cause)
        votes = self._votes.setdefault(workload, _Votes())
        votes.asked += 1
        if verdict is not None and weight >= _SURELY:
            votes.shows += 1
            votes.margin = max(votes.margin, verdict.margin)
        votes.healthy += weight == -1.0
        if weight == 0:
            self._silent.add(workload)
        self._note(workload, hides=abs(weight) < _HIDDEN)
        return weight

    def may_ask(self, workload: Workload, policy: Extraction) -> bool:
        """Whether running a workload once more may tell something."""
        if workload in self._silent or workload in self._observed_weights:
            return False
        votes = self._votes.get(workload)
        return votes is None or votes.asked < policy.repeats

    def chance_hidden(self, candidates: list[Candidate]) -> Floats:
        """Return for each candidate the chance that another anomaly hides the answer, by what was met nearby."""
        observed = np.array(self._places)
        # One by one, as all differences at once do not fit the caches.
        distances = np.array([np.abs(observed - candidate.place).sum(axis=1) for candidate in candidates])
        near = np.exp(-_NEARNESS * distances)
        return np.asarray((near @ np.array(self._hides)) / (near.sum(axis=1) + _OPEN_UNLESS_MET))

    def simplest(self, mfs: Mfs | None = None) -> Workload:
        """Return the plainest workload that shows oftener than not; of those inside a set, if there are any."""
        reproduced = [workload for workload, votes in self._votes.items() if votes.shows > votes.healthy]
        inside = [workload for workload in reproduced if mfs is not None and mfs.covers(workload)]
        return min(inside or reproduced or [self._finding], key=self._plainness.complexity)

    def is_sure(self, workload: Workload, accepting: int) -> bool:
        """Whether a workload showed so clearly, or so often, that the finding may be moved there."""
        votes = self._votes[workload]
        return votes.margin >= _SURE_MARGIN or votes.shows >= accepting

    @property
    def reproduced(self) -> list[Workload]:
        """Return every workload that shows, in the search or since."""
        observed = [workload for workload, weight in self._observed_weights.items() if weight >= _BY_CHANCE * _SURELY]
        return observed + [workload for workload, votes in self._votes.items() if votes.shows > votes.healthy]

    @property
    def everything_shows(self) -> bool:
        """Whether several workloads show and none was ever healthy."""
        healthy = any(votes.healthy for votes in self._votes.values()) or any(
            w < 0 for w in self._observed_weights.values()
        )
        return not healthy and sum(votes.shows > 0 for votes in self._votes.values()) >= _EVERYTHING

    def trials(self, mfs: Mfs) -> tuple[int, int]:
        """Return how many runs inside a set showed, and how many there were; hidden ones are left out."""
        inside = [votes for workload, votes in self._votes.items() if mfs.covers(workload)]
        observed = [weight for workload, weight in self._observed_weights.items() if mfs.covers(workload)]
        passed = sum(votes.shows for votes in inside) + sum(weight >= _BY_CHANCE * _SURELY for weight in observed)
        return passed, passed + sum(votes.healthy for votes in inside) + sum(weight < 0 for weight in observed)

    def _note(self, workload: Workload, *, hides: bool) -> None:
        self._places.append(self._plainness.place(workload))
        self._hides.append(hides)
