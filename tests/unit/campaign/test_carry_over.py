"""Whether later phases of a set-up measure what set-ups of their own would."""

from __future__ import annotations

import pytest

from collie.campaign.carry_over import CarryOver
from collie.detect.symptom import Symptom
from collie.testing.fakes import FakeTestbed, Planted
from tests.support.explained import explained_search
from tests.support.planted import LOOPBACK, SPACE


@pytest.mark.parametrize(
    ("later", "changed"),
    [
        ((), False),
        ((Planted(LOOPBACK),), True),
        ((Planted(LOOPBACK, Symptom.LOW_THROUGHPUT, 0.15),), True),
        ((Planted(LOOPBACK, Symptom.LOW_THROUGHPUT, 0.05),), False),
    ],
    ids=["alike", "anomalous", "slower", "hardly slower"],
)
def test_one_of_twenty_normal_phases_is_repeated_and_compared(later: tuple[Planted, ...], changed: bool) -> None:
    testbed = FakeTestbed()
    search = explained_search(testbed)
    workload = SPACE.base.with_(loopback=True)
    (phase,) = search.store.runs()
    carry_over = CarryOver(search.measurer)
    testbed.planted = later
    for _ in range(45):
        search.drive(carry_over.check(search.lane, phase))
    assert search.purposes.count("repeat") == 2
    assert testbed.measured.count(workload) == 3
    assert carry_over.changed == [changed, changed]
