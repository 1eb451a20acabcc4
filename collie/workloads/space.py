"""A space: the dimensions that a search can vary, and the constraints between them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product, takewhile
from operator import ne
from random import Random
from types import MappingProxyType, SimpleNamespace
from typing import Any

from collie.workloads.constraint import VERBS, Constraint, HostLimits, within
from collie.workloads.dimension import Choice, Dimension, Ordered, Vector
from collie.workloads.feature import SIZES, SOURCES, Condition, Mfs, Op, feature_value, sources
from collie.workloads.setup import TRAFFIC, Changes, misfit
from collie.workloads.units import format_value
from collie.workloads.workload import FIELD_NAMES, Workload

DRAW_ORDER = (
    "requesters",
    "responders",
    "rails",
    "qp_type",
    "opcode",
    "more_opcodes",
    "mtu",
    "qps",
    "mrs_per_qp",
    "send_wq_depth",
    "recv_wq_depth",
    "wqe_batch",
    "messages",
)
"""Drawn first, because other dimensions depend on them."""

_MAX_TRIES = 1000
_TRIES_OF_VALUES = 50


@dataclass(frozen=True, slots=True)
class _Step:
    """One dimension. `checks` read only this and earlier dimensions."""

    dimension: Dimension
    candidates: tuple[Any, ...]
    checks: tuple[Callable[[Any], str | None], ...]

    def fitting(self, draft: SimpleNamespace) -> list[Any]:
        return [value for value in self.candidates if self._fits(draft, value)] if self.checks else [*self.candidates]

    def admits(self, draft: SimpleNamespace, value: Any) -> bool:
        if isinstance(self.dimension, Vector):
            return all((size,) in self.candidates and self._fits(draft, (size,)) for size in value)
        return value in self.candidates and self._fits(draft, value)

    def _fits(self, draft: SimpleNamespace, value: Any) -> bool:
        setattr(draft, self.dimension.name, value)
        # A loop, because all() would double the time of a search's innermost function.
        for check in self.checks:  # noqa: SIM110
            if check(draft) is not None:
                return False
        return True


@dataclass(frozen=True)
class Space:
    """A set of workloads.

    Attributes:
        dimensions: in the file's order, which is also the order of an MFS's conditions.
        rules: further constraints.
        part_of: for the space of an application, the space from which it was cut.
        base: values of the fixed fields and plain values of the others.
    """

    name: str
    dimensions: Mapping[str, Dimension]
    limits: HostLimits = field(default_factory=HostLimits)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    rules: tuple[Constraint, ...] = ()
    part_of: Space | None = None

    def __post_init__(self) -> None:
        plain = {name: dimension.plain for name, dimension in self.dimensions.items()}
        object.__setattr__(self, "base", Workload(**{**plain, **self.fixed}))
        object.__setattr__(self, "constraints", VERBS + within(self.limits) + self.rules)
        object.__setattr__(self, "_steps", tuple(self._in_order_of_drawing()))
        new = [name for name, each in self.dimensions.items() if each.changes is Changes.SETUP and name in TRAFFIC]
        object.__setattr__(self, "_new_set_up", tuple(new))

    base: Workload = field(init=False)
    constraints: tuple[Constraint, ...] = field(init=False, repr=False)
    _steps: tuple[_Step, ...] = field(init=False, repr=False, compare=False)
    _new_set_up: tuple[str, ...] = field(init=False, repr=False, compare=False)

    @property
    def whole(self) -> Space:
        """The space that defines plain traffic: `part_of`, else this one."""
        return self.part_of or self

    def ladder(self, feature: str) -> tuple[int, ...]:
        """Return the steps of a feature, for sizes those of `messages`. Empty without order."""
        match self.dimensions.get("messages" if feature in SIZES else feature):
            case Vector(element=element):
                return element.ladder
            case Ordered(ladder=ladder):
                return ladder
        return ()

    def values(self, feature: str) -> list[Any]:
        """Return the values that the steps of its dimensions give a feature, a derived one in order."""
        if steps := self.ladder(feature):
            return list(steps)
        varied = [name for name in sources(feature) if name in self.dimensions]
        mixtures = product(*(self.dimensions[name].candidates() for name in varied))
        made = (self.base.with_(**dict(zip(varied, values, strict=True))) for values in mixtures)
        found = dict.fromkeys(feature_value(workload, feature) for workload in made)
        return sorted(found) if feature in SOURCES else list(found)

    def log10_size(self) -> float:
        """Return the decimal logarithm of the number of workloads, before constraints."""
        return math.fsum(math.log10(dimension.size()) for dimension in self.dimensions.values())

    def exhausted_by(self, measured: Iterable[Workload]) -> bool:
        """Whether no workload of the ladders is left to measure. A space of lists, or of many, always has some left."""
        of_lists = any(isinstance(each, Vector) and each.max_length > 1 for each in self.dimensions.values())
        candidates = [each.candidates() for each in self.dimensions.values()]
        if of_lists or math.prod(map(len, candidates)) > _MAX_TRIES:
            return False
        made = (self.base.with_(**dict(zip(self.dimensions, values, strict=True))) for values in product(*candidates))
        ran = set(measured)
        return all(workload in ran or self.violations(workload) for workload in made)

    def complaints(
        self, workload: Workload, varied_in: Callable[[str], Iterable[str]] = lambda _name: ()
    ) -> list[tuple[str, str]]:
        """Return (dimension, fault) for everything that keeps a workload out.

        `varied_in` names other spaces in which a dimension varies, for the fault that it does not.
        """
        found = [
            (name, wrong)
            for name, dimension in self.dimensions.items()
            if (wrong := dimension.complaint(workload.get(name)))
        ]
        for name in FIELD_NAMES:
            if name not in self.dimensions and workload.get(name) != self.base.get(name):
                fixed = f"{name} is {format_value(self.base.get(name))} in space {self.name}"
                others = list(varied_in(name))
                remedy = f"--space names one where it does{': ' if others else ''}{', '.join(others)}"
                if self.name in others:
                    remedy = "--fix, or what the testbed cannot run, leaves it no other value"
                found.append((name, f"{fixed} and does not vary; {remedy}"))
        return found + self.violations(workload)

    def violations(self, workload: Workload) -> list[tuple[str, str]]:
        """Return (dimension, fault) for every broken constraint."""
        return [(min(each.fields), wrong) for each in self.constraints if (wrong := each.check(workload))]

    def allows(self, workload: Workload) -> bool:
        """Whether a workload breaks no constraint."""
        for constraint in self.constraints:  # noqa: SIM110 (asked for every workload of a search: all() takes longer)
            if constraint.check(workload) is not None:
                return False
        return True

    def misfit(self, workload: Workload, made_for: Workload) -> str | None:
        """Return why a workload cannot be a phase of the set-up made for another one, or None if it can.

        Besides the verbs API, the space can demand a new set-up (`Dimension.changes`).
        """
        if (wrong := misfit(workload, made_for)) is not None:
            return wrong
        differing = [name for name in self._new_set_up if workload.get(name) != made_for.get(name)]
        return f"space {self.name} makes a new set-up for another {' and '.join(differing)}" if differing else None

    def has_sizes(self, workload: Workload) -> bool:
        """Whether the sizes of a workload's messages are those of the space."""
        messages = self.dimensions.get("messages")
        return not isinstance(messages, Vector) or messages.complaint(workload.messages) is None

    def sample(self, rng: Random) -> Workload:
        """Draw a workload: each dimension uniformly from its ladder, as far as earlier draws allow.

        Plain rejection would hardly ever draw UD with several messages.
        """
        return self.construct(drawn_uniformly(rng))

    def construct(self, pick: Callable[[Dimension, list[Any]], Any]) -> Workload:
        """Build a workload dimension by dimension.

        `pick` chooses among the values that fit so far. For a list of sizes it gets lists of one size, and can return
        longer lists.

        Raises:
            ValueError: no attempt satisfies the constraints.
        """
        for _ in range(_MAX_TRIES):
            built = self._draw(pick)
            if built is not None:
                return built
        raise ValueError(f"space {self.name}: no workload satisfies all constraints; widen a dimension or a limit")

    def can_hold(self, values: Mapping[str, Any]) -> bool:
        """Whether a workload with these values is found: the one nearest to plain, or one of some random ones."""
        rest = {name: dimension for name, dimension in self.dimensions.items() if name not in values}
        space = replace(self, dimensions=rest, fixed={**self.fixed, **values})
        if space.conflict() is not None:
            return False
        rng = Random(0)
        picks = (_nearest_to_plain, *(drawn_uniformly(rng) for _ in range(_TRIES_OF_VALUES)))
        return any(space._draw(pick) is not None for pick in picks)

    def conflict(self) -> str | None:
        """Return why no workload has the values that do not vary, or None if these are not in conflict."""
        of_fixed = (each for each in self.constraints if not each.fields & set(self.dimensions))
        return next((wrong for each in of_fixed if (wrong := each.check(self.base)) is not None), None)

    def plainest(self) -> Workload:
        """Return the workload nearest to plain. After a dead end, some workload moves to plain as far as it can."""
        drawn = self._draw(_nearest_to_plain)
        return self._moved_to_plain(self.sample(Random(0))) if drawn is None else drawn

    def _moved_to_plain(self, workload: Workload) -> Workload:
        before = None
        while workload != before:
            before = workload
            for name, dimension in self.dimensions.items():
                nearer = takewhile(partial(ne, workload.get(name)), _from_plain_on(dimension))
                moved = (workload.with_(**{name: value}) for value in nearer)
                workload = next(filter(self.allows, moved), workload)
        return workload

    def nearest(self, wanted: Mapping[str, Any]) -> Workload | None:
        """Return the workload nearest to wanted values, otherwise plain. None after a dead end."""
        values = {name: wanted.get(name, dimension.plain) for name, dimension in self.dimensions.items()}

        def pick(dimension: Dimension, fitting: list[Any]) -> Any:
            value = values[dimension.name]
            if isinstance(dimension, Vector):
                sizes = [size for (size,) in fitting]
                return tuple(min(sizes, key=lambda size: abs(size - item)) for item in value)
            return fitting[0] if isinstance(dimension, Choice) else min(fitting, key=lambda other: abs(other - value))

        return self._draw(pick, values)

    def mutate(self, workload: Workload, rng: Random) -> Workload:
        """Return a valid workload that differs in exactly one dimension. Raises `ValueError` when there is none."""
        names = list(self.dimensions)
        for _ in range(_MAX_TRIES):
            name = rng.choice(names)
            value = workload.get(name)
            other = self.dimensions[name].neighbour(value, rng)
            if other != value:
                candidate = workload.with_(**{name: other})
                if self.allows(candidate):
                    return candidate
        raise ValueError(f"space {self.name}: a workload has no valid neighbour; widen a dimension or a limit")

    def _in_order_of_drawing(self) -> Iterator[_Step]:
        free = set(self.dimensions)
        for name in drawing_order(self.dimensions):
            free.discard(name)
            ready = tuple(c.check for c in self.constraints if name in c.fields and not (c.fields & free))
            dimension = self.dimensions[name]
            yield _Step(dimension, dimension.candidates(), ready)

    def _draw(
        self, pick: Callable[[Dimension, list[Any]], Any], wanted: Mapping[str, Any] = MappingProxyType({})
    ) -> Workload | None:
        """Choose each dimension's wanted value if it fits, else pick one. None in a dead end."""
        draft = SimpleNamespace(**self.base.named())
        for step in self._steps:
            name = step.dimension.name
            if name in wanted and step.admits(draft, wanted[name]):
                setattr(draft, name, wanted[name])
                continue
            fitting = step.fitting(draft)
            if not fitting:
                return None
            setattr(draft, name, pick(step.dimension, fitting))
        workload = Workload(**vars(draft))
        return workload if self.allows(workload) else None

    def narrowed(
        self, fix: Mapping[str, Any], at_most: Mapping[str, int], at_least: Mapping[str, int] = MappingProxyType({})
    ) -> Space:
        """Return a smaller space with dimensions fixed to a value, or ordered ones limited from above and from below.

        Raises:
            ValueError: a dimension is unknown, a value is outside it, or nothing is left to vary or run.
        """
        dimensions = dict(self.dimensions)
        for name, value in fix.items():
            if name not in dimensions:
                raise ValueError(f"space {self.name} has no dimension {name!r}; it has {', '.join(self.dimensions)}")
            if wrong := dimensions.pop(name).complaint(value):
                raise ValueError(wrong)
        for name in dict.fromkeys((*at_most, *at_least)):
            dimension = dimensions.get(name)
            if name in fix:
                raise ValueError(
                    f"{name} is fixed to {format_value(fix[name])} and has nothing to limit; leave one out"
                )
            if not isinstance(dimension, Ordered | Vector):
                raise ValueError(f"space {self.name} has no ordered dimension {name!r} to limit")
            if name in at_most:
                dimension = dimension.limited(at_most[name])
            dimensions[name] = dimension.raised(at_least[name]) if name in at_least else dimension
        return self.remade(dimensions, {**self.fixed, **fix}, self.limits)

    def remade(self, dimensions: Mapping[str, Dimension], fixed: Mapping[str, Any], limits: HostLimits) -> Space:
        """Return a space of other dimensions. Conflicting plain values move to the nearest that fit.

        Raises:
            ValueError: nothing is left to vary or run.
        """
        if not dimensions:
            raise ValueError(
                f"space {self.name}: every dimension is fixed; run that one workload with `collie measure`"
            )
        space = replace(self, dimensions=dimensions, limits=limits, fixed=fixed)
        if space.allows(space.base):
            return space
        if (conflict := space.conflict()) is not None:
            raise ValueError(f"space {self.name} has no such workload: {conflict}")
        plainest = space.plainest()
        return replace(
            space, dimensions={name: replace(each, plain=plainest.get(name)) for name, each in dimensions.items()}
        )


