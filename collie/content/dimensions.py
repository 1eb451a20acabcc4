"""One dimension of a space file: a choice, an ordered dimension or a vector."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

from pydantic import Field

from collie.content.document import Document, Location
from collie.content.fields import read_value
from collie.content.model import Strict, validate
from collie.errors import Problem
from collie.workloads.dimension import Choice, Dimension, Ordered, Vector
from collie.workloads.setup import Changes, changes_with
from collie.workloads.units import format_value

MAX_STEPS = 24  # every step may cost a run of a minute


class _DimensionFile(Strict):
    """This is no `Dimension`. The keys that are present decide which of three kinds it becomes."""

    values: list[Any] | None = Field(None, min_length=1, max_length=1000)
    """Values without an order, simplest first. They stand in place of a ladder."""
    range: list[Any] | None = Field(None, min_length=2, max_length=2)
    """Lowest and highest value that the hardware takes. Default: the ladder holds every value."""
    ladder: list[Any] | None = Field(None, min_length=1, max_length=MAX_STEPS)
    """Values that a search draws from, ascending, at most 24. Thresholds are exact to one step of the ladder."""
    step: int | str | None = None
    """Distance between neighbouring values of the range. Default: 1."""
    plain: Any
    """The value of an unremarkable application."""
    max_length: int | None = Field(None, ge=1, le=4096)
    """For `messages` only: the longest list of sizes to try."""
    keep_in_sibling: bool | None = None
    """Whether the plain sibling keeps the workload's own value. Default: true for `messages` only."""
    changes: Changes | None = None
    """What a new value changes. Workloads that differ only in `traffic` can be phases of one set-up. Capacities such
    as `qps` are `traffic`: a phase can use a part of them. Default: what the verbs API allows."""


def read_dimension(document: Document, name: str, problems: list[Problem]) -> Dimension | None:
    """Read the dimension of a known field. Return None if it has a problem."""
    at: Location = ("dimensions", name)
    read = validate(document, _DimensionFile, problems, at)
    if read is None:
        return None
    before = len(problems)
    dimension = _Reader(document, name, at, problems).read(read)
    return dimension if len(problems) == before else None


