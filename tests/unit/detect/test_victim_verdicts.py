"""Verdicts on what a plain flow beside the workload keeps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collie.campaign.siblings import delivered, unfit
from collie.detect.bounds import NOTHING_EXPECTED, Bound, Bounds, Calibration
from collie.detect.judge import can_be_late, judge
from collie.detect.measurement import GeneratorHealth, Latency, Measurement, Victim
from collie.detect.symptom import Symptom, Verdict
from collie.detect.thresholds import Loss, Thresholds
from collie.ports import Measured
from collie.workloads.workload import Workload
from tests.support.measurements import LINE, ONE_WAY, measurement

THRESHOLDS = Thresholds(loss_of=Loss.OF_VICTIM)


def beside(bps: float | None, found: Measurement | None = None) -> Measurement:
    """A run beside which the victim keeps this much of 100 Gbit/s."""
    return replace(found or measurement(), victim=Victim(100e9, bps))


def verdict(found: Measurement, usual_bps: float | None) -> Verdict:
    return judge(ONE_WAY, found, replace(LINE, victim_bps=usual_bps), THRESHOLDS)


@pytest.mark.parametrize(("kept", "lost"), [(49e9, None), (47e9, 0.22), (6e9, 0.9)])
def test_a_victim_is_compared_with_one_beside_plain_traffic(kept: float, lost: float | None) -> None:
    found = verdict(beside(kept), 60e9)
    assert found.symptom is (Symptom.VICTIM_LOSS if lost else None)
    if lost:
        assert found.severity == pytest.approx(lost, abs=0.005)
        assert f"{found.severity:.0%} of its throughput" in found.reason
        assert found.figure == f"{found.severity:.0%} of its throughput"


def test_a_victim_that_keeps_a_little_does_not_lose_all() -> None:
    found = verdict(beside(153e6), 60e9)
    assert found.reason.endswith(": it loses over 99% of its throughput")
    assert found.figure == "over 99% of its throughput"
    assert verdict(beside(0.0), 60e9).figure == "100% of its throughput"


def test_without_plain_traffic_it_is_compared_with_itself_alone() -> None:
    assert verdict(beside(90e9), None).is_normal
    assert verdict(beside(60e9), None).symptom is Symptom.VICTIM_LOSS


def test_a_victim_that_is_compared_with_nothing_is_not_known_to_keep_enough() -> None:
    """Such a run has to wait for its plain sibling."""
    unknown = replace(measurement(), victim=Victim(None, 60e9))
    assert verdict(unknown, None).symptom is Symptom.VICTIM_LOSS
    assert verdict(unknown, 60e9).is_normal


def test_the_loss_of_the_workload_does_not_count() -> None:
    assert verdict(beside(60e9, measurement(10e9, 1e6, tx_pause=0.5)), 60e9).is_normal


def test_without_a_bound_nothing_is_lost() -> None:
    found = judge(ONE_WAY, beside(1e9), NOTHING_EXPECTED, THRESHOLDS)
    assert found.is_normal
    assert found.reason == "a plain flow keeps 1 Gbit/s beside the workload"


def test_a_workload_whose_requests_failed_is_not_known_to_leave_a_victim_enough() -> None:
    failing = measurement(health=GeneratorHealth(completion_errors={"RETRY_EXC_ERR": 1, "WR_FLUSH_ERR": 2}))
    found = verdict(beside(60e9, failing), 60e9)
    assert found.is_inconclusive
    assert found.reason.endswith(", but the workload had 3 failed requests")
    assert verdict(beside(1e9, failing), 60e9).symptom is Symptom.VICTIM_LOSS


@pytest.mark.parametrize(
    "found",
    [
        measurement(),
        beside(None),
        beside(1e9, measurement(problems=("the link changed",))),
        beside(1e9, measurement(health=GeneratorHealth(driven=False, reason="no CPU", starved=True))),
        beside(1e9, measurement(health=GeneratorHealth(driven=False, reason="no CPU"))),  # an old record
    ],
)
def test_a_victim_that_no_sound_run_measured_decides_nothing(found: Measurement) -> None:
    assert verdict(found, 60e9).is_inconclusive


def test_a_workload_that_posts_less_than_it_should_may_cost_a_victim_all_the_same() -> None:
    slow = measurement(health=GeneratorHealth(driven=False, reason="the posted load was 20% off", starved=False))
    assert verdict(beside(1e9, slow), 60e9).symptom is Symptom.VICTIM_LOSS
    assert late_verdict(replace(waiting(LATE), health=slow.health)).symptom is Symptom.VICTIM_LATENCY


def test_beside_a_plain_sibling_that_posts_less_than_it_should_a_victim_keeps_too_much() -> None:
    slow = beside(60e9, measurement(health=GeneratorHealth(driven=False, reason="the posted load was 20% off")))
    unbounded = judge(ONE_WAY, slow, NOTHING_EXPECTED, THRESHOLDS)
    assert (
        unfit(Measured(slow, 1.0), unbounded, beside_victim=True) == "could not be driven: the posted load was 20% off"
    )
    assert not unfit(Measured(beside(60e9), 1.0), unbounded, beside_victim=True)
    failing = beside(60e9, measurement(health=GeneratorHealth(completion_errors={"RETRY_EXC_ERR": 1})))
    assert unfit(Measured(failing, 1.0), unbounded, beside_victim=True) == "had 1 failed request: RETRY_EXC_ERR"


USUAL = Latency(1e-5, 2e-5, 4e-5)


def waiting(latency: Latency | None, offered_bps: int = 10**10, kept_bps: float = 1e10) -> Measurement:
    """A run beside which the victim has this latency."""
    return replace(measurement(), victim=Victim(1e10, kept_bps, offered_bps, latency))


def late_verdict(found: Measurement, usual: Latency | None = USUAL) -> Verdict:
    return judge(ONE_WAY, found, replace(LINE, victim_latency=usual, victim_bps=1e10), THRESHOLDS)


@pytest.mark.parametrize(
    ("latency", "is_late"),
    [
        (Latency(1e-5, 7e-5), False),
        (Latency(1e-5, 9e-5), True),
        (Latency(9e-5, 9e-5), True),
        (Latency(3e-5, 4e-5), False),
        (None, False),
    ],
)
def test_a_victim_is_late_against_one_beside_plain_traffic(latency: Latency | None, is_late: bool) -> None:
    found = late_verdict(waiting(latency))
    assert found.symptom is (Symptom.VICTIM_LATENCY if is_late else None)
    if is_late:
        assert "beside its plain sibling" in found.reason
        assert found.figure == f"waiting is {found.severity:.0%} of the latency"
    else:
        assert found.is_normal


LATE = Latency(1e-3, 2e-3)


def test_the_latency_of_a_victim_counts_only_where_it_carries_its_load_beside_plain_traffic() -> None:
    """Beside a workload, the full queue of a victim that loses little is the harm."""
    for found, known in ((waiting(LATE), True), (waiting(LATE, kept_bps=9.7e9), False)):
        assert (delivered(ONE_WAY, found)["b"].victim_latency is not None) == known
        assert late_verdict(found).symptom is Symptom.VICTIM_LATENCY
        assert can_be_late(ONE_WAY, found, THRESHOLDS)
    full = waiting(LATE, offered_bps=0)
    assert delivered(ONE_WAY, full)["b"].victim_latency is None
    assert not can_be_late(ONE_WAY, full, THRESHOLDS)


def test_without_plain_traffic_no_victim_is_late() -> None:
    assert late_verdict(waiting(LATE), None).is_normal


def test_a_victim_that_loses_its_load_has_lost_rather_than_waited() -> None:
    assert late_verdict(waiting(LATE, kept_bps=5e9)).symptom is Symptom.VICTIM_LOSS


def test_a_late_victim_in_an_unstable_window_decides_nothing() -> None:
    assert late_verdict(replace(waiting(LATE), stable=False)).is_inconclusive


def test_the_latency_of_the_workload_is_not_that_of_the_victim() -> None:
    found = replace(waiting(Latency(1e-5, 2e-5)), latency={"a-b": LATE})
    assert late_verdict(found).is_normal
    received = delivered(ONE_WAY, found)["b"]
    assert received.victim_latency == Latency(1e-5, 2e-5)
    assert received.latency is not None
    assert received.latency.p99_seconds == LATE.p99_seconds


def test_what_only_makes_a_victim_wait_does_not_explain_its_loss() -> None:
    assert not Symptom.VICTIM_LATENCY.is_related(Symptom.VICTIM_LOSS)
    assert not Symptom.VICTIM_LATENCY.is_related(Symptom.LATENCY)
    assert Symptom.VICTIM_LOSS.is_looked_for_before(Symptom.VICTIM_LATENCY)


def test_a_victim_is_held_up_by_a_workload_whose_own_rate_swings_too() -> None:
    found = verdict(beside(1e9, measurement(stable=False)), 60e9)
    assert found.symptom is Symptom.VICTIM_LOSS
    assert found.margin == 1.0, "such a run is not clear"


def test_a_victim_that_hardly_moves_beside_plain_traffic_can_lose_nothing() -> None:
    seconds = measurement().window_seconds
    assert verdict(beside(0.0), 0.0).is_inconclusive
    assert verdict(beside(0.0), 7.9 * 65536 * 8 / seconds).is_inconclusive
    assert verdict(beside(0.0), 8.1 * 65536 * 8 / seconds).symptom is Symptom.VICTIM_LOSS


def test_a_sibling_says_what_the_victim_usually_keeps() -> None:
    bounds = Bounds(lambda _workload: LINE, Calibration(), lambda workload: workload)
    for kept in (10e9, 70e9, 60e9):
        bounds.learn(Workload(), {"b": Bound(90e9, 1e6, "plain sibling", victim_bps=kept)})
    assert bounds.tightest(Workload()).victim_bps == 60e9
