"""The progress of a campaign for tests of its displays."""

from __future__ import annotations

import io

from rich.console import Console

from collie.campaign.events import (
    RunFinished,
)
from collie.campaign.progress import CampaignProgress, FailedRun, FoundAnomaly, HostStanding
from collie.cli.progress import live_view
from collie.detect.measurement import Latency, Victim
from collie.inventory.fingerprint import Fingerprint
from collie.ports import RunRecord, RunResult, TestbedInfo, Unsupported
from collie.testing.fakes import FAKE_CATALOG
from collie.workloads.workload import Workload

HOSTS = TestbedInfo("hosts", "a and b", FAKE_CATALOG, fingerprints={"a": Fingerprint({}), "b": Fingerprint({})})
UPDATED = "2026-01-01T10:20:00Z"


def finished(run: int, share: float, result: RunResult | None = None, *, replayed: bool = False) -> RunFinished:
    record = RunRecord(run, "search", Workload(), result or Unsupported("no such opcode", 30.0), 30.0 * run)
    return RunFinished(record, None, share, replayed, "pressure", 0.25)


STANDING = CampaignProgress(
    runs=812,
    further_phases=609,
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
        "a1": FoundAnomaly("pause", 0.79, explained=True, figure="79% of the throughput is missing"),
        "a2": FoundAnomaly("low_throughput", 0.41, explained=False, figure="41% of the throughput is missing"),
    },
    runs_per_minute=5200.0,
    testbed_seconds_per_second=2600.0,
    left_seconds=1.5,
    hosts={"server-1": HostStanding(), "server-2": HostStanding(2, 40)},
    last_failure=FailedRun(40, "host server-2 was lost: [bold]no answer[/]"),
    latency={"a-b": Latency(3e-6, 9e-6), "b-a": Latency(4e-6, 8e-6, 2e-5)},
    victim=Victim(100e9, 25e9, latency=Latency(p99_seconds=7e-5)),
)


def displayed(standing: CampaignProgress) -> str:
    console = Console(file=io.StringIO(), width=120, force_terminal=False)
    console.print(live_view(standing))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()
