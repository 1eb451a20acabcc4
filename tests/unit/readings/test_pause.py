"""Pause from sample to sample, as safety limits are held against it, where a driver tells of it once a second."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from collie.campaign.safety import Guard
from collie.counters.catalog import Catalog, Counter, CounterKind, Role, Unit
from collie.detect.measurement import Sample, cut_short
from collie.inventory.safety import SafetyLimits
from collie.readings.pause import SentPause
from collie.readings.policy import WindowPolicy
from collie.readings.recording import Recording
from collie.readings.sample_monitor import SampleMonitor
from collie.readings.samples import AgentSample
from collie.readings.window import measurement
from collie.workloads.workload import Workload

QUICK = Catalog("quick", (Counter("us", "ethtool", Unit.MICROSECONDS, CounterKind.PAUSE, "wire", role=Role.TX_PAUSE),))
SLOW = Catalog(
    "slow",
    (Counter("us", "ethtool", Unit.MICROSECONDS, CounterKind.PAUSE, "wire", role=Role.TX_PAUSE, refresh_seconds=1.0),),
)
PERIOD = 0.25
BEGAN = 500.0


def recorded(paused: Callable[[float], float], seconds: float, phase: float | None) -> list[AgentSample]:
    """Samples of a host that has sent pause for `paused(t)` seconds in all by the moment t of the run.

    The driver takes the reading at whole seconds past `phase`; always where that is None.
    """
    made = []
    for number in range(int(seconds / PERIOD) + 1):
        t = 0.01 + number * PERIOD
        read = t if phase is None else math.floor(t - phase) + phase
        counters = {"ethtool": {"us": round(1e9 + 1e6 * paused(read))}}
        made.append(AgentSample(70.0 + t, BEGAN + t, {}, None, counters, 0))
    return made


def reported(catalog: Catalog, samples: Sequence[AgentSample]) -> list[tuple[float, float | None]]:
    """Length of each sample, and the share of it that was pause."""
    timeline = Recording({"a": samples}, BEGAN).timeline("a")
    sent = SentPause(catalog)
    return [
        (timeline[index][0] - timeline[index - 1][0], sent.ratio(timeline, index)) for index in range(1, len(timeline))
    ]


def seconds_of(shares: Sequence[tuple[float, float | None]]) -> float:
    return sum(length * (share or 0.0) for length, share in shares)


def test_a_counter_that_is_always_fresh_tells_of_each_sample_by_itself() -> None:
    shares = reported(QUICK, recorded(lambda t: 0.5 * max(0.0, t - 1.01), 2.0, None))
    assert [share for _, share in shares] == pytest.approx([0.0] * 4 + [0.5] * 4)


@pytest.mark.parametrize("phase", [0.0, 0.3, 0.7, 0.99])
def test_what_is_refreshed_once_a_second_adds_up_to_what_was_sent(phase: float) -> None:
    shares = reported(SLOW, recorded(lambda t: 0.3 * max(0.0, min(t, 5.0) - 2.0), 9.0, phase))
    assert seconds_of(shares) == pytest.approx(0.9, rel=0.01)
    assert all(share is None or share <= 0.3 + 1e-6 for _, share in shares)


def test_a_refresh_is_spread_over_its_period_from_the_first_one_that_counts() -> None:
    """Samples come at 0.01 s past a quarter. The refresh at 1.3 s shows in the one at 1.51 s."""
    shares = [share for _, share in reported(SLOW, recorded(lambda t: 0.3 * max(0.0, t), 4.0, 0.3))]
    assert shares == [None] * 4 + [0.0] + [pytest.approx(0.3)] * 11


def test_the_slowest_of_several_counters_sets_the_pace() -> None:
    both = replace(SLOW, counters=(*SLOW.counters, replace(QUICK.counters[0], name="us_1")))
    samples = recorded(lambda t: 0.3 * max(0.0, t), 6.0, 0.3)
    assert reported(both, samples) == reported(SLOW, samples)


@pytest.mark.parametrize("phase", [0.0, 0.3, 0.7, 0.99])
def test_a_storm_of_the_run_before_is_not_this_ones(phase: float) -> None:
    shares = reported(SLOW, recorded(lambda t: min(t, 0.0), 4.0, phase))
    assert shares[0][1] is None
    assert seconds_of(shares) == 0.0


@pytest.mark.parametrize("phase", [0.0, 0.3, 0.7, 0.99])
@pytest.mark.parametrize("catalog", [QUICK, SLOW])
def test_a_storm_is_stopped_whichever_host_counts_it(catalog: Catalog, phase: float) -> None:
    samples = recorded(lambda t: 0.9 * max(0.0, t), 6.0, phase if catalog is SLOW else None)
    guard = Guard(SafetyLimits(pause_per_second=0.2))
    lookout = SampleMonitor(guard.watch(), catalog, ())
    stopped = next(n for n in range(len(samples)) if lookout.show(Recording({"a": samples[:n]}, BEGAN)))
    late = 2.5 if catalog is SLOW else 0.5
    assert samples[stopped - 1].clock - samples[0].clock <= late
    assert "sent pause" in str(lookout.reason)


def test_the_record_agrees_with_the_sample_monitor() -> None:
    samples = recorded(lambda t: 0.4 * max(0.0, t), 6.0, 0.3)
    seen: list[Sample] = []
    SampleMonitor(lambda sample: seen.append(sample), SLOW, ()).show(Recording({"a": samples}, BEGAN))
    recording = Recording({"a": samples}, BEGAN)
    series = measurement(Workload(remote=False, loopback=True), recording, SLOW, WindowPolicy()).series
    displayed = [sample.values["tx_pause_ratio"] for sample in seen]
    assert displayed == [sample.values["tx_pause_ratio"] for sample in series]
    assert len(displayed) == len(list(itertools.pairwise(samples)))


def test_samples_are_shown_forward_in_time_though_the_first_came_late() -> None:
    late = [replace(sample, arrived=sample.arrived + 0.6) for sample in recorded(lambda t: 0.0, 0.5, None)]
    seen: list[Sample] = []
    lookout = SampleMonitor(lambda sample: seen.append(sample), QUICK, ())
    lookout.show(Recording({"a": late}, BEGAN))
    lookout.show(Recording({"a": [*late, *recorded(lambda t: 0.0, 1.5, None)[len(late) :]]}, BEGAN))
    assert [sample.seconds for sample in seen] == pytest.approx([0.61 + PERIOD * number for number in range(1, 7)])


def test_what_stopped_a_run_is_among_its_readings_though_its_first_samples_told_nothing() -> None:
    recording = Recording({"a": recorded(lambda t: 0.9 * max(0.0, t), 2.0, 0.3)}, BEGAN)
    measured = measurement(Workload(remote=False, loopback=True), recording, SLOW, WindowPolicy())
    assert measured.host("a").tx_pause_ratio is None
    displayed = cut_short(measured, measured.series, "a storm").host("a").tx_pause_ratio
    assert displayed is not None
    assert displayed > 0.1
