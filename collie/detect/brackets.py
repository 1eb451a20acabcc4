"""Bounds on the throughput of plain traffic that was not measured, from plain traffic that was.

Terms. The *cost* of a request is its bits over the throughput of traffic that has only such requests. A *curve* is
plain traffic of one transport and opcode with one message size after another.

Rules. For plain traffic on a healthy subsystem
1. throughput grows with the queue pairs, with the requests in flight and with the size of the messages,
2. the cost grows with the size of the message, and faster and faster: whatever limits it takes a constant and a time
   for each byte,
3. the cost of a list of messages is at most the sum of their costs, because its messages can share their waiting. It is
   at least that of as many messages of their mean size, because one resource limits all of them.

At an offered load that plain traffic carries
4. latency grows with the bits/s, messages/s and posts/s, with the size of the messages and with the messages of a post.
   At one load shorter messages are more messages and smaller batches more posts, which can be near a limit of these,
5. it does not depend on the room in the send queues, as long as the messages that wait need only a part of it.

Worked example. Messages of 256 B and 4 KiB were measured at 10 and 100 Gbit/s: 0.20 and 0.33 us for a request. The list
(256, 4096) takes at most 0.53 us, so it carries at least 65 Gbit/s. Its mean of 2176 B costs at least the 0.20 us of
256 B, so it carries at most 85 Gbit/s.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from collie.detect.measurement import Latency
from collie.workloads.workload import Workload

_ROOMY = 4.0
"""Times that the messages which wait must fit into the send queues."""

Point = tuple[int, float]
"""A message size in bytes, and the bits/s of plain traffic with messages of this size alone."""


@dataclass(frozen=True, slots=True)
class Range:
    """Bits/s between which the throughput of plain traffic lies. None where nothing measured tells."""

    low: float | None = None
    high: float | None = None


def range_of(own: Workload, measured: Iterable[tuple[Workload, float]]) -> Range:
    """Return between which bits/s plain traffic lies, from like traffic that differs in what is in flight.

    `measured` has the bits/s of each.
    """
    lows: list[float] = []
    highs: list[float] = []
    fewer: dict[int, float] = {}
    more: dict[int, float] = {}
    requests = own.qps * own.send_wq_depth
    for plain, bps in measured:
        if bps <= 0:
            continue  # what carries nothing has no cost
        same = plain.messages == own.messages
        is_fewer = plain.qps <= own.qps and plain.bytes_outstanding <= own.bytes_outstanding
        is_more = plain.qps >= own.qps and plain.bytes_outstanding >= own.bytes_outstanding
        if is_fewer and (same or max(plain.messages) <= min(own.messages)):
            lows.append(bps)
        if is_more and (same or min(plain.messages) >= max(own.messages)):
            highs.append(bps)
        size = plain.messages[0]
        if any(other != size for other in plain.messages):
            continue
        if plain.qps <= own.qps and plain.qps * plain.send_wq_depth <= requests:
            fewer[size] = max(bps, fewer.get(size, 0.0))
        if plain.qps >= own.qps and plain.qps * plain.send_wq_depth >= requests:
            more[size] = min(bps, more.get(size, bps))
    costs = [cost for size in own.messages if (cost := _most(size, sorted(fewer.items()))) is not None]
    if len(costs) == len(own.messages):
        lows.append(8 * sum(own.messages) / sum(costs))
    mean = sum(own.messages) / len(own.messages)
    if (least := _least(mean, sorted(more.items()))) is not None:
        highs.append(8 * mean / least)
    return Range(max(lows, default=None), min(highs, default=None))


@dataclass(frozen=True, slots=True)
class LatencyRange:
    """The shortest and the longest latency that plain traffic can have. None where nothing measured tells."""

    low: Latency | None = None
    high: Latency | None = None


def latencies_of(own: Workload, measured: Iterable[tuple[Workload, Latency]]) -> LatencyRange:
    """Return between which latencies plain traffic lies, from like traffic with another load, messages or batch."""
    lows: list[Latency] = []
    highs: list[Latency] = []
    drained_seconds = 8.0 * own.bytes_outstanding / own.offered_bps
    for plain, latency in measured:
        if _is_less(plain, own):
            lows.append(latency)
        if _is_less(own, plain) and _ROOMY * (latency.p99_seconds or 0.0) <= drained_seconds:
            highs.append(latency)
    return LatencyRange(longest(lows), _quantile_by_quantile(min, highs))


def _is_less(one: Workload, other: Workload) -> bool:
    """Whether plain traffic at an offered load has no more of anything that latency grows with."""
    same = one.messages == other.messages
    return (
        one.offered_bps <= other.offered_bps
        and one.wqe_batch <= other.wqe_batch
        and (same or max(one.messages) <= min(other.messages))
        and _messages_per_second(one) <= _messages_per_second(other)
        and _messages_per_second(one) * other.wqe_batch <= _messages_per_second(other) * one.wqe_batch
    )


def _messages_per_second(plain: Workload) -> float:
    return plain.offered_bps * len(plain.messages) / (8.0 * sum(plain.messages))


def longest(latencies: Sequence[Latency]) -> Latency | None:
    """Return the largest of each quantile."""
    return _quantile_by_quantile(max, latencies)


def middle(latencies: Sequence[Latency]) -> Latency | None:
    """Return the median of each quantile, None without any latency."""
    return _quantile_by_quantile(median, latencies)


def _quantile_by_quantile(choose: Callable[..., float], latencies: Sequence[Latency]) -> Latency | None:
    """Return the chosen one of each quantile."""

    def quantile(values: Iterable[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return choose(known) if known else None

    if not latencies:
        return None
    return Latency(
        quantile(each.median_seconds for each in latencies),
        quantile(each.p99_seconds for each in latencies),
        quantile(each.p999_seconds for each in latencies),
    )


def _cost(point: Point) -> float:
    size, bps = point
    return 8 * size / bps


def _most(size: int, points: Sequence[Point]) -> float | None:
    """Return the most seconds that a request of this size can take. None below the smallest size of `points`."""
    above = bisect_left(points, size, key=lambda point: point[0])
    if above < len(points) and points[above][0] == size:
        return _cost(points[above])
    if above == 0:
        return None
    below = points[above - 1]
    by_rate = 8 * size / below[1]
    if above == len(points):
        return by_rate
    share = (size - below[0]) / (points[above][0] - below[0])
    return min(by_rate, _cost(below) + share * (_cost(points[above]) - _cost(below)))


def _least(size: float, points: Sequence[Point]) -> float | None:
    """Return the fewest seconds that a request of this size can take. None where no size of `points` tells."""
    above = bisect_left(points, size, key=lambda point: point[0])
    below = bisect_right(points, size, key=lambda point: point[0]) - 1
    known = []
    if above < len(points):
        known.append(8 * size / points[above][1])
    if below >= 0:
        known.append(_cost(points[below]))
    return max(known, default=None)
