"""Buckets of durations, in Python and in C, which rounds are timed, and when the loop wakes for one that is due."""

from __future__ import annotations

import ctypes
import math
from pathlib import Path
from random import Random

import pytest
from hypothesis import example, given, strategies as st

from collie.agent import compiler
from collie.agent.histogram import BUCKETS, bucket, shortest, sparse

NATIVE = Path(compiler.__file__).parent / "native"
DURATIONS = st.integers(0, 1 << 62) | st.integers(0, 1 << 12)


@given(DURATIONS)
@example(15)
@example(16)
@example((1 << 35) - 1)
@example(1 << 35)
def test_a_duration_is_in_the_bucket_that_begins_before_it_and_ends_within_a_sixteenth(nanoseconds: int) -> None:
    number = bucket(nanoseconds)
    assert shortest(number) <= nanoseconds
    if number < BUCKETS - 1:
        assert nanoseconds < shortest(number + 1) <= shortest(number) + max(1, shortest(number) / 16)
    else:
        assert nanoseconds >= 33e9


def test_no_duration_is_shorter_than_nothing() -> None:
    assert bucket(-5) == 0


@given(st.lists(st.integers(0, 3), min_size=BUCKETS, max_size=BUCKETS))
def test_the_sparse_form_leaves_out_empty_buckets_alone(counts: list[int]) -> None:
    found = sparse(counts)
    assert sum(count for _, count in found) == sum(counts)
    assert {bucket(start): count for start, count in found} == {n: count for n, count in enumerate(counts) if count}


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    path = tmp_path_factory.mktemp("native") / "traffic.so"
    try:
        path.write_bytes(compiler.current(str(NATIVE)))
    except compiler.NotCompiled as error:
        pytest.skip(str(error))
    object_ = ctypes.CDLL(str(path))
    object_.collie_bucket.argtypes = [ctypes.c_int64]
    object_.collie_bucket.restype = ctypes.c_uint32
    object_.collie_next_timed.argtypes = [ctypes.c_uint32, ctypes.c_uint32]
    object_.collie_next_timed.restype = ctypes.c_uint32
    object_.collie_next_oversleep.argtypes = [ctypes.c_int64, ctypes.c_int64]
    object_.collie_next_oversleep.restype = ctypes.c_int64
    return object_


@given(nanoseconds=DURATIONS | st.integers(-(1 << 62), 0))
def test_the_loop_in_c_uses_the_same_buckets(loaded: ctypes.CDLL, nanoseconds: int) -> None:
    assert loaded.collie_bucket(nanoseconds) == bucket(nanoseconds)


@given(every=st.integers(1, 64), cycle=st.integers(1, 1 << 16))
@example(every=64, cycle=1)
@example(every=64, cycle=3 * 5 * 7 * 11 * 13)
def test_the_rounds_that_are_timed_visit_each_request_of_a_cycle(loaded: ctypes.CDLL, every: int, cycle: int) -> None:
    """Devices and loops batch in powers of two, so an even distance would always time the same place of a batch."""
    distance = loaded.collie_next_timed(every, cycle)
    assert math.gcd(distance, 2 * cycle) == 1
    assert every <= distance <= every + 60


@given(typical=st.integers(60_000, 1_500_000), seed=st.integers(0, 1 << 16))
def test_the_loop_expects_to_oversleep_as_in_seven_of_eight_sleeps(
    loaded: ctypes.CDLL, typical: int, seed: int
) -> None:
    """As on machines that oversleep by 60 us or by more than a millisecond."""
    draw, oversleep, exceeded = Random(seed), 100_000, 0
    for sleep in range(2_400):
        late = int(draw.expovariate(1 / typical))
        exceeded += sleep >= 400 and late > oversleep
        oversleep = loaded.collie_next_oversleep(oversleep, late)
    assert 1 / 16 <= exceeded / 2_000 <= 1 / 4


@given(oversleep=st.integers(100_000, 5_000_000), late=st.integers(0, 1 << 62))
def test_one_long_sleep_changes_little(loaded: ctypes.CDLL, oversleep: int, late: int) -> None:
    """Other work can prolong a sleep by any time, and the loop must not poll as long before each round after it."""
    changed = loaded.collie_next_oversleep(oversleep, late)
    assert 100_000 <= changed <= min(5_000_000, oversleep + oversleep // 4)
