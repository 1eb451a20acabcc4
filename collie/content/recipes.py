"""Recipes in YAML: the fields of `collie.search.recipe.Recipe`, whose docstrings say what each does."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import Field

from collie.content.document import Document, Location, read_document
from collie.content.locate import ContentKind, display_path, find
from collie.content.model import Strict, validate
from collie.counters.catalog import CounterKind
from collie.detect.confirm import Confirmation, false_chance
from collie.detect.judge import Thresholds
from collie.errors import ContentError, Problem, Problems
from collie.search.recipe import Bayesian, Extraction, Guide, Recipe, Sampler, Schedule, Step, StrategyName
from collie.workloads.units import format_count, parse_seconds

logger = logging.getLogger(__name__)

S = TypeVar("S", bound=Strict)

_CAMPAIGN_RUNS = 1000
"""For which a recipe declares its chance of a false anomaly: about what ten hours hold."""

_Ratio = Annotated[float, Field(gt=0, lt=1)]
_Temperature = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Factor = Annotated[float, Field(ge=1, allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=1, le=100_000)]
_Drivable = Literal[CounterKind.DIAGNOSTIC, CounterKind.PERFORMANCE]

_PRESENT_KEYS: Mapping[Location, str] = {
    ("put_off",): "explain_after_sightings",
    ("confirmation", "disturbed"): "healthy_false_positive_rate",
    ("extraction", "missed"): "false_negative_rate",
    ("extraction", "stray"): "false_positive_rate",
}
"""Of keys that the first release had under another name."""


class _ScheduleFile(Strict):
    start: _Temperature = Schedule().start
    end: _Temperature = Schedule().end
    decay: _Ratio = Schedule().decay
    runs_per_temperature: _Count = Schedule().runs_per_temperature
    step: Annotated[Step, Field(strict=False)] = Schedule().step


class _ThresholdsFile(Strict):
    pause_ratio: _Ratio = Thresholds().pause_ratio
    pause_frames: _Factor = Thresholds().pause_frames
    throughput_deficit: _Ratio = Thresholds().throughput_deficit
    loss_ratio: _Ratio = Thresholds().loss_ratio
    rnr_ratio: _Ratio = Thresholds().rnr_ratio
    repeat_ratio: _Ratio = Thresholds().repeat_ratio
    qp_deficit: _Ratio = Thresholds().qp_deficit


class _ConfirmationFile(Strict):
    needed: _Count = Confirmation().needed
    runs: _Count = Confirmation().runs
    void_runs: Annotated[int, Field(ge=0)] = Confirmation().void_runs
    fresh_siblings: Annotated[int, Field(ge=0, le=100)] = Confirmation().fresh_siblings
    clear_pause: _Factor = Confirmation().clear_pause
    clear_deficit: _Factor = Confirmation().clear_deficit
    borderline_siblings: Annotated[int, Field(ge=0, le=100)] = Confirmation().borderline_siblings
    healthy_false_positive_rate: _Ratio = Confirmation().healthy_false_positive_rate
    false_chance: _Ratio | None = Confirmation().false_chance


class _ExtractionFile(Strict):
    false_negative_rate: _Ratio = Extraction().false_negative_rate
    false_positive_rate: _Ratio = Extraction().false_positive_rate
    repeats: _Count = Extraction().repeats
    accepting: _Count = Extraction().accepting
    most_runs: _Count = Extraction().most_runs


class _BayesianFile(Strict):
    sampler: Annotated[Sampler, Field(strict=False)] = Bayesian().sampler
    runs_per_counter: _Count = Bayesian().runs_per_counter
    history: Annotated[int, Field(ge=10, le=100_000)] = Bayesian().history


class _GuideFile(Strict):
    starts: _Count = Guide().starts
    random_share: Annotated[float, Field(ge=0, le=1)] = Guide().random_share


class _RecipeFile(Strict):
    strategy: Annotated[StrategyName, Field(strict=False)]
    ranking_points: Annotated[int, Field(ge=2, le=10_000)] = 10
    schedule: _ScheduleFile = _ScheduleFile()
    thresholds: _ThresholdsFile = _ThresholdsFile()
    confirmation: _ConfirmationFile = _ConfirmationFile()
    extraction: _ExtractionFile = _ExtractionFile()
    budget: str = "10h"
    skip_known: bool = True
    drives: Annotated[tuple[_Drivable, ...], Field(strict=False, min_length=1)] = (
        CounterKind.DIAGNOSTIC,
        CounterKind.PERFORMANCE,
    )
    explain: bool = True
    explain_after_sightings: Annotated[int, Field(ge=0, le=1000)] = 0
    audits: Annotated[int, Field(ge=0, le=100)] = 0
    guide: _GuideFile = _GuideFile()
    bayesian: _BayesianFile = _BayesianFile()


def load_recipe(name_or_path: str, overlay: Path | None = None) -> Recipe:
    """Read a recipe by name or path; its name is the file's.

    Raises:
        ContentError: unknown name, or every problem of the file.
    """
    path = find(ContentKind.RECIPE, name_or_path, overlay)
    document, remarks = read_document(path, display_path(path)).with_present_keys(_PRESENT_KEYS)
    for remark in remarks:
        logger.warning("%s", remark)
    problems = Problems()
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
        drives=file.drives,
        explain=file.explain,
        explain_after_sightings=file.explain_after_sightings,
        audits=file.audits,
        guide=Guide(**file.guide.model_dump()),
        bayesian=Bayesian(**file.bayesian.model_dump()),
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
        message = f"needed {confirmation.needed} can never be reached in {format_count(confirmation.runs, 'run')}"
        problems.append(document.problem(message, "confirmation", "needed"))
    elif confirmation and confirmation.false_chance is not None:
        policy = Confirmation(**confirmation.model_dump())
        chance = false_chance(policy, confirmation.healthy_false_positive_rate, _CAMPAIGN_RUNS)
        if chance > confirmation.false_chance:
            message = (
                f"false_chance {confirmation.false_chance:g} is not kept: {policy.needed} of {policy.runs} with "
                f"{policy.healthy_false_positive_rate:g} of healthy runs anomalous gives {chance:.2g} "
                f"in {_CAMPAIGN_RUNS} runs; need more runs to agree"
            )
            problems.append(document.problem(message, "confirmation", "false_chance"))
    drives = document.part("drives")
    if isinstance(drives, list) and len(drives) != len({str(kind) for kind in drives}):
        problems.append(document.problem("a kind of counters stands here twice", "drives"))
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
