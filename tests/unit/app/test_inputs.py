"""What a user says about a search can be said again."""

from __future__ import annotations

import dataclasses
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from collie.app import inputs, plans
from collie.app.inputs import with_defaults
from collie.campaign.choice import SearchChoice, TestbedChoice
from collie.campaign.hardships import Hardships, Outliers
from collie.cli import search
from collie.errors import StoreError, UsageError
from collie.inventory.safety import SafetyLimits
from collie.wiring import ADAPTERS
from collie.workloads.workload import QpType, Workload


@pytest.mark.parametrize(
    "choice",
    [
        SearchChoice(),
        SearchChoice(
            TestbedChoice(subsystem="my nic.yaml", settings={"firmware": "22.31", "pfc": "enabled"}, noise=0.5)
        ),
        SearchChoice(
            TestbedChoice(hardships=Hardships({"all": 0.6, "context_cache": 1 / 3}, Outliers(1 / 30, 0.02), 0.1))
        ),
        SearchChoice(TestbedChoice(hardships=Hardships(outliers=Outliers(0.07, 1.0)))),
        SearchChoice(TestbedChoice(hosts="lab", verify=True, victim=True), space="soft-roce", recipe="soft-roce"),
        SearchChoice(TestbedChoice(victim=True, victim_bps=10**10), space="offered-load"),
        SearchChoice(fix=("qp_type=RC", "opcode=READ"), limit=("qps<=64",), known="nsdi22", budget="45m", seed=7),
        SearchChoice(safety=SafetyLimits(0.25, 120.0, 50e9), shared_port=True),
    ],
)
def test_the_arguments_of_a_choice_make_the_same_choice(choice: SearchChoice) -> None:
    ctx = search.command.make_context("search", choice.arguments())
    assert search._choice(ctx, ctx.params)[0] == choice


def test_hardships_are_on_record() -> None:
    choice = SearchChoice(TestbedChoice(hardships=Hardships({"all": 0.6}, Outliers(1 / 30, 0.02), 0.1)))
    assert SearchChoice.from_settings(json.loads(json.dumps(choice.to_settings()))) == choice


_TWO_HOSTS = """\
version: 1
hosts:
  a: {{address: 192.0.2.1, data_address: 192.0.2.11, device: {0}}}
  b: {{address: 192.0.2.2, data_address: 192.0.2.12, device: {0}}}
pairs: [[a, b]]
"""


@pytest.mark.parametrize(
    ("device", "space", "recipe"), [("mlx5_0", "nsdi22", "hosts"), ("rxe0", "soft-roce", "soft-roce")]
)
def test_devices_decide_what_hosts_are_searched_with(device: str, space: str, recipe: str, tmp_path: Path) -> None:
    hosts = tmp_path / "hosts.yaml"
    hosts.write_text(_TWO_HOSTS.format(device))
    plan = plans.describe(ADAPTERS, SearchChoice(TestbedChoice(hosts=str(hosts))))
    assert (plan["space"], plan["recipe"]) == (space, recipe)
    reported = plans.describe(
        ADAPTERS, SearchChoice(TestbedChoice(hosts=str(hosts)), space="soft-roce", recipe="random")
    )
    assert (reported["space"], reported["recipe"]) == ("soft-roce", "random")


@pytest.mark.parametrize(("recipe", "has_uc_write"), [("soft-roce-isolate", False), ("soft-roce", True)])
def test_where_only_the_victim_is_judged_each_workload_has_one(recipe: str, has_uc_write: bool, tmp_path: Path) -> None:
    hosts = tmp_path / "hosts.yaml"
    hosts.write_text(_TWO_HOSTS.format("rxe0"))
    choice = SearchChoice(TestbedChoice(hosts=str(hosts), victim=True), space="soft-roce-load", recipe=recipe)
    uc_write = Workload(qp_type=QpType.UC, messages=(1024,), mtu=1024, offered_bps=4_000_000)
    space = partial(inputs.narrowed_space_of, ADAPTERS, recipe=inputs.recipe_of(ADAPTERS, choice.testbed, recipe))
    faults = [fault for _, fault in space(choice).violations(uc_write)]
    assert any("UC WRITE is counted by the packets" in fault for fault in faults) is not has_uc_write
    with_uc = dataclasses.replace(choice, fix=("qp_type=UC", "opcode=WRITE"))
    if has_uc_write:
        assert space(with_uc).base.opcode == "WRITE"
    else:
        with pytest.raises(UsageError, match="has no such workload: no victim beside it"):
            space(with_uc)


def test_what_hosts_suggested_is_on_record_and_needs_no_hosts_file_later(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts.yaml"
    hosts.write_text(_TWO_HOSTS.format("rxe0"))
    application = tmp_path / "application.yaml"
    application.write_text("title: bulk\ntraffic: {bulk: {qps: {range: [1, 16]}}}\n")
    choice = with_defaults(ADAPTERS, SearchChoice(TestbedChoice(hosts=str(hosts)), space=str(application)))
    before = inputs.narrowed_space_of(ADAPTERS, choice)
    hosts.unlink()
    again = SearchChoice.from_settings(choice.to_settings())
    assert inputs.narrowed_space_of(ADAPTERS, again).dimensions == before.dimensions
    assert before.whole.name == "soft-roce"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"pairs": 0}, "pairs"),
        ({"pairs": 10**9}, "pairs"),
        ({"testbed": {"noise": -1.0}}, "noise"),
        ({"testbed": {"hardships": {"flaky": {"all": 1.5}}}}, "flaky all: 1.5 is no share"),
        ({"testbed": {"hardships": {"outliers": {"share": -0.1, "pause": 0.1}}}}, "outliers: -0.1 is no share"),
        ({"testbed": {"hardships": {"outliers": {"share": 0.1, "pause": 2.0}}}}, "pause of outliers: 2.0 is no share"),
        ({"testbed": {"hardships": {"drift": 0.6}}}, "drift is 0.6; expected 0 to 0.5"),
    ],
)
def test_what_no_command_line_can_say_is_on_no_record(said: dict[str, Any], why: str) -> None:
    with pytest.raises(StoreError, match=why):
        SearchChoice.from_settings(said)
