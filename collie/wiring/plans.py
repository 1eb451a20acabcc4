"""What a search would do, told without any host being touched."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from collie.campaign.choice import SearchChoice
from collie.campaign.run import strategy_generator
from collie.campaign.safety import described
from collie.counters.catalog import Catalog
from collie.search.strategies import build
from collie.search.strategy import Answer, ProposalOutcome
from collie.wiring.inventories import first_pairs, open_inventory
from collie.wiring.parts import Parts, parts_of
from collie.wiring.testbeds import open_testbed
from collie.workloads.workload import Workload, render

_FIRST_PROPOSALS = 5


def describe(choice: SearchChoice) -> dict[str, Any]:
    """Return what a search would do, without touching any host: what hosts cannot do is left out once they are asked.

    Raises:
        CollieError: anything that the user chose is wrong.
    """
    if choice.scheduler is not None:
        from collie.scheduler.distributed import require_usable

        require_usable(choice.scheduler)
    contacted: dict[str, str] = {}
    if choice.testbed.hosts is None:
        testbed = open_testbed(choice.testbed, choice.seed)
        choice = dataclasses.replace(choice, capabilities=testbed.capabilities)
        name = f"simulated subsystem {testbed.info.name}"
    else:
        pairs = first_pairs(open_inventory(choice.testbed.hosts), choice.pairs)
        name = "; ".join(pair.name for pair in pairs)
        contacted = {host.name: f"{host.address}, device {host.device}" for pair in pairs for host in pair.hosts}
    parts = parts_of(choice)
    return {
        "schema_version": 1,
        "testbed": name,
        "space": parts.space.name,
        "log10_size": round(parts.space.log10_size(), 1),
        "dimensions": list(parts.space.dimensions),
        "dropped": [dataclasses.asdict(drop) for drop in parts.dropped],
        "recipe": parts.recipe.name,
        "strategy": parts.recipe.strategy.value,
        "budget": str(parts.budget),
        "seed": choice.seed,
        "known": len(parts.known),
        "hosts": contacted,
        "safety": described(parts.limits),
        "first_workloads": [
            {name: value for name, value in render(workload).items() if name in parts.space.dimensions}
            for workload in _first_proposals(choice, parts)
        ],
    }


def _first_proposals(choice: SearchChoice, parts: Parts) -> Iterator[Workload]:
    """Yield what a search proposes before any result could change its mind; no counters are known yet."""
    strategy = build(parts.recipe, parts.space, Catalog("none yet", ()), strategy_generator(choice.seed))
    for _ in range(_FIRST_PROPOSALS):
        workload = strategy.ask()
        yield workload
        strategy.tell(workload, Answer(ProposalOutcome.SKIPPED))
