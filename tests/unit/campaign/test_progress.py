"""The progress of a campaign, folded from its events."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collie.campaign.budget import Budget
from collie.campaign.events import (
    AnomalyConfirmed,
    AnomalyExplained,
    AnomalyMerged,
    AnomalyReplaced,
    CampaignBegun,
    PairSetAside,
    RunBegun,
)
from collie.campaign.progress import CampaignProgress, FailedRun, Follower, FoundAnomaly, HostStanding
from collie.detect.measurement import HostMeasurement, Latency, Measurement, Victim
from collie.ports import HostLost, Measured, PairLost, SetupFailed
from collie.report.terminal.progress import hosts
from collie.testing.fakes import FakeClock
from collie.testing.store_suite import ANOMALY, measured, phase
from tests.support.standings import HOSTS, displayed, finished


def test_pace_and_time_left_are_those_of_the_last_minute() -> None:
    clock = FakeClock()
    follower = Follower(clock)
    follower.on_event(CampaignBegun(HOSTS, Budget(seconds=6000)))
    for run in range(1, 101):
        clock.sleep(20.0 if run < 50 else 2.0)
        follower.on_event(finished(run, run / 200))
    standing = follower.standing()
    assert standing.runs_per_minute == pytest.approx(30)
    assert standing.testbed_seconds_per_second == pytest.approx(15)
    assert standing.left_seconds == pytest.approx(200)
    assert (standing.budget, standing.driven, standing.temperature) == ("1.7 h", "pressure", 0.25)


def test_latency_is_that_of_the_last_measured_run() -> None:
    follower, record = Follower(FakeClock()), measured(1)
    assert isinstance(record.result, Measured)
    known = replace(record.result.measurement, latency={"a-b": Latency(3e-6)}, victim=Victim(8e9, 6e9))
    follower.on_event(finished(1, 0.1, Measured(known, 20.0)))
    follower.on_event(finished(2, 0.2, SetupFailed("qp timeout", "no answer", 3.0)))
    assert follower.standing().latency == {"a-b": Latency(3e-6)}
    assert follower.standing().victim == Victim(8e9, 6e9)


def test_nothing_is_claimed_before_there_is_a_pace() -> None:
    follower = Follower(FakeClock())
    assert follower.standing() == CampaignProgress()
    follower.on_event(RunBegun(1, "calibrate"))
    assert follower.standing().purpose == "calibrate"
    follower.on_event(finished(1, 0.1))
    assert follower.standing().runs_per_minute is None
    assert follower.standing().left_seconds is None


def test_runs_from_the_record_are_no_pace() -> None:
    clock = FakeClock()
    follower = Follower(clock)
    for run in range(1, 1001):
        follower.on_event(finished(run, 0.5, replayed=True))
        clock.sleep(0.001)
    for run in range(1001, 1011):
        clock.sleep(6.0)
        follower.on_event(finished(run, 0.5 + (run - 1000) / 100))
    standing = follower.standing()
    assert standing.replayed == 1000
    assert standing.runs_per_minute == pytest.approx(10, rel=0.01)


def test_runs_of_several_pairs_are_counted_in_any_order() -> None:
    follower = Follower(FakeClock())
    for count, run in enumerate((2, 1, 4, 5, 3), start=1):
        follower.on_event(finished(run, 0.1 * run, replayed=True))
        assert (follower.standing().replayed, follower.standing().runs) == (count, count)


def test_time_and_budget_never_go_back_when_an_earlier_end_is_told_later() -> None:
    clock = FakeClock()
    follower = Follower(clock)
    for run, share in ((3, 0.1), (4, 0.12), (1, 0.12)):
        follower.on_event(finished(run, share))
        clock.sleep(2.0)
    standing = follower.standing()
    assert (standing.elapsed_seconds, standing.budget_ratio) == (120.0, 0.12)
    assert standing.testbed_seconds_per_second == pytest.approx(5.0)
    assert standing.left_seconds == pytest.approx(264.0)


def test_a_loss_counts_in_every_number_when_it_is_on_record() -> None:
    follower = Follower(FakeClock())
    lost = PairLost("a,b", "no answer", 9.0)
    for run, result, runs, failed in ((1, None, 1, 0), (3, lost, 1, 0), (2, None, 2, 0), (4, None, 4, 1)):
        event = finished(run, 0.1, result, replayed=True)
        # The lost run was a phase on the set-up of run 1.
        event = replace(event, record=replace(event.record, set_up=1 if run == 3 else run))
        follower.on_event(event)
        standing = follower.standing()
        assert (standing.runs, standing.replayed, standing.failed_runs) == (runs, runs, failed)
        assert (standing.further_phases, standing.last_failure is not None) == (failed, bool(failed))


def test_phases_on_the_set_up_of_an_earlier_run_are_counted() -> None:
    follower = Follower(FakeClock())
    for record in (measured(1), phase(2, 2), phase(3, 2), phase(4, 2), phase(5, 5)):
        follower.on_event(replace(finished(record.run, 0.1), record=record))
    assert (follower.standing().runs, follower.standing().set_ups, follower.standing().further_phases) == (5, 3, 2)


def test_hosts_of_a_pair_that_is_set_aside_are_not_called_up() -> None:
    follower = Follower(FakeClock())
    follower.on_event(CampaignBegun(HOSTS, Budget(runs=10)))
    assert hosts(follower.standing()) == "a up, b up"
    follower.on_event(PairSetAside("b,c", "lost in run 1: host c does not answer"))
    assert hosts(follower.standing()) == "a up, b set aside"


def test_what_fails_and_what_is_lost_is_counted_and_named() -> None:
    follower = Follower(FakeClock())
    follower.on_event(CampaignBegun(HOSTS, Budget(runs=10)))
    follower.on_event(finished(1, 0.1, SetupFailed("qp timeout", "no answer", 3.0)))
    follower.on_event(finished(2, 0.2, HostLost("b", "b does not answer", 90.0)))
    follower.on_event(finished(3, 0.3))
    standing = follower.standing()
    assert standing.failed_runs == 2
    assert standing.last_failure == FailedRun(2, "host b was lost: b does not answer")
    assert standing.hosts == {"a": HostStanding(), "b": HostStanding(1, 2)}


def test_a_pair_that_is_lost_is_named_with_its_cause() -> None:
    follower = Follower(FakeClock())
    follower.on_event(CampaignBegun(HOSTS, Budget(runs=10)))
    follower.on_event(finished(1, 0.1, PairLost("a,b", "host b does not answer", 90.0)))
    follower.on_event(PairSetAside("a,b", "lost in run 1: host b does not answer"))
    follower.on_event(finished(2, 0.2))
    standing = follower.standing()
    assert standing.failed_runs == 1
    assert standing.last_failure == FailedRun(1, "a,b was lost: host b does not answer")
    assert "a,b: lost in run 1: host b does not answer" in displayed(standing)


@pytest.mark.parametrize(("counter", "best"), [("pressure", 9.0), ("rx_packets", 3.0)])
def test_the_best_reading_of_a_counter_is_where_it_is_driven_to(counter: str, best: float) -> None:
    follower = Follower(FakeClock())
    follower.on_event(CampaignBegun(HOSTS, Budget(runs=10)))
    for run, value in enumerate((5.0, 9.0, None, 3.0, 4.0), start=1):
        measurement = Measurement((HostMeasurement("a", counters={counter: value}),), 1.0)
        follower.on_event(replace(finished(run, run / 10, Measured(measurement, 30.0)), driven=counter))
    assert follower.standing().best == best


def test_an_anomaly_that_is_another_one_is_not_counted_twice() -> None:
    follower = Follower(FakeClock())
    second = replace(ANOMALY, id="a2", severity=0.9, complete=False)
    for event in (AnomalyConfirmed(ANOMALY), AnomalyConfirmed(second)):
        follower.on_event(event)
    assert follower.standing().worst == "a2"
    follower.on_event(AnomalyReplaced(replace(second, severity=0.01)))
    assert follower.standing().worst == "a1"
    follower.on_event(AnomalyExplained(replace(ANOMALY, complete=True)))
    follower.on_event(AnomalyMerged(replace(second, same_as="a1")))
    assert follower.standing().anomalies == {"a1": FoundAnomaly("pause", ANOMALY.severity, True, ANOMALY.figure)}
