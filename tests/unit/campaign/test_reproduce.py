"""Reproduction of an anomaly and its controls."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collie.campaign.budget import Budget
from collie.campaign.reproduce import CountersAtDiscovery, Reproduced, planned, reproduce
from collie.campaign.single_run import Case
from collie.detect.measurement import Watch
from collie.detect.signature import Levels, Signature
from collie.detect.symptom import Symptom
from collie.ports import Measured, RunResult
from collie.testing.fakes import FakeTestbed, Planted
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.setup import SetUp
from collie.workloads.workload import Opcode, QpType, Workload
from tests.support.planted import MANY_SGES, SPACE
from tests.support.searches import CASE, bench


def test_an_anomaly_reproduces_and_its_controls_are_normal() -> None:
    found = bench(FakeTestbed((Planted(MANY_SGES),))).reproduce(CASE, repeat=5, controls=True)
    assert found.answer is Reproduced.YES
    assert found.trial.reproduced(Symptom.PAUSE) == 5
    assert [control.broken for control in found.controls] == list(MANY_SGES.conditions)
    assert [control.normal for control in found.controls] == [5, 5]


def test_a_condition_that_cannot_be_broken_alone_is_named() -> None:
    forced = Mfs((Condition("opcode", Op.EQUAL, Opcode.READ), Condition("qp_type", Op.EQUAL, QpType.RC)))
    case = Case("case", SPACE.base.with_(opcode=Opcode.READ), Symptom.PAUSE, forced)
    found = bench(FakeTestbed((Planted(forced),))).reproduce(case, repeat=3, controls=True)
    assert [control.broken for control in found.controls] == [forced.conditions[0]]
    assert found.uncontrolled == (forced.conditions[1],)
    assert bench(FakeTestbed((Planted(forced),))).reproduce(case, repeat=3, controls=False).uncontrolled == ()


def test_a_control_that_still_shows_explains_nothing() -> None:
    claimed = Mfs((*MANY_SGES.conditions, Condition("wqe_batch", Op.AT_MOST, 1)))
    case = Case("case", CASE.workload, Symptom.PAUSE, claimed)
    found = bench(FakeTestbed((Planted(MANY_SGES),))).reproduce(case, repeat=5, controls=True)
    assert [found.explains(control) for control in found.controls] == [True, True, False]
    gone = bench(FakeTestbed()).reproduce(case, repeat=5, controls=True)
    assert [gone.explains(control) for control in gone.controls] == [None, None, None]


def test_an_anomaly_that_is_gone_does_not_reproduce() -> None:
    assert bench(FakeTestbed()).reproduce(CASE, repeat=5, controls=False).answer is Reproduced.NO


LARGE = CASE.workload.with_(qps=64, mrs_per_qp=4)
"""The phase that brings the anomaly, and the set-up for it."""
AFTER = Planted(MANY_SGES, after=Mfs((Condition("qps", Op.AT_LEAST, 64),)))
AFTER_CASE = replace(CASE, on=SetUp(LARGE, (LARGE, CASE.workload)))


def test_an_anomaly_that_needs_phases_before_it_is_run_after_them() -> None:
    testbed = FakeTestbed((AFTER,))
    found = bench(testbed).reproduce(AFTER_CASE, repeat=3, controls=False)
    assert (found.answer, found.on, found.alone) == (Reproduced.YES, AFTER_CASE.on, None)
    plain = SPACE.base
    assert testbed.measured == [plain, LARGE, CASE.workload, CASE.workload] * 3
    assert bench(testbed).reproduce(CASE, repeat=3, controls=False).answer is Reproduced.NO


def test_its_controls_follow_the_same_phases_and_one_leaves_them_out() -> None:
    found = bench(FakeTestbed((AFTER,))).reproduce(AFTER_CASE, repeat=3, controls=True)
    assert [(control.broken, control.normal) for control in found.controls] == [(MANY_SGES.conditions[0], 3)]
    assert found.uncontrolled == (MANY_SGES.conditions[1],)  # its set-up has no queue pairs for loopback
    assert found.alone is not None
    assert found.explains(found.alone) is True
    always = bench(FakeTestbed((Planted(MANY_SGES),))).reproduce(AFTER_CASE, repeat=3, controls=True)
    assert always.alone is not None
    assert always.explains(always.alone) is False


RAISED = CountersAtDiscovery(Signature((("pressure", 3.0),)), Levels({"pressure": 1e-7, "elsewhere": 1e-7}))


@pytest.mark.parametrize(
    ("at_discovery", "kept"),
    [
        (RAISED, CountersAtDiscovery(RAISED.signature, Levels({"pressure": 1e-7}))),
        (replace(RAISED, signature=Signature()), CountersAtDiscovery(Signature(), Levels({"pressure": 1e-7}))),
        (replace(RAISED, signature=Signature((("elsewhere", 3.0),))), None),  # what was raised is not known here
        (replace(RAISED, signature=Signature(), levels=Levels({"elsewhere": 1e-7})), None),
    ],
    ids=["raised", "nothing raised", "raised elsewhere", "no common counter"],
)
def test_counters_at_discovery_are_compared_as_far_as_this_device_has_them(
    at_discovery: CountersAtDiscovery, kept: CountersAtDiscovery | None
) -> None:
    session = bench(FakeTestbed((Planted(MANY_SGES),)))
    plan = planned(CASE.workload, MANY_SGES, SPACE)
    found = reproduce(session._measurer, plan, Symptom.PAUSE, repeat=1, controls=False, at_discovery=at_discovery)
    assert found.at_discovery == kept


def test_a_budget_that_ends_before_the_last_control_leaves_it_out() -> None:
    measurer = bench(FakeTestbed((AFTER,)))._measurer
    measurer.budget = Budget(runs=4)
    plan = planned(AFTER_CASE.workload, Mfs(()), SPACE, AFTER_CASE.on)
    found = reproduce(measurer, plan, Symptom.PAUSE, repeat=3, controls=True)
    assert (found.alone, len(found.trial.readings), found.ended_by != "") == (None, 1, True)


def test_inconclusive_runs_leave_the_answer_open() -> None:
    testbed = FakeTestbed((Planted(MANY_SGES),), setup_failure_ratio=0.99)
    assert bench(testbed).reproduce(CASE, repeat=3, controls=False).answer is Reproduced.INCONCLUSIVE


@pytest.mark.parametrize(("silent", "answer"), [(1, Reproduced.NO), (2, Reproduced.INCONCLUSIVE)])
def test_more_than_a_third_of_inconclusive_runs_leaves_the_answer_open(silent: int, answer: Reproduced) -> None:
    class Silent(FakeTestbed):
        """Loses its link in the first runs of the anomaly."""

        def measure(
            self, workload: Workload, run: int, watch: Watch | None = None, on: SetUp | None = None
        ) -> RunResult:
            result = super().measure(workload, run, watch, on)
            if not isinstance(result, Measured) or not 0 < self.measured.count(CASE.workload) <= silent:
                return result
            return replace(result, measurement=replace(result.measurement, problems=("the link went down",)))

    found = bench(Silent()).reproduce(CASE, repeat=5, controls=False)
    assert (found.trial.inconclusive, found.answer) == (silent, answer)
