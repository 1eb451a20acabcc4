"""What a user says about a search can be said again."""

from __future__ import annotations

import pytest

from collie.campaign.choice import SearchChoice, TestbedChoice
from collie.cli import search
from collie.inventory.safety import SafetyLimits


@pytest.mark.parametrize(
    "choice",
    [
        SearchChoice(),
        SearchChoice(
            TestbedChoice(subsystem="my nic.yaml", settings={"firmware": "22.31", "pfc": "enabled"}, noise=0.5)
        ),
        SearchChoice(TestbedChoice(hosts="lab", verify=True, victim=True), space="soft-roce", recipe="soft-roce"),
        SearchChoice(fix=("qp_type=RC", "opcode=READ"), limit=("qps<=64",), known="nsdi22", budget="45m", seed=7),
        SearchChoice(safety=SafetyLimits(0.25, 120.0, 50e9), shared_port=True),
    ],
)
def test_the_arguments_of_a_choice_make_the_same_choice(choice: SearchChoice) -> None:
    ctx = search.command.make_context("search", choice.arguments())
    assert search._choice(ctx, ctx.params)[0] == choice
