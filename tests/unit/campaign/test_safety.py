"""What stops a run, what ends a campaign, and what forbids to begin one."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace

import pytest

from collie.campaign.budget import Budget
from collie.campaign.run import Campaign
from collie.campaign.safety import Guard, LimitUsage, record_of, require_unshared, tightened
from collie.campaign.summary import Summary
from collie.content.catalogs import load_catalog
from collie.content.spaces import load_space
from collie.content.subsystems import load_subsystem
from collie.detect.bounds import NOTHING_EXPECTED, Calibration
from collie.detect.judge import judge
from collie.detect.measurement import HostMeasurement, Measurement, Sample, cut_short
from collie.detect.thresholds import Thresholds
from collie.errors import PortShared, UsageError
from collie.inventory.safety import REAL_HOSTS, SafetyLimits
from collie.ports import CampaignHeader, ForeignUse, Measured, SetupFailed
from collie.search.recipe import Recipe, StrategyName
from collie.simulator.subsystem import SubsystemFile
from collie.simulator.testbed import SimulatedTestbed
from collie.store.memory import MemoryStore
from collie.testing.fakes import FakeTestbed, ListSink, Planted
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.workload import Workload

ALWAYS = Mfs((Condition("qps", Op.AT_LEAST, 1),))


def stops(limits: SafetyLimits, *samples: tuple[float, float], host: str = "b") -> list[bool]:
    """Show samples of (seconds, pause ratio) to a run's watch."""
    watch = Guard(limits).watch()
    assert watch is not None
    return [watch(Sample(seconds, host, {"tx_pause_ratio": ratio})) is not None for seconds, ratio in samples]


def test_nothing_is_watched_without_limits() -> None:
    assert Guard().watch() is None


def test_pause_within_any_second_counts_and_older_pause_does_not() -> None:
    limits = SafetyLimits(pause_per_second=0.2)
    quarter = [(0.25, 0.3), (0.5, 0.3), (0.75, 0.2), (1.0, 0.0)]
    assert not any(stops(limits, *quarter, (1.25, 0.3), (1.5, 0.3)))
    assert stops(limits, (0.25, 0.4), (0.5, 0.3), (0.75, 0.2)) == [False, False, True]


@pytest.mark.parametrize(("sent", "spent"), [(0.75, False), (1.0, True), (1.25, True)])
def test_a_campaign_may_send_less_pause_than_its_budget(sent: float, spent: bool) -> None:
    guard = Guard(SafetyLimits(pause_per_campaign=1.0))
    guard.account(LimitUsage(pause_seconds=sent))
    assert guard.spent is spent


def test_short_times_are_in_milliseconds() -> None:
    watch = Guard(SafetyLimits(0.001)).watch()
    assert watch is not None
    assert "sent pause for 20.9 ms within a second, more than the 1 ms allowed" in str(
        watch(Sample(0.25, "a", {"tx_pause_ratio": 0.0836}))
    )


def test_a_full_storm_is_stopped_at_its_first_sample() -> None:
    assert stops(SafetyLimits(pause_per_second=0.2), (0.25, 1.0)) == [True]


def test_samples_longer_than_a_second_are_judged_by_their_share() -> None:
    assert stops(SafetyLimits(pause_per_second=0.2), (4.0, 0.19), (8.0, 0.21)) == [False, True]


def test_hosts_do_not_share_their_second() -> None:
    watch = Guard(SafetyLimits(pause_per_second=0.2)).watch()
    assert watch is not None
    assert [watch(Sample(1.0, host, {"tx_pause_ratio": 0.15})) for host in ("a", "b")] == [None, None]


def test_an_unknown_pause_stops_nothing() -> None:
    watch = Guard(SafetyLimits(pause_per_second=0.001)).watch()
    assert watch is not None
    assert watch(Sample(1.0, "a", {"tx_pause_ratio": None})) is None


def test_a_run_that_begins_again_counts_from_zero() -> None:
    assert not any(stops(SafetyLimits(pause_per_second=0.2), (0.5, 0.1), (2.0, 0.1), (0.5, 0.3)))


