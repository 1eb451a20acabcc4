"""Reproduction of an anomaly and its controls."""

from __future__ import annotations

from dataclasses import replace

from collie.campaign.reproduce import Reproduced
from collie.campaign.single_run import Case
from collie.detect.symptom import Symptom
from collie.testing.fakes import FakeTestbed, Planted
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.setup import SetUp
from collie.workloads.workload import Opcode, QpType
from tests.support.planted import MANY_SGES, SPACE
from tests.support.remembering import Remembering
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


def test_inconclusive_runs_leave_the_answer_open() -> None:
    testbed = FakeTestbed((Planted(MANY_SGES),), setup_failure_ratio=0.99)
    assert bench(testbed).reproduce(CASE, repeat=3, controls=False).answer is Reproduced.INCONCLUSIVE


QUIET = SPACE.base
LARGE = QUIET.with_(qps=256)
AFTER = SetUp(LARGE, (LARGE, QUIET))
ONLY_AFTER = Case("case", QUIET.with_(sge_count=1), Symptom.PAUSE, Mfs(()), on=AFTER)


def test_each_run_follows_the_whole_history_on_a_set_up_of_its_own() -> None:
    """The plain siblings run on set-ups of their own, too: what the phases left behind must not lower the bound."""
    testbed = Remembering()
    found = bench(testbed).reproduce(ONLY_AFTER, repeat=2, controls=False)
    assert found.answer is Reproduced.YES
    assert found.on == AFTER
    phases = [SetUp(LARGE), SetUp(LARGE, (LARGE,)), AFTER]
    assert [on for on in testbed.on if on is not None] == phases * 2


def test_without_its_history_it_does_not_reproduce() -> None:
    alone = replace(ONLY_AFTER, on=None)
    assert bench(Remembering()).reproduce(alone, repeat=2, controls=False).answer is Reproduced.NO
    shorter = replace(ONLY_AFTER, on=SetUp(LARGE, (QUIET,)))
    assert bench(Remembering()).reproduce(shorter, repeat=2, controls=False).answer is Reproduced.NO


def test_a_set_up_that_ends_early_is_made_again_with_its_whole_history() -> None:
    ends = iter([True, False, False])
    testbed = Remembering(ends=lambda: next(ends))
    assert bench(testbed).reproduce(ONLY_AFTER, repeat=2, controls=False).answer is Reproduced.YES
    assert [len(on.before) for on in testbed.on if on is not None] == [0, 0, 1, 2, 0, 1, 2]


def test_a_history_that_cannot_be_run_leaves_the_answer_open_and_says_where_it_ends() -> None:
    testbed = Remembering(ends=lambda: True)
    found = bench(testbed).reproduce(ONLY_AFTER, repeat=2, controls=False)
    assert found.answer is Reproduced.INCONCLUSIVE
    assert found.trial.verdicts[0].reason == (
        "its phases could not be run on one set-up: phase 1 of 3 ended the set-up"
    )
    refusing = Remembering(unsupported=lambda workload: "too many" if workload == LARGE else None)
    found = bench(refusing).reproduce(ONLY_AFTER, repeat=1, controls=False)
    assert found.trial.verdicts[0].reason.endswith("phase 1 of 3 is unsupported: too many")
    assert refusing.measured.count(LARGE) == 1, "what is unsupported stays so"
    lacking = Remembering(unsupported=lambda workload: "none of it" if workload == QUIET else None)
    found = bench(lacking).reproduce(ONLY_AFTER, repeat=1, controls=False)
    assert found.trial.verdicts[0].reason == "unsupported: none of it"


def test_controls_are_phases_of_the_same_set_up() -> None:
    sizes, mtu = Condition("max_message_bytes", Op.AT_LEAST, 65536), Condition("mtu", Op.EQUAL, 4096)
    case = replace(ONLY_AFTER, mfs=Mfs((sizes, mtu)))
    testbed = Remembering()
    found = bench(testbed).reproduce(case, repeat=1, controls=True)
    (control,) = found.controls
    assert control.broken == sizes
    assert AFTER.misfit(control.workload) is None
    assert found.uncontrolled == (mtu,), "another MTU takes another set-up"
    assert [on for on in testbed.on if on is not None] == [SetUp(LARGE), SetUp(LARGE, (LARGE,)), AFTER] * 2
