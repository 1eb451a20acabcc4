"""Gates on testbeds with planted anomalies."""

from __future__ import annotations

from collections.abc import Sequence

from collie.campaign.budget import Budget
from collie.campaign.gate.cases import CaseOrigin, GateCase, Record
from collie.campaign.gate.loop import Gate
from collie.campaign.gate.summary import GateSummary
from collie.campaign.loop import SearchLoop
from collie.campaign.measure import Measurer
from collie.campaign.run import strategy_generator
from collie.detect.bounds import Bounds, Calibration
from collie.detect.compare import Change
from collie.detect.symptom import Symptom
from collie.report.terminal.gate import GateContext
from collie.search.anomaly import Anomaly, KnownAnomalies
from collie.search.recipe import Recipe, StrategyName
from collie.search.strategies import build
from collie.store.memory import MemoryStore
from collie.testing.fakes import FakeTestbed, ListSink, Planted
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.workload import Workload
from tests.support.planted import HEADER, LOOPBACK, MANY_SGES, SPACE

BATCHES = Mfs((Condition("wqe_batch", Op.AT_LEAST, 32),))
RECIPE = Recipe("test", strategy=StrategyName.RANDOM, explain=False)
CONTEXT = GateContext("base", "--subsystem F", ("--subsystem", "F"), ("firmware",), (), "gates/1", HEADER.started, 0)


def trigger(**values: object) -> Workload:
    workload = SPACE.base.with_(**values)
    assert SPACE.allows(workload)
    return workload


def case(name: str, mfs: Mfs, kind: CaseOrigin = CaseOrigin.BASELINE, **values: object) -> GateCase:
    workload = trigger(**values)
    assert mfs.covers(workload)
    return GateCase(name, kind, f"case {name}", workload, mfs, f"base/{name}", Symptom.PAUSE)


A1 = case("a1", LOOPBACK, loopback=True)
A2 = case("a2", MANY_SGES, sge_count=8)


def measurer(testbed: FakeTestbed, store: MemoryStore) -> Measurer:
    bounds = Bounds(testbed.specification, Calibration(), SPACE)
    return Measurer(testbed, store, bounds, RECIPE.thresholds, Budget(), ListSink())


def gate(
    candidate: FakeTestbed,
    baseline: FakeTestbed | None,
    cases: Sequence[GateCase] = (A1, A2),
    *,
    record: Record | None = None,
    budget: int = 300,
    recipe: Recipe = RECIPE,
) -> tuple[GateSummary, MemoryStore]:
    store = MemoryStore(HEADER)
    measured = measurer(candidate, store)

    def engine(known: Sequence[Mfs]) -> SearchLoop:
        strategy = build(recipe, SPACE, candidate.info.catalog, strategy_generator(1))
        return SearchLoop(measured, store, strategy, SPACE, recipe, ListSink(), KnownAnomalies(known))

    made = Gate(
        candidate=measured,
        baseline=measurer(baseline, MemoryStore(HEADER)) if baseline else None,
        record=record or Record(),
        store=store,
        cases=cases,
        space=SPACE,
        recipe=recipe,
        budget=Budget(runs=budget),
        false_alarm=0.01,
        engine=engine,
        name_found=lambda identifier: f"gates/1/{identifier}",
    )
    return made.run(), store


def changes(summary: GateSummary) -> dict[str, Change]:
    return {
        result.case.name: result.change for result in summary.results if result.case.kind is not CaseOrigin.NEIGHBOUR
    }


BOTH = (Planted(LOOPBACK), Planted(MANY_SGES))


def found(identifier: str) -> Anomaly:
    workload = trigger(loopback=True)
    return Anomaly(
        identifier, Symptom.PAUSE, 0.2, workload, workload, LOOPBACK, "pause", "a", 1, 30.0, 0, complete=True
    )
