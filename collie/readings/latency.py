"""The latency of flows, from the histograms of their requesters. Pure.

A histogram holds pairs (shortest duration of a bucket in nanoseconds, number of durations), cumulative since the phase
began. So a window is the difference of two, and processes are added. A bucket is at most 1/16 of its durations wide.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter as Tally
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import exp, lgamma, log, log1p, sqrt
from statistics import NormalDist

from collie.detect.interval import CONFIDENCE
from collie.detect.measurement import Latency
from collie.readings.samples import AgentSample, FlowTotals
from collie.workloads.plan import flows
from collie.workloads.workload import Workload

_SUB_BITS = 4
_CLOCKS = ("nic", "host")
_FAR = 10.0
"""Deviations below the mean beyond which a binomial number has no chance worth adding."""
_MANY = 1_000_000
"""More values than a window holds. What a host reports must not cost the controller minutes."""


def longest(shortest: int) -> int:
    """Return the end of a bucket, the duration at which the next one begins."""
    return shortest + (1 << max(0, shortest.bit_length() - 1 - _SUB_BITS))


@dataclass(frozen=True, slots=True)
class Histogram:
    """Numbers of durations by bucket. `buckets` are the shortest durations in nanoseconds, in order."""

    buckets: tuple[int, ...] = ()
    counts: tuple[int, ...] = ()

    @classmethod
    def of(cls, pairs: Iterable[Sequence[int]]) -> Histogram:
        """Make a histogram of (shortest duration, number) pairs. Pairs of one bucket are added up."""
        tally: Tally[int] = Tally()
        for shortest, count in pairs:
            tally[shortest] += count
        kept = sorted(shortest for shortest, count in tally.items() if shortest >= 0 and count > 0)
        return cls(tuple(kept), tuple(tally[shortest] for shortest in kept))

    @classmethod
    def between(cls, before: Iterable[Sequence[int]], after: Iterable[Sequence[int]]) -> Histogram:
        """Return what a cumulative histogram gained."""
        return cls.of([*after, *((shortest, -count) for shortest, count in before)])

    @property
    def total(self) -> int:
        """Number of durations."""
        return sum(self.counts)

    def quantile(self, share: float) -> float | None:
        """Return a quantile in nanoseconds, or None unless a duration beyond it is expected.

        The durations of a bucket count as evenly spread.
        """
        total = self.total
        if total * min(share, 1 - share) < 1:
            return None
        rank = share * total
        ends = list(accumulate(self.counts))
        place = bisect_left(ends, rank)
        within = (rank - (ends[place] - self.counts[place])) / self.counts[place]
        begin = self.buckets[place]
        return begin + within * (longest(begin) - begin)

    def interval(self, share: float, confidence: float = CONFIDENCE) -> tuple[float, float] | None:
        """Return an interval in nanoseconds that holds a quantile with a chance of `confidence` or more.

        Its ends are order statistics: the number of durations below the quantile is binomial. They are rounded outwards
        to ends of buckets. None if there are too few durations. The durations must be independent.
        """
        ranks = quantile_ranks(self.total, share, confidence)
        if ranks is None:
            return None
        ends = list(accumulate(self.counts))
        low, high = (self.buckets[bisect_left(ends, rank)] for rank in ranks)
        return low, longest(high)


def quantile_ranks(total: int, share: float, confidence: float = CONFIDENCE) -> tuple[int, int] | None:
    """Return the ranks, from 1, of the values between which a quantile of a distribution lies.

    Each end misses it with a chance of at most half of 1 - `confidence`. None if `total` values are too few.
    """
    tail = (1.0 - confidence) / 2.0
    low = _binomial_quantile(total, share, tail)
    high = total + 1 - _binomial_quantile(total, 1.0 - share, tail)
    return (low, high) if low >= 1 and high <= total else None


def _binomial_quantile(total: int, share: float, tail: float) -> int:
    """Return the largest number r with a chance of at most `tail` that fewer than r of `total` values are below."""
    mean, deviation = total * share, sqrt(total * share * (1.0 - share))
    if total > _MANY:
        return max(0, int(mean + NormalDist().inv_cdf(tail) * deviation))
    chance, rank = 0.0, max(0, int(mean - _FAR * deviation))
    while rank <= total:
        chance += _binomial(total, rank, share)
        if chance > tail:
            return rank
        rank += 1
    return total


def _binomial(total: int, count: int, share: float) -> float:
    """Return the chance of `count` of `total` independent events."""
    ways = lgamma(total + 1) - lgamma(count + 1) - lgamma(total - count + 1)
    return exp(ways + count * log(share) + (total - count) * log1p(-share))


def latencies(workload: Workload, window: Mapping[str, Sequence[AgentSample]]) -> dict[str, Latency]:
    """Return the latency of each flow whose requester timed rounds, by the name of the flow."""
    found = {}
    for flow in flows(workload):
        latency = latency_of(f"{flow.name}/requester", window.get(flow.requester, ()))
        if latency is not None:
            found[flow.name] = latency
    return found


def latency_of(requester: str, samples: Sequence[AgentSample]) -> Latency | None:
    """Return the latency of one requester's messages, or None unless it timed them."""
    ends = [(sample.clock, sample.flows.get(requester)) for sample in samples]
    timed = [(clock, end) for clock, end in ends if end is not None and end.latencies is not None]
    if len(timed) < 2:
        return None
    (begin, before), (end, after) = timed[0], timed[-1]
    return _latency(before, after, end - begin)


def _latency(before: FlowTotals, after: FlowTotals, seconds: float) -> Latency:
    timed = Histogram.between(before.latencies or (), after.latencies or ())
    gaps = Histogram.between(before.gaps or (), after.gaps or ())
    longest_gap = max(0, *gaps.buckets, after.open_gap or 0) / 1e9
    return Latency(
        _seconds(timed.quantile(0.5)),
        _seconds(timed.quantile(0.99)),
        _seconds(timed.quantile(0.999)),
        timed.total,
        _both(timed.interval(0.5)),
        _both(timed.interval(0.99)),
        _both(timed.interval(0.999)),
        min(longest_gap, seconds),
        after.latency_clock if after.latency_clock in _CLOCKS else None,
    )


def _seconds(nanoseconds: float | None) -> float | None:
    return None if nanoseconds is None else nanoseconds / 1e9


def _both(interval: tuple[float, float] | None) -> tuple[float, float] | None:
    return None if interval is None else (interval[0] / 1e9, interval[1] / 1e9)