def test_pause_before_the_traffic_is_not_counted() -> None:
    guard = Guard(SafetyLimits(pause_per_campaign=10.0))
    samples = [Sample(seconds, "b", {"tx_pause_ratio": 1.0}) for seconds in (-0.25, 0.5)]
    guard.account(guard.usage(Measured(Measurement((HostMeasurement("b"),), 1.0, series=tuple(samples)), 1.0)))
    assert guard.pause_seconds == 0.75


def test_runs_that_are_under_way_at_once_draw_on_one_budget() -> None:
    guard = Guard(SafetyLimits(pause_per_campaign=1.5))
    one, other = guard.watch(), guard.watch()
    assert one is not None
    assert other is not None
    assert one(Sample(1.0, "a", {"tx_pause_ratio": 0.7})) is None
    assert other(Sample(1.0, "b", {"tx_pause_ratio": 0.7})) is None
    guard.account(LimitUsage(pause_seconds=0.7), other)
    assert one(Sample(1.1, "a", {"tx_pause_ratio": 0.5})) is None, "what has ended counts once"
    assert "--max-pause" in (one(Sample(1.3, "a", {"tx_pause_ratio": 0.5})) or "")


def test_what_a_run_has_sent_that_was_broken_off_is_told() -> None:
    guard = Guard(SafetyLimits(pause_per_campaign=1.0))
    watch = guard.watch()
    assert watch is not None
    assert guard.sent() is None
    watch(Sample(1.0, "a", {"tx_pause_ratio": 0.5}))
    assert guard.sent() == pytest.approx(0.5)
    record = record_of(guard, {})
    assert record is not None
    assert record.pause_seconds == pytest.approx(0.5)


@pytest.mark.parametrize("recorded", [0.0, 0.2])
def test_what_a_run_sent_that_came_to_no_record_is_not_forgotten(recorded: float) -> None:
    guard = Guard(SafetyLimits(pause_per_campaign=1.0))
    watch = guard.watch()
    assert watch is not None
    watch(Sample(1.0, "a", {"tx_pause_ratio": 0.9}))
    guard.account(LimitUsage(recorded), watch)
    assert guard.pause_seconds == pytest.approx(0.9)
    other = guard.watch()
    assert other is not None
    assert other(Sample(0.1, "a", {"tx_pause_ratio": 0.5})) is None


def test_what_a_seed_gives_does_not_depend_on_which_thread_comes_first() -> None:
    guard = Guard(SafetyLimits(pause_per_campaign=1.0))
    one, other = guard.watch(virtual_time=True), guard.watch(virtual_time=True)
    assert one is not None
    assert other is not None
    assert one(Sample(1.0, "a", {"tx_pause_ratio": 0.7})) is None
    assert other(Sample(1.0, "b", {"tx_pause_ratio": 0.7})) is None


def test_a_watch_in_another_process_knows_what_was_used_before() -> None:
    guard = Guard(SafetyLimits(pause_per_campaign=1.0))
    guard.account(LimitUsage(pause_seconds=0.9))
    there = pickle.loads(pickle.dumps(guard.watch()))
    assert there(Sample(0.1, "a", {"tx_pause_ratio": 0.9})) is None
    assert "--max-pause" in there(Sample(0.2, "a", {"tx_pause_ratio": 0.9}))


def test_a_rate_beyond_the_cap_stops_the_run() -> None:
    watch = Guard(SafetyLimits(rate_bps=10e9)).watch()
    assert watch is not None
    assert watch(Sample(0.25, "b", {"delivered_bps": 10e9})) is None
    assert watch(Sample(0.5, "b", {"delivered_bps": None})) is None
    assert "--max-rate" in (watch(Sample(0.75, "b", {"delivered_bps": 10.1e9})) or "")
    assert "host b moves 12" in (watch(Sample(1.0, "b", {"delivered_bps": None, "sent_bps": 12e9})) or "")


