"""Histograms of durations: quantiles, their intervals, windows, and the latency of flows."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, strategies as st
from scipy.stats import binom

from collie.agent import histogram as of_agent
from collie.readings.latency import Histogram, latencies, longest, quantile_ranks
from collie.readings.samples import AgentSample, FlowTotals, QpMessages
from collie.workloads.workload import Direction, Workload

DURATIONS = st.lists(st.integers(0, 10**9) | st.integers(0, 100), min_size=1, max_size=300)
SHARES = st.sampled_from([0.5, 0.9, 0.99, 0.999])


def pairs_of(durations: Sequence[int]) -> list[tuple[int, int]]:
    """Return what an agent reports."""
    tally = Tally(map(of_agent.bucket, durations))
    return [(of_agent.shortest(number), count) for number, count in sorted(tally.items())]


@given(st.integers(0, of_agent.BUCKETS - 2))
def test_a_bucket_ends_where_the_next_one_of_the_agent_begins(number: int) -> None:
    assert longest(of_agent.shortest(number)) == of_agent.shortest(number + 1)


@given(DURATIONS, DURATIONS)
def test_merged_histograms_are_those_of_all_durations(one: list[int], other: list[int]) -> None:
    assert Histogram.of([*pairs_of(one), *pairs_of(other)]) == Histogram.of(pairs_of(one + other))


@given(DURATIONS, DURATIONS)
def test_a_window_holds_what_came_after_its_beginning(before: list[int], during: list[int]) -> None:
    window = Histogram.between(pairs_of(before), pairs_of(before + during))
    assert window == Histogram.of(pairs_of(during))
    assert window.total == len(during)


@given(DURATIONS, SHARES)
def test_a_quantile_is_that_of_the_durations_within_a_bucket(durations: list[int], share: float) -> None:
    found = Histogram.of(pairs_of(durations)).quantile(share)
    if len(durations) * (1 - share) < 1:
        assert found is None
        return
    assert found is not None
    exact = sorted(durations)[max(0, -int(-share * len(durations) // 1) - 1)]
    assert abs(found - exact) <= max(1.0, exact / 15)


@given(DURATIONS, SHARES)
def test_an_interval_contains_its_quantile(durations: list[int], share: float) -> None:
    histogram = Histogram.of(pairs_of(durations))
    interval, quantile = histogram.interval(share), histogram.quantile(share)
    if interval is not None and quantile is not None:
        assert interval[0] <= quantile <= interval[1]
        assert min(durations) * 15 / 16 - 1 <= interval[0] <= interval[1] <= max(durations) * 17 / 16 + 1


@given(st.integers(1, 3000), SHARES)
def test_the_ranks_are_the_closest_that_each_miss_with_half_the_remaining_chance(total: int, share: float) -> None:
    ranks = quantile_ranks(total, share)
    below = binom(total, share)
    if ranks is None:  # the smallest or the largest value misses more often
        assert below.cdf(0) > 0.025 or below.sf(total - 1) > 0.025
        return
    low, high = ranks
    assert below.cdf(low - 1) <= 0.025 < below.cdf(low)
    assert below.sf(high - 1) <= 0.025 < below.sf(high - 2)


def test_the_ranks_of_many_values_are_those_of_scipy() -> None:
    for share in (0.5, 0.99, 0.999):
        low, high = quantile_ranks(200_000, share) or (0, 0)
        below = binom(200_000, share)
        assert below.cdf(low - 1) <= 0.025 < below.cdf(low)
        assert below.sf(high - 1) <= 0.025 < below.sf(high - 2)


@pytest.mark.parametrize("share", [0.5, 0.99])
def test_intervals_hold_the_true_quantile_as_often_as_they_say(share: float) -> None:
    rng, true = Random(7), {0.5: 693147, 0.99: 4605170}[share]  # of an exponential distribution with a mean of 1 ms
    held = 0
    for _ in range(300):
        sample = [int(rng.expovariate(1e-6)) for _ in range(600)]
        low, high = Histogram.of(pairs_of(sample)).interval(share) or (0, 0)
        held += low <= true <= high
    assert held >= 280  # 285 are expected at least, and fewer than 275 have a chance of 1 in 250


def test_the_ranks_of_more_values_than_a_window_holds_are_near_enough_and_cost_nothing() -> None:
    low, high = quantile_ranks(1_000_001, 0.5) or (0, 0)
    exact = binom(1_000_001, 0.5)
    assert exact.cdf(low - 1) == pytest.approx(0.025, abs=1e-3)
    assert exact.sf(high - 1) == pytest.approx(0.025, abs=1e-3)
    assert quantile_ranks(1 << 100, 0.999) is not None


def test_a_histogram_of_nothing_has_no_quantile() -> None:
    assert Histogram.of([]).quantile(0.5) is None
    assert Histogram.of([]).interval(0.5) is None


def test_the_durations_of_a_bucket_count_as_evenly_spread() -> None:
    assert longest(1024) == 1088
    assert Histogram((1024,), (4,)).quantile(0.5) == 1056


def test_two_durations_are_enough_for_a_median_and_one_is_not() -> None:
    assert Histogram((1024,), (2,)).quantile(0.5) == 1056
    assert Histogram((1024,), (1,)).quantile(0.5) is None


def test_what_a_host_must_not_send_is_left_out() -> None:
    assert Histogram.of([(-5, 3), (10, -2), (20, 1)]) == Histogram((20,), (1,))
    latency = latencies(Workload(), {"a": [sample(10.0, []), sample(12.0, [], open_gap=-5)]})["a-b"]
    assert latency.stall_seconds == 0


def sample(clock: float, durations: Sequence[int], gaps: Sequence[int] = (), open_gap: int = 0) -> AgentSample:
    totals = FlowTotals(None, None, QpMessages(0, 0, 0), 0)
    timed = replace(
        totals, latencies=tuple(pairs_of(durations)), gaps=tuple(pairs_of(gaps)), open_gap=open_gap
    )  # fmt: skip
    return AgentSample(clock, flows={"a-b/requester": timed, "b-a/responder": totals})


def test_the_latency_of_a_flow_is_that_of_the_window() -> None:
    before = [10**9] * 50
    durations = [1000 * n for n in range(1, 2001)]
    window = {"a": [sample(10.0, before), sample(11.0, before), sample(12.0, before + durations)]}
    found = latencies(Workload(), window)
    assert list(found) == ["a-b"]
    latency = found["a-b"]
    assert latency.sampled == 2000
    assert latency.median_seconds == pytest.approx(1e-3, rel=0.07)
    assert latency.p99_seconds == pytest.approx(1.98e-3, rel=0.07)
    assert latency.p999_seconds == pytest.approx(1.998e-3, rel=0.07)
    assert latency.p99_interval is not None
    assert latency.p99_interval[0] <= 1.98e-3 <= latency.p99_interval[1]
    assert latency.p999_interval is None, "of 2000 values, the largest is below it in 13 % of all cases"


def test_the_interval_of_a_quantile_is_stated_in_seconds() -> None:
    durations = [10**6] * 5000
    latency = latencies(Workload(), {"a": [sample(10.0, []), sample(12.0, durations)]})["a-b"]
    for interval in (latency.median_interval, latency.p99_interval, latency.p999_interval):
        assert interval == pytest.approx((1e-3, 1e-3), rel=0.07)


@pytest.mark.parametrize(
    ("gaps", "open_gap", "seconds"),
    [([10**6, 10**8], 0, 0.1), ([10**6], 3 * 10**8, 0.3), ([], 0, 0.0), ([], 5 * 10**9, 2.0)],
)
def test_a_stall_is_the_longest_gap_of_the_window_ended_or_not(gaps: list[int], open_gap: int, seconds: float) -> None:
    before = [4 * 10**8]
    window = {"a": [sample(10.0, [], before), sample(12.0, [], before + gaps, open_gap)]}
    assert latencies(Workload(), window)["a-b"].stall_seconds == pytest.approx(seconds, rel=0.07)


@pytest.mark.parametrize(
    ("before", "after", "clock"),
    [
        ("nic", "nic", "nic"),
        ("nic", "host", "host"),
        ("host", "host", "host"),
        (None, None, None),
        ("nic", "x\x1b[31m", None),
    ],
)
def test_a_latency_says_which_clock_ended_it(before: str | None, after: str | None, clock: str | None) -> None:
    """A device's clock that is found wrong within the window has ended some latencies, and polls ended the others."""

    def timed(seconds: float, latency_clock: str | None) -> AgentSample:
        made = sample(seconds, [5])
        return replace(
            made, flows={name: replace(end, latency_clock=latency_clock) for name, end in made.flows.items()}
        )

    assert latencies(Workload(), {"a": [timed(10.0, before), timed(12.0, after)]})["a-b"].clock == clock


def test_a_flow_that_is_not_timed_has_no_latency() -> None:
    workload = Workload(direction=Direction.BIDIRECTIONAL)
    window = {"a": [sample(10.0, []), sample(12.0, [5])], "b": [AgentSample(1.0), AgentSample(3.0)]}
    assert list(latencies(workload, window)) == ["a-b"]
    assert latencies(workload, {"a": window["a"][:1], "b": []}) == {}
