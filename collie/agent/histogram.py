"""Durations in buckets whose width grows with them: one for each nanosecond below 16, then 16 per power of two.

A bucket is at most 1/16 of its durations wide. The last one holds all of 34 s and more.
"""

from __future__ import annotations

from typing import Iterable, List

SUB_BITS = 4
BUCKETS = 512

Histogram = List[List[int]]
"""Pairs of the shortest duration of a bucket, in nanoseconds, and the number of durations in it. No empty buckets."""


def bucket(nanoseconds: int) -> int:
    """Return the bucket of a duration."""
    value = max(0, nanoseconds)
    shift = max(0, value.bit_length() - 1 - SUB_BITS)
    return min(BUCKETS - 1, (shift << SUB_BITS) + (value >> shift))


def shortest(number: int) -> int:
    """Return the shortest duration of a bucket in nanoseconds."""
    shift = max(0, (number >> SUB_BITS) - 1)
    return (number - (shift << SUB_BITS)) << shift


def sparse(counts: Iterable[int]) -> Histogram:
    """Return the buckets that are not empty, from the number of durations in each bucket."""
    return [[shortest(number), count] for number, count in enumerate(counts) if count]
