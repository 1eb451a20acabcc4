"""Guided search: learn which dimension moves which counter, then propose the worst workload for each counter.

Terms. A *transport* is a pair of QP type and opcode. A *goal* is one diagnostic counter of one transport, per second or
per message. Counters are products of contributions of dimensions (twice the queue pairs, twice the lookups), so their
logarithms are nearly sums. A linear model in the ladder positions learns these from few runs.

Method.
1. The first proposals are plain traffic of each transport, with short and with plain messages. If plain traffic is
   itself anomalous, that is the simplest find, and its runs bound nothing.
2. The next `starts` proposals are random. Half of the values come from the ends of their ladders, where limits are
   exceeded. From here on, the transport that has had the fewest turns is the next, of those that a set-up serves.
3. The goals of a transport then follow in turn. A Bayesian linear regression over all runs (other transports count
   less) weighs every value of every dimension. Each dimension takes a value with a probability that grows with its
   predicted effect.
4. Only one goal of several with correlated readings on one transport is driven at a time.
5. Each value becomes random with a small chance that grows with every consecutive covered proposal. A share of the
   proposals stays random. A random phase of a set-up mostly uses its capacities in full.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collie.counters.catalog import Catalog, CounterKind
from collie.detect.measurement import Measurement
from collie.search.phases import Pick, first_fit, mostly_full, on_set_up
from collie.search.recipe import Recipe
from collie.search.strategy import Answer, ProposalOutcome
from collie.workloads.dimension import Choice, Dimension, Ordered, Vector
from collie.workloads.setup import SetUp
from collie.workloads.space import Space
from collie.workloads.workload import Workload

Floats = NDArray[np.float64]

_SHORT_MESSAGE = 1024
"""Bytes of the short messages of plain traffic: one small packet, so that messages and not bytes are the limit."""

_OTHER_TRANSPORT = 0.15
"""Weight of a run of another transport."""
_RIDGE = 1.0
"""Precision of the prior: a dimension with little variation has a weight near 0, so all its values are as probable."""
_RANDOM_VALUE = 0.08
_MORE_RANDOM = 0.06
"""Chance of a random value in place of the model's, and its increase per consecutive covered proposal."""
_ALIKE = 0.7
"""Correlation above which goals of a transport are driven in turn."""
_MOVED = 0.05
"""Minimum standard deviation, in decades, of a counter that moves."""
_SOFTNESS = 0.1
"""Decades below the best value's prediction at which a value is a tenth as probable."""
_FREE_MESSAGES = 0.5
"""Share of proposals with random message sizes: goals favour the extremes, and many limits lie between."""
_COVERED_TURN = 0.1
"""Part of a turn of its transport that a covered proposal takes: it costs no run, but there may be little else left."""
_MIXES = 10
"""Number of request vectors of several sizes to choose from, besides those of one size."""


class Encoder:
    """Turns values of a space's dimensions into features."""

    def __init__(self, space: Space) -> None:
        self._slices: dict[str, slice] = {}
        width = 1
        for name, dimension in space.dimensions.items():
            size = len(self._code(dimension, dimension.plain))
            self._slices[name] = slice(width, width + size)
            width += size
        self.width = width
        self._dimensions = dict(space.dimensions)

    def encode(self, workload: Workload) -> Floats:
        """Return the features of a workload. The first is 1."""
        row = np.ones(self.width)
        for name, dimension in self._dimensions.items():
            row[self._slices[name]] = self._code(dimension, workload.get(name))
        return row

    def utility(self, weights: Floats, dimension: Dimension, value: Any) -> float:
        """Return the contribution of a value to the predicted reading."""
        code = self._code(dimension, value)
        part = weights[self._slices[dimension.name]]
        return float(sum(weight * feature for weight, feature in zip(part.tolist(), code, strict=True)))

    def _code(self, dimension: Dimension, value: Any) -> list[float]:
        match dimension:
            case Choice():
                return [1.0 if value == other else 0.0 for other in dimension.values]
            case Ordered():
                position = _position(dimension, value)
                return [position, position * position]
            case Vector():
                places = [_position(dimension.element, size) for size in value]
                low, high, mean = min(places), max(places), sum(places) / len(places)
                return [low, low * low, high, high * high, mean, mean * mean, high - low]


def _position(dimension: Ordered, value: int) -> float:
    """Return the position of a value on its ladder, 0..1, logarithmic between the steps."""
    low, high = max(1, dimension.ladder[0]), dimension.ladder[-1]
    if high <= low:  # a ladder of one step, or 0 and 1
        return float(value > dimension.ladder[0])
    return min(1.0, max(0.0, math.log(max(1, value) / low) / math.log(high / low)))


