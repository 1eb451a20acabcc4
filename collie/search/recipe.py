"""A recipe: everything that determines a search except the space, the testbed and the seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.metadata import EntryPoint, entry_points
from typing import Annotated, Literal

from collie.counters.catalog import CounterKind
from collie.detect.confirm import Confirmation
from collie.detect.noise import Noise
from collie.detect.symptom import Symptom
from collie.detect.thresholds import Thresholds
from collie.limits import Count, Limits, Positive, Ratio

PLUGIN_GROUP = "collie.strategies"
"""Group of the entry points with which other packages add strategies."""


def plugins() -> Mapping[str, EntryPoint]:
    """Return the strategies of installed packages by name."""
    return {entry.name: entry for entry in entry_points(group=PLUGIN_GROUP)}


Drivable = Literal[CounterKind.DIAGNOSTIC, CounterKind.PERFORMANCE]


class StrategyName(StrEnum):
    """The strategies that a recipe can name."""

    ANNEALING = "annealing"
    RANDOM = "random"
    GUIDED = "guided"
    OPTUNA = "optuna"
    PLUGIN = "plugin"
    """A strategy of another package, which `plugin` names."""


class Step(StrEnum):
    """The step of annealing from one proposal to the next."""

    ONE = "one"
    """One dimension of the space."""
    GROUP = "group"
    """One of the paper's four groups, drawn anew: topology, memory, transport or messages."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Temperatures and steps of simulated annealing (paper, Algorithm 1, which gives no values).

    Attributes:
        start: first temperature. Energies are relative changes, so 1.0 accepts a doubling with a chance of 37 %.
        end: temperature below which the stage ends.
        decay: factor from one temperature to the next.
        runs_per_temperature: number of mutations, each measured or covered by a known anomaly.
        step: size of one mutation.
    """

    start: Positive = 1.0
    end: Positive = 0.1
    decay: Ratio = 0.8
    runs_per_temperature: Count = 4
    step: Step = Step.ONE


class Sampler(StrEnum):
    """Models for Bayesian optimisation."""

    TPE = "tpe"
    """Tree-structured Parzen estimator."""
    GP = "gp"
    """Gaussian process. Needs torch."""


@dataclass(frozen=True, slots=True)
class Bayesian:
    """Bayesian optimisation through optuna (paper, section 7.2, which gives no values).

    Attributes:
        sampler: the model.
        runs_per_counter: proposals measured for one counter before the next counter.
        history: latest observations in the model. Asking slows down as they grow.
    """

    sampler: Sampler = Sampler.TPE
    runs_per_counter: Count = 4
    history: Annotated[int, Limits(ge=10, le=100_000)] = 10_000


@dataclass(frozen=True, slots=True)
class Guide:
    """Division of the guided search's proposals.

    Attributes:
        starts: random proposals before learning.
        random_share: share of random proposals after that.
    """

    starts: Count = 40
    random_share: Annotated[float, Limits(ge=0, le=1)] = 0.1


@dataclass(frozen=True, slots=True)
class Extraction:
    """Extraction of a minimal feature set.

    Attributes:
        repeats: limit on runs of one probe of an anomaly that always shows. One that does not has more.
        fresh_runs: runs inside the finished set, drawn anew, that its claim counts.
        accepting: times that a simpler workload without a clear margin must reproduce the anomaly to become the
            finding.
        most_runs: limit on runs for one anomaly, plain siblings not counted. A phase counts as its share of the time of
            a run with a set-up of its own. It is divided by the show rate of an anomaly that does not always show.
            Beyond it, nothing is asked. Only the claim of the set that is most probable then is finished, and what
            refutes it is left out.
    """

    repeats: Count = 1
    fresh_runs: Count = 9
    accepting: Count = 2
    most_runs: Count = 80


@dataclass(frozen=True, slots=True)
class Recipe:
    """The settings of a search.

    Attributes:
        name: the recipe's name on the command line.
        strategy: the strategy that proposes workloads.
        plugin: entry point of the group `collie.strategies`, with the strategy `plugin`.
        ranking_points: random points that rank the counters (std / mean, paper section 5.1).
        schedule: settings of annealing.
        thresholds: readings beyond which a run is anomalous.
        noise: chances that a run misleads, as expected before the campaign.
        confirmation: policy for confirming a suspicion.
        extraction: settings for extracting minimal feature sets.
        budget: the default budget, as on the command line: `10h`, `45m`, `800runs`.
        phases: limit on the search's proposals on one set-up. An explanation may ask more. With 1, each run has a
            set-up, as in the paper.
        skip_known: skip workloads that a known MFS covers.
        drives: kinds of counters to drive, the first kind first. The counters of a kind follow their rank.
        explain: extract the minimal feature set of each anomaly. Without its set an anomaly is incomplete and
            covers nothing.
        explain_after_sightings: sightings of a confirmed anomaly before its explanation. 0 explains at once. All
            waiting anomalies are explained once their explanations need the rest of the budget, or the search finds
            nothing new.
        audits: number of proposals inside each explanation that are measured nevertheless, to test it. Unless it is 0,
            a search that finds nothing new draws others.
        guide: settings of the guided search.
        bayesian: settings of Bayesian optimisation.
    """

    name: str
    strategy: StrategyName
    plugin: str = ""
    ranking_points: Annotated[int, Limits(ge=2, le=10_000)] = 10
    schedule: Schedule = field(default_factory=Schedule)
    thresholds: Thresholds = field(default_factory=Thresholds)
    noise: Noise = field(default_factory=Noise)
    confirmation: Confirmation = field(default_factory=Confirmation)
    extraction: Extraction = field(default_factory=Extraction)
    budget: str = "10h"
    phases: Annotated[int, Limits(ge=1, le=1000)] = 1
    skip_known: bool = True
    drives: Annotated[tuple[Drivable, ...], Limits(min_length=1)] = (CounterKind.DIAGNOSTIC, CounterKind.PERFORMANCE)
    explain: bool = True
    explain_after_sightings: Annotated[int, Limits(ge=0, le=1000)] = 0
    audits: Annotated[int, Limits(ge=0, le=100)] = 0
    guide: Guide = field(default_factory=Guide)
    bayesian: Bayesian = field(default_factory=Bayesian)

    def confirming_severity(self, symptom: Symptom) -> float:
        """Return the severity that a run must have to confirm a symptom."""
        if symptom is not Symptom.LOW_THROUGHPUT:
            return 0.0
        return self.thresholds.throughput_deficit * self.confirmation.confirming_deficit