def test_the_budget_of_a_campaign_adds_up_over_runs_and_hosts() -> None:
    guard = Guard(SafetyLimits(pause_per_campaign=1.0))
    series = tuple(Sample(float(s), host, {"tx_pause_ratio": 0.1}) for s in (1, 2) for host in ("a", "b"))
    run = Measured(Measurement((HostMeasurement("a"), HostMeasurement("b")), 2.0, series=series), 30.0)
    guard.account(guard.usage(run))
    guard.account(guard.usage(run))
    assert guard.pause_seconds == pytest.approx(0.8)
    assert not guard.spent
    assert guard.has_pause_reading
    watch = guard.watch()
    assert watch is not None
    assert [watch(sample) is not None for sample in series] == [False, False, True, True]
    guard.account(guard.usage(run))
    assert guard.spent


def test_a_run_stopped_early_is_judged_by_its_pause_alone() -> None:
    hosts = HostMeasurement("a"), HostMeasurement("b", 1e9, 1e5, 0.0, 0.0)
    series = [Sample(1.0, "b", {"delivered_bps": 1e8, "tx_pause_ratio": 0.3})]
    full = Measurement(hosts, 4.0, problems=("host a sent 1 samples in the window",))
    paused = cut_short(full, series, "too much pause")
    verdict = judge(Workload(), paused, replace(NOTHING_EXPECTED, bps=1e9, pps=1e5), Thresholds())
    assert verdict.is_anomalous
    assert verdict.severity == pytest.approx(0.3)
    assert "too much pause" in verdict.reason
    series = [Sample(1.0, "b", {"delivered_bps": 1e8, "tx_pause_ratio": 0.0})]
    assert judge(Workload(), cut_short(full, series, "too fast"), NOTHING_EXPECTED, Thresholds()).is_inconclusive


@pytest.mark.parametrize(
    ("ratios", "storm"), [([0.9], True), ([0.0, 0.0, 0.9], True), ([0.7], True), ([0.4], False), ([0.25, 0.25], False)]
)
def test_pause_of_a_run_stopped_early_is_judged_beyond_that_of_its_start_up(ratios: list[float], storm: bool) -> None:
    limit = REAL_HOSTS.pause_per_second if ratios[-1] == 0.9 else 0.05
    watch = Guard(SafetyLimits(pause_per_second=limit, rate_bps=10e9)).watch()
    assert watch is not None
    series = [Sample(0.25 * n, "b", {"tx_pause_ratio": ratio}) for n, ratio in enumerate(ratios, start=1)]
    reasons = [watch(sample) for sample in series]
    assert reasons[-1]
    stopped = cut_short(Measurement((HostMeasurement("a"), HostMeasurement("b")), 4.0), series, reasons[-1])
    verdict = judge(Workload(), stopped, NOTHING_EXPECTED, Thresholds())
    assert verdict.is_anomalous == storm
    assert verdict.is_inconclusive != storm


@pytest.mark.parametrize(
    ("ratios", "displayed"), [([0.0] * 12 + [0.7], 0.14), ([0.05] * 15, 0.05), ([0.45] + [0.0] * 11, 0.0)]
)
def test_after_its_start_up_the_pause_of_a_stopped_run_counts_as_ever(ratios: list[float], displayed: float) -> None:
    series = [Sample(0.25 * n, "b", {"tx_pause_ratio": ratio}) for n, ratio in enumerate(ratios, start=1)]
    full = Measurement((HostMeasurement("a"), HostMeasurement("b")), 4.0)
    assert cut_short(full, series, "too fast").host("b").tx_pause_ratio == pytest.approx(displayed)


def test_frames_of_a_run_stopped_for_its_rate_may_be_of_its_start_up() -> None:
    hosts = HostMeasurement("a"), HostMeasurement("b", tx_pause_frames=500.0)
    stopped = replace(Measurement(hosts, 1.0), stopped="too fast", stable=False)
    assert judge(Workload(), stopped, NOTHING_EXPECTED, Thresholds()).is_inconclusive


