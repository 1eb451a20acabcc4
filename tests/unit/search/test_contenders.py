"""The contenders that the search is measured against."""

from __future__ import annotations

import importlib.util
from random import Random

import pytest

from collie.campaign.budget import Budget
from collie.campaign.run import Campaign
from collie.content.recipes import load_recipe
from collie.content.spaces import load_space
from collie.counters.catalog import CounterKind
from collie.detect.bounds import Calibration
from collie.detect.measurement import HostMeasurement, Measurement
from collie.detect.symptom import Symptom
from collie.ports import CampaignHeader
from collie.search.recipe import Step, StrategyName
from collie.search.strategies import build
from collie.search.strategy import Answer, ProposalOutcome, Strategy
from collie.store.memory import MemoryStore
from collie.testing.fakes import FAKE_CATALOG, FakeTestbed, ListSink, Planted
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.workload import Opcode, QpType, Workload
from tests.support.contenders import CONTENDERS

SPACE = load_space("nsdi22")
PAPER = CONTENDERS[1:5]

NEEDS = {"optuna-tpe": ("optuna",), "optuna-gp": ("optuna", "torch")}


def strategy(name: str, seed: int = 1) -> Strategy:
    for package in NEEDS.get(name, ()):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    return build(load_recipe(name), SPACE, FAKE_CATALOG, Random(seed))


def answer(workload: Workload) -> Answer:
    """Skip, fail or measure, as the workload says."""
    if workload.qps % 3 == 0:
        return Answer(ProposalOutcome.SKIPPED if workload.sge_count > 1 else ProposalOutcome.FAILED)
    counters = {"rx_packets": 1e6 / workload.wqe_batch, "pressure": float(workload.qps * workload.sge_count)}
    found = workload.mtu == 256
    return Answer(ProposalOutcome.MEASURED, Measurement((HostMeasurement("b", counters=counters),), 4.0), found)


def proposals(searching: Strategy, number: int) -> list[Workload]:
    asked = []
    for _ in range(number):
        workload = searching.ask()
        asked.append(workload)
        searching.tell(workload, answer(workload))
    return asked


@pytest.mark.parametrize("name", CONTENDERS)
def test_a_contender_proposes_valid_workloads_the_same_for_one_seed(name: str) -> None:
    number = {"optuna-gp": 13, "optuna-tpe": 40}.get(name, 120)

    asked = proposals(strategy(name), number)

    assert [SPACE.complaints(workload) for workload in asked] == [[]] * number
    assert proposals(strategy(name), number) == asked
    assert proposals(strategy(name, 2), 5) != asked[:5]


def test_all_contenders_judge_and_confirm_alike() -> None:
    recipes = [load_recipe(name) for name in CONTENDERS]

    assert len({(recipe.thresholds, recipe.confirmation, recipe.budget) for recipe in recipes}) == 1
    assert {recipe.extraction for recipe in recipes if recipe.explain} == {load_recipe("nsdi22-diag").extraction}
    unexplained = {"random", "nsdi22-diag-no-mfs", "nsdi22-perf-no-mfs"}
    assert {recipe.name for recipe in recipes if not recipe.explain} == unexplained


@pytest.mark.parametrize("name", [name for name in CONTENDERS if name != "random"])
def test_a_contender_drives_the_counters_that_its_recipe_names(name: str) -> None:
    searching, driven = strategy(name), set()
    for _ in range(18 if name == "optuna-gp" else 30):
        workload = searching.ask()
        driven.add(searching.driven)
        searching.tell(workload, answer(workload))

    kinds = {counter.kind for counter in FAKE_CATALOG.counters if counter.name in driven}
    assert (
        kinds
        == set(load_recipe(name).drives)
        == {CounterKind.PERFORMANCE if "perf" in name else CounterKind.DIAGNOSTIC}
    )


def test_the_algorithm_of_the_paper_mutates_within_one_of_its_four_dimensions() -> None:
    assert {load_recipe(name).schedule.step for name in PAPER} == {Step.GROUP}
    groups = (
        {"direction", "loopback", "numa_node", "peer_numa_node", "memory", "peer_memory"},
        {"mrs_per_qp", "mr_bytes"},
        {"messages"},
    )
    searching, before, within = strategy("nsdi22-diag"), SPACE.base, 0
    for workload in proposals(searching, 200):
        changed = {name for name in SPACE.dimensions if workload.get(name) != before.get(name)}
        within += any(changed <= group for group in groups) or not any(changed & group for group in groups)
        before = workload
    assert within > 40  # the rest follow a random point, or a rejected one


@pytest.mark.parametrize("name", ["optuna-tpe", "optuna-gp"])
def test_what_is_covered_is_not_proposed_for_ever(name: str) -> None:
    searching = strategy(name)
    proposals(searching, 18)

    asked = []
    for _ in range(14):
        workload = searching.ask()
        asked.append(workload)
        searching.tell(workload, Answer(ProposalOutcome.SKIPPED))

    assert len(set(asked)) > 7


def test_bayesian_optimisation_learns_what_moves_its_counter() -> None:
    searching = strategy("optuna-tpe")

    def reported(workload: Workload) -> Answer:
        counters = {"pressure": float(workload.qps), "rx_packets": 1.0}
        return Answer(ProposalOutcome.MEASURED, Measurement((HostMeasurement("b", counters=counters),), 4.0))

    asked = []
    for _ in range(80):
        workload = searching.ask()
        asked.append(workload.qps)
        searching.tell(workload, reported(workload))
    assert sorted(asked[-30:])[15] > 4 * sorted(asked[:10])[5]


def test_bayesian_optimisation_is_silent(capfd: pytest.CaptureFixture[str]) -> None:
    proposals(strategy("optuna-tpe"), 30)
    assert capfd.readouterr() == ("", "")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from collie.errors import UsageError

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"optuna-gp needs optuna and torch"):
        build(load_recipe("optuna-gp"), SPACE, FAKE_CATALOG, Random(1))


def test_the_nearest_workload_keeps_what_is_allowed() -> None:
    wanted = {"qp_type": QpType.UD, "opcode": Opcode.READ, "mtu": 1024, "messages": (64, 1 << 20), "sge_count": 4}

    nearest = SPACE.nearest(wanted)

    assert nearest is not None
    assert SPACE.complaints(nearest) == []
    assert (nearest.qp_type, nearest.opcode, nearest.messages) == (QpType.UD, Opcode.SEND, (64, 1024))
    assert nearest.qps == SPACE.base.qps
    assert SPACE.nearest({name: SPACE.base.get(name) for name in SPACE.dimensions}) == SPACE.base


def test_without_explanation_an_anomaly_is_kept_as_it_was_met() -> None:
    anywhere = Mfs((Condition("sge_count", Op.AT_LEAST, 2),))
    testbed = FakeTestbed((Planted(anywhere, Symptom.PAUSE),))
    store = MemoryStore(CampaignHeader("test", {}, SPACE.name, "random", {}, 1, "2026-01-01T00:00:00Z"))
    campaign = Campaign(testbed, store, SPACE, load_recipe("random"), Budget(runs=60), 1, calibration=Calibration())

    anomalies = campaign.run(ListSink()).anomalies

    assert len(anomalies) > 5
    assert {(anomaly.workload == anomaly.found_as, anomaly.complete, anomaly.mfs) for anomaly in anomalies} == {
        (True, False, Mfs(()))
    }
    assert {record.purpose for record in store.runs()} <= {"search", "confirm", "sibling"}


def test_the_strategies_of_the_recipes() -> None:
    assert {load_recipe(name).strategy for name in PAPER} == {StrategyName.ANNEALING}
