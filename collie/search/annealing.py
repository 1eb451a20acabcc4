"""Simulated annealing on one counter after another (paper, Algorithm 1).

Terms. The *current* point is the paper's P_old with its reading M_old. A *stage* drives one counter from the first
temperature to the last. Stages follow the rank of the counters and start again after the last.

Rules.
1. The first `ranking_points` proposals are random and rank the counters by std / mean.
2. A proposal mutates the current point, or is random without one. The paper mutates "in ONE search dimension" of four:
   step `group` redraws one of the four, step `one` changes one dimension of the space.
3. A point that is worse for the NIC replaces the current point. A better one does so with probability exp(-dE / T).
   The printed algorithm never refreshes M_old. Here M_old moves with P_old.
4. Each stage begins at a random point, and so does the walk after an anomaly.
5. A skipped proposal counts as a run at its temperature (the `continue` of Algorithm 1). A failed or unsupported one
   does not. After `_PATIENCE` proposals in a row without a measurement, known anomalies presumably surround the point,
   and the walk starts afresh.
6. The paper makes a set-up for each point. Where a set-up has phases, they are neighbours of its first point that fit
   it, because their answers come together when the set-up ends. A stage begins on a set-up of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from collie.counters.catalog import Catalog
from collie.search.objective import Objective, Stages, readings
from collie.search.phases import Pick, on_set_up
from collie.search.recipe import Recipe, Step
from collie.search.strategy import Answer, ProposalOutcome
from collie.workloads.setup import SetUp
from collie.workloads.space import Space, drawn_uniformly
from collie.workloads.workload import Workload

_PATIENCE = 20
_TRIES = 200
"""Limit on draws of a group that fits the rest of the workload. After it, one dimension is mutated."""
_GROUPS = (
    {
        *("direction", "loopback", "numa_node", "peer_numa_node", "memory", "peer_memory"),
        *("requesters", "responders", "rails", "remote"),
    },
    {"mrs_per_qp", "mr_bytes", "new_mrs_per_second"},
    {"messages", "offered_bps"},
)
"""The paper's host topology, memory allocation and message pattern (section 4). All else is transport."""


@dataclass(frozen=True, slots=True)
class _Point:
    """A measured workload with its counters. The measurement itself is too large to keep."""

    workload: Workload
    readings: Mapping[str, float | None]


class Annealing:
    """The paper's search. The module docstring has terms and rules."""

    def __init__(self, recipe: Recipe, space: Space, catalog: Catalog, rng: Random) -> None:
        self._recipe = recipe
        self._space = space
        self._catalog = catalog
        self._rng = rng
        self._stages = Stages(recipe, catalog)
        self._temperature = recipe.schedule.start
        self._runs_at_temperature = 0
        self._current: _Point | None = None
        self._refused = 0
        self._groups = _groups(space)

    @property
    def driven(self) -> str | None:
        """The counter of this stage, or None during ranking."""
        return self._stages.driven

    @property
    def temperature(self) -> float | None:
        """The temperature, or None during ranking."""
        return self._temperature if self._stages.objective else None

    def ask_on(self, set_up: SetUp) -> Workload | None:
        """Propose a neighbour of the set-up's first point that fits it, or None if the stage has no run left for one.

        Ranking takes points that are independent of each other, each on a set-up of its own.
        """
        if self._stages.objective is None or not self._stage_lasts(len(set_up.before)):
            return None
        try:
            return self._neighbour_on(set_up)
        except ValueError:  # a narrow space
            return None

    def ask(self) -> Workload:
        """Propose a random point or a neighbour of the current point."""
        if self._current is not None:
            try:
                return self._mutated(self._current.workload)
            except ValueError:  # a narrow space can leave a point without a neighbour
                self._current = None
        return self._space.sample(self._rng)

    def tell(self, workload: Workload, answer: Answer) -> None:
        """Move, stay or start afresh."""
        objective = self._stages.objective
        if answer.outcome is not ProposalOutcome.MEASURED or answer.measurement is None:
            self._refused += 1
            if self._refused >= _PATIENCE:
                self._current = None
                self._refused = 0
            if answer.outcome is ProposalOutcome.SKIPPED and objective:
                self._cool()
            return
        self._refused = 0
        if objective is None:
            self._stages.rank(answer.measurement)
            return
        point = _Point(workload, readings(self._catalog, answer.measurement))
        if answer.found:
            self._current = None
        elif self._current is None or self._accepts(objective, self._current, point):
            self._current = point
        self._cool()

    def _mutated(self, workload: Workload) -> Workload:
        if self._recipe.schedule.step is Step.GROUP:
            for _ in range(_TRIES):
                candidate = self._stepped(workload, drawn_uniformly(self._rng))
                if candidate is not None:
                    return candidate
        return self._space.mutate(workload, self._rng)

    def _neighbour_on(self, set_up: SetUp) -> Workload | None:
        pick = on_set_up(set_up, drawn_uniformly(self._rng))
        for _ in range(_TRIES):
            candidate = self._stepped(set_up.before[0], pick)
            if candidate is not None and self._space.misfit(candidate, set_up.made_for) is None:
                return candidate
        return None

    def _stepped(self, workload: Workload, pick: Pick) -> Workload | None:
        """Return a workload after one step, or None if this draw leads to none."""
        if self._recipe.schedule.step is Step.ONE:
            return self._space.mutate(workload, self._rng)
        names = self._groups[self._rng.randrange(len(self._groups))]
        drawn = self._space.construct(pick)
        candidate = workload.with_(**{name: drawn.get(name) for name in names})
        return candidate if candidate != workload and self._space.allows(candidate) else None

    def _accepts(self, objective: Objective, old: _Point, new: _Point) -> bool:
        before, after = old.readings[objective.counter], new.readings[objective.counter]
        if before is None or after is None:
            return before is None  # a reading that one side lacks cannot be compared
        change = objective.energy(before, after)
        return change < 0 or self._rng.random() < math.exp(-change / self._temperature)

    def _stage_lasts(self, runs: int) -> bool:
        """Whether the stage has a run left after this number of further ones."""
        schedule = self._recipe.schedule
        steps = (self._runs_at_temperature + runs) // schedule.runs_per_temperature
        return self._temperature * schedule.decay**steps >= schedule.end

    def _cool(self) -> None:
        schedule = self._recipe.schedule
        self._runs_at_temperature += 1
        if self._runs_at_temperature < schedule.runs_per_temperature:
            return
        self._runs_at_temperature = 0
        self._temperature *= schedule.decay
        if self._temperature < schedule.end:
            self._temperature = schedule.start
            self._stages.advance()
            self._current = None


def _groups(space: Space) -> list[list[str]]:
    transport = set(space.dimensions).difference(*_GROUPS)
    groups = ([name for name in space.dimensions if name in group] for group in (*_GROUPS, transport))
    return [names for names in groups if names]
