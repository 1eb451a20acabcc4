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
3. *Settle* when the answers of all candidates are nearly certain. The most probable hypothesis is the set. What breaks
   one of its conditions by one step is run unless a healthy run is as near (`search.edges`). Workloads drawn inside
   the set are *rehearsed* on the set-up that stands.
4. *Draw* fresh workloads inside the set. Their runs are its claim: "shows in k of n". A healthy one is evidence, too.
   Where it changes the set, the algorithm goes on at 2 and the claim is counted anew.
5. At the limit of time the questions end. If fresh runs refute the set then, the healthy ones are left out of it. The
   claim of the smaller set begins anew while there is time. An anomaly that does not always show has more time, as each
   of its runs tells less.

Invariant. The finding lies inside every hypothesis. Each hypothesis has a show rate s, and a healthy run multiplies its
odds by about 1 - s where it covers the run. So the MFS covers a healthy run only if every alternative fits worse.

Worked example. In space `nsdi22` an anomaly needs `wqe_batch >= 16` and `mtu <= 1024`. The finding (seed 3 of `Random`)
has wqe_batch 32, mtu 1024 and twelve other dimensions that are not plain. 50 limits are possible. The 29 probes are

    probe    answer
    1-9      mixed        wqe_batch 1 (2) and mtu 4096 (6 and 8) are healthy, RC in one direction shows it
    10-14    mixed        bisects: wqe_batch 16 reproduces, wqe_batch 4 and 8 and mtu 2048 do not
    15-17    reproduced   UD SEND and RC READ: neither transport nor operation matters
    18-20    reproduced   further workloads inside the set
    21-29    reproduced   fresh workloads, half of them plain wherever the set names nothing

All nine fresh workloads are anomalous, so the claim is 9 of 9.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from random import Random

import numpy as np

from collie.detect.symptom import Symptom, Verdict
from collie.search.anomaly import chance_of_next
from collie.search.breaking import breakings
from collie.search.candidates import Candidate, Candidates
from collie.search.draws import draw_inside
from collie.search.edges import untested
from collie.search.evidence import Evidence
from collie.search.fresh_runs import Probes, Surroundings, drawn_inside, suffices
from collie.search.hypotheses import entropy
from collie.search.phases import answers
from collie.search.recipe import Extraction
from collie.workloads.feature import Mfs
from collie.workloads.workload import Workload, stable_text

_OPEN_BITS = 0.6
"""Entropy in bits below which a workload's place inside or outside counts as known: that of a chance of 15 or 85 %."""
_OPEN_BITS_SET_UP = 0.85
"""The same for a workload that needs another set-up: fresh draws inside the set answer it and count for its claim."""
_PATIENT_RUNS = 15
_IMPATIENCE = 0.02
"""Extra bits required per run after `_PATIENT_RUNS`: a place that stays open so long often means that no box fits."""
_RATE_KNOWN = (0.05, 0.75)
"""Chances that the anomaly always shows between which the finding is repeated."""
LEAST_SHOW_RATE = 0.3
"""Show rate below which an explanation gets no more time: an anomaly that hardly ever shows would take the campaign."""
_EXPECTED = 0.9
"""Share of the hypotheses that contain a workload from which a healthy run of it is repeated."""
_OVERLOOKED = 0.05
"""Chance that all runs of a probe miss an anomaly that does not always show."""
_BREAKINGS = 20
"""Number of workloads that break a condition from which a check is drawn."""
_REHEARSALS = 3
"""Number of workloads drawn inside a settled set on a set-up that stands, before the claim takes another one."""
_DRAWS = 20
"""Draws of a fresh workload outside the known anomalies."""
_NOT_RUN = 0.1
"""Share of the cost of a probe that counts when it cannot run: a device refuses in a second. Once most probes are
refused, each counts in full, so that the limit holds."""
_CLAIM_DRAWS = 3
"""Limit on late runs for each fresh run of a claim, as some are inconclusive, and others make it begin anew."""
_LEFT_OUT = 2.0
"""Further weight of a healthy run that refutes a claim at the limit of time: the set must not keep it as a miss."""
_UNLIKELY = 0.1
"""Chance of so few anomalous fresh runs below which they refute the set."""
_PER_COMPLEXITY = 0.02
"""Extra bits required for each dimension farther from plain."""


@dataclass(frozen=True, slots=True)
class Extracted:
    """Result of an extraction.

    Attributes:
        workload: the simplest workload found. It satisfies `mfs`.
        complete: whether the limit of runs sufficed. If `mfs` is empty, whether every workload reproduces the anomaly.
        trials, passed: runs inside `mfs` without hidden ones, and those of them that reproduced.
        fresh_runs, fresh_shows: runs drawn anew inside the finished `mfs`, and those of them that were anomalous.
    """

    mfs: Mfs
    workload: Workload
    complete: bool
    runs: int = 0
    trials: int = 0
    passed: int = 0
    fresh_runs: int = 0
    fresh_shows: int = 0

    @property
    def confidence(self) -> float:
        """Chance that the next workload inside the set reproduces the anomaly."""
        return chance_of_next(self.passed, self.trials)


