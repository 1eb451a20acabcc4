"""Every testbed behaves as the engine expects."""

from __future__ import annotations

from collections.abc import Iterator

import distributed
import pytest

from collie import ports
from collie.app.testbeds import open_testbed
from collie.campaign.choice import TestbedChoice
from collie.campaign.siblings import delivered
from collie.detect.bounds import Bounds, Calibration
from collie.detect.judge import judge
from collie.detect.measurement import Measurement
from collie.detect.symptom import Symptom
from collie.detect.thresholds import Loss, Thresholds
from collie.errors import TestbedError
from collie.ports import Measured, SetupFailed
from collie.scheduler.distributed import DistributedPairs
from collie.scheduler.local import LocalPairs
from collie.testing.fakes import FakeTestbed, Planted
from collie.testing.testbed_suite import TestbedSuite
from collie.wiring import ADAPTERS
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.space import Space
from collie.workloads.workload import Memory, Workload

MANY = Mfs((Condition("qps", Op.AT_LEAST, 64), Condition("opcode", Op.EQUAL, "WRITE")))


class TestFakeTestbed(TestbedSuite):
    __test__ = True
    load = None
    unsupported = Workload(memory=Memory.GPU)

    @pytest.fixture
    def testbed(self) -> ports.Testbed:
        return FakeTestbed(
            [Planted(MANY)],
            seed=3,
            noise=0.01,
            setup_failure_ratio=0.1,
            unsupported=lambda workload: "no GPU" if workload.memory is Memory.GPU else None,
        )

    @pytest.fixture
    def storm(self) -> Workload:
        return Workload(qps=64)


class TestSimulatedTestbed(TestbedSuite):
    __test__ = True
    unsupported = Workload(numa_node=9)

    @pytest.fixture
    def testbed(self) -> ports.Testbed:
        return open_testbed(ADAPTERS, TestbedChoice(subsystem="F"), seed=1)


@pytest.mark.parametrize("symptom", [each for each in Symptom if each is not Symptom.LATENCY and not each.is_of_victim])
def test_a_planted_anomaly_shows_its_symptom_and_goes_with_a_condition(symptom: Symptom) -> None:
    testbed = FakeTestbed([Planted(MANY, symptom, 0.95)], pause_counters=symptom is not Symptom.LOSS)
    bounds = Bounds(testbed.specification, Calibration(), Space("none", {}))

    def verdict(workload: Workload) -> Symptom | None:
        result = testbed.measure(workload, testbed.runs + 1)
        assert isinstance(result, Measured)
        return judge(workload, result.measurement, bounds.ceiling(workload), Thresholds()).symptom

    assert verdict(Workload(qps=64)) is symptom
    assert verdict(Workload(qps=63)) is None
    assert testbed.runs == 2


def test_a_planted_latency_shows_beside_a_plain_sibling_at_the_same_load() -> None:
    testbed = FakeTestbed([Planted(MANY, Symptom.LATENCY, 0.95)])
    bounds = Bounds(testbed.specification, Calibration(), lambda workload: workload.with_(qps=8))

    def measure(qps: int) -> tuple[Workload, Measurement]:
        workload = Workload(qps=qps, offered_bps=10**10)
        result = testbed.measure(workload, testbed.runs + 1)
        assert isinstance(result, Measured)
        return workload, result.measurement

    plain, healthy = measure(8)
    bounds.learn(plain, delivered(plain, healthy))
    for qps, symptom in ((64, Symptom.LATENCY), (63, None)):
        workload, found = measure(qps)
        assert judge(workload, found, bounds.tightest(workload), Thresholds()).symptom is symptom


def test_a_planted_loss_of_a_victim_shows_where_there_is_one() -> None:
    testbed = FakeTestbed([Planted(MANY, Symptom.VICTIM_LOSS, 0.95)], victim=True)
    for qps, symptom in ((64, Symptom.VICTIM_LOSS), (63, None)):
        workload = Workload(qps=qps)
        result = testbed.measure(workload, qps)
        assert isinstance(result, Measured)
        bound, thresholds = testbed.specification(workload), Thresholds(loss_of=Loss.OF_VICTIM)
        assert judge(workload, result.measurement, bound, thresholds).symptom is symptom


def test_a_planted_latency_of_a_victim_shows_beside_plain_traffic() -> None:
    testbed = FakeTestbed([Planted(MANY, Symptom.VICTIM_LATENCY, 0.95)], victim=True, victim_bps=10**9)
    bounds = Bounds(testbed.specification, Calibration(), lambda workload: workload.with_(qps=8))
    thresholds = Thresholds(loss_of=Loss.OF_VICTIM)

    def measure(qps: int) -> tuple[Workload, Measurement]:
        workload = Workload(qps=qps, offered_bps=10**10)
        result = testbed.measure(workload, testbed.runs + 1)
        assert isinstance(result, Measured)
        return workload, result.measurement

    plain, healthy = measure(8)
    bounds.learn(plain, delivered(plain, healthy))
    for qps, symptom in ((64, Symptom.VICTIM_LATENCY), (63, None)):
        workload, found = measure(qps)
        assert judge(workload, found, bounds.tightest(workload), thresholds).symptom is symptom


def test_a_fake_run_depends_on_its_seed_and_number_alone() -> None:
    first, second = (FakeTestbed([Planted(MANY, shows=0.5)], noise=0.1, setup_failure_ratio=0.3) for _ in range(2))
    second.measure(Workload(qps=1), 99)
    results = [first.measure(Workload(qps=64), run) for run in range(1, 40)]
    assert results == [second.measure(Workload(qps=64), run) for run in range(1, 40)]
    assert any(isinstance(result, SetupFailed) for result in results)


def test_a_closed_fake_testbed_measures_no_more() -> None:
    testbed = FakeTestbed()
    testbed.close()
    with pytest.raises(TestbedError, match="closed"):
        testbed.measure(Workload(), 1)


@pytest.fixture(scope="module")
def dask_cluster() -> Iterator[distributed.LocalCluster]:
    with distributed.LocalCluster(
        n_workers=2,
        processes=False,
        threads_per_worker=1,
        host="127.0.0.1",
        protocol="tcp",
        dashboard_address="127.0.0.1:0",
    ) as cluster:
        yield cluster


class TestDistributedPairs(TestbedSuite):
    """What is asked and answered is pickled as between processes."""

    __test__ = True
    load = None

    @pytest.fixture
    def testbed(self, dask_cluster: distributed.LocalCluster) -> Iterator[ports.Testbed]:
        pairs = DistributedPairs(dask_cluster.scheduler_address, {"one": FakeTestbed, "two": FakeTestbed})
        yield pairs
        pairs.close()


class TestLocalPairs(TestbedSuite):
    __test__ = True
    load = None

    @pytest.fixture
    def testbed(self) -> Iterator[ports.Testbed]:
        pairs = LocalPairs({"one": FakeTestbed(), "two": FakeTestbed()})
        yield pairs
        pairs.close()
