"""Inputs of a search, loaded as a choice names them: space, recipe, budget, known anomalies, limits."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from collie.app.adapters import Adapters
from collie.app.inventories import first_pair, open_inventory
from collie.campaign.budget import Budget, parse_budget
from collie.campaign.choice import SearchChoice, TestbedChoice
from collie.campaign.safety import tightened
from collie.errors import UsageError
from collie.inventory.safety import SafetyLimits
from collie.search.recipe import Recipe
from collie.workloads.application import reached
from collie.workloads.feature import Mfs
from collie.workloads.narrowing import parse_fixes, parse_limits
from collie.workloads.pruning import Capabilities, Drop, prune
from collie.workloads.space import Space

_SOFT_ROCE_DEVICE = "rxe"


class Defaults(NamedTuple):
    """Names of the space and the recipe that suit a testbed."""

    space: str
    recipe: str


def defaults_for(adapters: Adapters, choice: TestbedChoice) -> Defaults:
    """Return what a testbed is searched with unless the user says something else.

    Of hosts the first pair's devices decide, by name, as nobody has been asked yet: `rxe0` and the like are Soft-RoCE,
    and take a small space and patience. Pairs that measure for one campaign are alike.

    Raises:
        InventoryError: the hosts file is wrong.
        UsageError: it forms no pair.
    """
    if choice.hosts is None:
        return Defaults("nsdi22", "guided")
    measuring = first_pair(open_inventory(adapters, choice.hosts))
    is_emulated = any(endpoint.device.startswith(_SOFT_ROCE_DEVICE) for endpoint in measuring.hosts)
    return Defaults("soft-roce", "soft-roce") if is_emulated else Defaults("nsdi22", "hosts")


def with_defaults(adapters: Adapters, choice: SearchChoice) -> SearchChoice:
    """Return a choice for the record: what real hosts suggest is named, and does not change with the hosts file.

    Raises:
        InventoryError: the hosts file is wrong.
        UsageError: it forms no pair.
    """
    return choice if choice.testbed.is_simulated else choice.naming(*defaults_for(adapters, choice.testbed))


def space_of(adapters: Adapters, choice: TestbedChoice, name: str | None, terms: str | None = None) -> Space:
    """Load a space, or what an application reaches of one; without a name the space that suits the testbed.

    Args:
        adapters: the world.
        choice: the testbed.
        name: a name or a file of either.
        terms: space of an application that names none; None for the one that suits the testbed.
    """
    if name is None or adapters.content.names_application(name):
        return space_named(adapters, name, terms or defaults_for(adapters, choice).space)
    return adapters.content.space(name)


def space_named(adapters: Adapters, name: str | None, default: str = "nsdi22") -> Space:
    """Load a space, or what an application reaches of one.

    Args:
        adapters: the world.
        name: a name or a file of either; a space comes first. None for the default.
        default: of a name, and the space of an application that names none.

    Raises:
        ContentError: there is none, or it is wrong.
        UsageError: the application reaches one workload only.
    """
    if name is None or not adapters.content.names_application(name):
        return adapters.content.space(name or default)
    try:
        return reached(adapters.content.application(name, None, default))
    except ValueError as error:
        raise UsageError(str(error)) from None


def recipe_of(adapters: Adapters, choice: TestbedChoice, name: str | None) -> Recipe:
    """Load a recipe; without a name the one that suits the testbed."""
    return adapters.content.recipe(name or defaults_for(adapters, choice).recipe)


def known_sets(adapters: Adapters, known: str | None) -> tuple[Mfs, ...]:
    """Load minimal feature sets that need not be found again: the paper's, or those of a campaign.

    Raises:
        ContentError: there are no such anomalies.
        StoreError: there is no such campaign.
    """
    if known is None:
        return ()
    if os.path.isdir(known):
        with adapters.records.read(Path(known)) as store:
            # An explanation that is not complete would hide what it does not explain.
            return tuple(each.mfs for each in store.anomalies() if each.complete and each.same_as is None)
    return tuple(reference.conditions for reference in adapters.content.references(known))


@dataclass(frozen=True)
class SearchInputs:
    """What a search is made of, besides its testbed and its record.

    Attributes:
        dropped: what was left out of the space because the testbed cannot do it.
        known: minimal feature sets that need not be found again.
        limits: of safety, in force.
    """

    space: Space
    dropped: tuple[Drop, ...]
    recipe: Recipe
    budget: Budget
    known: tuple[Mfs, ...]
    limits: SafetyLimits


def limits_of(adapters: Adapters, choice: SearchChoice) -> SafetyLimits:
    """Return the limits in force: the site's, tightened by the user; a simulation has none of its own.

    Raises:
        UsageError: the user wants more than the site allows.
        InventoryError: the hosts file is wrong.
    """
    hosts = choice.testbed.hosts
    return tightened(SafetyLimits() if hosts is None else open_inventory(adapters, hosts).safety, choice.safety)


def narrowed_space_of(adapters: Adapters, choice: SearchChoice) -> Space:
    """Load the space of a search and narrow it: by what the user says, and by what the testbed can do if that is known.

    Raises:
        ContentError: there is no such space, or it is wrong.
        UsageError: what is fixed, limited and possible leaves nothing.
    """
    return pruned_space_of(adapters, choice)[0]


def pruned_space_of(adapters: Adapters, choice: SearchChoice) -> tuple[Space, tuple[Drop, ...]]:
    """Load and narrow the space of a search, and say what was left out of it because the testbed cannot do it.

    Raises:
        ContentError: there is no such space, or it is wrong.
        UsageError: what is fixed, limited and possible leaves nothing.
    """
    space = space_of(adapters, choice.testbed, choice.space, choice.terms)
    fixes, limits = parse_fixes(choice.fix), parse_limits(choice.limit)
    try:
        narrowed = space.narrowed(fixes, limits) if fixes or limits else space
        return prune(narrowed, choice.capabilities or Capabilities())
    except ValueError as error:
        raise UsageError(str(error)) from None


def search_inputs(adapters: Adapters, choice: SearchChoice) -> SearchInputs:
    """Load everything that a choice names.

    Raises:
        CollieError: anything that the user chose is wrong.
    """
    space, dropped = pruned_space_of(adapters, choice)
    recipe = recipe_of(adapters, choice.testbed, choice.recipe)
    budget = parse_budget(choice.budget or recipe.budget)
    return SearchInputs(space, dropped, recipe, budget, known_sets(adapters, choice.known), limits_of(adapters, choice))
