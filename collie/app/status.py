"""How a campaign stands, asked from elsewhere: what is on record, and what the process that runs it last said."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from collie.app.adapters import Adapters, CampaignRecord
from collie.campaign.heartbeat import PERIOD_SECONDS, Heartbeat, ProcessState
from collie.campaign.progress import CampaignProgress, FoundAnomaly, Tally, failure_of
from collie.errors import StoreError
from collie.ports import CampaignHeader
from collie.search.anomaly import Anomaly
from collie.workloads.units import format_count

_SILENCE_SECONDS = 10 * PERIOD_SECONDS
"""A process that says nothing for that long is taken for dead: a busy machine, or a file server, may hold up a few."""


class Life(StrEnum):
    """Whether anybody is at a campaign."""

    RUNNING = "running"
    ENDED = "ended"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    DIED = "died"
    """The process gives no sign of life, and never said that it ended."""
    UNKNOWN = "unknown"
    """No process has said anything: the campaign is of an earlier Collie, or was never run."""


@dataclass(frozen=True)
class CampaignStatus:
    """How a campaign stands, for whoever did not start it.

    Attributes:
        directory: of the campaign.
        header: of the campaign.
        life: whether anybody is at it.
        heartbeat: what the process last said; None when none did.
        silent_seconds: how long ago that was; None when nobody said anything.
        standing: figures of the record, and those that only the process knows as it last said them.
        anomalies: on record.
        lost_runs: that a process has told of, and that are on record no more.
    """

    directory: Path
    header: CampaignHeader
    life: Life
    heartbeat: Heartbeat | None
    silent_seconds: float | None
    standing: CampaignProgress
    anomalies: tuple[Anomaly, ...]
    lost_runs: int = 0


def status(adapters: Adapters, directory: Path, now: datetime | None = None) -> CampaignStatus:
    """Return how a campaign stands; reads only, also while another process writes.

    Args:
        adapters: the world.
        directory: of the campaign.
        now: the time of day; None for this machine's.

    Raises:
        StoreError: it holds no campaign, or what it holds cannot be read.
    """
    with adapters.records.read(directory) as store:
        heartbeat = adapters.records.heartbeat(store.directory.path)
        tally, anomalies, lost = store.tally(), store.anomalies(), lost_runs(adapters, store)
    silent = _silence(heartbeat, now or datetime.now(UTC)) if heartbeat else None
    said = heartbeat.standing if heartbeat else CampaignProgress()
    return CampaignStatus(
        directory,
        store.header,
        _life(heartbeat, silent),
        heartbeat,
        silent,
        _standing(said, tally, anomalies),
        anomalies,
        lost,
    )


def lost_runs(adapters: Adapters, store: CampaignRecord) -> int:
    """Count the runs that a process has told of and that its record lacks: somebody took files of it away.

    A run is on record before anybody hears of it, so a record that is whole is never behind. What a process that died
    did after its last sign of life, nobody had been told.

    Raises:
        StoreError: the record cannot be read.
    """
    try:
        heartbeat = adapters.records.heartbeat(store.directory.path)
    except StoreError:
        return 0  # about a process, not about the record
    return max(0, heartbeat.standing.runs - store.tally().last_run) if heartbeat else 0


def lost_words(runs: int) -> str:
    """Return the warning about runs that the record lacks; empty without any."""
    if not runs:
        return ""
    return (
        f"{format_count(runs, 'run')} that the last process told of {'is' if runs == 1 else 'are'} on "
        "record no more (was campaign.sqlite-wal deleted, or an older copy put in place?); a campaign that goes on "
        "makes them again"
    )


def write_status_metrics(adapters: Adapters, found: CampaignStatus, path: Path) -> None:
    """Write the textfile for Prometheus.

    Raises:
        OSError: it cannot be written.
    """
    updated = found.heartbeat.updated if found.heartbeat else found.header.started
    is_running = found.life is Life.RUNNING
    adapters.reports.metrics(path, found.header, found.standing, updated, is_running)


def _life(heartbeat: Heartbeat | None, silent_seconds: float | None) -> Life:
    if heartbeat is None or silent_seconds is None:
        return Life.UNKNOWN
    if heartbeat.state is ProcessState.RUNNING and silent_seconds > _SILENCE_SECONDS:
        return Life.DIED
    return Life(heartbeat.state.value)


def _silence(heartbeat: Heartbeat, now: datetime) -> float:
    # The clocks of two machines differ: what was said in our future was said just now.
    return max(0.0, (now - heartbeat.updated_at).total_seconds())


def _standing(said: CampaignProgress, tally: Tally, anomalies: tuple[Anomaly, ...]) -> CampaignProgress:
    """Return what was said, with what the record knows better: it is never behind."""
    return dataclasses.replace(
        said,
        runs=tally.runs,
        failed_runs=tally.failed_runs,
        elapsed_seconds=tally.elapsed_seconds,
        anomalies={
            anomaly.id: FoundAnomaly(anomaly.symptom.value, anomaly.severity, anomaly.complete)
            for anomaly in anomalies
            if anomaly.same_as is None
        },
        last_failure=failure_of(tally.last_failure) if tally.last_failure else None,
    )
