"""Conformance of `ports.Testbed`. Subclass `TestbedSuite` and give it the `testbed` fixture."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence

import pytest

from collie.campaign.safety import Guard
from collie.counters.catalog import CounterKind
from collie.detect.bounds import NOTHING_EXPECTED
from collie.detect.judge import judge
from collie.detect.measurement import START_UP_PAUSE_SECONDS, Measurement, Sample, Watch
from collie.detect.symptom import Symptom
from collie.detect.thresholds import Thresholds
from collie.inventory.safety import SafetyLimits
from collie.ports import Measured, RunResult, SetupFailed, Testbed, Unsupported
from collie.workloads.plan import flows, hosts, sinks
from collie.workloads.setup import SetUp, made_for_all
from collie.workloads.workload import Direction, Opcode, QpType, Workload

_TRIES = 5  # a set-up can fail, but five failures in a row mean a broken testbed


class TestbedSuite:
    """The behaviour that the engine relies on.

    Attributes:
        workloads: workloads that the suite runs one by one. Override them if the testbed cannot run them.
        phases: workloads that the suite runs one after another on one set-up.
        load: a workload with an offered load that the testbed can carry, or None. Without it, it fits the same set-up.
        unsupported: a workload that the testbed cannot run, or None.
    """

    __test__ = False  # subclasses set it to True

    workloads: Sequence[Workload] = (
        Workload(),
        Workload(opcode=Opcode.READ),
        Workload(qp_type=QpType.UD, opcode=Opcode.SEND, messages=(1024,)),
        Workload(direction=Direction.BIDIRECTIONAL, qps=4, messages=(64, 65536)),
        Workload(loopback=True),
    )
    phases: tuple[Workload, ...] = (
        Workload(direction=Direction.BIDIRECTIONAL),
        Workload(opcode=Opcode.READ),
        Workload(opcode=Opcode.SEND, messages=(64, 1024), wqe_batch=4),
        Workload(opcode=Opcode.SEND, qps=2, messages=(4096,)),
        Workload(),
    )
    load: Workload | None = Workload(messages=(4096,), offered_bps=10**9)
    unsupported: Workload | None = None

    @pytest.fixture
    def testbed(self) -> Testbed:
        """Return a testbed. Subclasses close it if the test did not."""
        raise NotImplementedError

    @pytest.fixture
    def storm(self) -> Workload | None:
        """Return a workload that makes a host send pause for more than a tenth of the time, or None."""
        return None

    def test_it_says_what_it_is(self, testbed: Testbed) -> None:
        assert testbed.info.kind
        assert testbed.info.name
        names = [counter.name for counter in testbed.info.catalog.counters]
        assert names
        assert len(names) == len(set(names))
        assert testbed.info.catalog.of_kind(CounterKind.PERFORMANCE) or testbed.info.catalog.of_kind(
            CounterKind.DIAGNOSTIC
        )

    def test_its_specification_is_positive(self, testbed: Testbed) -> None:
        """A bound of zero would make every workload healthy."""
        for workload in self.workloads:
            bound = testbed.specification(workload)
            assert bound.bps > 0
            assert bound.pps > 0
            assert bound.source

    def test_a_run_takes_time(self, testbed: Testbed) -> None:
        for run, workload in enumerate(self.workloads, start=1):
            assert testbed.measure(workload, run).elapsed_seconds > 0

    def test_all_hosts_are_measured_in_order(self, testbed: Testbed) -> None:
        for workload, measurement in self._measurements(testbed):
            assert [host.host for host in measurement.hosts] == list(hosts(workload))
            assert measurement.window_seconds > 0

    def test_throughput_is_what_the_receivers_got(self, testbed: Testbed) -> None:
        for workload, measurement in self._measurements(testbed):
            for host in measurement.hosts:
                for delivered in (host.delivered_bps, host.delivered_pps):
                    if host.host in sinks(workload):
                        assert delivered is not None
                        assert delivered > 0
                    else:
                        assert delivered is None

    def test_readings_are_finite_or_unknown(self, testbed: Testbed) -> None:
        for _, measurement in self._measurements(testbed):
            for host in measurement.hosts:
                assert all(value is None or math.isfinite(value) for value in host.counters.values())
                for ratio in (host.tx_pause_ratio, host.rx_pause_ratio, host.loss_ratio):
                    assert ratio is None or 0.0 <= ratio <= 1.0

    def test_counters_are_those_of_the_catalog(self, testbed: Testbed) -> None:
        known = {counter.name for counter in testbed.info.catalog.counters}
        measurement = _measured(testbed, self.workloads[0], 1).measurement
        for host in measurement.hosts:
            assert set(host.counters) <= known

    def test_samples_follow_each_other(self, testbed: Testbed) -> None:
        measurement = _measured(testbed, self.workloads[0], 1).measurement
        for name in hosts(self.workloads[0]):
            times = [sample.seconds for sample in measurement.series if sample.host == name]
            assert times == sorted(times)

    def test_a_watch_sees_every_host_forward_in_time(self, testbed: Testbed) -> None:
        """A run can be stopped in time only if its samples arrive in time."""
        seen: list[Sample] = []
        measurement = _measured(testbed, self.workloads[0], 1, seen.append).measurement
        assert measurement.stopped is None
        for name in hosts(self.workloads[0]):
            times = [sample.seconds for sample in seen if sample.host == name]
            assert times
            assert times == sorted(set(times))
        assert any(sample.values["delivered_bps"] for sample in seen)

    def test_a_run_ends_with_the_sample_at_which_its_watch_says_so(self, testbed: Testbed) -> None:
        """Traffic that does not stop can take a network down."""
        seen: list[Sample] = []

        def watch(sample: Sample) -> str | None:
            seen.append(sample)
            return "enough" if len(seen) == 3 else None

        measurement = _measured(testbed, self.workloads[0], 1, watch).measurement
        assert len(seen) == 3
        assert measurement.stopped == "enough"
        assert not measurement.stable
        assert not measurement.problems
        assert [host.host for host in measurement.hosts] == list(hosts(self.workloads[0]))
        assert isinstance(testbed.measure(self.workloads[0], 2), Measured | SetupFailed)

    def test_a_pause_storm_is_stopped_within_one_sample_of_its_budget(
        self, testbed: Testbed, storm: Workload | None
    ) -> None:
        """The verdict is anomalous, or inconclusive if the budget also stops the pause of a normal start-up."""
        if storm is None:
            pytest.skip("this testbed has no pause counters")
        budget = 0.05
        guard = Guard(SafetyLimits(pause_per_second=budget))
        ask = guard.watch()
        assert ask is not None
        seen: list[Sample] = []

        def watch(sample: Sample) -> str | None:
            seen.append(sample)
            return ask(sample)

        result = _measured(testbed, storm, 1, watch)
        measurement = result.measurement
        assert measurement.stopped is not None
        assert "--max-pause-per-second" in measurement.stopped
        assert measurement.window_seconds < 3.0
        own = [sample for sample in seen if sample.host == seen[-1].host]
        assert _pause_in_last_second(own) > budget >= _pause_in_last_second(own[:-1])
        verdict = judge(storm, measurement, NOTHING_EXPECTED, Thresholds())
        if any(host.tx_pause_ratio for host in measurement.hosts):
            assert verdict.symptom is Symptom.PAUSE
        else:
            assert verdict.is_inconclusive
            assert sum(_pause_in_last_second(own[: n + 1]) for n in range(len(own))) < START_UP_PAUSE_SECONDS
        guard.account(guard.usage(result))
        assert guard.stopped_runs == 1
        assert 0 < guard.pause_seconds < 3.0

    def test_an_offered_load_arrives_and_no_more(self, testbed: Testbed) -> None:
        load = self._load()
        measurement = _measured(testbed, load, 1).measurement
        for name in sinks(load):
            assert measurement.host(name).delivered_bps == pytest.approx(load.offered_bps, rel=0.2)
        error = measurement.health.pacing_error_ratio
        assert error is None or 0 <= error < 0.2

    def test_latency_grows_from_quantile_to_quantile_inside_the_intervals(self, testbed: Testbed) -> None:
        measurement = _measured(testbed, self._load(), 1).measurement
        assert set(measurement.latency) == {flow.name for flow in flows(self._load())}
        for latency in measurement.latency.values():
            quantiles = (latency.median_seconds, latency.p99_seconds, latency.p999_seconds)
            known = [value for value in quantiles if value is not None]
            assert known
            assert 0 < known[0] <= known[-1]
            assert known == sorted(known)
            intervals = (latency.median_interval, latency.p99_interval, latency.p999_interval)
            for value, interval in zip(quantiles, intervals, strict=True):
                assert interval is None or value is None or interval[0] <= value <= interval[1]
            assert latency.sampled is None or latency.sampled > 0
            assert latency.stall_seconds is None or 0 <= latency.stall_seconds <= measurement.window_seconds * 1.01

    def test_a_load_can_change_from_phase_to_phase(self, testbed: Testbed) -> None:
        load = self._load()
        full, half = load.with_(offered_bps=0), load.with_(offered_bps=load.offered_bps // 2)
        on = SetUp(made_for_all((full, load, half)))
        for run, workload in enumerate((full, load, half, full), start=1):
            measurement = _measured(testbed, workload, run, on=on).measurement
            on = on.after(workload)
            for name in sinks(workload):
                delivered = measurement.host(name).delivered_bps
                assert delivered is not None
                if workload.offered_bps:
                    assert delivered == pytest.approx(workload.offered_bps, rel=0.2)
                else:
                    assert delivered > 1.2 * load.offered_bps
                    assert measurement.health.pacing_error_ratio is None

    def _load(self) -> Workload:
        if self.load is None:
            pytest.skip("this testbed offers no load")
        return self.load

    def test_a_run_on_its_own_leaves_no_set_up(self, testbed: Testbed) -> None:
        assert not _measured(testbed, self.workloads[0], 1).stands

    def test_a_set_up_stands_for_one_phase_after_another(self, testbed: Testbed) -> None:
        on = SetUp(made_for_all(self.phases))
        for run, workload in enumerate((*self.phases, *self.phases), start=1):
            assert on.misfit(workload) is None
            result = _measured(testbed, workload, run, on=on)
            assert result.stands
            on = on.after(workload)
            measured = result.measurement
            assert [host.host for host in measured.hosts] == list(hosts(workload))
            got = {host.host for host in measured.hosts if host.delivered_bps}
            assert got == set(sinks(workload)), "a phase delivers to its own sinks, and the one before to none"

    def test_a_phase_after_others_gives_what_a_run_on_its_own_gives(self, testbed: Testbed) -> None:
        """Searches compare the two. Medians, as one run of a small machine can be far from the next."""
        first = self.phases[0]
        on = SetUp(made_for_all(self.phases))
        phases = []
        for run, workload in enumerate((*self.phases, *[first] * 5), start=1):
            phases.append(_measured(testbed, workload, run, on=on).measurement)
            on = on.after(workload)
        after_others = phases[len(self.phases) :]
        alone = [_measured(testbed, first, run).measurement for run in range(201, 206)]
        for name in sinks(first):
            assert _median_bps(after_others, name) == pytest.approx(_median_bps(alone, name), rel=0.3)

    def test_a_set_up_that_is_not_there_is_made(self, testbed: Testbed) -> None:
        """A resumed campaign goes on with a set-up that ended with its process."""
        on = SetUp(made_for_all(self.phases), tuple(self.phases[:2]))
        assert _measured(testbed, self.phases[2], 1, on=on).stands

    def test_a_phase_that_its_watch_stops_ends_the_set_up(self, testbed: Testbed) -> None:
        """What was under way at that moment could reach the next phase."""
        on = SetUp(made_for_all(self.phases))
        assert _measured(testbed, self.phases[0], 1, on=on).stands
        on = on.after(self.phases[0])
        stopped = _measured(testbed, self.phases[1], 2, lambda _: "enough", on)
        assert stopped.measurement.stopped == "enough"
        assert not stopped.stands
        assert _measured(testbed, self.phases[1], 3, on=SetUp(on.made_for)).stands

    def test_what_uses_no_set_up_ends_the_one_that_stands(self, testbed: Testbed) -> None:
        on = SetUp(made_for_all(self.phases))
        assert _measured(testbed, self.phases[0], 1, on=on).stands
        assert [use for use in testbed.foreign_uses() if use.forbids] == []
        assert _measured(testbed, self.phases[1], 2, on=on.after(self.phases[0])).stands
        assert not _measured(testbed, self.workloads[0], 3).stands
        assert set(testbed.close().values()) <= {0}

    def test_nobody_else_uses_its_ports(self, testbed: Testbed) -> None:
        assert [use for use in testbed.foreign_uses() if use.forbids] == []

    def test_unsupported_stays_unsupported(self, testbed: Testbed) -> None:
        """A search excludes unsupported workloads, so the answer must not change."""
        if self.unsupported is None:
            pytest.skip("this testbed runs everything")
        for run in (1, 2, 3):
            result = testbed.measure(self.unsupported, run)
            assert isinstance(result, Unsupported)
            assert result.reason

    def _measurements(self, testbed: Testbed) -> Iterator[tuple[Workload, Measurement]]:
        for run, workload in enumerate(self.workloads, start=1):
            yield workload, _measured(testbed, workload, run).measurement

    def test_closing_twice_does_no_harm(self, testbed: Testbed) -> None:
        _measured(testbed, self.workloads[0], 1)
        left = testbed.close()
        assert set(left.values()) <= {0}
        assert testbed.close() == left


def _pause_in_last_second(samples: Sequence[Sample]) -> float:
    ends = [0.0, *(sample.seconds for sample in samples)]
    return sum(
        (sample.values["tx_pause_ratio"] or 0.0) * (sample.seconds - begin)
        for begin, sample in zip(ends, samples, strict=False)
        if begin >= ends[-1] - 1.0
    )


def _median_bps(measurements: Sequence[Measurement], host: str) -> float:
    return statistics.median(measurement.host(host).delivered_bps or 0.0 for measurement in measurements)


def _measured(
    testbed: Testbed, workload: Workload, run: int, watch: Watch | None = None, on: SetUp | None = None
) -> Measured:
    result: RunResult | None = None
    for attempt in range(_TRIES):
        result = testbed.measure(workload, run + 1000 * attempt, watch, on)
        if isinstance(result, Measured):
            return result
        assert isinstance(result, SetupFailed), f"{workload} is {result}; name other workloads for this testbed"
        assert result.cause
    raise AssertionError(f"{_TRIES} runs of one workload failed, the last with {result}")
