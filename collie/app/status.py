"""The status of a campaign, from its record and the last sign of life of its process."""

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
"""A process that is silent for that long counts as dead. A busy machine or file server can delay a few signs."""


class Life(StrEnum):
    """Whether a process works on a campaign."""

    RUNNING = "running"
    ENDED = "ended"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    DIED = "died"
    """The process gives no sign of life and recorded no end."""
    UNKNOWN = "unknown"
    """No process left a sign: the campaign is of an earlier Collie, or was never run."""


@dataclass(frozen=True)
class CampaignStatus:
    """The status of a campaign.

    Attributes:
        directory, header: of the campaign.
        life: whether a process works on it.
        heartbeat: the last sign of life, None without one.
        silent_seconds: its age, None without one.
        standing: figures of the record, completed by the last sign of life.
        anomalies: on record.
        lost_runs: completed runs that are missing from the record.
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
    """Return the status of a campaign, also while another process writes it.

    Args:
        adapters: in use.
        directory: of the campaign.
        now: the time of day, or None for this machine's.

    Raises:
        StoreError: the directory holds no campaign that can be read.
    """
    with adapters.records.read(directory) as store:
        heartbeat = adapters.records.heartbeat(store.directory.path)
        tally, anomalies, lost = store.tally(), store.anomalies(), lost_runs(adapters, store)
    silent = _silence(heartbeat, now or datetime.now(UTC)) if heartbeat else None
    last = heartbeat.standing if heartbeat else CampaignProgress()
    return CampaignStatus(
        directory,
        store.header,
        _life(heartbeat, silent),
        heartbeat,
        silent,
        _standing(last, tally, anomalies),
        anomalies,
        lost,
    )


def lost_runs(adapters: Adapters, store: CampaignRecord) -> int:
    """Count the completed runs that the record lacks, because files of it were removed.

    A run is recorded before it is reported, so a complete record is never behind the last sign of life.

    Raises:
        StoreError: the record cannot be read.
    """
    try:
        heartbeat = adapters.records.heartbeat(store.directory.path)
    except StoreError:
        return 0  # about a process, not about the record
    return max(0, heartbeat.standing.runs - store.tally().last_run) if heartbeat else 0


def lost_words(runs: int) -> str:
    """Return the warning about runs that the record lacks, empty without any."""
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
    # The clocks of two machines differ: a sign from the future counts as new.
    return max(0.0, (now - heartbeat.updated_at).total_seconds())


def _standing(last: CampaignProgress, tally: Tally, anomalies: tuple[Anomaly, ...]) -> CampaignProgress:
    """Return the process's figures, with those of the record, which is never behind."""
    return dataclasses.replace(
        last,
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
