"""Limits of fields, as metadata of `typing.Annotated`. Readers of files enforce them. Assignments are unchecked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Annotated, Any


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one field. None means no limit.

    The method implements pydantic's protocol for metadata. So modules in bundles state limits without pydantic.

    Attributes:
        gt, ge, lt, le: bounds of a number.
        allow_inf_nan: False refuses infinity and NaN.
        min_length, max_length: characters of a text, or items of a list.
        pattern: regular expression of a text.
    """

    gt: float | None = None
    ge: float | None = None
    lt: float | None = None
    le: float | None = None
    allow_inf_nan: bool | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        stated = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**handler(source), **{name: limit for name, limit in stated.items() if limit is not None}}


@dataclass(frozen=True, slots=True)
class ReadBy:
    """Function that turns what a file says into the field's value, or raises a `ValueError` with the remedy."""

    read: Callable[[Any], Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        function = {"type": "no-info", "function": self.read}
        return {"type": "function-before", "function": function, "schema": handler(source)}


Ratio = Annotated[float, Limits(gt=0, lt=1)]
Factor = Annotated[float, Limits(ge=1, allow_inf_nan=False)]
Positive = Annotated[float, Limits(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Limits(ge=1, le=100_000)]
Text = Annotated[str, Limits(min_length=1)]
