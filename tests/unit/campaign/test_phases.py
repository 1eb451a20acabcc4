"""Phases of one set-up in a campaign, and the shortest history among them."""

from __future__ import annotations

from pathlib import Path

import pytest

from collie.campaign.budget import Budget
from collie.campaign.measure import Measurer
from collie.campaign.phases import finding_history, judging_phases, on_only_lane
from collie.content.catalogs import load_catalog
from collie.content.subsystems import load_subsystem
from collie.detect.bounds import Bounds, Calibration
from collie.detect.judge import Thresholds
from collie.detect.symptom import Symptom
from collie.search.history import History
from collie.simulator.subsystem import SubsystemFile
from collie.simulator.testbed import SimulatedTestbed
from collie.store.memory import MemoryStore
from collie.testing.fakes import FakeTestbed, ListSink, Planted
from collie.workloads.setup import SetUp
from collie.workloads.workload import Workload
from tests.support.planted import HEADER, LOOPBACK, SPACE
from tests.support.remembering import ANY, Remembering

REMEMBERS = Path(__file__).parents[2] / "data" / "subsystems" / "idle-flows.yaml"
PLAIN = SPACE.base
LARGE = PLAIN.with_(qps=256)
MIDDLE = PLAIN.with_(qps=32)


def measurer(testbed: FakeTestbed | SimulatedTestbed, store: MemoryStore | None = None) -> Measurer:
    bounds = Bounds(testbed.specification, Calibration(), SPACE)
    return Measurer(testbed, store or MemoryStore(HEADER), bounds, Thresholds(), Budget(), ListSink())


def history_of(
    testbed: FakeTestbed | SimulatedTestbed, on: SetUp, workload: Workload, symptom: Symptom = Symptom.PAUSE
) -> History | None:
    own = measurer(testbed)
    return on_only_lane(own, lambda lane: finding_history(own, lane, on, workload, symptom))


def test_phases_run_on_one_new_set_up_and_are_all_judged() -> None:
    testbed, store = Remembering(), MemoryStore(HEADER)
    own = measurer(testbed, store)
    for _ in range(2):
        runs = on_only_lane(own, lambda lane: judging_phases(own, lane, LARGE, (LARGE, PLAIN), "test"))
        assert [record.workload for record, _ in runs] == [LARGE, PLAIN]
        assert [verdict.is_anomalous for _, verdict in runs if verdict is not None] == [False, True]
    assert {record.verdict is not None for record in store.runs() if record.purpose == "test"} == {True}
    assert [on for on in testbed.on if on] == [SetUp(LARGE), SetUp(LARGE, (LARGE,))] * 2


def test_a_phase_that_ends_the_set_up_is_the_last() -> None:
    own = measurer(Remembering(ends=lambda: True))
    runs = on_only_lane(own, lambda lane: judging_phases(own, lane, LARGE, (LARGE, PLAIN), "test"))
    assert [record.workload for record, _ in runs] == [LARGE]


def test_the_shortest_history_is_found_among_the_phases() -> None:
    phases = (PLAIN, MIDDLE, LARGE, PLAIN, MIDDLE)
    assert history_of(Remembering(), SetUp(LARGE, phases), MIDDLE) == (LARGE,)


def test_what_shows_on_the_set_up_alone_needs_no_history() -> None:
    assert history_of(FakeTestbed((Planted(ANY),)), SetUp(LARGE, (PLAIN, LARGE)), PLAIN) == ()


def test_what_does_not_show_again_or_shows_another_symptom_has_none() -> None:
    on = SetUp(LARGE, (PLAIN, LARGE))
    assert history_of(FakeTestbed((Planted(LOOPBACK),)), on, PLAIN) is None
    assert history_of(Remembering(), on, PLAIN, Symptom.WRONG_PAYLOAD) is None


@pytest.mark.parametrize(("failures", "found"), [(2, (LARGE,)), (3, None)])
def test_a_set_up_that_ends_early_gives_no_answer_until_the_last_try(failures: int, found: History | None) -> None:
    ends = iter([*[True] * failures, *[False] * 50])
    assert history_of(Remembering(ends=lambda: next(ends)), SetUp(LARGE, (LARGE,)), PLAIN) == found


def test_the_planted_mechanism_of_the_simulator_is_found_with_noise() -> None:
    remembers = load_subsystem(str(REMEMBERS), SubsystemFile)
    (witness,) = remembers.witnesses
    assert witness.on is not None
    (large,) = witness.on.before
    phases = (witness.trigger, large.with_(qps=40), large, witness.trigger, large.with_(qps=16))
    testbed = SimulatedTestbed(remembers, load_catalog("simulated"), seed=1)
    assert history_of(testbed, SetUp(witness.on.made_for, phases), witness.trigger) == (large,)
