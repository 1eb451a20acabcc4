"""Bayesian optimisation through optuna: the paper's second contender (section 7.2), with a modern sampler.

1. The first `ranking_points` proposals are random and rank the counters by std / mean. A *stage* drives one counter.
   Stages follow that order and start again after the last, as the paper states.
2. A stage maximises log(1 + reading) of a diagnostic counter, or minimises that of a performance counter. Its model
   uses the latest `history` observations of all stages.
3. Ordered dimensions are positions on the ladder, which is about logarithmic. A list of sizes is encoded as its length
   and one position per element. Elements beyond the length are idle. Other dimensions are categories.
4. A suggestion that breaks constraints becomes the nearest valid workload. The sampler learns of that workload.
5. Covered, failed and unsupported workloads count as the worst reading so far, or the sampler would propose them again.
   After `_PATIENCE` of them in a row comes a random proposal.
"""

from __future__ import annotations

import importlib.util
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from collie.counters.catalog import Catalog
from collie.errors import UsageError
from collie.search.objective import Objective, Stages, readings
from collie.search.recipe import Recipe, Sampler
from collie.search.strategy import Answer, ProposalOutcome
from collie.workloads.dimension import Choice, Ordered, Vector
from collie.workloads.setup import SetUp
from collie.workloads.space import Space
from collie.workloads.workload import Workload

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler

_PATIENCE = 5
_NEEDS = {Sampler.TPE: ("optuna",), Sampler.GP: ("optuna", "torch")}


class Encoding:
    """Workloads as the named parameters of optuna, and back."""

    def __init__(self, space: Space) -> None:
        from optuna.distributions import CategoricalDistribution, IntDistribution

        self._space = space
        self.distributions: dict[str, BaseDistribution] = {}
        for name, dimension in space.dimensions.items():
            match dimension:
                case Choice():
                    self.distributions[name] = CategoricalDistribution(range(len(dimension.values)))
                case Ordered():
                    self.distributions[name] = IntDistribution(0, len(dimension.ladder) - 1)
                case Vector():
                    self.distributions[f"{name}.length"] = IntDistribution(1, dimension.max_length)
                    for index in range(dimension.max_length):
                        last = len(dimension.element.ladder) - 1
                        self.distributions[f"{name}.{index}"] = IntDistribution(0, last)

    def decode(self, parameters: Mapping[str, int]) -> Workload | None:
        """Return the nearest workload, or None when repair reaches a dead end."""
        wanted: dict[str, Any] = {}
        for name, dimension in self._space.dimensions.items():
            match dimension:
                case Choice():
                    wanted[name] = dimension.values[parameters[name]]
                case Ordered():
                    wanted[name] = dimension.ladder[parameters[name]]
                case Vector():
                    length = parameters[f"{name}.length"]
                    wanted[name] = tuple(dimension.element.ladder[parameters[f"{name}.{i}"]] for i in range(length))
        return self._space.nearest(wanted)

    def encode(self, workload: Workload) -> dict[str, int]:
        """Return the parameters of a workload. Idle elements of a list repeat its last element."""
        parameters = {}
        for name, dimension in self._space.dimensions.items():
            value = workload.get(name)
            match dimension:
                case Choice():
                    parameters[name] = dimension.values.index(value)
                case Ordered():
                    parameters[name] = dimension.ladder.index(value)
                case Vector():
                    places = [dimension.element.ladder.index(item) for item in value]
                    parameters[f"{name}.length"] = len(places)
                    places += places[-1:] * (dimension.max_length - len(places))
                    parameters |= {f"{name}.{index}": place for index, place in enumerate(places)}
        return parameters


@dataclass(frozen=True, slots=True)
class _Observation:
    """Optuna's parameters of one workload, and its readings by counter, empty without a measurement."""

    parameters: Mapping[str, int]
    readings: Mapping[str, float | None]


