"""Brackets of plain traffic that was not measured."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, strategies as st

from collie.detect.brackets import LatencyRange, Range, latencies_of, range_of
from collie.detect.measurement import Latency
from collie.workloads.workload import Workload

SIZES = st.sampled_from([1 << power for power in range(6, 21)])
MESSAGES = st.lists(SIZES, min_size=1, max_size=6).map(tuple)
FLIGHTS = st.tuples(st.sampled_from([1, 2, 4, 8, 16]), st.sampled_from([1, 2, 16, 128, 1024]))


@dataclass(frozen=True)
class Device:
    """Plain traffic on resources that each take a time for a request and a time for a byte, at a distance.

    Attributes:
        resources: seconds for each request, and for each byte.
        round_trip: seconds until a request makes room for the next one.
    """

    resources: tuple[tuple[float, float], ...]
    round_trip: float

    def bps(self, workload: Workload) -> float:
        """Return the payload bits/s."""
        total, count = sum(workload.messages), len(workload.messages)
        busy = max(count * request + total * byte for request, byte in self.resources)
        waiting = count * self.round_trip / (workload.qps * workload.send_wq_depth)
        return 8 * total / (busy + waiting)


DEVICES = st.builds(
    Device,
    st.lists(st.tuples(st.floats(1e-9, 1e-6), st.floats(1e-12, 1e-9)), min_size=1, max_size=3).map(tuple),
    st.floats(0, 1e-5),
)


def plain(messages: tuple[int, ...], flight: tuple[int, int]) -> Workload:
    return Workload(messages=messages, qps=flight[0], send_wq_depth=flight[1])


@given(DEVICES, MESSAGES, FLIGHTS, st.lists(st.tuples(MESSAGES, FLIGHTS), max_size=20))
def test_the_throughput_lies_within_its_range(
    device: Device,
    messages: tuple[int, ...],
    flight: tuple[int, int],
    measured: list[tuple[tuple[int, ...], tuple[int, int]]],
) -> None:
    own = plain(messages, flight)
    others = [plain(*other) for other in measured]
    between = range_of(own, [(other, device.bps(other)) for other in others])
    truth = device.bps(own)
    assert between.low is None or between.low <= truth * (1 + 1e-9)
    assert between.high is None or between.high >= truth * (1 - 1e-9)


@given(DEVICES, MESSAGES)
def test_a_curve_tells_more_the_finer_it_is(device: Device, messages: tuple[int, ...]) -> None:
    own = plain(messages, (16, 1024))

    def width(step: int) -> float:
        curve = [plain((1 << power,), (16, 1024)) for power in range(6, 21, step)]
        between = range_of(own, [(point, device.bps(point)) for point in curve])
        assert between.low is not None
        assert between.high is not None
        return between.high / between.low

    assert width(1) <= width(2) * (1 + 1e-9)
    assert width(2) <= 4 * (1 + 1e-9)


def test_a_list_is_bracketed_by_its_messages_and_by_its_mean() -> None:
    """The example of the module."""
    points = [(plain((256,), (8, 128)), 10e9), (plain((4096,), (8, 128)), 100e9)]
    between = range_of(plain((256, 4096), (8, 128)), points)
    assert between.low is not None
    assert between.high is not None
    assert math.isclose(between.low, 65.4e9, rel_tol=0.01)
    assert math.isclose(between.high, 85e9, rel_tol=0.01)


def test_the_largest_size_measured_bounds_a_list_of_larger_messages() -> None:
    """Longer messages carry no fewer bits/s: one of 8 KiB takes at most twice the time of 4 KiB."""
    points = [(plain((size,), (8, 128)), bps) for size, bps in ((1024, 20e9), (4096, 50e9))]
    own = plain((8192, 65536), (8, 128))
    assert range_of(own, points).low == pytest.approx(50e9)
    mixed = range_of(plain((1024, 8192), (8, 128)), points).low
    assert mixed == pytest.approx(8 * 9216 / (8 * 1024 / 20e9 + 8 * 8192 / 50e9))


def test_the_nearest_smaller_size_bounds_from_above() -> None:
    """A message takes no less time than the largest of the shorter ones: 4 KiB at 100 Gbit/s is 328 ns."""
    points = [(plain((size,), (8, 128)), bps) for size, bps in ((256, 20e9), (1024, 60e9), (4096, 100e9))]
    assert range_of(plain((6144,), (8, 128)), points).high == pytest.approx(150e9)
    assert range_of(plain((512,), (8, 128)), points[:1]).high == pytest.approx(40e9)


@pytest.mark.parametrize("size", [64, 2048])
def test_what_nothing_measured_tells_is_open(size: int) -> None:
    assert range_of(plain((size,), (8, 128)), []) == Range()
    larger = [(plain((4096,), (8, 128)), 50e9)]
    assert range_of(plain((size,), (8, 128)), larger) == Range(None, 50e9)
    nothing = [(plain((64,), (8, 128)), 0.0)]
    assert range_of(plain((size,), (8, 128)), nothing) == Range()
    assert range_of(plain((size,), (8, 128)), nothing + larger) == Range(None, 50e9)
    deeper = [(plain((size,), (16, 128)), 50e9)]
    assert range_of(plain((size,), (8, 128)), deeper) == Range(None, 50e9)


@pytest.mark.parametrize(
    ("changes", "bounds_it"),
    [
        ({}, True),
        ({"messages": (8192,)}, False),  # half of the messages/s: the shorter ones can be near a limit of these
        ({"messages": (8192,), "offered_bps": 2 * 10**10}, True),
        ({"wqe_batch": 8}, False),  # an eighth of the doorbells
        ({"wqe_batch": 8, "offered_bps": 8 * 10**10}, True),
        ({"messages": (2048,), "offered_bps": 2 * 10**10}, False),  # shorter messages
    ],
)
def test_only_traffic_with_more_of_all_that_latency_grows_with_bounds_it(
    changes: dict[str, Any], bounds_it: bool
) -> None:
    own, latency = Workload(messages=(4096,), offered_bps=10**10), Latency(5e-6, 9e-6)
    more = own.with_(**changes)
    assert latencies_of(own, [(more, latency)]).high == (latency if bounds_it else None)
    assert latencies_of(more, [(own, latency)]).low == (latency if bounds_it else None)


def test_a_longer_wait_than_the_send_queues_hold_bounds_nothing() -> None:
    """Else the traffic with little room would wait for its send queue, and the other one would not."""
    more, latency = Workload(offered_bps=10**10), Latency(50e-6, 100e-6)
    roomy = Workload(qps=1, send_wq_depth=16, offered_bps=10**10)  # 1 MiB in flight, 839 us at its load
    assert latencies_of(roomy, [(more, latency)]) == LatencyRange(latency, latency)
    assert latencies_of(roomy.with_(send_wq_depth=4), [(more, latency)]).high is None
