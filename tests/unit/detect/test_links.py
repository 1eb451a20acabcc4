"""Links that are slower than at their calibration."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collie.detect.links import LinkLatency, judge_links, late_as_well, link_latencies
from collie.detect.measurement import GeneratorHealth, Latency, Measurement
from collie.detect.symptom import Symptom
from collie.workloads.workload import Workload
from tests.support.measurements import measurement

TWO = Workload(offered_bps=10**9, responders=2)
CALIBRATED = (LinkLatency("a-b", TWO, 10e-6, 30e-6), LinkLatency("a-c", TWO, 10e-6, 30e-6))


def of(b: Latency, c: Latency = Latency(10e-6, 30e-6)) -> Measurement:  # noqa: B008 - frozen
    return replace(measurement(1e9, 1e5), latency={"a-b": b, "a-c": c})


def test_a_calibration_keeps_the_slowest_run_of_each_link() -> None:
    runs = [of(Latency(10e-6, 30e-6)), of(Latency(12e-6, 25e-6), Latency(9e-6, 40e-6))]
    assert list(link_latencies(TWO, runs)) == [
        LinkLatency("a-b", TWO, 12e-6, 30e-6),
        LinkLatency("a-c", TWO, 10e-6, 40e-6),
    ]


@pytest.mark.parametrize("missing", [Latency(), Latency(10e-6), Latency(None, 30e-6)])
def test_a_link_that_a_run_did_not_time_is_left_out(missing: Latency) -> None:
    runs = [of(Latency(10e-6, 30e-6)), of(missing)]
    assert [link.link for link in link_latencies(TWO, runs)] == ["a-c"]
    assert list(link_latencies(TWO, [])) == []


@pytest.mark.parametrize(
    ("now", "is_late"),
    [(Latency(19e-6, 59e-6), False), (Latency(21e-6, 30e-6), True), (Latency(10e-6, 61e-6), True), (Latency(), False)],
)
def test_a_link_is_late_beyond_the_ratio(now: Latency, is_late: bool) -> None:
    assert (judge_links(CALIBRATED, of(now), 2.0, 1e-6) is not None) == is_late


@pytest.mark.parametrize(("least_seconds", "is_late"), [(19e-6, True), (21e-6, False)])
def test_a_link_is_late_by_more_than_an_application_notices(least_seconds: float, is_late: bool) -> None:
    assert (judge_links(CALIBRATED, of(Latency(30e-6, 30e-6)), 2.0, least_seconds) is not None) == is_late


def test_the_slowest_link_is_named_with_both_latencies() -> None:
    found = judge_links(CALIBRATED, of(Latency(21e-6, 30e-6), Latency(50e-6, 90e-6)), 2.0, 1e-6)
    assert found is not None
    assert found.symptom is Symptom.LATENCY
    assert "link a-c is slow: half of the messages of plain traffic complete within 50 us" in found.reason
    assert "at the calibration within 10 us" in found.reason
    assert found.severity == pytest.approx(0.8)
    assert found.figure == "waiting is 80% of the latency"
    assert found.margin == pytest.approx(2.5)
    assert found.host == "c"
    assert late_as_well(found).reason == f"the plain sibling is as late: {found.reason}"
    assert late_as_well(found).figure == found.figure


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"health": GeneratorHealth(driven=False, reason="host b: other processes")}, "host b: other processes"),
        ({"stable": False}, "the window was not stable"),
    ],
)
def test_a_disturbed_run_blames_no_link(changes: dict[str, object], why: str) -> None:
    found = judge_links(CALIBRATED, replace(of(Latency(50e-6, 90e-6)), **changes), 2.0, 1e-6)  # type: ignore[arg-type]
    assert found is not None
    assert found.is_inconclusive
    assert why in found.reason
