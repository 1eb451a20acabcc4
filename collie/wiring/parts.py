"""What a choice names, loaded: space, recipe, budget, known anomalies, limits."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from collie.campaign.budget import Budget, parse_budget
from collie.campaign.choice import SearchChoice, TestbedChoice
from collie.campaign.safety import tightened
from collie.content.anomalies import load_references
from collie.content.applications import load_application, names_application
from collie.content.recipes import load_recipe
from collie.content.spaces import load_space
from collie.errors import UsageError
from collie.inventory.safety import SafetyLimits
from collie.ports import Clock
from collie.search.recipe import Recipe
from collie.store.sqlite import SqliteStore
from collie.wiring.inventories import first_pair, open_inventory
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


def defaults_for(choice: TestbedChoice) -> Defaults:
    """Return what a testbed is searched with unless the user says something else.

    Of hosts the first pair's devices decide, by name, as nobody has been asked yet: `rxe0` and the like are Soft-RoCE,
    and take a small space and patience. Pairs that measure for one campaign are alike.

    Raises:
        InventoryError: the hosts file is wrong.
        UsageError: it forms no pair.
    """
    if choice.hosts is None:
        return Defaults("nsdi22", "guided")
    measuring = first_pair(open_inventory(choice.hosts))
    is_emulated = any(endpoint.device.startswith(_SOFT_ROCE_DEVICE) for endpoint in measuring.hosts)
    return Defaults("soft-roce", "soft-roce") if is_emulated else Defaults("nsdi22", "hosts")


def with_usual(choice: SearchChoice) -> SearchChoice:
    """Return a choice for the record: what real hosts suggest is named, and does not change with the hosts file.

    Raises:
        InventoryError: the hosts file is wrong.
        UsageError: it forms no pair.
    """
    return choice if choice.testbed.is_simulated else choice.naming(*defaults_for(choice.testbed))


def space_of(choice: TestbedChoice, name: str | None, terms: str | None = None) -> Space:
    """Load a space, or what an application reaches of one; without a name the space that suits the testbed.

    Args:
        choice: the testbed.
        name: a name or a file of either.
        terms: space of an application that names none; None for the one that suits the testbed.
    """
    if name is None or names_application(name):
        return space_named(name, terms or defaults_for(choice).space)
    return load_space(name)


def space_named(name: str | None, default: str = "nsdi22") -> Space:
    """Load a space, or what an application reaches of one.

    Args:
        name: a name or a file of either; a space comes first. None for the default.
        default: of a name, and the space of an application that names none.

    Raises:
        ContentError: there is none, or it is wrong.
        UsageError: the application reaches one workload only.
    """
    if name is None or not names_application(name):
        return load_space(name or default)
    try:
        return reached(load_application(name, default=default))
    except ValueError as error:
        raise UsageError(str(error)) from None


def recipe_of(choice: TestbedChoice, name: str | None) -> Recipe:
    """Load a recipe; without a name the one that suits the testbed."""
    return load_recipe(name or defaults_for(choice).recipe)


def known_sets(known: str | None) -> tuple[Mfs, ...]:
    """Load minimal feature sets that need not be found again: the paper's, or those of a campaign.

    Raises:
        ContentError: there are no such anomalies.
        StoreError: there is no such campaign.
    """
    if known is None:
        return ()
    if os.path.isdir(known):
        with SqliteStore.open(Path(known), read_only=True) as store:
            # An explanation that is not complete would hide what it does not explain.
            return tuple(each.mfs for each in store.anomalies() if each.complete and each.same_as is None)
    return tuple(reference.conditions for reference in load_references(known))


@dataclass(frozen=True)
class Parts:
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


def limits_of(choice: SearchChoice) -> SafetyLimits:
    """Return the limits in force: the site's, tightened by the user; a simulation has none of its own.

    Raises:
        UsageError: the user wants more than the site allows.
        InventoryError: the hosts file is wrong.
    """
    hosts = choice.testbed.hosts
    return tightened(SafetyLimits() if hosts is None else open_inventory(hosts).safety, choice.safety)


def narrowed_space_of(choice: SearchChoice) -> Space:
    """Load the space of a search and narrow it: by what the user says, and by what the testbed can do if that is known.

    Raises:
        ContentError: there is no such space, or it is wrong.
        UsageError: what is fixed, limited and possible leaves nothing.
    """
    return pruned_space_of(choice)[0]


def pruned_space_of(choice: SearchChoice) -> tuple[Space, tuple[Drop, ...]]:
    """Load and narrow the space of a search, and say what was left out of it because the testbed cannot do it.

    Raises:
        ContentError: there is no such space, or it is wrong.
        UsageError: what is fixed, limited and possible leaves nothing.
    """
    space = space_of(choice.testbed, choice.space, choice.terms)
    fixes, limits = parse_fixes(choice.fix), parse_limits(choice.limit)
    try:
        narrowed = space.narrowed(fixes, limits) if fixes or limits else space
        return prune(narrowed, choice.capabilities or Capabilities())
    except ValueError as error:
        raise UsageError(str(error)) from None


def parts_of(choice: SearchChoice) -> Parts:
    """Load everything that a choice names.

    Raises:
        CollieError: anything that the user chose is wrong.
    """
    space, dropped = pruned_space_of(choice)
    recipe = recipe_of(choice.testbed, choice.recipe)
    budget = parse_budget(choice.budget or recipe.budget)
    return Parts(space, dropped, recipe, budget, known_sets(choice.known), limits_of(choice))


def system_clock() -> Clock:
    """Return the time of this machine."""
    from collie.hosts.testbed import SystemClock  # hosts take long to import, and the simulator needs none of them

    return SystemClock()


def utc_now() -> str:
    """Return the time of day, RFC 3339, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
