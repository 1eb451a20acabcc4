"""Inputs of a search: space, recipe, budget, known anomalies, limits."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from collie.app.adapters import Adapters
from collie.app.inventories import first_pair, open_inventory
from collie.campaign.budget import Budget, parse_budget
from collie.campaign.choice import SearchChoice, TestbedChoice
from collie.campaign.safety import tightened
from collie.detect.thresholds import Loss
from collie.errors import UsageError
from collie.inventory.safety import SafetyLimits
from collie.readings.victim import HAS_VICTIM
from collie.search.anomaly import Anomaly
from collie.search.foreseen import ForeseenAnomaly
from collie.search.recipe import Recipe
from collie.workloads.application import reached
from collie.workloads.domain import domain
from collie.workloads.feature import Condition, Mfs
from collie.workloads.narrowing import parse_fixes, parse_limits
from collie.workloads.pruning import Capabilities, Drop, prune
from collie.workloads.space import Space

logger = logging.getLogger(__name__)

ISOLATE = "isolate"
"""Name of the default recipe that judges what a workload costs the victim."""
PAPER = "nsdi22"
"""Name of the default space for single workloads, and of the published anomalies."""
_SOFT_ROCE_DEVICE = "rxe"


class Defaults(NamedTuple):
    """The names of a testbed's default space and recipe."""

    space: str
    recipe: str


def defaults_for(adapters: Adapters, choice: TestbedChoice) -> Defaults:
    """Return the defaults of a testbed.

    The device names of the first pair decide, because no host has been contacted yet. A name such as `rxe0` is
    Soft-RoCE, which needs a small space and long windows.
    """
    if choice.hosts is None:
        return Defaults(PAPER, "guided")
    measuring = first_pair(open_inventory(adapters, choice.hosts))
    is_emulated = any(endpoint.device.startswith(_SOFT_ROCE_DEVICE) for endpoint in measuring.hosts)
    return Defaults("soft-roce", "soft-roce") if is_emulated else Defaults(PAPER, "hosts")


def with_defaults(adapters: Adapters, choice: SearchChoice) -> SearchChoice:
    """Return the choice to record. It names the defaults of real hosts, because the hosts file can change."""
    return choice if choice.testbed.is_simulated else choice.naming(*defaults_for(adapters, choice.testbed))


def space_of(adapters: Adapters, choice: TestbedChoice, name: str | None, terms: str | None = None) -> Space:
    """Load a space as `space_named` does. The default suits the testbed."""
    if name is None or adapters.content.names_application(name):
        return space_named(adapters, name, terms or defaults_for(adapters, choice).space)
    return adapters.content.space(name)


def space_named(adapters: Adapters, name: str | None, default: str = PAPER) -> Space:
    """Load a space by name or file, or the part of it that an application reaches.

    A space takes precedence over an application of the same name. An application that names no space gets the default.
    """
    if name is None or not adapters.content.names_application(name):
        return adapters.content.space(name or default)
    try:
        return reached(adapters.content.application(name, None, default))
    except ValueError as error:
        raise UsageError(str(error)) from None


def recipe_of(adapters: Adapters, choice: TestbedChoice, name: str | None, phases: int | None = None) -> Recipe:
    """Load a recipe, with another number of phases if given. The default suits the testbed."""
    recipe = adapters.content.recipe(name or defaults_for(adapters, choice).recipe)
    return recipe if phases is None else replace(recipe, phases=phases)


def known_anomalies(adapters: Adapters, known: str | None) -> tuple[ForeseenAnomaly, ...]:
    """Load the explained anomalies of a published collection or of a campaign.

    The name of a campaign's anomaly begins with that campaign, because the search that reads it has an `a1`, too.
    """
    if known is None:
        return ()
    if os.path.isdir(known):
        campaign, causes = _causes_in(adapters, Path(known))
        # An incomplete explanation would hide other anomalies.
        return tuple(
            ForeseenAnomaly(f"{campaign}/{each.id}", each.mfs, (each.workload, each.found_as))
            for each in causes
            if each.complete
        )
    references = adapters.content.references(known)
    return tuple(ForeseenAnomaly(each.id, each.conditions, (each.trigger,)) for each in references)


def _skipped(adapters: Adapters, named: str | None, known: Sequence[ForeseenAnomaly], space: Space) -> tuple[Mfs, ...]:
    """Return the sets that a search skips. That of a campaign in a smaller space is known only there."""
    limits: tuple[Condition, ...] = ()
    if named is not None and os.path.isdir(named):
        with adapters.records.read(Path(named)) as store:
            searched = narrowed_space_of(adapters, SearchChoice.from_settings(store.header.settings))
        limits = domain(searched, space)
    return tuple(Mfs((*each.mfs.conditions, *limits)) for each in known)


