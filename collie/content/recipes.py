"""Recipe files. Their keys are the fields of `collie.search.recipe.Recipe` except the name, which is the file's."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from typing import TypeVar

from collie.content.document import Document, Location, read_document
from collie.content.locate import ContentKind, find
from collie.content.model import validate
from collie.detect.confirm import Confirmation, false_chance
from collie.errors import ContentError, Problem, Problems
from collie.search.recipe import Recipe, Schedule
from collie.workloads.units import format_count, parse_seconds

logger = logging.getLogger(__name__)

T = TypeVar("T")

_CAMPAIGN_RUNS = 1000  # a campaign of about ten hours

_PRESENT_KEYS: Mapping[Location, str] = {
    ("put_off",): "explain_after_sightings",
    ("confirmation", "disturbed"): "healthy_false_positive_rate",
    ("extraction", "missed"): "false_negative_rate",
    ("extraction", "stray"): "false_positive_rate",
}
"""Current names of keys that had other names in the first release."""


def load_recipe(name_or_path: str) -> Recipe:
    """Read a recipe."""
    path = find(ContentKind.RECIPE, name_or_path)
    document, remarks = read_document(path).with_present_keys(_PRESENT_KEYS)
    for remark in remarks:
        logger.warning("%s", remark)
    problems = Problems()
    recipe = validate(document, Recipe, problems, given={"name": path.stem})
    problems += _contradictions(document)
    if problems or recipe is None:
        raise ContentError(problems)
    return recipe


def _contradictions(document: Document) -> Iterator[Problem]:
    """Yield contradictions between fields or inside a text. A mistake in one section does not hide those in others."""
    schedule = _section(document, "schedule", Schedule)
    if schedule and schedule.end >= schedule.start:
        message = f"end {schedule.end:g} should lie below start {schedule.start:g}"
        yield document.problem(message, "schedule", "end")
    confirmation = _section(document, "confirmation", Confirmation)
    if confirmation and confirmation.needed > confirmation.runs:
        message = f"needed {confirmation.needed} can never be reached in {format_count(confirmation.runs, 'run')}"
        yield document.problem(message, "confirmation", "needed")
    elif confirmation and confirmation.false_chance is not None:
        chance = false_chance(confirmation, confirmation.healthy_false_positive_rate, _CAMPAIGN_RUNS)
        if chance > confirmation.false_chance:
            message = (
                f"false_chance {confirmation.false_chance:g} is not kept: "
                f"{confirmation.needed} of {confirmation.runs} with {confirmation.healthy_false_positive_rate:g} "
                f"of healthy runs anomalous gives {chance:.2g} in {_CAMPAIGN_RUNS} runs; need more runs to agree"
            )
            yield document.problem(message, "confirmation", "false_chance")
    drives = document.sequence("drives")
    if len(drives) != len({str(kind) for kind in drives}):
        yield document.problem("a kind of counters stands here twice", "drives")
    budget = document.part("budget")
    if isinstance(budget, str) and not _is_budget(budget):
        message = f"budget: {budget!r} is no budget; write a time such as 45m or 10h, or runs such as 800runs"
        yield document.problem(message, "budget")


def _section(document: Document, name: str, kind: type[T]) -> T | None:
    if not isinstance(document.part(name), dict):
        return None
    return validate(document, kind, [], (name,))  # the section's own problems are known already


def _is_budget(text: str) -> bool:
    if re.fullmatch(r"[1-9]\d{0,8}\s*runs", text):
        return True
    try:
        return parse_seconds(text) > 0
    except ValueError:
        return False
