"""Extraction of a minimal feature set (MFS) from one anomalous workload (paper section 5.3).

Terms. A *probe* is a workload whose verdict the extraction asks for. A probe *shows* when it is anomalous with the
symptom of the finding or a kin of it, and the same counters stand out (`detect.signature`): another anomaly does
not show, it hides whether this one would. *Plain* is each dimension's unremarkable value.

Method, in three phases over one funnel, `Prober.shows`:

1. **Simplify.** Move dimensions to plain: those that seldom matter all at once, halving the group when the anomaly goes
   (delta debugging), the others one by one. What is left differs from plain only where it has to. A workload with two
   causes keeps the one that survives. Each move rests on one run; the last workload is run again, and if it does not
   show then, all moves are made anew with as many runs as the policy asks for.
2. **Delimit.** For each dimension that is not plain, find by bisection the value nearest to plain that still shows.
   Transport and operation are delimited in any case, as everything depends on them. Conditions on several dimensions
   become one where only a derived feature matters: a product (queue pairs x regions), either of two hosts, or message
   sizes and splits that only make short entries meet long ones.
3. **Try.** Draw workloads inside the set so far: all other ordered dimensions as low, then as high as they may be, then
   most of them at random. A healthy one says that a condition is missing. Mixtures of it with the simplest workload are
   bisected for the dimension that makes the difference. If that one does so by itself, its threshold is bisected too.
   If only several together do, the set loses the least that excludes the workload and, if possible, nothing that
   showed; that costs no run. This ends when several in a row show.

Healthy workloads of the campaign that lie inside the set are used like healthy draws.

Invariants: the simplest workload shows, and every condition holds for it; no probe that was healthy satisfies all
conditions, unless nothing ordered sets it apart. A probe that cannot be run or says nothing never adds or removes a
condition; one that shows another anomaly counts as not showing: an anomaly is explained too narrowly rather than
wrongly.

Cost, for k of n dimensions that matter: simplifying takes one probe for each dimension that often matters and at most
2 k log2(n/k) for the rest, delimiting log2(24) < 5 per ordered dimension and one per other value of transport and
operation, trying the draws that show and at most 3 + 2 log2(n) per condition that was missing. On the simulator some
35 runs in all, plain siblings included; after `_LATEST_REPAIR` probes no missing condition is looked for by runs.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass

from collie.detect.symptom import Symptom, Verdict
from collie.search.delimit import delimit_choice, delimit_messages, towards_plain
from collie.search.joining import join
from collie.search.prober import Conditions, Prober
from collie.search.recipe import Extraction
from collie.search.simplify import simplify
from collie.search.trying import Judgements, sufficient
from collie.workloads.dimension import Choice, Ordered, Vector
from collie.workloads.feature import Condition, Mfs
from collie.workloads.space import Space
from collie.workloads.workload import Workload

Probes = Generator[Workload, Verdict | None, "Extracted"]
"""Yields workloads; receives a verdict, or None when the workload cannot be run; returns the result."""


@dataclass(frozen=True, slots=True)
class Extracted:
    """Result of an extraction.

    Attributes:
        mfs: the conditions.
        workload: the simplest workload found; satisfies `mfs`.
        complete: False when the most runs were used up, so some conditions were not looked for.
        runs: verdicts that it rests on.
        trials: random workloads inside `mfs` that were run against it in its final form, hidden ones left out.
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
        """Chance that the next random workload inside the set shows: (passed + 1) / (trials + 2), Laplace's rule."""
        return (self.passed + 1) / (self.trials + 2)


def nothing_measured() -> Iterable[tuple[Workload, Verdict]]:
    """Return no judgements: an extraction outside a campaign."""
    return ()


def extract(
    workload: Workload,
    symptom: Symptom,
    space: Space,
    policy: Extraction,
    known: Callable[[Workload], bool],
    measured: Judgements = nothing_measured,
) -> Probes:
    """Find the minimal feature set of a confirmed anomaly.

    Args:
        workload: anomalous, and confirmed to be.
        symptom: how it shows.
        space: dimensions, their plain values and constraints.
        policy: how many agreeing verdicts decide a probe, and how many runs there may be.
        known: whether an anomaly found before covers a workload. Such a probe is not asked: it would show whatever this
            anomaly does, and simplifying would drift into the known one.
        measured: what the campaign has measured.
    """
    prober = Prober(symptom, space, policy, known)
    yield from prober.shows(workload)  # measured already: tells the counters
    prober.settle(workload)
    simplest = yield from simplify(prober, space, workload, 1)
    if simplest != workload and not (yield from prober.surely_shows(simplest, policy.accepting)):
        simplest = yield from simplify(prober, space, workload, policy.accepting)
    prober.settle(simplest)
    conditions = yield from _necessary(prober, space, simplest)
    conditions, trials, passed = yield from sufficient(prober, space, simplest, conditions, measured)
    return Extracted(Mfs(tuple(conditions)), simplest, not prober.exhausted, prober.runs, trials, passed)


def _necessary(prober: Prober, space: Space, simplest: Workload) -> Conditions:
    """Delimit every dimension that is not plain, towards plain; and transport and operation, on which all depends."""
    conditions: list[Condition] = []
    for name, dimension in space.dimensions.items():
        differs = simplest.get(name) != dimension.plain
        match dimension:
            case Choice():
                if differs or dimension.keep_in_sibling or name in ("qp_type", "opcode"):
                    conditions += yield from delimit_choice(prober, simplest, dimension)
            case Ordered():
                if differs:
                    conditions += yield from towards_plain(prober, simplest, dimension)
            case Vector():
                if differs:
                    conditions += yield from delimit_messages(prober, simplest, dimension)
    return (yield from join(prober, space, simplest, conditions))
