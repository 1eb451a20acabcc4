"""The simulated testbed behaves as every testbed does."""

from __future__ import annotations

import pytest

from collie import ports
from collie.campaign.hardships import Hardships, Outliers
from collie.campaign.safety import Guard
from collie.content.anomalies import load_reference
from collie.content.catalogs import load_catalog
from collie.content.subsystems import load_subsystem
from collie.detect.bounds import NOTHING_EXPECTED
from collie.detect.judge import judge
from collie.detect.symptom import Symptom
from collie.detect.thresholds import Thresholds
from collie.errors import TestbedError
from collie.fleet.fault import Fault, FaultKind
from collie.inventory.safety import REAL_HOSTS, SafetyLimits
from collie.ports import Measured
from collie.simulator.faults import faulty
from collie.simulator.subsystem import SubsystemFile
from collie.simulator.testbed import SimulatedTestbed
from collie.testing.testbed_suite import TestbedSuite
from collie.workloads.workload import Workload


class TestSimulatedTestbed(TestbedSuite):
    __test__ = True
    unsupported = Workload(numa_node=7)

    @pytest.fixture
    def testbed(self) -> ports.Testbed:
        subsystem = load_subsystem("F", SubsystemFile)
        return SimulatedTestbed(subsystem, load_catalog("simulated"), seed=5)

    @pytest.fixture
    def storm(self) -> Workload:
        return load_reference("nsdi22-01").trigger


class TestSilentTestbed(TestSimulatedTestbed):
    @pytest.fixture
    def testbed(self) -> ports.Testbed:
        subsystem = load_subsystem("F", SubsystemFile)
        return SimulatedTestbed(subsystem, load_catalog("simulated"), noise=0)


class TestHardTestbed(TestSimulatedTestbed):
    """Where the trigger of the storm is not flaky, so that the storm shows."""

    @pytest.fixture
    def testbed(self) -> ports.Testbed:
        hardships = Hardships({"all": 0.5, "datagram_prefetch": 1.0}, Outliers(1 / 30, 0.2), 0.1)
        return SimulatedTestbed(load_subsystem("F", SubsystemFile), load_catalog("simulated"), hardships=hardships)


class TestUnlikeTestbed(TestSimulatedTestbed):
    @pytest.fixture
    def testbed(self) -> ports.Testbed:
        subsystem = load_subsystem("F", SubsystemFile)
        peer = faulty(subsystem, Fault(FaultKind.BIT_ERRORS))
        return SimulatedTestbed(subsystem, load_catalog("simulated"), seed=5, peer=peer)


def test_a_storm_that_the_default_limit_stops_is_an_anomaly() -> None:
    subsystem, storm = load_subsystem("F", SubsystemFile), load_reference("nsdi22-04").trigger
    testbed = SimulatedTestbed(subsystem, load_catalog("simulated"), seed=5)
    for run in range(1, 9):
        result = testbed.measure(storm, run, Guard(SafetyLimits(REAL_HOSTS.pause_per_second)).watch())
        if isinstance(result, Measured):
            assert result.measurement.stopped
            assert judge(storm, result.measurement, NOTHING_EXPECTED, Thresholds()).symptom is Symptom.PAUSE


def test_a_closed_testbed_measures_no_more() -> None:
    subsystem = load_subsystem("F", SubsystemFile)
    closed = SimulatedTestbed(subsystem, load_catalog("simulated"))
    closed.close()
    with pytest.raises(TestbedError, match="closed"):
        closed.measure(Workload(), 1)