@pytest.mark.parametrize("limits", [SafetyLimits(rate_bps=10e9), SafetyLimits(pause_per_second=0.05)])
def test_a_healthy_device_has_no_anomaly_under_any_limit(limits: SafetyLimits) -> None:
    subsystem, guard = load_subsystem("F-healthy", SubsystemFile), Guard(limits)
    testbed = SimulatedTestbed(subsystem, load_catalog("simulated"), seed=1)
    results = [testbed.measure(Workload(qps=8), run, guard.watch()) for run in range(1, 60)]
    measured = [result.measurement for result in results if isinstance(result, Measured)]
    assert any(one.stopped for one in measured)
    assert not any(judge(Workload(qps=8), one, NOTHING_EXPECTED, Thresholds()).is_anomalous for one in measured)


def test_options_tighten_the_limits_of_a_site_and_loosen_none() -> None:
    site = SafetyLimits(0.2, 120.0)
    assert tightened(site, SafetyLimits(rate_bps=1e9)) == SafetyLimits(0.2, 120.0, 1e9)
    assert tightened(site, SafetyLimits(pause_per_campaign=5.0)).pause_per_campaign == 5.0
    with pytest.raises(UsageError, match=r"--max-pause 3 min is more than the 2 min"):
        tightened(site, SafetyLimits(pause_per_campaign=180.0))


def test_a_port_in_use_is_refused_unless_allowed() -> None:
    busy = ForeignUse("left", "mlx5_0", "rcvd_pkts advances by 9,512 packets/s", True)
    mount = ForeignUse("left", "mlx5_0", "the kernel's nvme_rdma has 4 queue pairs", False)
    assert require_unshared([mount], shared_port=False) == (mount,)
    assert require_unshared([busy, mount], shared_port=True) == (busy, mount)
    with pytest.raises(PortShared, match=r"host left, mlx5_0: rcvd_pkts(.|\n)*--shared-port"):
        require_unshared([busy, mount], shared_port=False)


def search(store: MemoryStore, limits: SafetyLimits) -> tuple[Summary, Guard]:
    guard = Guard(limits)
    testbed = FakeTestbed([Planted(ALWAYS, severity=0.2)], seed=1)
    recipe = Recipe("test", strategy=StrategyName.RANDOM)
    parts = (testbed, store, load_space("nsdi22"), recipe, Budget(runs=60), 1, (), Calibration(), guard)
    return Campaign(*parts).run(ListSink()), guard


def test_a_spent_pause_budget_ends_the_campaign_and_a_larger_one_goes_on() -> None:
    store = MemoryStore(CampaignHeader("test", {}, "nsdi22", "test", {}, 1, "2026-01-01T00:00:00Z"))
    first, guard = search(store, SafetyLimits(pause_per_campaign=4.9))  # no multiple of a sample's
    assert first.ended_by == "pause budget"
    assert 4.9 <= guard.pause_seconds < 4.9 + 0.5, "the run that goes beyond is stopped at that sample"
    assert guard.stopped_runs == 1
    again, guard = search(store, SafetyLimits(pause_per_campaign=math.inf))
    assert again.runs == 60
    assert again.ended_by == "budget"
    assert guard.pause_seconds > 5.5


def test_the_record_says_what_is_left_and_a_plain_simulation_has_none() -> None:
    assert record_of(Guard(), {}) is None
    record = record_of(Guard(SafetyLimits(0.2)), {"lab-a": 0, "lab-b": None})
    assert record is not None
    assert not record.left_behind
    assert "0 on lab-a, unknown on lab-b; pause sent: unknown" in str(record), "no counter told of any"
    stuck = record_of(Guard(), {"lab-a": 2})
    assert stuck is not None
    assert stuck.left_behind


def test_a_run_without_a_measurement_tells_nothing_of_pause() -> None:
    guard = Guard(SafetyLimits(pause_per_campaign=1.0))
    guard.account(guard.usage(SetupFailed("qp timeout", "no answer", 3.0)))
    assert guard.sent() is None
    assert not guard.has_pause_reading
