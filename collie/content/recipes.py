"""Recipes in YAML: the fields of `collie.search.recipe.Recipe`, whose docstrings say what each does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import Field

from collie.content.document import Document, read_document
from collie.content.locate import Kind, find, shown
from collie.content.model import Strict, validate
from collie.detect.confirm import Confirmation
from collie.detect.judge import Thresholds
from collie.errors import ContentError, Problem
from collie.search.recipe import Extraction, Recipe, Schedule, StrategyName
from collie.workloads.units import parse_seconds

S = TypeVar("S", bound=Strict)

_Ratio = Annotated[float, Field(gt=0, lt=1)]
_Temperature = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=1, le=100_000)]


class _ScheduleFile(Strict):
    start: _Temperature = Schedule().start
    end: _Temperature = Schedule().end
    decay: _Ratio = Schedule().decay
    runs_per_temperature: _Count = Schedule().runs_per_temperature


class _ThresholdsFile(Strict):
    pause_ratio: _Ratio = Thresholds().pause_ratio
    throughput_deficit: _Ratio = Thresholds().throughput_deficit
    loss_ratio: _Ratio = Thresholds().loss_ratio


class _ConfirmationFile(Strict):
    needed: _Count = Confirmation().needed
    runs: _Count = Confirmation().runs
    void_runs: Annotated[int, Field(ge=0)] = Confirmation().void_runs
    fresh_siblings: Annotated[int, Field(ge=0, le=100)] = Confirmation().fresh_siblings


class _ExtractionFile(Strict):
    agreeing: _Count = Extraction().agreeing
    accepting: _Count = Extraction().accepting
    most_runs: _Count = Extraction().most_runs


class _RecipeFile(Strict):
    strategy: Annotated[StrategyName, Field(strict=False)]
    ranking_points: Annotated[int, Field(ge=2, le=10_000)] = 10
    schedule: _ScheduleFile = _ScheduleFile()
    thresholds: _ThresholdsFile = _ThresholdsFile()
    confirmation: _ConfirmationFile = _ConfirmationFile()
    extraction: _ExtractionFile = _ExtractionFile()
    budget: str = "10h"
    skip_known: bool = True


def load_recipe(name_or_path: str, overlay: Path | None = None) -> Recipe:
    """Read a recipe by name or path; its name is the file's.

    Raises:
        ContentError: unknown name, or every problem of the file.
    """
    path = find(Kind.RECIPE, name_or_path, overlay)
    document = read_document(path, shown(path))
    problems: list[Problem] = []
    file = validate(document, _RecipeFile, problems)
    problems += _contradictions(document)
    if problems or file is None:
        raise ContentError(problems)
    return Recipe(
        path.stem,
        file.strategy,
        file.ranking_points,
        Schedule(**file.schedule.model_dump()),
        Thresholds(**file.thresholds.model_dump()),
        Confirmation(**file.confirmation.model_dump()),
        Extraction(**file.extraction.model_dump()),
        file.budget,
        file.skip_known,
    )


def _contradictions(document: Document) -> list[Problem]:
    """Return what is wrong between fields, or inside one that the schema calls text.

    Each section is read for itself, so that a mistake in one hides nothing in another.
    """
    problems = []
    schedule = _section(document, "schedule", _ScheduleFile)
    if schedule and schedule.end >= schedule.start:
        message = f"end {schedule.end:g} should lie below start {schedule.start:g}"
        problems.append(document.problem(message, "schedule", "end"))
    confirmation = _section(document, "confirmation", _ConfirmationFile)
    if confirmation and confirmation.needed > confirmation.runs:
        message = f"needed {confirmation.needed} can never be reached in {confirmation.runs} runs"
        problems.append(document.problem(message, "confirmation", "needed"))
    budget = document.part("budget")
    if isinstance(budget, str) and not _is_budget(budget):
        message = f"budget: {budget!r} is no budget; write a time such as 45m or 10h, or runs such as 800runs"
        problems.append(document.problem(message, "budget"))
    return problems


def _section(document: Document, name: str, kind: type[S]) -> S | None:
    if not isinstance(document.part(name), dict):
        return None
    return validate(document, kind, [], (name,))  # its own problems are known already


def _is_budget(text: str) -> bool:
    if re.fullmatch(r"[1-9]\d{0,8}\s*runs", text):
        return True
    try:
        return parse_seconds(text) > 0
    except ValueError:
        return False
