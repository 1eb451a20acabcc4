"""From where on a run inside a set shows more than the set's cause."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collie.detect.symptom import Outcome, Received, Symptom, Verdict
from collie.search.second_cause import NO_FLOOR, Floor, floor_between, is_beyond, is_more_severe

KIB = 8 * 1024
ALONE = Verdict(Outcome.ANOMALOUS, "paused", Symptom.PAUSE, 0.12, "b", received=Received(5.2e6 * 4 * KIB, 5.2e6))
"""A cause that costs each packet 192 ns, seen with packets of 4 KiB."""


def received(severity: float, pps: float, packet_bytes: float) -> Verdict:
    return replace(ALONE, severity=severity, received=Received(pps * 8 * packet_bytes, pps))


@pytest.mark.parametrize(
    ("severity", "alone", "more"), [(0.3, 0.02, False), (0.36, 0.02, True), (0.95, 0.9, True), (0.92, 0.9, False)]
)
def test_a_second_cause_takes_a_third_of_what_the_first_one_leaves(severity: float, alone: float, more: bool) -> None:
    assert is_more_severe(replace(ALONE, severity=severity), alone) is more
    same_rates = replace(ALONE, severity=severity), replace(ALONE, severity=alone)
    assert is_beyond(*(replace(each, received=None) for each in same_rates)) is more
    assert not is_beyond(*same_rates), "one limit, whatever the readings of pause are"


@pytest.mark.parametrize(
    ("pps", "packet_bytes", "beyond"),
    [
        (5.2e6, 128, False),  # a limit of packets/s
        (4.0e6, 128, False),
        (3.0e6, 128, True),
        (1.3e6, 4096, True),
        (20e6, 1024, False),  # a limit of bits/s
        (20e6, 512, True),  # more packets than one limit allows, fewer bits than the other
        (9.0e6, 4096, False),
    ],
)
def test_smaller_packets_that_arrive_as_fast_are_more_severe_by_the_same_cause(
    pps: float, packet_bytes: float, beyond: bool
) -> None:
    assert is_beyond(received(0.97, pps, packet_bytes), ALONE) is beyond


@pytest.mark.parametrize(("pps", "beyond"), [(5.2e6, False), (3.0e6, True), (10e6, False)])
def test_few_bits_of_small_packets_are_no_limit(pps: float, beyond: bool) -> None:
    small = received(0.1, 5.2e6, 128)
    assert is_beyond(received(0.9, pps, 4096), small) is beyond


def test_a_milder_run_is_never_beyond() -> None:
    assert not is_beyond(received(0.1, 0.1e6, 64), ALONE)


def test_the_floor_lies_between_the_rates_of_two_causes() -> None:
    floor = floor_between(ALONE, received(0.99, 1.3e6, 128))
    assert floor.most_received is not None
    assert floor.most_received.pps == pytest.approx(1.95e6), "about as slow as both"
    milder = floor_between(ALONE, received(0.98, 2.6e6, 128)).most_received
    assert milder is not None
    assert milder.pps == pytest.approx(5.2e6 / 2**0.5), "half way"
    assert not floor.apply(received(0.97, 5.2e6, 128)).is_anomalous, "only the first cause, with small packets"
    assert floor.apply(received(0.79, 1.3e6, 4096)).is_anomalous, "both, with large ones"
    assert not floor.apply(received(0.12, 5.2e6, 4096)).is_anomalous


def test_where_rates_are_unknown_the_floor_is_a_severity() -> None:
    worse = replace(ALONE, severity=0.8, received=None)
    for alone, covered in (
        (ALONE, worse),
        (replace(ALONE, received=None), replace(ALONE, severity=0.8)),
        (None, worse),
    ):
        floor = floor_between(alone, covered)
        assert 0.12 < floor.severity < 0.8
        assert not floor.apply(ALONE).is_anomalous
        assert floor.apply(worse).is_anomalous
        assert floor.most_received is None
        assert "as the set around it predicts" in floor.apply(ALONE).reason


def test_without_a_second_cause_there_is_no_floor() -> None:
    assert floor_between(ALONE, replace(ALONE, severity=0.2)) == NO_FLOOR
    assert floor_between(ALONE, received(0.97, 5.2e6, 128)) == NO_FLOOR
    assert floor_between(None, replace(ALONE, severity=0.2)) == NO_FLOOR
    assert NO_FLOOR.apply(ALONE) is ALONE


def test_the_most_severe_runs_are_not_told_from_each_other() -> None:
    alone = replace(ALONE, received=None)
    assert floor_between(alone, replace(alone, severity=1.0)).severity < 0.99


def test_a_floor_can_be_raised_and_not_lowered() -> None:
    assert Floor(0.3).at_least(0.4).severity == 0.4
    assert Floor(0.3).at_least(0.2).severity == 0.3


def test_a_normal_run_stays_as_it_is() -> None:
    normal = Verdict(Outcome.NORMAL, "fine")
    assert Floor(0.3).apply(normal) is normal
