"""The contenders that the search is measured against, and the benchmark that measures them."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from random import Random
from types import ModuleType

import pytest

from collie.campaign.budget import Budget
from collie.campaign.run import Campaign
from collie.content.recipes import load_recipe
from collie.content.spaces import load_space
from collie.content.subsystems import load_subsystem
from collie.counters.catalog import CounterKind
from collie.detect.bounds import Calibration
from collie.detect.measurement import HostMeasurement, Measurement
from collie.detect.symptom import Symptom
from collie.ports import CampaignHeader
from collie.search.recipe import Step, StrategyName
from collie.search.strategies import build
from collie.search.strategy import Answer, ProposalOutcome, Strategy
from collie.simulator.mechanism import Mechanism
from collie.simulator.subsystem import SubsystemFile
from collie.simulator.truth import Truth
from collie.store.memory import MemoryStore
from collie.testing.fakes import FAKE_CATALOG, FakeTestbed, ListSink, Planted
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.workload import Opcode, QpType, Workload
from tests.support.quality import inside, precision, recall, true_region

SPACE = load_space("nsdi22")
FILE = load_subsystem("F", SubsystemFile)
TRUTH = Truth(FILE, SPACE)
PAPER = ("nsdi22-diag", "nsdi22-perf", "nsdi22-diag-no-mfs", "nsdi22-perf-no-mfs")
CONTENDERS = ("random", *PAPER, "optuna-tpe", "optuna-gp")
NEEDS = {"optuna-tpe": ("optuna",), "optuna-gp": ("optuna", "scipy", "torch")}


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
    with pytest.raises(UsageError, match=r"optuna-gp needs optuna and scipy and torch"):
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


# --- quality of explanations ------------------------------------------------------------------------------------------

WITNESS = next(one.trigger for one in FILE.witnesses if one.mechanism is Mechanism.DATAGRAM_PREFETCH)
GOOD = Mfs(
    (
        Condition("qp_type", Op.EQUAL, QpType.UD),
        Condition("wqe_batch", Op.AT_LEAST, 64),
        Condition("recv_wq_depth", Op.AT_LEAST, 256),
    )
)


@pytest.mark.parametrize("rest_plain", [True, False])
def test_points_inside_a_set_satisfy_it(rest_plain: bool) -> None:
    points = inside(SPACE, GOOD, WITNESS, 40, Random(1), rest_plain=rest_plain)

    assert all(GOOD.covers(point) and SPACE.complaints(point) == [] for point in points)
    assert len({point.wqe_batch for point in points}) == 2
    assert len({point.loopback for point in points}) == (1 if rest_plain else 2)


def test_a_set_that_lacks_conditions_loses_precision_and_a_narrow_one_recall() -> None:
    region = true_region(SPACE, Mechanism.DATAGRAM_PREFETCH, FILE, TRUTH, 60, Random(1))
    wide, narrow = Mfs(GOOD.conditions[:1]), Mfs((*GOOD.conditions, Condition("numa_node", Op.EQUAL, 0)))

    def precise(mfs: Mfs) -> float:
        return precision(SPACE, mfs, WITNESS, FILE, TRUTH, 60, Random(2))

    assert (TRUTH.severities_alone(Mechanism.DATAGRAM_PREFETCH, region) > 0).all()
    assert precise(GOOD) > 0.9 > precise(wide)
    assert recall([GOOD], region) > 0.9 > recall([narrow], region)
    assert recall([narrow, Mfs((Condition("numa_node", Op.EQUAL, 1),))], region) == 1


def test_a_mechanism_that_a_subsystem_lacks_has_no_region() -> None:
    lacking = next(name for name in Mechanism if name not in {one.mechanism for one in FILE.witnesses})
    with pytest.raises(LookupError, match="no witness"):
        true_region(SPACE, lacking, FILE, TRUTH, 1, Random(1))


# --- the benchmark ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    path = Path(__file__).parents[3] / "benchmarks" / "search_efficiency.py"
    spec = importlib.util.spec_from_file_location("search_efficiency", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_the_benchmark_prints_its_tables_and_writes_its_files(
    benchmark: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "--contenders random,nsdi22-diag --seeds 5 --budget 120runs --quality-points 20 --jobs 1 --output"
    benchmark.main([*words.split(), str(tmp_path / "out")])

    printed = capsys.readouterr().out
    assert "| *paper: Collie (Diag)* | 3 (3) | 14 (9) |" in printed
    assert "| random |" in printed
    document = json.loads((tmp_path / "out.json").read_text())
    assert [result["contender"] for result in document["results"]] == ["random", "nsdi22-diag"]
    assert all(result["runs"] == 120 and len(result["planted"]) == 13 for result in document["results"])
    assert (tmp_path / "out.png").stat().st_size > 10_000


def test_the_tables_of_the_benchmark_say_mean_spread_and_how_many_got_there(benchmark: ModuleType) -> None:
    anomaly = {"extraction_runs": 30, "complete": True, "precision": 0.9, "recall": 0.5, "joint_recall": 1.0}

    def result(**found: float) -> dict[str, object]:
        rest = {"runs": 800, "false": 1, "wall_seconds": 2.0, "budget_minutes": 600.0}
        named = {"contender": "mine", "subsystem": "A", "planted": ["x", "y"]}
        return {**named, **rest, "found": found, "anomalies": [anomaly, anomaly]}

    results = [result(x=10.0, y=40.0), result(y=20.0)]

    assert "| mine | 15 (7) [2] | 40 (0) [1] |" in benchmark.minutes_table(results)
    cells = "1.50 (1 to 2) | 2 | 320 | 1.5 | 30, 30 | 100% | 0.900 | 0.500 | 1.000 | 800 | 2.0"
    assert f"| mine | {cells} |" in benchmark.summary_table(results)


def test_seeds_are_read_as_ranges_and_lists(benchmark: ModuleType) -> None:
    assert benchmark.parse_seeds("1-3,7") == [1, 2, 3, 7]


def test_every_contender_of_the_paper_has_its_figures(benchmark: ModuleType) -> None:
    assert all(benchmark.paper_of(name) for name in CONTENDERS)
    assert len(benchmark.paper_of("nsdi22-diag")[1]) == 13


def test_the_strategies_of_the_recipes() -> None:
    assert {load_recipe(name).strategy for name in PAPER} == {StrategyName.ANNEALING}
