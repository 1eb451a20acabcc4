"""Extraction of a minimal feature set (MFS) from one anomalous workload (paper section 5.3).

The paper makes one dimension after another plain. It never finds a condition that plain traffic satisfies ("no
batching"). Here every run of the search and the extraction is evidence on all conditions at once.

Terms. The *finding* is the confirmed workload. A *hypothesis* is a conjunction of conditions that holds for the
finding. A *probe* is a workload that the extraction asks to run. A run *reproduces* the anomaly when it is anomalous
with the same or a related symptom and the same counters are raised. A run with another anomaly hides this one and
gives no evidence (`search.evidence`).

Algorithm.
1. *Sample* hypotheses by their agreement with all runs and their number of conditions (`search.hypotheses`).
2. *Ask* for the candidate (`search.candidates`) on which the hypotheses disagree most. If half of them contain it,
   either answer excludes half. Among equal candidates the plainest is run, so the finding becomes simpler.
3. *Stop* when the answers of all candidates are nearly certain. The most probable hypothesis is the MFS.

Invariant. The finding lies inside every hypothesis. A healthy run multiplies the odds of each hypothesis that covers it
by about `false_negative_rate`, so the MFS covers a healthy run only if every alternative fits worse.

Worked example. In space `nsdi22` an anomaly needs `wqe_batch >= 16` and `mtu <= 1024`. The finding (seed 3 of `Random`)
has wqe_batch 32, mtu 1024 and twelve other dimensions that are not plain. 46 limits are possible. The 24 probes are

    probe    answer
    1-7      reproduced   makes nine dimensions plain, several at once
    8, 9     healthy      wqe_batch 1: batching is needed
    11, 13   healthy      mtu 4096: the small MTU is needed
    14-17    mixed        bisects: wqe_batch 16 and mtu 1024 reproduce, mtu 2048, wqe_batch 4 and 8 do not
    18-20    reproduced   UD, READ, one direction: transport is irrelevant
    21-24    reproduced   random and plain workloads inside the set

Probes 10 and 12 drop dimensions along the way. All 17 runs inside the set reproduce, so the confidence is 18/19 = 95 %.
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
"""Yields workloads. Receives a verdict, or None when the workload cannot run."""

Judgements = Callable[[], Iterable[tuple[Workload, Verdict]]]

_OPEN_BITS = 0.45
"""Entropy in bits below which an answer counts as known. It is that of a chance of 9 or 91 %."""
_PATIENT_RUNS = 15
_IMPATIENCE = 0.02
"""Extra bits required per run after `_PATIENT_RUNS`: an answer that stays open so long often means that no box fits."""
_PER_COMPLEXITY = 0.02
"""Extra bits required for each dimension farther from plain."""
_SIBLING_COST = 0.5
"""Expected number of runs of a plain sibling that a verdict on throughput may need."""


@dataclass(frozen=True, slots=True)
class Extracted:
    """Result of an extraction.

    Attributes:
        workload: the simplest workload found. It satisfies `mfs`.
        complete: whether the limit of runs sufficed, or every run inside `mfs` reproduced. If `mfs` is empty, whether
            every workload reproduces the anomaly.
        trials, passed: runs inside `mfs` without hidden ones, and those of them that reproduced.
    """

    mfs: Mfs
    workload: Workload
    complete: bool
    runs: int = 0
    trials: int = 0
    passed: int = 0

    @property
    def confidence(self) -> float:
        """Chance that the next workload inside the set reproduces the anomaly."""
        return chance_of_next(self.passed, self.trials)


def nothing_measured() -> Iterable[tuple[Workload, Verdict]]:
    """Return no judgements, for an extraction outside a campaign."""
    return ()


def costs_nothing_more(_workload: Workload) -> bool:
    """Return True: outside a campaign a verdict takes one run."""
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

    A workload that an earlier anomaly covers (`known`) is not probed. `measured` gives the campaign's judged runs so
    far. `has_bound` tells whether the bound is known, so that a verdict needs no plain sibling.
    """
    asked = 0
    before = list(measured())
    if not any(other == workload for other, _ in before):
        asked += 1
        verdict = yield workload  # this run gives the counters of the finding
        before += [(workload, verdict)] if verdict is not None else []
    evidence = Evidence(workload, symptom, space, known, before)
    rng = Random(stable_text(workload))
    hypotheses = evidence.hypotheses(policy, rng.getrandbits(32))
    candidates = Candidates(space, evidence.limits, rng, lambda probe: not known(probe))
    while asked < policy.most_runs:
        around = candidates.around(evidence.simplest(), hypotheses)
        askable = [candidate for candidate in around if evidence.may_ask(candidate.workload, policy)]
        least = _OPEN_BITS + _IMPATIENCE * max(0, asked - _PATIENT_RUNS)
        probe = _most_informative(askable, hypotheses, evidence, least, has_bound)
        if probe is None:
            break
        asked += 1
        weight = evidence.add(probe.workload, (yield probe.workload))
        if weight:
            hypotheses.learn(probe.point, weight)
    mfs = Mfs(tuple(evidence.limits.conditions(hypotheses.best(), evidence.reproduced)))
    simplest = evidence.simplest(mfs)
    # At least one run, even without open questions: a resumed campaign recognises an explanation by its runs.
    while asked < policy.most_runs and not (asked and evidence.is_sure(simplest, policy.accepting)):
        asked += 1
        evidence.add(simplest, (yield simplest))
        simplest = evidence.simplest(mfs)
    passed, trials = evidence.trials(mfs)
    complete = asked < policy.most_runs or passed == trials
    if not mfs.conditions:
        complete = evidence.all_reproduce
    return Extracted(mfs, simplest, complete, asked, trials, passed)


def _most_informative(
    candidates: list[Candidate],
    hypotheses: Hypotheses,
    evidence: Evidence,
    least: float,
    has_bound: Callable[[Workload], bool],
) -> Candidate | None:
    """Return the most informative candidate per run, or None when all give fewer than `least` bits."""
    if not candidates:
        return None
    chances = hypotheses.inside(np.array([candidate.point for candidate in candidates])).mean(axis=0)
    bits = _entropy(chances) * (1.0 - evidence.chance_hidden(candidates))
    if bits.max() < least:
        return None
    runs = np.array([1.0 if has_bound(candidate.workload) else 1.0 + _SIBLING_COST for candidate in candidates])
    worth = bits / runs - _PER_COMPLEXITY * np.array([candidate.complexity for candidate in candidates])
    return candidates[int(worth.argmax())]


def _entropy(chances: NDArray[np.float64]) -> NDArray[np.float64]:
    yes = chances.clip(1e-9, 1.0 - 1e-9)
    return np.asarray(-yes * np.log2(yes) - (1.0 - yes) * np.log2(1.0 - yes))
