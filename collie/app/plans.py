"""The plan of a search. No host is contacted."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from collie.app.adapters import Adapters
from collie.app.inputs import SearchInputs, search_inputs
from collie.app.inventories import first_pairs, open_inventory
from collie.app.testbeds import known_elsewhere, open_testbed, require_possible_victim
from collie.campaign.choice import SearchChoice
from collie.campaign.run import strategy_generator
from collie.campaign.safety import described
from collie.counters.catalog import Catalog
from collie.search.strategies import build
from collie.search.strategy import Answer, ProposalOutcome
from collie.workloads.workload import Workload, render

_FIRST_PROPOSALS = 5


def describe(adapters: Adapters, choice: SearchChoice, *, resumed: bool = False) -> dict[str, Any]:
    """Return the plan of a search as plain values. Capabilities of real hosts are not known yet.

    `known_elsewhere` says whether known anomalies are tested first instead of skipped. None if the hosts decide. A
    `resumed` search treats them as it did at its beginning.
    """
    if choice.scheduler is not None:
        adapters.testbeds.require_scheduler(choice.scheduler)
    contacted: dict[str, str] = {}
    testbed = None
    if choice.testbed.hosts is None:
        testbed = open_testbed(adapters, choice.testbed, choice.seed)
        require_possible_victim(testbed, choice.testbed)
        choice = dataclasses.replace(choice, capabilities=testbed.capabilities)
        name = testbed.info.title
    else:
        pairs = first_pairs(open_inventory(adapters, choice.testbed.hosts), choice.pairs)
        name = "; ".join(pair.name for pair in pairs)
        contacted = {host.name: f"{host.address}, device {host.device}" for pair in pairs for host in pair.hosts}
    elsewhere = choice.known_elsewhere if resumed else known_elsewhere(adapters, choice.known, testbed)
    inputs = search_inputs(adapters, choice)
    return {
        "schema_version": 1,
        "testbed": name,
        "space": inputs.space.name,
        "log10_size": inputs.space.log10_size(),
        "dimensions": list(inputs.space.dimensions),
        "dropped": [dataclasses.asdict(drop) for drop in inputs.dropped],
        "recipe": inputs.recipe.name,
        "strategy": inputs.recipe.plugin or inputs.recipe.strategy.value,
        "phases": choice.phases or inputs.recipe.phases,
        "budget": str(inputs.budget),
        "seed": choice.seed,
        "known": len(inputs.known) + len(inputs.foreseen),
        "known_elsewhere": elsewhere,
        "hosts": contacted,
        "safety": described(inputs.limits),
        "plain": _varied(inputs.space.base, inputs),
        "first_workloads": [_varied(workload, inputs) for workload in _first_proposals(choice, inputs)],
    }


def _varied(workload: Workload, inputs: SearchInputs) -> dict[str, Any]:
    return {name: value for name, value in render(workload).items() if name in inputs.space.dimensions}


def _first_proposals(choice: SearchChoice, inputs: SearchInputs) -> Iterator[Workload]:
    strategy = build(inputs.recipe, inputs.space, Catalog("none yet", ()), strategy_generator(choice.seed))
    for _ in range(_FIRST_PROPOSALS):
        workload = strategy.ask()
        yield workload
        strategy.tell(workload, Answer(ProposalOutcome.SKIPPED))
