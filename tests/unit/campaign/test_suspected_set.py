"""The conditions that a diagnosis suggests."""

from __future__ import annotations

import pytest

from collie.campaign.diagnose import Change, Diagnosis
from collie.campaign.single_run import JudgedRun
from collie.campaign.suspected_set import suspected_set
from collie.detect.symptom import Outcome, Symptom, Verdict
from collie.ports import Unsupported
from collie.workloads.feature import Condition, Op
from collie.workloads.workload import Opcode, Workload
from tests.support.measurements import LINE
from tests.support.planted import SPACE

NORMAL = Verdict(Outcome.NORMAL, "fine")
PAUSED = Verdict(Outcome.ANOMALOUS, "paused", Symptom.PAUSE, 0.4, "b")
MIXED = SPACE.base.with_(messages=(512, 65536), qps=64)


def suspected(name: str, value: object, verdict: Verdict = NORMAL) -> tuple[Condition, ...]:
    """Return the conditions where one changed value of the mixed workload has this verdict."""

    def run(workload: Workload, found: Verdict) -> JudgedRun:
        return JudgedRun(workload, SPACE.base, LINE, Unsupported("none was made", 0.0), found)

    change = Change(name, (), run(MIXED.with_(**{name: value}), verdict), 1.0)
    return suspected_set(Diagnosis(run(MIXED, PAUSED), (change,)), SPACE).conditions


@pytest.mark.parametrize(
    ("messages", "condition"),
    [
        ((512,), Condition("max_message_bytes", Op.AT_LEAST, 65536)),
        ((64, 65536), Condition("max_message_bytes", Op.AT_LEAST, 65536)),
        ((65536,), Condition("min_message_bytes", Op.AT_MOST, 512)),
        ((512, 1 << 20), Condition("min_message_bytes", Op.AT_MOST, 512)),
    ],
)
def test_shorter_messages_that_cure_blame_the_longest_and_longer_ones_the_shortest(
    messages: tuple[int, ...], condition: Condition
) -> None:
    assert suspected("messages", messages) == (condition,)


def test_a_value_that_cures_breaks_the_condition_on_its_side() -> None:
    assert suspected("qps", 8) == (Condition("qps", Op.AT_LEAST, 64),)
    assert suspected("qps", 512) == (Condition("qps", Op.AT_MOST, 64),)
    assert suspected("opcode", Opcode.SEND) == (Condition("opcode", Op.EQUAL, Opcode.WRITE),)


def test_a_change_that_does_not_cure_or_changes_nothing_suggests_nothing() -> None:
    assert suspected("qps", 8, PAUSED) == suspected("qps", 64) == ()