@dataclass(eq=False)
class _Goal:
    counter: int
    per_message: bool
    transport: int


class Guided:
    """The default search. The module docstring has terms and method."""

    temperature: float | None = None

    def __init__(self, recipe: Recipe, space: Space, catalog: Catalog, rng: Random) -> None:
        self._guide = recipe.guide
        self._space = space
        self._rng = rng
        self._counters = [counter.name for counter in catalog.of_kind(CounterKind.DIAGNOSTIC)]
        self._encoder = Encoder(space)
        self._transports = _transports(space)
        self._plain = _plain_traffic(space, self._transports)
        self._starts = recipe.guide.starts + len(self._plain)
        self._rows: list[Floats] = []
        self._readings: list[Floats] = []
        self._of: list[int] = []
        self._goals: list[list[_Goal]] = [[] for _ in self._transports]
        self._goal: _Goal | None = None
        self._turns = [0.0] * len(self._transports)
        self._covered = 0

    @property
    def driven(self) -> str | None:
        """The counter that the last proposal was meant to drive."""
        return self._counters[self._goal.counter] if self._goal else None

    def ask(self) -> Workload:
        """Propose a workload. Plain traffic comes first."""
        self._goal = None
        if self._plain:
            return self._plain.pop(0)
        proposed = self._proposed(None)
        assert proposed is not None, "without a set-up, everything fits"
        return proposed

    def ask_on(self, set_up: SetUp) -> Workload | None:
        """Propose a workload that fits a set-up. While plain traffic is left, nothing else is proposed."""
        self._goal = None
        if not self._plain:
            return self._proposed(set_up)
        plain = next((plain for plain in self._plain if set_up.misfit(plain) is None), None)
        if plain is not None:
            self._plain.remove(plain)
        return plain

    def _proposed(self, on: SetUp | None) -> Workload | None:
        served = [
            index
            for index, transport in enumerate(self._transports)
            if on is None or all(on.offers(name, value) for name, value in transport.items())
        ]
        for transport in sorted(served, key=self._turns.__getitem__):
            if (proposed := self._proposed_of(transport, on)) is not None:
                self._turns[transport] += 1.0
                return proposed
        return None

    def _proposed_of(self, transport: int, on: SetUp | None) -> Workload | None:
        self._goal = None
        is_start = len(self._rows) < self._starts or not self._counters
        if not is_start and self._rng.random() >= self._guide.random_share:
            self._goal = self._next_goal(transport)
        goal = self._goal
        draw = partial(self._start, transport, on) if goal is None else partial(self._constructed, goal, on)
        return first_fit(self._space, on, draw)

    def tell(self, workload: Workload, answer: Answer) -> None:
        """Learn from a measurement."""
        if answer.outcome is ProposalOutcome.SKIPPED:
            self._covered += 1
            self._turns[self._transport_of(workload)] -= 1.0 - _COVERED_TURN
        else:
            self._covered = 0
        if answer.outcome is not ProposalOutcome.MEASURED or answer.measurement is None:
            return
        self._rows.append(self._encoder.encode(workload))
        self._readings.append(self._reading(workload, answer.measurement))
        self._of.append(self._transport_of(workload))

    def _column(self, goal: _Goal) -> int:
        return goal.counter + (len(self._counters) if goal.per_message else 0)

    def _reading(self, workload: Workload, measurement: Measurement) -> Floats:
        values = np.array([measurement.counter(name) or 0.0 for name in self._counters])
        messages = sum(host.delivered_bps or 0.0 for host in measurement.hosts) / 8 / workload.mean_message_bytes
        per_message = values / max(messages, 1.0)
        return np.concatenate([np.log10(1.0 + values), np.log10(1e-6 + per_message)])

    def _next_goal(self, transport: int) -> _Goal | None:
        """Return the next goal of a transport, or None if none of its counters moved."""
        goals = self._goals[transport]
        if not goals:
            readings, of = np.array(self._readings), np.array(self._of)
            goals += self._independent(readings[of == transport], transport)
        return goals.pop() if goals else None

    def _independent(self, readings: Floats, transport: int) -> list[_Goal]:
        """Return the goals of one transport whose counters moved, in random order. Of correlated ones one is enough."""
        goals = [
            _Goal(counter, per_message, transport)
            for counter in range(len(self._counters))
            for per_message in (False, True)
        ]
        self._rng.shuffle(goals)
        kept: list[_Goal] = []
        columns: list[Floats] = []
        for goal in goals if len(readings) > 2 else ():
            column = readings[:, self._column(goal)]
            spread = float(column.std())
            if spread < _MOVED:
                continue
            column = (column - column.mean()) / spread
            if all(abs(float(column @ other)) < _ALIKE * len(column) for other in columns):
                kept.append(goal)
                columns.append(column)
        return kept

    def _start(self, transport: int, on: SetUp | None) -> Workload:
        return self._space.construct(on_set_up(on, self._on(transport, self._random_pick(on))))

    def _random_pick(self, on: SetUp | None) -> Pick:
        return self._random_value if on is None else mostly_full(self._random_value, self._rng)

    def _on(self, transport: int, pick: Pick) -> Pick:
        wanted = self._transports[transport]

        def chosen(dimension: Dimension, fitting: list[Any]) -> Any:
            value = wanted.get(dimension.name)
            return value if value in fitting else pick(dimension, fitting)

        return chosen

    def _random_value(self, dimension: Dimension, fitting: list[Any]) -> Any:
        """Draw a fitting value. With a chance of one half, an ordered value is one of the two lowest or two highest."""
        if isinstance(dimension, Vector):
            return self._random_messages(dimension, fitting)
        if isinstance(dimension, Ordered) and self._rng.random() < 0.5:
            return self._rng.choice(fitting[:2] + fitting[-2:])
        return self._rng.choice(fitting)

    def _random_messages(self, dimension: Vector, fitting: list[Any]) -> tuple[int, ...]:
        sizes = [value[0] for value in fitting]
        kind = self._rng.random()
        if kind < 0.4:
            return (self._rng.choice(sizes),)
        if kind < 0.7:
            small, large = sorted((self._rng.choice(sizes), self._rng.choice(sizes)))
            count = self._rng.randint(1, dimension.max_length - 1) if dimension.max_length > 1 else 0
            return (large, *([small] * count))
        return tuple(self._rng.choice(sizes) for _ in range(self._rng.randint(1, dimension.max_length)))

    def _constructed(self, goal: _Goal, on: SetUp | None) -> Workload:
        weights = self._weights(goal)
        chance = min(0.7, _RANDOM_VALUE + _MORE_RANDOM * self._covered)
        free = self._rng.random() < _FREE_MESSAGES
        draw = self._random_pick(on)

        def pick(dimension: Dimension, fitting: list[Any]) -> Any:
            if self._rng.random() < chance or (free and isinstance(dimension, Vector)):
                return draw(dimension, fitting)
            if isinstance(dimension, Vector):
                fitting = [*fitting, *(self._random_messages(dimension, fitting) for _ in range(_MIXES))]
            utilities = [self._encoder.utility(weights, dimension, value) for value in fitting]
            best = max(utilities)
            chances = [10.0 ** ((utility - best) / _SOFTNESS) for utility in utilities]
            return self._rng.choices(fitting, chances)[0]

        return self._space.construct(on_set_up(on, self._on(goal.transport, pick)))

    def _weights(self, goal: _Goal) -> Floats:
        """Return what each feature adds to the logarithm of a goal's reading: the mean of the posterior."""
        rows, of = np.array(self._rows), np.array(self._of)
        target = np.array(self._readings)[:, self._column(goal)]
        weight = np.where(of == goal.transport, 1.0, _OTHER_TRANSPORT)
        weighted = rows * weight[:, None]
        precision = weighted.T @ rows + _RIDGE * np.eye(self._encoder.width)
        fitted = np.linalg.solve(precision, weighted.T @ (target - float(np.average(target, weights=weight))))
        return np.asarray(fitted, dtype=np.float64)

    def _transport_of(self, workload: Workload) -> int:
        for index, transport in enumerate(self._transports):
            if all(workload.get(name) == value for name, value in transport.items()):
                return index
        return 0


def _transports(space: Space) -> Sequence[Mapping[str, Any]]:
    varied = [name for name in ("qp_type", "opcode") if isinstance(space.dimensions.get(name), Choice)]
    pairs: list[Mapping[str, Any]] = [{}]
    for name in varied:
        dimension = space.dimensions[name]
        pairs = [{**pair, name: value} for pair in pairs for value in dimension.candidates()]
    return [pair for pair in pairs if space.can_hold(pair)] or [{}]


def _plain_traffic(space: Space, transports: Sequence[Mapping[str, Any]]) -> list[Workload]:
    """Return the plain workload of each transport with short and with plain messages."""
    messages = space.base.messages
    sizes = ((_SHORT_MESSAGE,), messages) if isinstance(space.dimensions.get("messages"), Vector) else (messages,)
    wanted = [{**transport, "messages": size} for size in sizes for transport in transports]
    return list(dict.fromkeys(workload for each in wanted if (workload := space.nearest(each)) is not None))
