"""Single runs and the bound that judges them."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from collie.campaign.sweep import point_of
from collie.detect.bounds import UNBOUNDED, Bound
from collie.detect.measurement import Measurement, Watch
from collie.detect.symptom import Symptom
from collie.ports import Measured, RunResult
from collie.testing.fakes import FakeTestbed, Planted
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.setup import SetUp
from collie.workloads.workload import Opcode, Workload
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


SLOW_READS = Mfs((Condition("opcode", Op.EQUAL, "READ"),))
READ = SPACE.base.with_(opcode=Opcode.READ)


def test_plain_traffic_that_others_outpace_is_anomalous() -> None:
    slow = FakeTestbed((Planted(SLOW_READS, Symptom.LOW_THROUGHPUT, 0.5),))
    judged = bench(slow).measure(READ)
    assert judged.verdict is not None
    assert judged.verdict.symptom is Symptom.LOW_THROUGHPUT
    assert judged.verdict.severity == pytest.approx(0.5)
    assert "about 100 Gbit/s is expected by the specification (plain RC WRITE reaches it)" in judged.verdict.reason


def test_nothing_outpaces_plain_traffic_where_all_of_it_is_slow() -> None:
    everywhere = Mfs((Condition("qps", Op.AT_LEAST, 1),))
    slow = FakeTestbed((Planted(everywhere, Symptom.LOW_THROUGHPUT, 0.5),))
    judged = bench(slow).measure(READ)
    assert judged.verdict is not None
    assert judged.verdict.is_normal
    assert judged.bound.source == "plain sibling"


def test_outpaced_traffic_with_less_in_flight_has_no_bound() -> None:
    session = bench(FakeTestbed((Planted(SLOW_READS, Symptom.LOW_THROUGHPUT, 0.5),)))
    session.measure(READ)
    short = session.measure(READ.with_(messages=(4096,))).verdict
    assert short is not None
    assert short.is_inconclusive
    assert short.reason.startswith("no bound is known: this plain traffic")
    assert short.reason.endswith("is slow: plain traffic of another transport is faster")


def test_a_sick_sibling_is_measured_once() -> None:
    many = SPACE.base.with_(sge_count=16)
    planted = (Planted(MANY_SGES, Symptom.LOW_THROUGHPUT, 0.5), Planted(Mfs((Condition("sge_count", Op.AT_MOST, 1),))))
    testbed = FakeTestbed(planted)
    session = bench(testbed)
    for _ in range(2):
        judged = session.judge(many).verdict
        assert judged is not None
        assert judged.is_inconclusive
        assert judged.reason.startswith("no bound is known: the plain sibling is itself anomalous: host b sends pause")
    assert testbed.measured == [many, *[SPACE.base] * 3, many]


def test_another_symptom_claims_no_throughput_without_a_bound() -> None:
    planted = (Planted(MANY_SGES, Symptom.LOW_THROUGHPUT, 0.5), Planted(Mfs((Condition("sge_count", Op.AT_MOST, 1),))))
    testbed = Pausing(planted)
    session = bench(testbed)
    session.judge(SPACE.base.with_(sge_count=16))
    testbed.pausing = True
    judged = session.judge(SPACE.base.with_(sge_count=8)).verdict
    assert judged is not None
    assert judged.symptom is Symptom.PAUSE
    assert judged.severity == pytest.approx(0.3)
    assert "missing" not in judged.reason


class Pausing(FakeTestbed):
    """A fake testbed whose hosts can be told to pause, whatever the workload."""

    pausing = False

    def measure(self, workload: Workload, run: int, watch: Watch | None = None, on: SetUp | None = None) -> RunResult:
        result = super().measure(workload, run, watch)
        if not self.pausing or not isinstance(result, Measured):
            return result
        hosts = tuple(replace(host, tx_pause_ratio=0.3) for host in result.measurement.hosts)
        return replace(result, measurement=replace(result.measurement, hosts=hosts))


def test_one_workload_is_judged_against_its_sibling() -> None:
    slow = FakeTestbed((Planted(MANY_SGES, Symptom.LOW_THROUGHPUT, 0.5),))
    judged = bench(slow).measure(CASE.workload)
    assert judged.verdict is not None
    assert judged.verdict.symptom is Symptom.LOW_THROUGHPUT
    assert judged.verdict.severity == pytest.approx(0.5)
    assert judged.bound.source == "plain sibling"
    assert judged.sibling.sge_count == 1


class Halved(Boundless):
    """A testbed whose plain traffic reaches half of the data sheet."""

    def specification(self, workload: Workload) -> Bound:
        return FakeTestbed(line_bps=2 * self.line_bps).specification(workload)


def test_the_bound_of_a_run_is_that_of_its_verdict() -> None:
    testbed = Halved((Planted(MANY_SGES, Symptom.LOW_THROUGHPUT, 0.5),))
    few, many = (SPACE.base.with_(sge_count=16, qps=qps) for qps in (2, 8))
    session = bench(testbed)
    of_few, of_many = session.measure_together([few])[0], session.measure_together([many])[0]
    assert of_many.sibling not in testbed.measured, "the sibling with fewer bytes in flight decided"
    for run, name in ((of_few, "plain sibling"), (of_many, "plain sibling (at least, as like traffic shows)")):
        assert run.verdict is not None
        assert run.verdict.reason == f"host b receives 50 Gbit/s, the {name} gives 100 Gbit/s"
        assert (run.bound.name, run.bound.bps) == (name, run.verdict.bound_bps)
        assert run.bound.pps == run.bound.bps / 8 / 4096
        assert point_of(1, None, run).bound_ratio == pytest.approx(1.0 - run.verdict.severity)
