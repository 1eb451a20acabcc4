"""Recipe files. Their keys are the fields of `collie.search.recipe.Recipe` except the name, which is the file's."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from collie.content.document import Document, Location, read_document
from collie.content.kinds import require_kind
from collie.content.locate import ContentKind, find
from collie.content.model import validate
from collie.detect.confirm import Confirmation, odds, rule
from collie.detect.noise import Noise
from collie.errors import ContentError, Problem, Problems
from collie.search.recipe import PLUGIN_GROUP, Recipe, Schedule, StrategyName, plugins
from collie.suggest import did_you_mean
from collie.workloads.units import format_count, parse_seconds

logger = logging.getLogger(__name__)

T = TypeVar("T")

_PRESENT_KEYS: Mapping[Location, Location] = {
    ("put_off",): ("explain_after_sightings",),
    ("confirmation", "disturbed"): ("noise", "stray_rate"),
    ("confirmation", "healthy_false_positive_rate"): ("noise", "stray_rate"),
    ("extraction", "missed"): ("noise", "miss_rate"),
    ("extraction", "false_negative_rate"): ("noise", "miss_rate"),
}
"""Present places of keys that stood elsewhere in earlier releases."""

_GONE: Sequence[Location] = (
    ("confirmation", "needed"),
    ("confirmation", "clear_pause"),
    ("extraction", "stray"),
    ("extraction", "false_positive_rate"),
)
"""Keys of earlier releases that follow from `noise` and `confirmation: false_chance` today."""


def load_recipe(name_or_path: str) -> Recipe:
    """Read a recipe."""
    path = find(ContentKind.RECIPE, name_or_path)
    written = read_document(path)
    require_kind(written, ContentKind.RECIPE)
    document, remarks = written.with_present_keys(_PRESENT_KEYS, _GONE)
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
    yield from _plugin_problems(document)
    confirmation = _section(document, "confirmation", Confirmation)
    noise = _section(document, "noise", Noise) or Noise()
    if confirmation and not odds(rule(confirmation, noise.stray_rate), 1.0).confirmed:
        message = (
            f"false_chance {confirmation.false_chance:g} cannot be kept in {format_count(confirmation.runs, 'run')} "
            f"where {noise.stray_rate:g} of the healthy runs look anomalous; allow more runs"
        )
        yield document.problem(message, "confirmation")
    drives = document.sequence("drives")
    if len(drives) != len({str(kind) for kind in drives}):
        yield document.problem("a kind of counters stands here twice", "drives")
    budget = document.part("budget")
    if isinstance(budget, str) and not _is_budget(budget):
        message = f"budget: {budget!r} is no budget; write a time such as 45m or 10h, or runs such as 800runs"
        yield document.problem(message, "budget")


def _plugin_problems(document: Document) -> Iterator[Problem]:
    strategy, name = document.part("strategy"), document.part("plugin")
    if strategy != StrategyName.PLUGIN:
        if name:
            yield document.problem(f"plugin {name!r} needs the strategy `plugin`", "plugin")
        return
    installed = plugins()
    if str(name) not in installed:
        hint = did_you_mean(str(name), installed) or f"; installed: {', '.join(installed) or 'none'}"
        missing = (
            f"no installed package has a strategy {name!r}" if name else "the strategy `plugin` needs `plugin: NAME`"
        )
        yield document.problem(f"{missing} (entry points of {PLUGIN_GROUP}){hint}", "plugin" if name else "strategy")


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