def extract(workload: Workload, symptom: Symptom, policy: Extraction, around: Surroundings) -> Probes[Extracted]:
    """Find the minimal feature set of a confirmed anomaly, and its claim."""
    extraction = MfsExtraction(workload, symptom, policy, around)
    while not extraction.is_over:
        yield from extraction.questions()
        yield from extraction.claims()
    return extraction.result()


class MfsExtraction:
    """The extraction for one confirmed anomaly. Its questions and its claims alternate until it `is_over`.

    Attributes:
        mfs: the most probable set when the last question was settled.
        fresh: runs drawn anew inside `mfs`, whether each was anomalous.
    """

    def __init__(self, finding: Workload, symptom: Symptom, policy: Extraction, around: Surroundings) -> None:
        self._finding, self._symptom = finding, symptom
        self._policy, self._around = policy, around
        self._rng = Random(stable_text(finding))
        self._asked = self._refused = self._surprised_at = 0
        self._spent = 0.0
        self._doubted: Candidate | None = None
        self._open: Candidate | None = None
        self._settled = self._began = False
        self._claimed: bool | None = None
        self._alone: dict[Workload, bool] = {finding: True}
        self._ran = {finding}
        self._edges: set[Workload] = set()
        self._rehearsed: Counter[tuple[Workload, Mfs]] = Counter()
        self._best: tuple[int, ...] = ()
        self.mfs = Mfs(())
        self.fresh: list[bool] = []
        self._refuting: list[Workload] = []

    @property
    def is_over(self) -> bool:
        """Whether the set is claimed or cannot be, or the limit of time is reached."""
        if self._claimed is not None or self._spent >= self._most_runs + _CLAIM_DRAWS * self._policy.fresh_runs:
            return True
        return self._is_late and (not self.mfs.conditions or (self._is_refuted and not self._can_shrink))

    def questions(self) -> Probes[None]:
        """Ask until the set is settled. The probes of one set-up can be its phases."""
        if not self._began:
            yield from self._begin()
            self._open = self._question()
        while not self._is_late and self._open is not None:
            yield from self._run(self._open, min(1.0, self._around.cost(self._open.workload)))
            self._open = self._question()
        if self._is_late:
            self._open = None
            if not self._settled:
                self._settle()

    def claims(self) -> Probes[None]:
        """Draw workloads inside the settled set until the claim suffices, or one of them opens a question.

        Each takes a set-up of its own, as a user's run does.
        """
        while not self.is_over and self._open is None:
            if self._is_late and self._is_refuted:
                self._shrink()
                continue
            # At least one run, even without open questions: a resumed campaign recognises an explanation by its runs.
            refuted = self._shows_sometimes and self._is_refuted
            if suffices(self.fresh, self._policy) and self._asked and not refuted:
                self._claimed = True
                break
            rest_plain, start = len(self.fresh) % 2 == 0, self._reported
            if self._around.set_up() is not None and start not in self._alone:
                yield from self._run_alone(start)  # as a phase it may show what it does not show alone
                if self._is_late and not self._settled:
                    self._settle()
                self._open = None if self._is_late else self._question()
                continue
            drawn = drawn_inside(self.mfs, start, self._around, self._rng, self._ran, rest_plain=rest_plain)
            if drawn is None:
                self._claimed = not self._is_refuted  # another pair can have explained all that is left
                if not self._asked:
                    yield from self._run_alone(start)
                break
            verdict = yield from self._run_alone(drawn)
            if verdict is not None and not verdict.is_inconclusive:
                self.fresh.append(verdict.is_anomalous)
                if not verdict.is_anomalous:
                    self._refuting.append(drawn)
            self._open = None if self._is_late else self._question() or self._check(drawn)

    @property
    def _is_late(self) -> bool:
        """Whether the limit of time is reached. Then nothing is asked, and only fresh runs change the set."""
        return self._spent >= self._most_runs

    @property
    def _most_runs(self) -> float:
        """The limit, in runs with a set-up of their own. A run tells less of an anomaly that shows only sometimes."""
        rate = self._evidence.show_rate.mean if self._shows_sometimes else 1.0
        return self._policy.most_runs / max(rate, LEAST_SHOW_RATE)

    @property
    def _shows_sometimes(self) -> bool:
        """Whether repeated runs tell that the anomaly does not always show."""
        return self._began and self._evidence.show_rate.always <= _RATE_KNOWN[0]

    @property
    def _is_refuted(self) -> bool:
        """Whether the fresh runs show the anomaly far more seldom than its show rate lets expect."""
        from scipy.stats import binom  # a second that most commands do not need

        rate = self._evidence.show_rate.mean if self._shows_sometimes else 1.0 - self._around.noise.miss_rate
        return bool(self.fresh) and bool(binom.cdf(sum(self.fresh), len(self.fresh), rate) < _UNLIKELY)

    @property
    def _can_shrink(self) -> bool:
        """Whether healthy fresh runs can be left out of the set. Of what shows only sometimes, some are healthy."""
        return bool(self._refuting) and not self._shows_sometimes

    def _shrink(self) -> None:
        """Leave the healthy fresh runs out of the set. If that changes it, its claim begins anew."""
        for healthy in self._refuting:
            self._hypotheses.learn(self._candidates.candidate(healthy).point, -_LEFT_OUT)
        self._refuting = []
        self._settle()

    def _begin(self) -> Probes[None]:
        before, around = list(self._around.measured()), self._around
        if not any(other == self._finding for other, _ in before):
            self._asked, self._spent = 1, 1.0
            verdict = yield self._finding  # this run gives the counters of the finding
            before += [(self._finding, verdict)] if verdict is not None else []
        own = self._finding, self._symptom
        self._evidence = Evidence(*own, around.space, around.known, before, around.noise, around.foreseen)
        self._hypotheses = self._evidence.hypotheses(self._rng.getrandbits(32))
        self._began = True
        limits = self._evidence.limits
        self._candidates = Candidates(around.space, limits, self._rng, lambda probe: not around.known(probe))

    def _run(self, probe: Candidate, cost: float = 1.0) -> Probes[Verdict | None]:
        """Run a probe, and return its verdict. The cost is in runs with a set-up of their own."""
        self._asked += 1
        self._ran.add(probe.workload)
        verdict = yield probe.workload
        self._refused += verdict is None
        is_rare = 2 * self._refused <= self._asked
        self._spent += cost * (_NOT_RUN if verdict is None and is_rare else 1.0)
        self._learn(probe, verdict)
        return verdict

    def _run_alone(self, workload: Workload) -> Probes[Verdict | None]:
        """Run a workload on a set-up of its own, and return its verdict."""
        verdict = yield from self._run(self._candidates.candidate(workload))
        shows = verdict is not None and self._symptom.is_related(verdict.symptom)
        self._alone[workload] = shows or self._alone.get(workload, False)
        return verdict

    def _question(self) -> Candidate | None:
        """Return the next workload to run, or None when the set is settled."""
        if self._doubted is not None:
            return self._doubted
        low, high = _RATE_KNOWN
        if low < self._evidence.show_rate.always < high:
            return self._candidates.candidate(self._evidence.simplest())
        if (probe := self._most_informative()) is not None:
            self._settled = False
            return probe
        if not self._settled:
            self._settle()
        simplest = self._reported
        if not self._evidence.is_sure(simplest, self._policy.accepting):
            return self._candidates.candidate(simplest)
        return self._edge(simplest) or self._rehearsal()

    def _edge(self, simplest: Workload) -> Candidate | None:
        """Return a workload one step outside of the set, where no healthy run tells that the set ends there."""
        limits = self._evidence.limits.limits
        thresholds = np.array([limit.thresholds[index] for limit, index in zip(limits, self._best, strict=True)])
        for breaking in untested(thresholds, self._candidates.near(simplest), self._hypotheses):
            new = [each for each in breaking if each.workload not in self._edges]
            asked = [each for each in new if self._evidence.may_ask(each.workload, self._policy.repeats)]
            if asked:
                edge = min(asked, key=lambda each: (self._around.cost(each.workload), each.complexity))
                self._edges.add(edge.workload)
                return edge
        return None

    def _rehearsal(self) -> Candidate | None:
        """Return a workload drawn inside the set that fits the set-up that stands, if it has had too few.

        It costs little, and what it refutes is no claim that begins anew.
        """
        set_up, space = self._around.set_up(), self._around.space
        if set_up is None:
            return None
        rehearsed = self._rehearsed[set_up.made_for, self.mfs]
        starts = [*set_up.before[-1:], self._evidence.simplest(self.mfs), set_up.made_for]
        fitting = (each for each in starts if self.mfs.covers(each) and answers(space, each, set_up))
        start = next(fitting, None)
        if start is None or rehearsed >= _REHEARSALS:
            return None
        self._rehearsed[set_up.made_for, self.mfs] += 1
        for _ in range(_DRAWS):
            drawn = draw_inside(space, self.mfs, start, self._rng, on=set_up)
            if not self._around.known(drawn) and drawn not in self._ran:
                return self._candidates.candidate(drawn)
        return None

    def _check(self, drawn: Workload) -> Candidate | None:
        """Return a workload just outside the set that fits the set-up of one drawn inside, if there is one.

        The questions were asked around one workload. Elsewhere, the anomaly may show without one of the conditions.
        """
        set_up = self._around.set_up()
        conditions = self.mfs.conditions
        for number in range(len(conditions) if set_up is not None else 0):
            condition = conditions[(len(self.fresh) + number) % len(conditions)]
            outside = [
                other
                for other in islice(breakings(drawn, self.mfs, condition, self._around.space), _BREAKINGS)
                if set_up is not None and answers(self._around.space, other, set_up) and not self._around.known(other)
            ]
            if outside:
                return self._candidates.candidate(self._rng.choice(outside))
        return None

    def _learn(self, probe: Candidate, verdict: Verdict | None) -> None:
        """Add the verdict on a probe, None when it could not run."""
        expected = float(self._hypotheses.inside(probe.point[None]).mean())
        weight = self._evidence.add(probe.workload, verdict)
        doubted, self._doubted = self._doubted, None
        surprising = expected >= _EXPECTED and not self._shows_sometimes
        if weight < 0 and surprising and doubted is None:
            self._doubted = probe
        if weight:
            self._hypotheses.show_rate = self._evidence.show_rate.mean
            self._hypotheses.learn(probe.point, weight)
        if self._settled and weight < 0:  # the set covers this healthy run
            self._settled = False
            self._surprised_at = self._asked

    def result(self) -> Extracted:
        """Return the set and its claim so far."""
        if not self._claimed:
            self._settle()
        passed, trials = self._evidence.trials(self.mfs)
        complete = bool(self._claimed) if self.mfs.conditions else self._evidence.all_reproduce
        simplest = self._reported
        shown_alone = self._around.set_up() is None or self._alone.get(simplest)
        if not shown_alone or not self._evidence.is_sure(simplest, self._policy.accepting):
            simplest = self._evidence.finding
        mfs = Mfs((*self._evidence.limits.given, *self.mfs.conditions)) if self.mfs.conditions else self.mfs
        return Extracted(mfs, simplest, complete, self._asked, trials, passed, len(self.fresh), sum(self.fresh))

    @property
    def _reported(self) -> Workload:
        """The simplest workload of which all is true that is told of the anomaly."""
        return self._evidence.simplest(self.mfs, with_symptom=True)

    def _settle(self) -> None:
        best = self._hypotheses.best()
        self._settled = True
        if best != self._best:
            self._best = best
            mfs = Mfs(tuple(self._evidence.limits.conditions(best, self._evidence.shown())))
            if mfs != self.mfs:  # excluding a value that another condition rules out changes nothing
                self.mfs, self.fresh, self._refuting = mfs, [], []

    @property
    def _repeats(self) -> int:
        """Limit on the runs of one probe, so that they hardly all miss an anomaly with this show rate."""
        rate = self._evidence.show_rate
        if rate.always >= _RATE_KNOWN[1]:
            return self._policy.repeats
        return max(self._policy.repeats, math.ceil(math.log(_OVERLOOKED) / math.log(1.0 - rate.mean)))

    def _most_informative(self) -> Candidate | None:
        """Return the most informative candidate per run, or None when the place of each is nearly certain."""
        repeats = self._repeats
        around = self._candidates.around(self._evidence.simplest(), self._hypotheses, self._around.set_up())
        candidates = [each for each in around if self._evidence.may_ask(each.workload, repeats)]
        if not candidates:
            return None
        inside = self._hypotheses.inside(np.array([candidate.point for candidate in candidates]))
        visible = 1.0 - self._evidence.chance_hidden(candidates)
        bits = entropy(inside.mean(axis=0)) * visible
        impatience = _IMPATIENCE * max(0, self._asked - self._surprised_at - _PATIENT_RUNS)
        doubtful = np.flatnonzero(bits >= _OPEN_BITS + impatience)  # costs take time to find, so only these have one
        costs = np.array([self._around.cost(candidates[index].workload) for index in doubtful])
        if self._around.set_up() is not None:
            is_open = (costs < 1.0) | (bits[doubtful] >= _OPEN_BITS_SET_UP + impatience)
            doubtful, costs = doubtful[is_open], costs[is_open]
        if not doubtful.size:
            return None
        complexity = np.array([candidates[index].complexity for index in doubtful])
        information = self._hypotheses.information(inside[:, doubtful]) * visible[doubtful]
        worth = information / costs - _PER_COMPLEXITY * complexity
        return candidates[int(doubtful[worth.argmax()])]