def drawn_uniformly(rng: Random) -> Callable[[Dimension, list[Any]], Any]:
    """Return a choice for `Space.construct` that takes each value that fits with the same chance."""

    def pick(dimension: Dimension, fitting: list[Any]) -> Any:
        if isinstance(dimension, Vector):
            length = rng.randint(1, dimension.max_length)
            return tuple(rng.choice(fitting)[0] for _ in range(length))
        return rng.choice(fitting)

    return pick


def drawing_order(dimensions: Iterable[str]) -> tuple[str, ...]:
    """Return dimensions in drawing order."""
    names = dict.fromkeys(dimensions)
    return tuple(dict.fromkeys((*(name for name in DRAW_ORDER if name in names), *names)))


def widen_to_untested(mfs: Mfs, space: Space) -> Mfs:
    """Widen every threshold up to the step that did not reproduce the anomaly.

    Extraction does not know the boundary between two steps, and entry sizes lie off the ladder.
    """
    return Mfs(tuple(_widened(condition, space) for condition in mfs.conditions))


def _widened(condition: Condition, space: Space) -> Condition:
    ladder = space.ladder(condition.dimension)
    if condition.op is Op.AT_LEAST:
        below = [step for step in ladder if step < condition.value]
        return Condition(condition.dimension, Op.AT_LEAST, below[-1] + 1) if below else condition
    if condition.op is Op.AT_MOST:
        above = [step for step in ladder if step > condition.value]
        return Condition(condition.dimension, Op.AT_MOST, above[0] - 1) if above else condition
    return condition


def _from_plain_on(dimension: Dimension) -> list[Any]:
    """Return plain and the values that a search draws from, those nearest to plain first."""
    if isinstance(dimension, Choice):
        return [dimension.plain, *dimension.values]
    if isinstance(dimension, Vector):
        size = dimension.plain[0]
        return [dimension.plain, *sorted(dimension.candidates(), key=lambda sizes: abs(sizes[0] - size))]
    return sorted({dimension.plain, *dimension.ladder}, key=lambda value: abs(value - dimension.plain))


def _nearest_to_plain(dimension: Dimension, fitting: list[Any]) -> Any:
    parts = [(size,) for size in dimension.plain] if isinstance(dimension, Vector) else [dimension.plain]
    if all(part in fitting for part in parts):
        return dimension.plain
    if isinstance(dimension, Choice):
        return fitting[0]
    plain = dimension.plain[0] if isinstance(dimension, Vector) else dimension.plain
    return min(fitting, key=lambda value: abs((value[0] if isinstance(value, tuple) else value) - plain))
