"""Extraction of a minimal feature set (MFS) from one anomalous workload (paper section 5.3).

The paper makes one dimension after another plain. That costs a run per dimension and more per threshold, and a
condition that plain traffic meets as well ("no batching") is never found. Here every run, of the search and of the
extraction, is evidence on all conditions at once:

1. *Hypotheses.* Conjunctions that may explain the finding are sampled according to how well they agree with all runs
   so far, and how few conditions they have (`search.hypotheses`).
2. *Ask.* Of some hundred workloads (`search.candidates`) the one is run of which the hypotheses disagree most whether
   it shows: at one half, either answer rules out half of them. Of equals the plainest is run, so that the finding
   becomes simpler on the way.
3. *Stop* when hardly any workload is left whose answer is open. The likeliest conjunction is the MFS.

So simplifying, bisecting thresholds, telling the smallest message from the largest, and trying random workloads inside
the set are one and the same step: each is taken where it says most.

A run *shows* when it is anomalous with the symptom of the finding or a kin of it, and the same counters stand out
(`search.evidence`). Another anomaly says nothing: it hides whether this one would show. Probes inside known anomalies,
and near what was hidden, are not asked.

Cost: what is unknown, in bits. Some four conditions among forty limits, each with a threshold, are about 25 bits; what
the search has measured pays for some of them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray

from collie.detect.symptom import Symptom, Verdict
from collie.search.anomaly import chance_of_next
from collie.search.candidates import Candidate, Candidates
from collie.search.evidence import Evidence
from collie.search.hypotheses import Hypotheses
from collie.search.recipe import Extraction
from collie.workloads.feature import Mfs
from collie.workloads.space import Space
from collie.workloads.workload import Workload, stable_text

Probes = Generator[Workload, Verdict | None, "Extracted"]
"""Yields workloads; receives a verdict, or None when the workload cannot be run; returns the result."""

Judgements = Callable[[], Iterable[tuple[Workload, Verdict]]]
"""Gives what the campaign has measured by now."""

_OPEN_BITS = 0.45
"""Entropy of an answer below which it is as good as known: a chance of 9 or 91 %."""
_PATIENT_RUNS = 15
_IMPATIENCE = 0.02
"""Bits that an answer has to tell more for each run beyond so many: what is still open then is often no box at all."""
_PER_ODDITY = 0.02
"""Bits that a workload has to tell more for each dimension in which it is further from plain."""
_SIBLING_COST = 0.5
"""Runs that a verdict on throughput takes besides its own, where the plain sibling has not been measured."""


@dataclass(frozen=True, slots=True)
class Extracted:
    """Result of an extraction.

    Attributes:
        mfs: the conditions.
        workload: the simplest workload found; satisfies `mfs`.
        complete: False when the most runs were used up and healthy runs are left that `mfs` covers; and without any
            condition unless everything shows.
        runs: verdicts that were asked for.
        trials: runs inside `mfs`, of the search and of the extraction; those left out that another anomaly hid.
        passed: those of them that showed.
    """

    mfs: Mfs
    workload: Workload
    complete: bool
    runs: int = 0
    trials: int = 0
    passed: int = 0

    @property
    def confidence(self) -> float:
        """Chance that the next workload inside the set shows."""
        return chance_of_next(self.passed, self.trials)


def nothing_measured() -> Iterable[tuple[Workload, Verdict]]:
    """Return no judgements: an extraction outside a campaign."""
    return ()


def costs_nothing_more(_workload: Workload) -> bool:
    """Tell that a verdict takes no run but its own: an extraction outside a campaign."""
    return True


def extract(
    workload: Workload,
    symptom: Symptom,
    space: Space,
    policy: Extraction,
    known: Callable[[Workload], bool],
    measured: Judgements = nothing_measured,
    has_bound: Callable[[Workload], bool] = costs_nothing_more,
) -> Probes:
    """Find the minimal feature set of a confirmed anomaly.

    Args:
        workload: anomalous, and confirmed to be.
        symptom: how it shows.
        space: dimensions, their plain values and constraints.
        policy: how far a run can be trusted, and how many there may be.
        known: whether an anomaly found before covers a workload. Such a probe is not asked: it would show whatever this
            anomaly does.
        measured: what the campaign has measured.
        has_bound: whether a workload can be judged without measuring its plain sibling.
    """
    asked = 0
    before = list(measured())
    if not any(other == workload for other, _ in before):
        asked += 1
        verdict = yield workload  # tells the counters
        before += [(workload, verdict)] if verdict is not None else []
    evidence = Evidence(workload, symptom, space, known, before)
    rng = Random(stable_text(workload))
    hypotheses = evidence.hypotheses(policy, rng.getrandbits(32))
    candidates = Candidates(space, evidence.limits, rng, lambda probe: not known(probe))
    while asked < policy.most_runs:
        around = candidates.around(evidence.simplest(), hypotheses)
        tellable = [candidate for candidate in around if evidence.may_ask(candidate.workload, policy)]
        least = _OPEN_BITS + _IMPATIENCE * max(0, asked - _PATIENT_RUNS)
        probe = _most_telling(tellable, hypotheses, evidence, least, has_bound)
        if probe is None:
            break
        asked += 1
        weight = evidence.add(probe.workload, (yield probe.workload))
        if weight:
            hypotheses.learn(probe.point, weight)
    mfs = Mfs(tuple(evidence.limits.conditions(hypotheses.best(), evidence.reproduced)))
    simplest = evidence.simplest(mfs)
    # One run at least, even where the search has told everything: a resumed campaign knows an explanation by its runs.
    while asked < policy.most_runs and not (asked and evidence.is_sure(simplest, policy.accepting)):
        asked += 1
        evidence.add(simplest, (yield simplest))
        simplest = evidence.simplest(mfs)
    passed, trials = evidence.trials(mfs)
    complete = asked < policy.most_runs or passed == trials
    if not mfs.conditions:
        complete = evidence.everything_shows
    return Extracted(mfs, simplest, complete, asked, trials, passed)


def _most_telling(
    candidates: list[Candidate],
    hypotheses: Hypotheses,
    evidence: Evidence,
    least: float,
    has_bound: Callable[[Workload], bool],
) -> Candidate | None:
    """Return the candidate whose answer is worth most; None when none tells as many bits as it should."""
    if not candidates:
        return None
    chances = hypotheses.inside(np.array([candidate.point for candidate in candidates])).mean(axis=0)
    bits = _entropy(chances) * (1.0 - evidence.chance_hidden(candidates))
    if bits.max() < least:
        return None
    runs = np.array([1.0 if has_bound(candidate.workload) else 1.0 + _SIBLING_COST for candidate in candidates])
    worth = bits / runs - _PER_ODDITY * np.array([candidate.complexity for candidate in candidates])
    return candidates[int(worth.argmax())]


def _entropy(chances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the bits that a yes or no with these chances of yes tells."""
    yes = chances.clip(1e-9, 1.0 - 1e-9)
    return np.asarray(-yes * np.log2(yes) - (1.0 - yes) * np.log2(1.0 - yes))
