"""What every `ports.Testbed` does. Subclass `TestbedSuite` and give it the `testbed` fixture."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from collie.counters.catalog import Kind
from collie.ports import Measured, RunResult, SetupFailed, Testbed, Unsupported
from collie.workloads.plan import hosts, sinks
from collie.workloads.workload import Direction, Opcode, QpType, Workload

_TRIES = 5  # a set-up may fail now and then; one that fails five times in a row is broken


class TestbedSuite:
    """The behaviour that the engine relies on.

    Attributes:
        workloads: run one by one; a subclass names others when its testbed cannot run these.
        unsupported: a workload that the testbed cannot run at all, or None when there is none.
    """

    __test__ = False  # its subclasses set it to True

    workloads: Sequence[Workload] = (
        Workload(),
        Workload(opcode=Opcode.READ),
        Workload(qp_type=QpType.UD, opcode=Opcode.SEND, messages=(1024,)),
        Workload(direction=Direction.BIDIRECTIONAL, qps=4, messages=(64, 65536)),
        Workload(loopback=True),
    )
    unsupported: Workload | None = None

    @pytest.fixture
    def testbed(self) -> Testbed:
        """Return a testbed. Subclasses override it, and close it if the test did not."""
        raise NotImplementedError

    def test_it_says_what_it_is(self, testbed: Testbed) -> None:
        """The report and the JSON output name the testbed, and a search ranks its counters."""
        assert testbed.info.kind
        assert testbed.info.name
        names = [counter.name for counter in testbed.info.catalog.counters]
        assert names
        assert len(names) == len(set(names))
        assert testbed.info.catalog.of_kind(Kind.PERFORMANCE) or testbed.info.catalog.of_kind(Kind.DIAGNOSTIC)

    def test_its_specification_is_positive(self, testbed: Testbed) -> None:
        """A bound of zero would make every workload healthy."""
        for workload in self.workloads:
            bound = testbed.specification(workload)
            assert bound.bps > 0
            assert bound.pps > 0
            assert bound.source

    def test_a_run_takes_time(self, testbed: Testbed) -> None:
        """A run that costs nothing would never end a budget."""
        for run, workload in enumerate(self.workloads, start=1):
            assert testbed.measure(workload, run).elapsed_seconds > 0

    def test_all_hosts_are_measured_in_order(self, testbed: Testbed) -> None:
        """One view of a run between several hosts is part of a view."""
        for run, workload in enumerate(self.workloads, start=1):
            measurement = _measured(testbed, workload, run).measurement
            assert [host.host for host in measurement.hosts] == list(hosts(workload))
            assert measurement.window_seconds > 0

    def test_throughput_is_what_the_receivers_got(self, testbed: Testbed) -> None:
        """A host that receives nothing has no throughput, rather than one of zero."""
        for run, workload in enumerate(self.workloads, start=1):
            for host in _measured(testbed, workload, run).measurement.hosts:
                if host.host in sinks(workload):
                    assert host.delivered_bps is not None
                    assert host.delivered_bps > 0
                    assert host.delivered_pps is not None
                    assert host.delivered_pps > 0
                else:
                    assert host.delivered_bps is None
                    assert host.delivered_pps is None

    def test_readings_are_finite_or_unknown(self, testbed: Testbed) -> None:
        """Unknown is None; ratios are shares of time or of packets."""
        for run, workload in enumerate(self.workloads, start=1):
            for host in _measured(testbed, workload, run).measurement.hosts:
                assert all(value is None or math.isfinite(value) for value in host.counters.values())
                for ratio in (host.tx_pause_ratio, host.rx_pause_ratio, host.loss_ratio):
                    assert ratio is None or 0.0 <= ratio <= 1.0

    def test_counters_are_those_of_the_catalog(self, testbed: Testbed) -> None:
        """A counter that the catalog does not describe has no unit."""
        known = {counter.name for counter in testbed.info.catalog.counters}
        measurement = _measured(testbed, self.workloads[0], 1).measurement
        for host in measurement.hosts:
            assert set(host.counters) <= known

    def test_samples_follow_each_other(self, testbed: Testbed) -> None:
        """The series of each host runs forward in time."""
        measurement = _measured(testbed, self.workloads[0], 1).measurement
        for name in hosts(self.workloads[0]):
            times = [sample.seconds for sample in measurement.series if sample.host == name]
            assert times == sorted(times)

    def test_unsupported_stays_unsupported(self, testbed: Testbed) -> None:
        """A search stops proposing what a device cannot do, so the answer must not depend on the day."""
        if self.unsupported is None:
            pytest.skip("this testbed runs everything")
        for run in (1, 2, 3):
            result = testbed.measure(self.unsupported, run)
            assert isinstance(result, Unsupported)
            assert result.reason

    def test_closing_twice_does_no_harm(self, testbed: Testbed) -> None:
        """Clean-up code may not know who closed."""
        testbed.close()
        testbed.close()


def _measured(testbed: Testbed, workload: Workload, run: int) -> Measured:
    result: RunResult | None = None
    for attempt in range(_TRIES):
        result = testbed.measure(workload, run + 1000 * attempt)
        if isinstance(result, Measured):
            return result
        assert isinstance(result, SetupFailed), f"{workload} is {result}; name other workloads for this testbed"
        assert result.cause
    raise AssertionError(f"{_TRIES} runs of one workload failed, the last with {result}")