def warn_of_unexplained(adapters: Adapters, known: str | None) -> None:
    """Log which anomalies of the campaign `known` a search cannot know, as they are not explained to the end."""
    if known is None or not os.path.isdir(known):
        return
    left_out = [each.id for each in _causes_in(adapters, Path(known))[1] if not each.complete]
    if left_out:
        logger.warning(
            "--known %s: not explained to the end, so they can be found anew: %s", known, ", ".join(left_out)
        )


def _causes_in(adapters: Adapters, campaign: Path) -> tuple[str, list[Anomaly]]:
    with adapters.records.read(campaign) as store:
        return store.header.campaign, [each for each in store.anomalies() if each.same_as is None]


@dataclass(frozen=True)
class SearchInputs:
    """Inputs of a search.

    Attributes:
        dropped: the parts that the testbed cannot run.
        known: anomalies of this testbed, whose sets are skipped.
        foreseen: anomalies of another testbed, which are looked for.
    """

    space: Space
    dropped: tuple[Drop, ...]
    recipe: Recipe
    budget: Budget
    known: tuple[Mfs, ...]
    foreseen: tuple[ForeseenAnomaly, ...]
    limits: SafetyLimits


def limits_of(adapters: Adapters, choice: SearchChoice) -> SafetyLimits:
    """Return the limits in force: the site's, tightened by the operator."""
    hosts = choice.testbed.hosts
    return tightened(SafetyLimits() if hosts is None else open_inventory(adapters, hosts).safety, choice.safety)


def narrowed_space_of(adapters: Adapters, choice: SearchChoice, recipe: Recipe | None = None) -> Space:
    """Load the space of a search, narrowed by the operator and by the known capabilities of the testbed.

    If a `recipe` judges the victim alone, workloads of real hosts that have no victim are no part of it.
    """
    return pruned_space_of(adapters, choice, recipe)[0]


def pruned_space_of(
    adapters: Adapters, choice: SearchChoice, recipe: Recipe | None = None
) -> tuple[Space, tuple[Drop, ...]]:
    """Load the space of `narrowed_space_of`, and the dropped parts that the testbed cannot run."""
    space = space_of(adapters, choice.testbed, choice.space, choice.terms)
    fixes, (at_most, at_least) = parse_fixes(choice.fix), parse_limits(choice.limit)
    try:
        if recipe and recipe.thresholds.loss_of is Loss.OF_VICTIM and not choice.testbed.is_simulated:
            ruled = replace(space, rules=(*space.rules, HAS_VICTIM))
            space = ruled.remade(space.dimensions, space.fixed, space.limits)
        narrowed = space.narrowed(fixes, at_most, at_least) if fixes or at_most or at_least else space
        return prune(narrowed, choice.capabilities or Capabilities())
    except ValueError as error:
        raise UsageError(str(error)) from None


def require_judged_victim(adapters: Adapters, choice: SearchChoice, begun: Path | None = None) -> None:
    """Raise `UsageError` unless a recipe judges the victim, and a space has the load that its plain sibling keeps.

    `begun` is the record of the search, which cannot have another recipe or space.
    """
    testbed, named = choice.testbed, choice.naming(*defaults_for(adapters, choice.testbed))
    if recipe_of(adapters, testbed, named.recipe).thresholds.loss_of is not Loss.OF_VICTIM:
        fault, remedy = f"--recipe {named.recipe} does not judge what the victim loses", "`loss_of: victim`"
    elif "offered_bps" not in space_of(adapters, testbed, named.space, named.terms).dimensions:
        fault, remedy = f"--space {named.space} has no offered load to compare", "the dimension offered_bps"
    else:
        return
    if begun is not None:
        raise UsageError(f"{begun} began with this: {fault}; go on with it by: collie search --resume {begun}")
    raise UsageError(f"{fault}; name one with {remedy}")


def require_victim(testbed: TestbedChoice, recipe: Recipe) -> None:
    """Raise `UsageError` if a recipe judges the victim and none runs: then nothing would ever be an anomaly."""
    if recipe.thresholds.loss_of is Loss.OF_VICTIM and not testbed.victim:
        raise UsageError(f"recipe {recipe.name} judges what a victim loses, and none runs; add --victim")


def search_inputs(adapters: Adapters, choice: SearchChoice) -> SearchInputs:
    """Load all inputs of a choice."""
    recipe = recipe_of(adapters, choice.testbed, choice.recipe, choice.phases)
    space, dropped = pruned_space_of(adapters, choice, recipe)
    require_victim(choice.testbed, recipe)
    budget = parse_budget(choice.budget or recipe.budget)
    known = known_anomalies(adapters, choice.known)
    here, elsewhere = ((), known) if choice.known_elsewhere else (_skipped(adapters, choice.known, known, space), ())
    return SearchInputs(space, dropped, recipe, budget, here, elsewhere, limits_of(adapters, choice))