class BayesianSearch:
    """Proposes the suggestions of an optuna sampler by the rules above.

    Raises:
        UsageError: a package that the sampler needs is not installed.
    """

    temperature: float | None = None

    def __init__(self, recipe: Recipe, space: Space, catalog: Catalog, rng: Random) -> None:
        missing = [name for name in _NEEDS[recipe.bayesian.sampler] if importlib.util.find_spec(name) is None]
        if missing:
            raise UsageError(
                f"recipe {recipe.name} needs {' and '.join(missing)}, which Collie does not install by itself: "
                f"pip install {' '.join(missing)}"
            )
        self._recipe = recipe
        self._space = space
        self._catalog = catalog
        self._rng = rng
        self._encoding = Encoding(space)
        self._sampler = _sampler(recipe, rng.randrange(1 << 31))
        self._study: Study | None = None
        self._observed_by_study = 0
        self._history: list[_Observation] = []
        self._stages = Stages(recipe, catalog)
        self._measured_in_stage = 0
        self._refused = 0

    @property
    def driven(self) -> str | None:
        """The counter of this stage, or None during ranking."""
        return self._stages.driven

    def ask_on(self, _set_up: SetUp) -> Workload | None:
        """Propose what comes next, whether it fits or not: the next point follows from the present one."""
        return self.ask()

    def ask(self) -> Workload:
        """Propose the sampler's suggestion, or a random point."""
        objective = self._stages.objective
        if objective is None or self._refused >= _PATIENCE:
            return self._space.sample(self._rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trial = self._current_study(objective).ask(self._encoding.distributions)
        return self._encoding.decode(trial.params) or self._space.sample(self._rng)

    def tell(self, workload: Workload, answer: Answer) -> None:
        """Learn from a measurement, and avoid workloads without one."""
        measured = answer.measurement if answer.outcome is ProposalOutcome.MEASURED else None
        self._refused = 0 if measured or self._refused >= _PATIENCE else self._refused + 1
        self._history.append(
            _Observation(self._encoding.encode(workload), readings(self._catalog, measured) if measured else {})
        )
        if measured is None:
            return
        if self._stages.objective is None:
            self._stages.rank(measured)
            return
        self._measured_in_stage += 1
        if self._measured_in_stage >= self._recipe.bayesian.runs_per_counter:
            self._measured_in_stage = 0
            self._stages.advance()
            self._study = None

    def _current_study(self, objective: Objective) -> Study:
        import optuna
        from optuna.trial import TrialState, create_trial

        latest = self._history[-self._recipe.bayesian.history :]
        if self._study is None or len(latest) < len(self._history):
            optuna.logging.set_verbosity(optuna.logging.CRITICAL)
            self._study = optuna.create_study(direction="maximize", sampler=self._sampler)
            fresh = latest
        else:
            fresh = self._history[self._observed_by_study :]
        values = [_value(observation, objective) for observation in fresh]
        worst = min((value for seen in latest if (value := _value(seen, objective)) is not None), default=0.0)
        for observation, value in zip(fresh, values, strict=True):
            self._study.add_trial(
                create_trial(
                    state=TrialState.COMPLETE,
                    params=dict(observation.parameters),
                    distributions=self._encoding.distributions,
                    value=worst if value is None else value,
                )
            )
        self._observed_by_study = len(self._history)
        return self._study


def _value(observation: _Observation, objective: Objective) -> float | None:
    reading = observation.readings.get(objective.counter)
    if reading is None or not math.isfinite(reading):
        return None
    value = math.log1p(max(0.0, reading))
    return value if objective.rises else -value


def _sampler(recipe: Recipe, seed: int) -> BaseSampler:
    from optuna.samplers import GPSampler, TPESampler

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # optuna marks these samplers experimental
        if recipe.bayesian.sampler is Sampler.GP:
            return GPSampler(seed=seed, n_startup_trials=recipe.ranking_points, deterministic_objective=False)
        return TPESampler(seed=seed, n_startup_trials=recipe.ranking_points)