class _Reader:
    def __init__(self, document: Document, name: str, at: Location, problems: list[Problem]) -> None:
        self._document, self._name, self._at, self._problems = document, name, at, problems
        self._is_vector = name == "messages"

    def read(self, file: _DimensionFile) -> Dimension | None:
        dimension = self._kind(file)
        allowed = changes_with(self._name)
        if file.changes is Changes.TRAFFIC and allowed is Changes.SETUP:
            self._wrong(
                f"{self._name} is fixed when queue pairs, memory regions and connections are made, so no phase can "
                "change it: write setup, or leave the key out",
                "changes",
            )
        return dimension and replace(dimension, changes=file.changes or allowed)

    def _kind(self, file: _DimensionFile) -> Dimension | None:
        if (file.values is None) == (file.ladder is None):
            self._wrong(f"{self._name} needs either values (no order) or a ladder (whole numbers in order)")
            return None
        if file.max_length is not None and not self._is_vector:
            self._wrong(
                f"max_length is for lists of sizes such as messages; {self._name} holds one value", "max_length"
            )
        if file.values is not None:
            return self._choice(file, file.values)
        ordered = self._ordered(file, file.ladder or [])
        return self._vector(file, ordered) if self._is_vector else ordered

    def _choice(self, file: _DimensionFile, raw: list[Any]) -> Choice | None:
        for key in ("range", "step"):
            if getattr(file, key) is not None:
                self._wrong(f"{key} goes with a ladder; values have no order", key)
        if self._is_vector:
            self._wrong(f"{self._name} is a list of sizes: give max_length, range, ladder and plain", "values")
            return None
        values = self._values("values", raw)
        plain = self._value("plain", file.plain)
        for index, value in enumerate(values):
            if value in values[:index]:
                self._wrong(f"{format_value(value)} stands twice", "values", index)
        if plain is not None and plain not in values:
            self._wrong(
                f"plain {format_value(plain)} is none of the values {', '.join(map(format_value, values))}", "plain"
            )
        return Choice(self._name, tuple(values), plain, bool(file.keep_in_sibling))

    def _ordered(self, file: _DimensionFile, raw: list[Any]) -> Ordered | None:
        ladder = self._values("ladder", raw)
        limits = ladder if file.range is None else self._values("range", file.range)
        step = self._step(file)
        if len(ladder) < len(raw) or len(limits) < 1 or (file.range is not None and len(limits) < 2):
            return None  # a value could not be read, so further problems would mislead
        low, high = limits[0], limits[-1]
        if file.range is not None and low > high:
            self._wrong(f"range goes from high to low; write [{high}, {low}]", "range")
            return None
        self._check_ladder(ladder, low, high, step, is_whole_range=file.range is None)
        plain: int | None = None
        if not self._is_vector:
            plain = self._value("plain", file.plain)
            self._in_ladder(plain, ladder, "plain")
        keep = bool(file.keep_in_sibling)
        return Ordered(
            self._name, low, high, tuple(ladder), low if plain is None else plain, step, keep, file.range is None
        )

    def _check_ladder(self, ladder: list[int], low: int, high: int, step: int, *, is_whole_range: bool) -> None:
        for index, (below, above) in enumerate(pairwise(ladder), start=1):
            if above <= below:
                self._wrong(f"the ladder should ascend, but {above} follows {below}", "ladder", index)
        if is_whole_range:
            return
        if ladder[0] != low:
            self._wrong(f"the ladder should begin with the range's low limit {low}, not {ladder[0]}", "ladder", 0)
        if ladder[-1] != high:
            last = len(ladder) - 1
            self._wrong(f"the ladder should end with the range's high limit {high}, not {ladder[-1]}", "ladder", last)
        for index, value in enumerate(ladder):
            if low < value < high and (value - low) % step:
                self._wrong(
                    f"{value} lies between two steps of the range: {low} and multiples of {step} more", "ladder", index
                )

    def _vector(self, file: _DimensionFile, element: Ordered | None) -> Vector | None:
        if file.max_length is None:
            self._wrong(f"{self._name} needs max_length, the longest list to try")
            return None
        plain = self._value("plain", file.plain)
        if element is None or plain is None:
            return None
        if len(plain) > file.max_length:
            self._wrong(f"plain has {len(plain)} elements; max_length is {file.max_length}", "plain")
        for index, value in enumerate(plain):
            self._in_ladder(value, list(element.ladder), "plain", index)
        keep = True if file.keep_in_sibling is None else file.keep_in_sibling
        return Vector(self._name, file.max_length, element, plain, keep)

    def _step(self, file: _DimensionFile) -> int:
        if file.step is None:
            return 1
        if file.range is None:
            self._wrong("step goes with a range; a ladder alone is every value there is", "step")
            return 1
        step = self._value("step", file.step, item=self._is_vector)
        if step is None:
            return 1
        if step < 1:
            self._wrong("step should be at least 1", "step")
        return max(1, int(step))

    def _values(self, key: str, raw: list[Any]) -> list[Any]:
        read = []
        for index, item in enumerate(raw):
            value = self._value(key, item, index, item=self._is_vector)
            if value is None:
                continue
            if key != "values" and (isinstance(value, bool) or not isinstance(value, int)):
                self._wrong(f"{self._name} has no order; list its values under `values`", key, index)
                break
            read.append(value)
        return read

    def _value(self, key: str, raw: Any, *inside: int, item: bool = False) -> Any:
        return read_value(self._document, self._name, raw, (*self._at, key, *inside), self._problems, item=item)

    def _in_ladder(self, value: int | None, ladder: list[int], *where: str | int) -> None:
        if value is not None and value not in ladder:
            steps = ", ".join(map(str, ladder))
            self._wrong(f"plain {format_value(value)} is not on the ladder {steps}", *where)

    def _wrong(self, message: str, *where: str | int) -> None:
        self._problems.append(self._document.problem(message, *self._at, *where))
