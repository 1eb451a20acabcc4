"""How a campaign stands: folded from events, kept in a file, told to Prometheus and to people."""

from __future__ import annotations

import io
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console

from collie.app import status
from collie.app.pulse import Pulse
from collie.app.status import Life
from collie.campaign.budget import Budget
from collie.campaign.events import (
    AnomalyConfirmed,
    AnomalyExplained,
    AnomalyMerged,
    CampaignBegun,
    PairSetAside,
    RunBegun,
    RunFinished,
)
from collie.campaign.progress import (
    CampaignProgress,
    FailedRun,
    Follower,
    FoundAnomaly,
    Heartbeat,
    HostStanding,
    ProcessState,
)
from collie.cli.progress import ConsoleProgress, live_view, plain_line
from collie.detect.measurement import HostMeasurement, Measurement
from collie.errors import HostUnreachable, StoreError
from collie.inventory.fingerprint import Fingerprint
from collie.ports import HostLost, Measured, PairLost, RunRecord, RunResult, SetupFailed, TestbedInfo, Unsupported
from collie.report.ci.prometheus import render_metrics
from collie.report.terminal.progress import hosts
from collie.store.directory import CampaignDirectory
from collie.store.heartbeat import read_heartbeat, write_heartbeat
from collie.store.sqlite import SqliteStore
from collie.testing.fakes import FAKE_CATALOG, FakeClock
from collie.testing.store_suite import ANOMALY
from collie.wiring import ADAPTERS
from collie.workloads.workload import Workload
from tests.support.campaigns import HEADER, fill

HOSTS = TestbedInfo("hosts", "a and b", FAKE_CATALOG, fingerprints={"a": Fingerprint({}), "b": Fingerprint({})})
UPDATED = "2026-01-01T10:20:00Z"


def finished(run: int, share: float, result: RunResult | None = None, *, replayed: bool = False) -> RunFinished:
    record = RunRecord(run, "search", Workload(), result or Unsupported("no such opcode", 30.0), 30.0 * run)
    return RunFinished(record, None, share, replayed, "pressure", 0.25)


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
    assert (standing.budget, standing.driven, standing.temperature) == ("100 min", "pressure", 0.25)


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
    for run in (2, 1, 4, 5, 3):
        follower.on_event(finished(run, 0.1 * run, replayed=True))
    assert follower.standing().replayed == 5


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
    follower.on_event(AnomalyExplained(replace(ANOMALY, complete=True)))
    follower.on_event(AnomalyMerged(replace(second, same_as="a1")))
    assert follower.standing().anomalies == {"a1": FoundAnomaly("pause", ANOMALY.severity, explained=True)}


STANDING = CampaignProgress(
    runs=812,
    failed_runs=3,
    elapsed_seconds=32400.5,
    wall_seconds=12.5,
    budget="10.0 h",
    budget_ratio=0.9,
    virtual_time=True,
    purpose="extract",
    driven="mtt_cache_miss",
    best=1.25e6,
    temperature=0.125,
    anomalies={
        "a1": FoundAnomaly("pause", 0.79, explained=True),
        "a2": FoundAnomaly("low_throughput", 0.41, explained=False),
    },
    runs_per_minute=5200.0,
    testbed_seconds_per_second=2600.0,
    left_seconds=1.5,
    hosts={"server-1": HostStanding(), "server-2": HostStanding(2, 40)},
    last_failure=FailedRun(40, "host server-2 was lost: [bold]no answer[/]"),
)


def displayed(standing: CampaignProgress) -> str:
    console = Console(file=io.StringIO(), width=120, force_terminal=False)
    console.print(live_view(standing))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_live_view_shows_what_is_known() -> None:
    text = displayed(STANDING)
    for words in (
        "90% of 10.0 h", "about 1.5 s left", "812 runs, 9.0 h", "5,200 runs per minute", "2,600 times as fast",
        "explaining an anomaly, driving mtt_cache_miss (best so far 1.25e+06), temperature 0.125",
        "2 anomalies, 1 explained",
        "the worst a1, pause, severity 79%", "server-1 up, server-2 up again (lost 2 times, the last time in run 40)",
        "3 runs, last run 40: host server-2 was lost: [bold]no answer[/]",
    ):  # fmt: skip
        assert words in text, text
    assert plain_line(STANDING).startswith("812 runs, 9.0 h, 90% of the budget; 2 anomalies")


def test_the_live_view_claims_nothing_that_is_unknown() -> None:
    text = displayed(CampaignProgress())
    assert "no anomaly yet" in text
    assert not any(word in text for word in ("None", "pace", "hosts", "failed", "temperature", "left"))


def test_without_a_terminal_there_are_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with ConsoleProgress() as progress:
        progress.on_event(CampaignBegun(HOSTS, Budget(runs=10)))
        progress.on_event(finished(1, 0.1, HostLost("b", "b does not answer", 90.0)))
        progress.on_event(AnomalyConfirmed(ANOMALY))
        progress.on_event(AnomalyMerged(replace(ANOMALY, id="a2", same_as="a1")))
    displayed = capsys.readouterr()
    assert displayed.out == ""
    assert displayed.err.splitlines() == [
        "run 1: b does not answer",
        f"a1 pause, run {ANOMALY.found_at_run}: {ANOMALY.reason}",
        "   a2 is a1 again",
    ]


