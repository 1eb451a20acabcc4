"""Pydantic models from YAML, with complaints in words of the file."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from collie.content.document import read_document
from collie.content.model import validate
from collie.errors import Problem


class Colour(StrEnum):
    RED = "red"
    GREEN = "green"


def _short(text: str) -> str:
    if len(text) > 5:
        raise ValueError(f"{text!r} is longer than 5 characters")
    return text


class Cache(BaseModel):
    model_config = ConfigDict(extra="forbid")

    kind: Literal["cache"] = "cache"
    entries: int = Field(gt=0)
    miss_nanoseconds: float = Field(0.0, ge=0, allow_inf_nan=False)


class Queue(BaseModel):
    model_config = ConfigDict(extra="forbid")

    kind: Literal["queue"]
    depth: int = Field(multiple_of=4)


class Nic(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(pattern="^[a-z]+$")] = "nic"
    colour: Colour = Colour.RED
    caches: dict[Annotated[str, AfterValidator(_short)], Cache] = Field(default_factory=dict)
    parts: list[Cache | Queue] = Field(default_factory=list, max_length=2)
    pair: tuple[int, int] = (0, 1)
    low: int = 0
    high: int = 1
    spare: Cache | None = None

    @model_validator(mode="after")
    def _order(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"low {self.low} lies above high {self.high}")
        return self


def complaints(tmp_path: Path, text: str) -> list[tuple[int, str]]:
    path = tmp_path / "nic.yaml"
    path.write_text(text)
    problems: list[Problem] = []
    assert validate(read_document(path), Nic, problems) is None
    assert {problem.path for problem in problems} == {str(path)}
    return sorted((problem.line, problem.message) for problem in problems)


def test_a_good_file_becomes_a_model(tmp_path: Path) -> None:
    path = tmp_path / "nic.yaml"
    path.write_text("name: cx\ncolour: green\ncaches:\n  icm: {entries: 64}\nspare: {entries: 2}\n")

    model = validate(read_document(path), Nic, [])

    assert model
    assert (model.colour, model.caches["icm"].entries) == (Colour.GREEN, 64)


def test_all_problems_come_at_once_each_at_its_line(tmp_path: Path) -> None:
    text = """\
name: NIC-1
colour: gren
caches:
  icm: {entires: 64}
  mtt:
    entries: 0
    miss_nanoseconds: .inf
  too-long-a-name: {entries: 1}
pair: [1]
low: many
spare: 5
wheels: 4
"""
    assert complaints(tmp_path, text) == [
        (1, "name: 'NIC-1' should match ^[a-z]+$"),
        (2, "colour: 'gren' is unknown; did you mean 'green'? one of red, green"),
        (4, "key 'entries' is missing in caches.icm"),
        (4, "unknown key 'entires'; did you mean 'entries'?"),
        (6, "caches.mtt.entries: 0 should be more than 0"),
        (7, "caches.mtt.miss_nanoseconds: '.inf' should be a number"),
        (8, "caches.too-long-a-name: 'too-long-a-name' is longer than 5 characters"),
        (9, "item 2 is missing in pair"),
        (10, "low: 'many' should be a whole number"),
        (11, "spare: 5 should be keys and values"),
        (12, "unknown key 'wheels'; known: caches, colour, high, low, name, pair, parts, spare"),
    ]


def test_a_rule_between_fields_is_about_the_file(tmp_path: Path) -> None:
    assert complaints(tmp_path, "low: 2\n") == [(0, "low 2 lies above high 1")]


def test_members_of_a_union_are_not_part_of_a_key(tmp_path: Path) -> None:
    found = complaints(tmp_path, "parts:\n  - kind: queue\n    depth: 3\n")

    assert (3, "parts.1.depth: 3 should be a multiple of 4") in found
    assert all("Cache" not in message and "Queue" not in message for _, message in found)


def test_too_many_items_are_counted(tmp_path: Path) -> None:
    text = "parts: [{entries: 1}, {entries: 1}, {entries: 1}]\n"

    [(line, message)] = complaints(tmp_path, text)

    assert line == 1
    assert message.endswith("should have at most 2 item(s)")
