"""A space: the dimensions that a search may vary, and the constraints between them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from types import MappingProxyType, SimpleNamespace
from typing import Any

from collie.workloads.constraint import VERBS, Constraint, HostLimits, within
from collie.workloads.dimension import Choice, Dimension, Ordered, Vector
from collie.workloads.feature import SOURCES
from collie.workloads.units import format_value
from collie.workloads.workload import Workload

DRAW_ORDER = (
    "requesters",
    "responders",
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
"""Drawn first, because other dimensions depend on them: each later draw is uniform over what the earlier ones allow."""

_MAX_TRIES = 1000


@dataclass(frozen=True, slots=True)
class _Step:
    """One dimension in the order of drawing.

    Attributes:
        dimension: to be drawn.
        candidates: what may be drawn, before constraints.
        checks: of the constraints that read it, and else only what was drawn before.
    """

    dimension: Dimension
    candidates: tuple[Any, ...]
    checks: tuple[Callable[[Any], str | None], ...]

    def fitting(self, draft: SimpleNamespace) -> list[Any]:
        """Return the candidates that go with what was drawn before."""
        return [value for value in self.candidates if self._fits(draft, value)] if self.checks else [*self.candidates]

    def admits(self, draft: SimpleNamespace, value: Any) -> bool:
        """Whether a value, or each size of a list, is among those that go with what was drawn before."""
        if isinstance(self.dimension, Vector):
            return all((size,) in self.candidates and self._fits(draft, (size,)) for size in value)
        return value in self.candidates and self._fits(draft, value)

    def _fits(self, draft: SimpleNamespace, value: Any) -> bool:
        setattr(draft, self.dimension.name, value)
        # A loop, as this is the innermost of a search: all() would take twice the time.
        for check in self.checks:  # noqa: SIM110
            if check(draft) is not None:
                return False
        return True


@dataclass(frozen=True)
class Space:
    """A set of workloads.

    Attributes:
        name: as the user says it.
        dimensions: by name, in the file's order, which is the order in which an MFS lists its conditions.
        limits: what the hosts can hold.
        base: values of the fields that no dimension varies, and the plain value of those that one does.
        rules: constraints besides those of the verbs API and the limits.
        part_of: the space that this one was cut from for an application; plain traffic is that space's.
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

    base: Workload = field(init=False)
    constraints: tuple[Constraint, ...] = field(init=False, repr=False)
    _steps: tuple[_Step, ...] = field(init=False, repr=False, compare=False)

    @property
    def whole(self) -> Space:
        """The space that says what is plain: itself, unless it was cut from another."""
        return self.part_of or self

    def ladder(self, feature: str) -> tuple[int, ...]:
        """Return the steps of a feature, those of `messages` for the size of a message or segment; () without order."""
        match self.dimensions.get("messages" if "messages" in SOURCES.get(feature, ()) else feature):
            case Vector(element=element):
                return element.ladder
            case Ordered(ladder=ladder):
                return ladder
        return ()

    def log10_size(self) -> float:
        """Return the decimal logarithm of the product of all ranges, before constraints."""
        return math.fsum(math.log10(dimension.size()) for dimension in self.dimensions.values())

    def complaints(self, workload: Workload) -> list[tuple[str, str]]:
        """Return (dimension, what is wrong) for everything that keeps a workload out of this space."""
        found = []
        for name, dimension in self.dimensions.items():
            if wrong := dimension.complaint(workload.get(name)):
                found.append((name, wrong))
        for name in _FIELDS - set(self.dimensions):
            if workload.get(name) != self.base.get(name):
                fixed = format_value(self.base.get(name))
                found.append(
                    (name, f"{name} is {fixed} in space {self.name} and does not vary; --space names one where it does")
                )
        return found + self.violations(workload)

    def violations(self, workload: Workload) -> list[tuple[str, str]]:
        """Return (dimension, what is wrong) for every constraint that a workload breaks."""
        found = []
        for constraint in self.constraints:
            if wrong := constraint.check(workload):
                found.append((min(constraint.fields), wrong))
        return found

    def allows(self, workload: Workload) -> bool:
        """Whether a workload breaks no constraint."""
        for constraint in self.constraints:  # noqa: SIM110 (asked for every workload of a search: all() takes longer)
            if constraint.check(workload) is not None:
                return False
        return True

    def sample(self, rng: Random) -> Workload:
        """Draw a workload: each dimension uniformly from its ladder, as far as earlier draws allow.

        Plain rejection would hardly ever draw UD with several messages or many queue pairs with many regions.

        Raises:
            ValueError: the constraints leave no workload that drawing finds.
        """

        def pick(dimension: Dimension, fitting: list[Any]) -> Any:
            if isinstance(dimension, Vector):
                length = rng.randint(1, dimension.max_length)
                return tuple(rng.choice(fitting)[0] for _ in range(length))
            return rng.choice(fitting)

        return self.construct(pick)

    def construct(self, pick: Callable[[Dimension, list[Any]], Any]) -> Workload:
        """Build a workload dimension by dimension.

        Args:
            pick: chooses a value of a dimension among those that go with what was chosen before. For a list of sizes
                these are lists of one; a longer one of the same sizes may be chosen as well.

        Raises:
            ValueError: the choices led into a dead end every time.
        """
        for _ in range(_MAX_TRIES):
            built = self._draw(pick)
            if built is not None:
                return built
        raise ValueError(f"space {self.name}: no workload satisfies all constraints; widen a dimension or a limit")

    def could_hold(self, values: Mapping[str, Any]) -> bool:
        """Whether no constraint forbids these values together that reads no other dimension of the space."""
        draft = SimpleNamespace(**self.base.named())
        vars(draft).update(values)
        return all(c.check(draft) is None for c in self.constraints if c.fields & set(self.dimensions) <= set(values))

    def plainest(self) -> Workload:
        """Return the workload with every dimension plain, or as near to plain as the constraints allow.

        Where the nearest values lead into a dead end it is any workload, and always the same.

        Raises:
            ValueError: the constraints leave none that drawing finds.
        """
        return self._draw(_nearest_to_plain) or self.sample(Random(0))

    def nearest(self, wanted: Mapping[str, Any]) -> Workload | None:
        """Return a workload with the values wanted, or for each dimension the nearest that the others allow.

        Dimensions are settled in the order of drawing; what is not wanted becomes plain.

        Returns:
            None when the values first settled leave nothing for a later dimension.
        """
        values = {name: wanted.get(name, dimension.plain) for name, dimension in self.dimensions.items()}

        def pick(dimension: Dimension, fitting: list[Any]) -> Any:
            value = values[dimension.name]
            if isinstance(dimension, Vector):
                sizes = [size for (size,) in fitting]
                return tuple(min(sizes, key=lambda size: abs(size - item)) for item in value)
            return fitting[0] if isinstance(dimension, Choice) else min(fitting, key=lambda other: abs(other - value))

        return self._draw(pick, values)

    def mutate(self, workload: Workload, rng: Random) -> Workload:
        """Return a valid workload that differs in exactly one dimension.

        Raises:
            ValueError: drawing finds none.
        """
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
        first = [name for name in DRAW_ORDER if name in self.dimensions]
        order = first + [name for name in self.dimensions if name not in first]
        free = set(order)
        for name in order:
            free.discard(name)
            ready = tuple(c.check for c in self.constraints if name in c.fields and not (c.fields & free))
            dimension = self.dimensions[name]
            yield _Step(dimension, dimension.candidates(), ready)

    def _draw(
        self, pick: Callable[[Dimension, list[Any]], Any], wanted: Mapping[str, Any] = MappingProxyType({})
    ) -> Workload | None:
        """Choose dimension by dimension among the values that the choices so far allow; None in a dead end.

        What is wanted and allowed is taken; the rest is picked.
        """
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

    def narrowed(self, fix: Mapping[str, Any], at_most: Mapping[str, int]) -> Space:
        """Return a smaller space: some dimensions fixed to a value, some ordered ones limited from above.

        Plain values that do not go with what is fixed give way to the nearest that do.

        Raises:
            ValueError: a dimension is unknown, a value is outside it, or nothing is left that could be varied or run.
        """
        dimensions = dict(self.dimensions)
        fixed = dict(self.fixed)
        for name, value in fix.items():
            if name not in dimensions:
                raise ValueError(f"space {self.name} has no dimension {name!r}; it has {', '.join(self.dimensions)}")
            if wrong := dimensions.pop(name).complaint(value):
                raise ValueError(wrong)
            fixed[name] = value
        for name, limit in at_most.items():
            dimension = dimensions.get(name)
            if isinstance(dimension, Vector):
                element = dimension.element.limited(limit)
                plain = tuple(min(value, element.high) for value in dimension.plain)
                dimensions[name] = Vector(name, dimension.max_length, element, plain, dimension.keep_in_sibling)
            elif isinstance(dimension, Ordered):
                dimensions[name] = dimension.limited(limit)
            else:
                raise ValueError(f"space {self.name} has no ordered dimension {name!r} to limit")
        return self.remade(dimensions, fixed, self.limits)

    def remade(self, dimensions: Mapping[str, Dimension], fixed: Mapping[str, Any], limits: HostLimits) -> Space:
        """Return a space of other dimensions; plain values that do not go together give way to the nearest that do.

        Raises:
            ValueError: nothing is left that could be varied or run.
        """
        if not dimensions:
            raise ValueError(
                f"space {self.name}: every dimension is fixed; run that one workload with `collie measure`"
            )
        space = replace(self, dimensions=dimensions, limits=limits, fixed=fixed)
        if space.allows(space.base):
            return space
        plainest = space.plainest()
        replaced = {name: replace(dimension, plain=plainest.get(name)) for name, dimension in dimensions.items()}
        return replace(space, dimensions=replaced)


_FIELDS = frozenset(Workload.__dataclass_fields__)


def _nearest_to_plain(dimension: Dimension, fitting: list[Any]) -> Any:
    if dimension.plain in fitting:
        return dimension.plain
    if isinstance(dimension, Choice):
        return fitting[0]
    plain = dimension.plain[0] if isinstance(dimension, Vector) else dimension.plain
    return min(fitting, key=lambda value: abs((value[0] if isinstance(value, tuple) else value) - plain))