def test_prometheus_reads_the_textfile() -> None:
    header = replace(HEADER, campaign='quote " back \\ slash\nline')
    text = render_metrics(header, STANDING, UPDATED, running=True)
    families = {family.name: family for family in text_string_to_metric_families(text)}
    values = {
        (sample.name, *(sample.labels.get(name) for name in ("symptom", "host") if name in sample.labels)): sample.value
        for family in families.values()
        for sample in family.samples
    }
    assert values["collie_runs_total",] == 812
    assert values["collie_anomalies",] == 2
    assert values["collie_campaign_elapsed_seconds",] == 32400.5
    assert values["collie_worst_severity_ratio",] == 0.79
    assert values["collie_campaign_running",] == 1
    assert values["collie_campaign_updated_timestamp_seconds",] == datetime.fromisoformat(UPDATED).timestamp()
    assert values["collie_anomalies_by_symptom", "pause"] == 1
    assert values["collie_host_losses_total", "server-2"] == 2
    assert {sample.labels["campaign"] for family in families.values() for sample in family.samples} == {header.campaign}
    assert all(family.documentation and family.type in {"counter", "gauge"} for family in families.values())


def test_what_is_unknown_is_no_sample() -> None:
    names = {
        family.name
        for family in text_string_to_metric_families(render_metrics(HEADER, CampaignProgress(), UPDATED, running=False))
    }
    assert "collie_campaign_left_seconds" not in names
    assert "collie_worst_severity_ratio" not in names
    assert "collie_runs" in names


def test_a_heartbeat_comes_back_as_it_was(tmp_path: Path) -> None:
    said = Heartbeat(ProcessState.FAILED, "server", 17, UPDATED, UPDATED, STANDING, None, "host a is gone")
    write_heartbeat(tmp_path / "status.json", said)
    assert read_heartbeat(tmp_path / "status.json") == said
    assert read_heartbeat(tmp_path / "none.json") is None


@pytest.mark.parametrize("text", ["", "[]", '{"schema_version": 1}', '{"schema_version": 99}', "\x00"])
def test_a_damaged_heartbeat_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "status.json"
    path.write_text(text)
    with pytest.raises(StoreError, match=r"status\.json cannot be read"):
        read_heartbeat(path)


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign on disk that nobody is at."""
    directory = tmp_path_factory.mktemp("campaigns") / "one"
    with SqliteStore.create(directory, HEADER) as store:
        fill(store)
    return directory


@pytest.mark.parametrize(
    ("state", "silent", "life"),
    [
        (None, 0, Life.UNKNOWN),
        (ProcessState.RUNNING, 5, Life.RUNNING),
        (ProcessState.RUNNING, -300, Life.RUNNING),
        (ProcessState.RUNNING, 60, Life.DIED),
        (ProcessState.ENDED, 60, Life.ENDED),
        (ProcessState.INTERRUPTED, 1, Life.INTERRUPTED),
        (ProcessState.FAILED, 1, Life.FAILED),
    ],
)
def test_a_campaign_is_alive_as_long_as_its_process_says_so(
    campaign: Path, state: ProcessState | None, silent: float, life: Life
) -> None:
    CampaignDirectory(campaign).status.unlink(missing_ok=True)
    if state is not None:
        said = Heartbeat(state, "server", 17, UPDATED, UPDATED, replace(STANDING, runs=1))
        write_heartbeat(CampaignDirectory(campaign).status, said)
    found = status.status(ADAPTERS, campaign, datetime.fromisoformat(UPDATED) + timedelta(seconds=silent))
    assert found.life is life
    assert found.standing.runs == len(list(SqliteStore.open(campaign, read_only=True).runs())) > 1
    assert list(found.standing.anomalies) == ["a1", "a2"]
    assert found.standing.failed_runs > 0
    assert found.standing.last_failure is not None


@pytest.mark.parametrize(
    ("error", "state", "said"),
    [
        (None, ProcessState.ENDED, None),
        (KeyboardInterrupt(), ProcessState.INTERRUPTED, None),
        (
            HostUnreachable("b", "10.0.0.2", "no route"),
            ProcessState.FAILED,
            "host b (10.0.0.2) cannot be reached: no route",
        ),
        (RuntimeError(), ProcessState.FAILED, "RuntimeError"),
    ],
)
def test_the_last_words_say_how_it_ended(
    tmp_path: Path, error: BaseException | None, state: ProcessState, said: str | None
) -> None:
    directory, metrics = CampaignDirectory(tmp_path), tmp_path / "one.prom"
    with (
        suppress(KeyboardInterrupt, HostUnreachable, RuntimeError),
        Pulse(ADAPTERS, tmp_path, HEADER, metrics) as pulse,
    ):
        begun = read_heartbeat(directory.status)
        assert begun is not None
        assert begun.state is ProcessState.RUNNING
        pulse.ended_by = "budget"
        if error is not None:
            raise error
    last = read_heartbeat(directory.status)
    assert last is not None
    assert (last.state, last.error) == (state, said)
    assert last.ended_by == ("budget" if error is None else None)
    assert "collie_campaign_running" in metrics.read_text()


def test_a_textfile_that_cannot_be_written_ends_no_campaign(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    blocked = tmp_path / "file" / "one.prom"
    blocked.parent.touch()
    with Pulse(ADAPTERS, tmp_path, HEADER, blocked):
        pass
    assert [record.levelname for record in caplog.records] == ["WARNING"], "said once, not every time"
    assert read_heartbeat(tmp_path / "status.json") is not None
