"""A recipe: everything that fixes a search but the space, the testbed and the seed."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from collie.detect.confirm import Confirmation
from collie.detect.judge import Thresholds


class StrategyName(StrEnum):
    """The strategies that a recipe can name; `search.strategy.STRATEGIES` builds them."""

    ANNEALING = "annealing"
    RANDOM = "random"


@dataclass(frozen=True, slots=True)
class Schedule:
    """Temperatures of simulated annealing (paper, Algorithm 1; the paper gives no values).

    Attributes:
        start: first temperature; energies are relative changes, so 1.0 accepts a doubling of the energy with 37 %.
        end: the stage ends below this.
        decay: factor from one temperature to the next.
        runs_per_temperature: mutations measured at each.
    """

    start: float = 1.0
    end: float = 0.1
    decay: float = 0.8
    runs_per_temperature: int = 4


@dataclass(frozen=True, slots=True)
class Extraction:
    """How a minimal feature set is found.

    Attributes:
        agreeing: runs that must not show before a probe counts as refuted: 1 on a quiet testbed, 2 on a noisy one.
        accepting: runs that must show before the finding is moved to a simpler workload. Everything after such a move
            rests on it, so one disturbed run must not be enough.
        most_runs: runs at most for one anomaly.
    """

    agreeing: int = 1
    accepting: int = 2
    most_runs: int = 120


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
    """

    name: str
    strategy: StrategyName = StrategyName.ANNEALING
    ranking_points: int = 10
    schedule: Schedule = field(default_factory=Schedule)
    thresholds: Thresholds = field(default_factory=Thresholds)
    confirmation: Confirmation = field(default_factory=Confirmation)
    extraction: Extraction = field(default_factory=Extraction)
    budget: str = "10h"
    skip_known: bool = True
