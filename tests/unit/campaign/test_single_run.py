"""Single runs and the bound that judges them."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from collie.detect.bounds import UNBOUNDED, Bound
from collie.detect.measurement import Measurement
from collie.detect.symptom import Symptom
from collie.testing.fakes import FakeTestbed, Planted
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.workload import Workload
from tests.support.planted import MANY_SGES, SPACE
from tests.support.searches import CASE, bench


class Boundless(FakeTestbed):
    """A testbed without data sheet, as real hosts are."""

    stable = True

    def specification(self, workload: Workload) -> Bound:
        return UNBOUNDED

    def _measurement(self, workload: Workload, displayed: Planted | None, rng: Random) -> Measurement:
        sheet = FakeTestbed(self.planted, self.line_bps)
        return replace(sheet._measurement(workload, displayed, rng), stable=self.stable)


def test_plain_traffic_is_its_own_bound_where_no_other_is_known() -> None:
    measured = bench(Boundless()).measure(SPACE.base)
    assert measured.workload == measured.sibling
    assert measured.verdict is not None
    assert measured.verdict.is_normal
    assert measured.bound.source == "plain sibling"


@pytest.mark.parametrize(
    ("workload", "who"),
    [
        (SPACE.base, "this plain traffic, which is its own yardstick,"),
        (SPACE.base.with_(sge_count=2), "the plain sibling"),
    ],
    ids=["plain", "other"],
)
def test_the_reason_for_an_unknown_bound_is_reported_unchanged(workload: Workload, who: str) -> None:
    testbed = Boundless()
    testbed.stable = False
    reported = bench(testbed).measure(workload).verdict
    assert reported is not None
    assert reported.is_inconclusive
    assert reported.reason == f"no bound is known: {who} did not hold one level"


def test_a_plain_sibling_without_a_bound_is_reported_with_its_cause() -> None:
    wide = SPACE.base.with_(sge_count=2)
    plain = bench(Boundless()).measure(wide).sibling
    sick = Boundless((Planted(Mfs((Condition("sge_count", Op.AT_MOST, 1),))),))
    reported = bench(sick).measure(wide).verdict
    assert reported is not None
    assert reported.reason.startswith(
        "no bound is known: the plain sibling is itself anomalous: host b sends pause for 20"
    )
    refusing = Boundless(unsupported=lambda workload: "no plain traffic" if workload == plain else None)
    reported = bench(refusing).measure(wide).verdict
    assert reported is not None
    assert reported.reason == "no bound is known: the plain sibling cannot run here: no plain traffic"


def test_one_workload_is_judged_against_its_sibling() -> None:
    slow = FakeTestbed((Planted(MANY_SGES, Symptom.LOW_THROUGHPUT, 0.5),))
    judged = bench(slow).measure(CASE.workload)
    assert judged.verdict is not None
    assert judged.verdict.symptom is Symptom.LOW_THROUGHPUT
    assert judged.verdict.severity == pytest.approx(0.5)
    assert judged.bound.source == "plain sibling"
    assert judged.sibling.sge_count == 1
