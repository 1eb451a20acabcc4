"""Searches on testbeds with planted anomalies."""

from __future__ import annotations

from collie.campaign.budget import Budget
from collie.campaign.run import Campaign
from collie.campaign.single_run import Case, SingleRunSession
from collie.campaign.summary import Summary
from collie.detect.bounds import Calibration
from collie.detect.symptom import Symptom
from collie.detect.thresholds import Thresholds
from collie.search.foreseen import ForeseenAnomaly
from collie.search.recipe import Recipe, StrategyName
from collie.store.memory import MemoryStore
from collie.testing.fakes import FakeTestbed, ListSink
from collie.workloads.feature import Mfs
from tests.support.planted import HEADER, MANY_SGES, SPACE

RANDOM = Recipe("test", strategy=StrategyName.RANDOM)


def search(
    testbed: FakeTestbed,
    *,
    budget: Budget = Budget(runs=200),  # noqa: B008 - frozen
    recipe: Recipe = RANDOM,
    store: MemoryStore | None = None,
    sink: ListSink | None = None,
    calibration: Calibration | None = Calibration(),  # noqa: B008 - frozen
    known: tuple[Mfs, ...] = (),
    foreseen: tuple[ForeseenAnomaly, ...] = (),
) -> Summary:
    store = store or MemoryStore(HEADER)
    campaign = Campaign(testbed, store, SPACE, recipe, budget, 1, known, calibration, foreseen=foreseen)
    return campaign.run(sink or ListSink())


def bench(testbed: FakeTestbed) -> SingleRunSession:
    return SingleRunSession(testbed, MemoryStore(HEADER), SPACE, Thresholds(), Calibration(), ListSink())


CASE = Case("case", SPACE.base.with_(sge_count=16), Symptom.PAUSE, MANY_SGES)
