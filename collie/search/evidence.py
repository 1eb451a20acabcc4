"""The evidence of all runs on one anomaly."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from collie.detect.noise import Noise, ShowRate, show_rate
from collie.detect.signature import Signature, contained, likeness
from collie.detect.symptom import BARELY_LATE, Symptom, Verdict
from collie.search.candidates import Candidate
from collie.search.hypotheses import Hypotheses
from collie.search.limits import CandidateLimits
from collie.search.plainness import Plainness
from collie.workloads.feature import Mfs
from collie.workloads.space import Space
from collie.workloads.workload import Workload

Floats = NDArray[np.float64]

_UNLIKE, _ALIKE = 0.4, 0.8
"""Likeness of counters at which an anomalous run begins to count for the same cause, and counts in full."""
_AS_SEVERE = 0.8
_SURELY = 0.75
"""Minimum weight of a reproducing run."""
_HIDDEN, _HIDDEN_IN_SEARCH = 0.3, 0.5
"""Weights below which an anomalous run hides this anomaly. In the search, several causes often act at once."""
_SURE_MARGIN = 2.0
"""Multiple of the threshold at which one run is enough to move the finding."""
_BARE_MARGIN = 1.1
"""Multiple of the threshold that noise can add to a healthy workload."""
_MAX_HEALTHY = 200
"""Healthy runs used: the same transport first, then the latest."""
_EVERYTHING = 3
"""Workloads that must reproduce the anomaly before the result is "any workload"."""
_NEARNESS = 3.0
"""Evidence at the far end of a dimension counts e^-3 of evidence at the same point."""
_OPEN_PRIOR = 0.1


def weigh(verdict: Verdict, symptom: Symptom, cause: Signature | None, severity: float = 1.0) -> float:
    """Return the weight of a run as evidence on an anomaly with a symptom and a cause.

    It is 1 when the run reproduces the anomaly, less when other counters are raised, -1 for a healthy run, and 0
    without information. `severity` is that of the finding.
    """
    if not symptom.is_related(verdict.symptom):
        # Pause is judged before throughput. So a low-throughput run did not pause. A paused run may lack throughput.
        return -1.0 if verdict.is_free_of(symptom) else 0.0
    like = likeness(cause, verdict.signature)
    if verdict.severity >= _AS_SEVERE * severity:
        # As severe without some of the counters: those had nothing to do with the symptom.
        like = max(like, contained(verdict.signature, cause))
    return max(0.0, min(1.0, (like - _UNLIKE) / (_ALIKE - _UNLIKE)))


@dataclass(slots=True)
class _Votes:
    """Verdicts on one workload since the extraction began.

    Attributes:
        margin: the largest margin of the reproducing runs.
        has_symptom: whether one of them showed the symptom of the finding, not only a related one.
    """

    asked: int = 0
    shows: int = 0
    healthy: int = 0
    margin: float = 0.0
    has_symptom: bool = False


class Evidence:
    """The evidence on one finding, updated run by run.

    `known` tells whether an earlier anomaly covers a workload. `measured` holds every verdict of the campaign. Of the
    runs before the extraction only the healthy ones are evidence: an anomalous one can have any cause. `foreseen` is
    the set of the anomaly on another testbed, where it is known.
    """

    def __init__(
        self,
        finding: Workload,
        symptom: Symptom,
        space: Space,
        known: Callable[[Workload], bool],
        measured: Iterable[tuple[Workload, Verdict]],
        noise: Noise,
        foreseen: Mfs | None = None,
    ) -> None:
        self.limits = CandidateLimits(space, finding, foreseen)
        self.finding = finding
        self._noise = noise
        self._symptom = symptom
        self._bare_margin = BARELY_LATE if symptom.is_of_latency else _BARE_MARGIN
        self._plainness = Plainness(space)
        self._complexity = cache(self._plainness.complexity)
        self._votes = {finding: _Votes(shows=1, margin=_SURE_MARGIN, has_symptom=True)}
        self._show_rate: ShowRate | None = None
        self._healthy: dict[Workload, None] = {}
        self._silent: set[Workload] = set()
        self._places = [self._plainness.place(finding)]
        self._hides = [False]
        measured = list(measured)
        own = [verdict for workload, verdict in measured if workload == finding]
        signatures = (verdict.signature for verdict in own if verdict.is_anomalous)
        self._cause = next((signature for signature in signatures if signature and signature.raised), None)
        self._severity = max((verdict.severity for verdict in own if verdict.is_anomalous), default=1.0)
        # The first anomalous run made this workload the finding. Only the others tell how often it shows.
        first = next((index for index, verdict in enumerate(own) if verdict.is_anomalous), 0)
        self._repeated = [
            weigh(verdict, symptom, self._cause, self._severity) for index, verdict in enumerate(own) if index != first
        ]
        for weight in self._repeated:
            self._votes[finding].shows += weight >= _SURELY
            self._votes[finding].healthy += weight == -1.0
        self._add_earlier_runs([(w, v) for w, v in measured if w != finding and not known(w)])

    def _add_earlier_runs(self, measured: list[tuple[Workload, Verdict]]) -> None:
        finding = self.finding
        healthy = [workload for workload, verdict in reversed(measured) if verdict.is_normal]
        healthy.sort(key=lambda w: (w.qp_type is not finding.qp_type) + (w.opcode is not finding.opcode))
        self._healthy = dict.fromkeys(healthy[:_MAX_HEALTHY])
        for workload in healthy[:_MAX_HEALTHY]:
            self._note(workload, hides=False)
        for workload, verdict in measured:
            if verdict.is_anomalous:
                self._note(
                    workload, hides=weigh(verdict, self._symptom, self._cause, self._severity) < _HIDDEN_IN_SEARCH
                )

    def hypotheses(self, seed: int) -> Hypotheses:
        """Return the possible explanations before the first probe."""
        runs = (self.finding, *[self.finding] * len(self._repeated), *self._healthy)
        points = np.array([self.limits.coordinates(workload) for workload in runs])
        weights = np.array([1.0, *self._repeated, *[-1.0] * len(self._healthy)])
        rates = self.show_rate.mean, self._noise.stray_rate
        return Hypotheses(self.limits.limits, *rates, seed, points, weights)

    def add(self, workload: Workload, verdict: Verdict | None) -> float:
        """Add the verdict on a probe (None when it could not run) and return its weight."""
        self._show_rate = None
        weight = 0.0 if verdict is None else weigh(verdict, self._symptom, self._cause, self._severity)
        votes = self._votes.setdefault(workload, _Votes())
        votes.asked += 1
        if verdict is not None and weight >= _SURELY:
            votes.shows += 1
            votes.margin = max(votes.margin, verdict.margin)
            votes.has_symptom = votes.has_symptom or verdict.symptom is self._symptom
            if workload == self.simplest() and verdict.signature and verdict.signature.raised:
                self._cause = verdict.signature  # a simpler workload has fewer other causes
        votes.healthy += weight == -1.0
        if weight == 0:
            self._silent.add(workload)
        self._note(workload, hides=abs(weight) < _HIDDEN)
        return weight

    def may_ask(self, workload: Workload, repeats: int) -> bool:
        """Whether another run of a workload could add evidence, after at most `repeats` runs."""
        if workload in self._silent or (workload in self._healthy and repeats == 1):
            return False
        votes = self._votes.get(workload)
        return votes is None or votes.asked < repeats

    def chance_hidden(self, candidates: list[Candidate]) -> Floats:
        """Return the chance that another anomaly hides each candidate's answer, estimated from the runs nearby."""
        from scipy.spatial.distance import cdist  # a tenth of a second that most commands do not need

        places = np.array([candidate.place for candidate in candidates])
        near = np.exp(-_NEARNESS * cdist(places, np.array(self._places), "cityblock"))
        # Rounded, so that a tie between candidates stays one whatever the order in which this CPU adds.
        return np.asarray(((near @ np.array(self._hides)) / (near.sum(axis=1) + _OPEN_PRIOR)).round(9))

    def simplest(self, mfs: Mfs | None = None, *, with_symptom: bool = False) -> Workload:
        """Return the plainest workload that usually reproduces the anomaly, inside a set if possible.

        What is told of an anomaly has to be true of its workload. `with_symptom` leaves out those that showed only a
        related symptom.
        """
        reproduced = [
            workload
            for workload, votes in self._votes.items()
            if self._reproduces(votes) and (votes.has_symptom or not with_symptom)
        ]
        inside = [workload for workload in reproduced if mfs is not None and mfs.covers(workload)]
        found = inside or reproduced or [self.finding]
        if self._symptom.is_relative:
            # All runs of a workload share the error of its bound, so that repeats do not make a bare margin sure.
            found = [workload for workload in found if self._votes[workload].margin >= self._bare_margin] or found
        return min(found, key=self._complexity)

    def shown(self) -> Floats:
        """Return the coordinates of the workloads that reproduced the anomaly, shape (workloads, limits)."""
        found = dict.fromkeys([self.finding, *(each for each, votes in self._votes.items() if self._reproduces(votes))])
        return np.array([self.limits.coordinates(workload) for workload in found])

    def is_sure(self, workload: Workload, accepting: int) -> bool:
        """Whether a workload reproduced the anomaly clearly or often enough to replace the finding.

        Runs barely beyond the threshold count half, because noise can carry a healthy workload there.
        """
        votes = self._votes[workload]
        needed = accepting if votes.margin >= self._bare_margin else 2 * accepting
        return votes.margin >= _SURE_MARGIN or votes.shows >= needed

    def _reproduces(self, votes: _Votes) -> bool:
        """Whether more runs reproduced than half of the show rate lets expect."""
        return votes.shows > self.show_rate.mean / 2.0 * (votes.shows + votes.healthy)

    @property
    def show_rate(self) -> ShowRate:
        """The show rate, from the workloads that ran several times."""
        if self._show_rate is None:
            repeated = [votes for votes in self._votes.values() if votes.shows]
            shows, healthy = sum(votes.shows - 1 for votes in repeated), sum(votes.healthy for votes in repeated)
            self._show_rate = show_rate(self._noise, shows, healthy)
        return self._show_rate

    @property
    def all_reproduce(self) -> bool:
        """Whether several workloads reproduced the anomaly and none was healthy."""
        healthy = bool(self._healthy) or any(votes.healthy for votes in self._votes.values())
        return not healthy and sum(votes.shows > 0 for votes in self._votes.values()) >= _EVERYTHING

    def trials(self, mfs: Mfs) -> tuple[int, int]:
        """Count the reproducing runs inside a set, and all runs there without hidden ones."""
        inside = [votes for workload, votes in self._votes.items() if mfs.covers(workload)]
        passed, healthy = sum(votes.shows for votes in inside), sum(votes.healthy for votes in inside)
        return passed, passed + healthy + sum(map(mfs.covers, self._healthy))

    def _note(self, workload: Workload, *, hides: bool) -> None:
        self._places.append(self._plainness.place(workload))
        self._hides.append(hides)
