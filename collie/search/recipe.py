"""A recipe: everything that fixes a search but the space, the testbed and the seed."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Literal

from collie.counters.catalog import CounterKind
from collie.detect.confirm import Confirmation
from collie.detect.judge import Thresholds
from collie.limits import Count, Limits, Positive, Ratio

Drivable = Literal[CounterKind.DIAGNOSTIC, CounterKind.PERFORMANCE]


class StrategyName(StrEnum):
    """The strategies that a recipe can name; `search.strategy.STRATEGIES` builds them."""

    ANNEALING = "annealing"
    RANDOM = "random"
    GUIDED = "guided"
    OPTUNA = "optuna"


class Step(StrEnum):
    """What annealing changes from one proposal to the next."""

    ONE = "one"
    """One dimension of the space."""
    GROUP = "group"
    """All dimensions that belong to one of the paper's four, drawn anew: topology, memory, transport or messages."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Temperatures and steps of simulated annealing (paper, Algorithm 1; the paper gives no values).

    Attributes:
        start: first temperature; energies are relative changes, so 1.0 accepts a doubling of the energy with 37 %.
        end: the stage ends below this.
        decay: factor from one temperature to the next.
        runs_per_temperature: mutations at each, measured or covered by a known anomaly.
        step: what one mutation changes.
    """

    start: Positive = 1.0
    end: Positive = 0.1
    decay: Ratio = 0.8
    runs_per_temperature: Count = 4
    step: Step = Step.ONE


class Sampler(StrEnum):
    """How Bayesian optimisation models what it has seen."""

    TPE = "tpe"
    """Tree-structured Parzen estimator."""
    GP = "gp"
    """Gaussian process; needs scipy and torch."""


@dataclass(frozen=True, slots=True)
class Bayesian:
    """Bayesian optimisation through optuna (paper, section 7.2, compares with it and gives no values).

    Attributes:
        sampler: the model.
        runs_per_counter: proposals measured for one counter before the next is driven.
        history: latest observations that the model is made from; asking takes longer the more there are.
    """

    sampler: Sampler = Sampler.TPE
    runs_per_counter: Count = 4
    history: Annotated[int, Limits(ge=10, le=100_000)] = 10_000


@dataclass(frozen=True, slots=True)
class Guide:
    """How the guided search divides its proposals.

    Attributes:
        starts: random proposals before anything is learnt.
        random_share: share of random proposals after that.
    """

    starts: Count = 40
    random_share: Annotated[float, Limits(ge=0, le=1)] = 0.1


@dataclass(frozen=True, slots=True)
class Extraction:
    """How a minimal feature set is found.

    Attributes:
        false_negative_rate: share of runs that do not show although every condition is met: the trust in one healthy
            run. Next to thresholds a noisy testbed misses many.
        false_positive_rate: share of runs that seem to show although a condition is broken.
        repeats: runs of one probe at most.
        accepting: runs that must show before the finding is moved to a simpler workload that does not show clearly.
        most_runs: runs at most for one anomaly, plain siblings left out.
    """

    false_negative_rate: Ratio = 0.01
    false_positive_rate: Ratio = 0.01
    repeats: Count = 1
    accepting: Count = 2
    most_runs: Count = 50


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to look.

    Attributes:
        name: as the user says it.
        strategy: who proposes workloads.
        ranking_points: random points by which counters are ranked (std / mean, paper section 5.1).
        schedule: of annealing.
        thresholds: from where on a reading is an anomaly.
        confirmation: how often a suspicion has to show again.
        extraction: how a minimal feature set is found.
        budget: the default, as on the command line: `10h`, `45m`, `800runs`.
        skip_known: workloads that a known MFS covers are not measured.
        drives: kinds of counters to drive, the first kind first; each kind in the order of its counters' rank.
        explain: extract the minimal feature set of what was confirmed. Without, an anomaly is kept as it was met,
            incomplete, and hides nothing from the search.
        explain_after_sightings: sightings of a confirmed anomaly after which its explanation pays. 0 explains at once.
            What waits is explained at the latest when the rest of the budget is needed for it.
        audits: proposals inside each explanation that are measured all the same, to see whether it holds.
        guide: of the guided search.
        bayesian: of Bayesian optimisation.
    """

    name: str
    strategy: StrategyName
    ranking_points: Annotated[int, Limits(ge=2, le=10_000)] = 10
    schedule: Schedule = field(default_factory=Schedule)
    thresholds: Thresholds = field(default_factory=Thresholds)
    confirmation: Confirmation = field(default_factory=Confirmation)
    extraction: Extraction = field(default_factory=Extraction)
    budget: str = "10h"
    skip_known: bool = True
    drives: Annotated[tuple[Drivable, ...], Limits(min_length=1)] = (CounterKind.DIAGNOSTIC, CounterKind.PERFORMANCE)
    explain: bool = True
    explain_after_sightings: Annotated[int, Limits(ge=0, le=1000)] = 0
    audits: Annotated[int, Limits(ge=0, le=100)] = 0
    guide: Guide = field(default_factory=Guide)
    bayesian: Bayesian = field(default_factory=Bayesian)
