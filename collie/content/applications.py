"""Applications: workloads/applications/NAME.yaml. The format is in docs/reference/files.md."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from collie.advise.change import unreachable
from collie.advise.effort import CHECK_STEPS, Effort, Undecided
from collie.advise.overlap import pinned
from collie.advise.solver import find as find_any
from collie.content.document import Document, Location, read_document
from collie.content.fields import read_value
from collie.content.kinds import kind_of, require_kind
from collie.content.locate import ContentKind, available, find
from collie.content.model import Strict, validate
from collie.content.spaces import load_space
from collie.errors import ContentError, Problem, Problems
from collie.files import is_file_name
from collie.workloads.application import Application, Sizes, Traffic, Values
from collie.workloads.dimension import Choice, Dimension, Ordered, Vector
from collie.workloads.parse import unknown_key
from collie.workloads.space import Space
from collie.workloads.units import format_list, format_value

ANY = "any"  # every value that the space has

_MESSAGES = "messages"


class _ApplicationFile(Strict):
    """This is no `Application`, because its values depend on a space."""

    title: Annotated[str, Field(min_length=1)]
    """Title in one line."""
    space: str | None = None
    """Space with its dimensions: `nsdi22` by default, `soft-roce` in a search on devices `rxe*`."""
    keep: list[str] = Field(default_factory=list)
    """Dimensions that the application cannot change."""
    common: dict[str, Any] = Field(default_factory=dict)
    """Values of all kinds of traffic, by dimension."""
    traffic: dict[str, dict[str, Any]] = Field(min_length=1)
    """Kinds of traffic by a name of your choice, each with its values by dimension."""


class _ReachFile(Strict):
    """This is no dataclass, because the dimension decides whether it becomes `Values` or `Sizes`."""

    values: list[Any] | None = Field(None, min_length=1)
    """The possible values, listed one by one."""
    range: list[Any] | None = Field(None, min_length=2, max_length=2)
    """Lowest and highest value."""
    max_length: int | None = Field(None, ge=1)
    """Most sizes in one list of messages. Default: 1."""


def is_application(path: Path) -> bool:
    """Whether a file describes an application, and not a space or one workload."""
    document = read_document(path)
    kind = kind_of(document)
    # Of the other files only an anomaly and a subsystem have a title, and their keys tell the kind.
    return kind == ContentKind.APPLICATION or (kind is None and "title" in document.data)


def names_application(name_or_path: str) -> bool:
    """Whether a name or path is that of an application. If a space has the same name, the space takes precedence."""
    if is_file_name(name_or_path):
        return is_application(Path(name_or_path))
    return name_or_path in available(ContentKind.APPLICATION) and name_or_path not in available(ContentKind.SPACE)


def load_application(
    name_or_path: str, space: str | None = None, default: str = "nsdi22", *, steps: int = CHECK_STEPS
) -> Application:
    """Read an application. Its id is the file's name.

    `space` replaces the space that the file names. `default` is the space if the file names none.
    `steps` limits the combinations of values that are tried.
    """
    path = find(ContentKind.APPLICATION, name_or_path)
    document = read_document(path)
    require_kind(document, ContentKind.APPLICATION)
    problems = Problems()
    file = validate(document, _ApplicationFile, problems)
    if not isinstance(document.part("traffic"), dict):
        raise ContentError(problems)
    named = document.part("space")
    terms = load_space(space or (named if isinstance(named, str) else default))
    kinds = _Reader(document, terms, problems, Effort(steps)).kinds()
    if problems or file is None:
        raise ContentError(problems)
    return Application(path.stem, file.title, terms, kinds, frozenset(file.keep))


class _Reader:
    def __init__(self, document: Document, space: Space, problems: list[Problem], effort: Effort) -> None:
        self._document, self._space, self._problems, self._effort = document, space, problems, effort

    def kinds(self) -> tuple[Traffic, ...]:
        for index, name in enumerate(self._document.sequence("keep")):
            if isinstance(name, str) and name not in self._space.dimensions:  # other types are refused already
                self._unknown(name, "keep", index)
        common = self._reach(("common",))
        kinds = self._document.mapping("traffic").items()
        return tuple(self._traffic(name, common) for name, kind in kinds if isinstance(kind, dict))

    def _traffic(self, name: str, common: Mapping[str, Values | Sizes]) -> Traffic:
        before = len(self._problems)
        reach = {**common, **self._reach(("traffic", name))}
        plain = {each: (self._space.base.get(each),) for each in self._space.dimensions if each != _MESSAGES}
        values = {each: values for each, values in reach.items() if not isinstance(values, Sizes)}
        sizes = reach.get(_MESSAGES, Sizes.exactly(self._space.base.messages))
        assert isinstance(sizes, Sizes)
        traffic = Traffic(name, self._space.base, {**plain, **values}, sizes)
        if len(self._problems) == before:
            self._require_reachable(traffic)
        return traffic

    def _require_reachable(self, traffic: Traffic) -> None:
        name = traffic.name
        try:
            effort = self._effort.part()
            if find_any(traffic, self._space, None, traffic.base, effort) is None:
                message = f"nothing that {name} says goes together: {self._obstacle(traffic)}"
                self._wrong(message, "traffic", name)
                return
            for dimension, value in unreachable(traffic, self._space, effort):
                obstacle = self._obstacle(pinned(traffic, dimension, (value,)))
                message = f"{dimension} {format_value(value)} goes with nothing else that {name} says: {obstacle}"
                self._wrong(message, *self._place(name, dimension))
        except Undecided as error:
            message = f"whether all that {name} says goes together is not decided: {error}; say less of it"
            self._wrong(message, "traffic", name)

    def _obstacle(self, traffic: Traffic) -> str:
        simplest = {name: values[0] for name, values in traffic.values.items()}
        sizes = traffic.sizes
        messages = sizes.only or ((sizes.first or sizes.values)[0],)
        workload = traffic.base.with_(**simplest, messages=messages)
        return next((complaint for _, complaint in self._space.violations(workload)), "no such workload")

    def _place(self, traffic: str, dimension: str) -> Location:
        for place in (("traffic", traffic, dimension), ("common", dimension)):
            if self._document.part(*place) is not None:
                return place
        return ("traffic", traffic)

    def _reach(self, at: Location) -> dict[str, Values | Sizes]:
        found: dict[str, Values | Sizes] = {}
        for name, value in self._document.mapping(*at).items():
            dimension = self._space.dimensions.get(name)
            if dimension is None:
                self._unknown(name, *at, name)
                continue
            before = len(self._problems)
            read = self._dimension(dimension, value, (*at, name))
            if len(self._problems) == before and read is not None:
                found[name] = read
        return found

    def _dimension(self, dimension: Dimension, raw: Any, at: Location) -> Values | Sizes | None:
        element = dimension.element if isinstance(dimension, Vector) else dimension
        if raw == ANY:
            values = element.values if isinstance(element, Choice) else _between(element, element.low, element.high)
            return Sizes(values, dimension.max_length) if isinstance(dimension, Vector) else values
        if isinstance(raw, list) and not (isinstance(dimension, Vector) or _takes_lists(dimension)):
            some = format_list([*raw[:3], "..."] if len(raw) > 3 else raw)
            self._wrong(f"{dimension.name}: several possible values are written {{values: {some}}}", *at)
            return None
        if not (isinstance(raw, dict) and raw.keys() & {"values", "range", "max_length"}):
            value = self._value(dimension, raw, at)
            if value is None:
                return None
            return Sizes.exactly(value) if isinstance(dimension, Vector) else (value,)
        file = validate(self._document, _ReachFile, self._problems, at)
        if file is None:
            return None
        return self._several(dimension, element, file, at)

    def _several(
        self, dimension: Dimension, element: Choice | Ordered, file: _ReachFile, at: Location
    ) -> Values | Sizes | None:
        if (file.values is None) == (file.range is None):
            self._wrong("give either values, or a range from the least to the greatest", *at)
            return None
        if file.max_length is not None and not isinstance(dimension, Vector):
            self._wrong(f"max_length is for lists of sizes such as messages; {dimension.name} holds one value", *at)
        elif isinstance(dimension, Vector) and (file.max_length or 1) > dimension.max_length:
            self._wrong(f"max_length {file.max_length} is more than the space has; {dimension.max_length}", *at)
        key = "values" if file.values is not None else "range"
        if key == "range" and isinstance(element, Choice):
            self._wrong(f"{element.name} has no order; list its values", *at, key)
            return None
        raw = file.values or file.range or []
        read = [self._value(element, item, (*at, key, index), dimension) for index, item in enumerate(raw)]
        if any(value is None for value in read):
            return None
        values = (
            self._ranged(element, read, at)
            if isinstance(element, Ordered) and key == "range"
            else _listed(element, read)
        )
        return Sizes(values, file.max_length or 1) if isinstance(dimension, Vector) else values

    def _ranged(self, element: Ordered, ends: list[Any], at: Location) -> Values:
        low, high = ends
        if low > high:
            self._wrong(f"range goes from high to low; write [{high}, {low}]", *at, "range")
            return ()
        values = _between(element, low, high)
        if not values or values[-1] != high:
            self._wrong(f"{high} lies between two steps: {low} and multiples of {element.step} more", *at, "range")
        return values

    def _value(self, dimension: Dimension, raw: Any, at: Location, owner: Dimension | None = None) -> Any:
        item = isinstance(owner, Vector)
        value = read_value(self._document, dimension.name, raw, at, self._problems, item=item)
        if value is not None and (complaint := dimension.complaint(value)):
            self._wrong(complaint, *at)
            return None
        return value

    def _unknown(self, name: str, *where: str | int) -> None:
        message = unknown_key(name, tuple(self._space.dimensions)).replace("unknown key", "no dimension", 1)
        self._wrong(message.replace("; known:", f" in space {self._space.name}; it has", 1), *where)

    def _wrong(self, message: str, *where: str | int) -> None:
        self._problems.append(self._document.problem(message, *where))


def _takes_lists(dimension: Dimension) -> bool:
    return isinstance(dimension, Choice) and any(isinstance(value, tuple) for value in dimension.values)


def _between(dimension: Ordered, low: int, high: int) -> Values:
    if dimension.ladder_only:
        return tuple(step for step in dimension.ladder if low <= step <= high)
    return range(low, high + 1, dimension.step)


def _listed(dimension: Choice | Ordered, values: list[Any]) -> Values:
    if isinstance(dimension, Ordered):
        return tuple(sorted(set(values)))
    return tuple(value for value in dimension.values if value in values)
