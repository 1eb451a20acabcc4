"""The simulated testbed behaves as every testbed does."""

from __future__ import annotations

import pytest

from collie import ports
from collie.content.anomalies import load_reference
from collie.content.catalogs import load_catalog
from collie.content.subsystems import load_subsystem
from collie.errors import TestbedError
from collie.simulator.faults import Fault, FaultKind, faulty
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


class TestUnlikeTestbed(TestSimulatedTestbed):
    @pytest.fixture
    def testbed(self) -> ports.Testbed:
        subsystem = load_subsystem("F", SubsystemFile)
        peer = faulty(subsystem, Fault(FaultKind.BIT_ERRORS))
        return SimulatedTestbed(subsystem, load_catalog("simulated"), seed=5, peer=peer)


def test_a_closed_testbed_measures_no_more() -> None:
    subsystem = load_subsystem("F", SubsystemFile)
    closed = SimulatedTestbed(subsystem, load_catalog("simulated"))
    closed.close()
    with pytest.raises(TestbedError, match="closed"):
        closed.measure(Workload(), 1)
