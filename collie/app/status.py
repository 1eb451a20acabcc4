"""The status of a campaign."""

from __future__ import annotations

import dataclasses
import os
import socket
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from collie.app.adapters import Adapters, CampaignRecord
from collie.campaign.choice import GATE
from collie.campaign.progress import (
    HEARTBEAT_SECONDS,
    CampaignProgress,
    FoundAnomaly,
    Heartbeat,
    ProcessState,
    Tally,
    failure_of,
)
from collie.errors import StoreError
from collie.ports import CAMPAIGN_FILE, CampaignHeader
from collie.search.anomaly import Anomaly
from collie.workloads.units import format_count

_SILENCE_SECONDS = 10 * HEARTBEAT_SECONDS
"""A process that is silent for longer counts as dead. Busy machines and file servers delay a few signs of life."""
_LATE_SECONDS = 2 * HEARTBEAT_SECONDS
"""The same for a process that this machine does not have. A container does not see the processes of others."""


BASELINE_FOLDER = "baseline"
"""Folder in the directory of a gate, with the record of the baseline's runs."""


class Life(StrEnum):
    """Whether a process works on a campaign.

    Attributes:
        DIED: the process gives no sign of life and recorded no end.
        UNKNOWN: the last sign of life is missing or damaged.
    """

    RUNNING = "running"
    ENDED = "ended"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    DIED = "died"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class CampaignStatus:
    """The status of a campaign: figures of its record, completed by its last sign of life.

    `damage` says why the last sign of life cannot be read, if there is one that cannot. `baseline` counts the runs that
    a gate made of its baseline. None if it made none. `standing` has those of the candidate.
    """

    directory: Path
    header: CampaignHeader
    life: Life
    heartbeat: Heartbeat | None
    silent_seconds: float | None
    standing: CampaignProgress
    anomalies: tuple[Anomaly, ...]
    lost_runs: int = 0
    damage: str = ""
    baseline: Tally | None = None

    @property
    def elapsed_seconds(self) -> float:
        """The testbed time, of both sides of a gate."""
        return self.standing.elapsed_seconds + (self.baseline.elapsed_seconds if self.baseline else 0.0)

    @property
    def is_gate(self) -> bool:
        """Whether the campaign is a gate."""
        return GATE in self.header.settings

    @property
    def answer(self) -> str | None:
        """The answer of a gate that has ended: `failed: 1 new`. None without one."""
        answer = self.heartbeat.answer if self.heartbeat else None
        return answer.words if answer else None


def status(adapters: Adapters, directory: Path, now: datetime | None = None) -> CampaignStatus:
    """Return the status of a campaign, also while another process writes it."""
    with adapters.records.read(directory) as store:
        heartbeat, damage = last_sign(adapters, store)
        tally, anomalies, lost = store.tally(), store.anomalies(), lost_runs(adapters, store)
    last = heartbeat.standing if heartbeat else CampaignProgress()
    silent: float | None = None
    if heartbeat:
        # The clocks of two machines differ, so a sign from the future counts as new.
        silent = max(0.0, ((now or datetime.now(UTC)) - heartbeat.updated_at).total_seconds())
    return CampaignStatus(
        directory=directory,
        header=store.header,
        life=_life(heartbeat, silent),
        heartbeat=heartbeat,
        silent_seconds=silent,
        standing=_standing(last, tally, anomalies),
        anomalies=anomalies,
        lost_runs=lost,
        damage=damage,
        baseline=_baseline(adapters, store.header, directory),
    )


def _baseline(adapters: Adapters, header: CampaignHeader, directory: Path) -> Tally | None:
    if GATE not in header.settings or not adapters.records.exists(directory / BASELINE_FOLDER):
        return None
    with adapters.records.read(directory / BASELINE_FOLDER) as store:
        return store.tally()


def lost_runs(adapters: Adapters, store: CampaignRecord) -> int:
    """Count the completed runs that are missing from the record, because files were removed.

    A run is recorded before it is reported, so a complete record is never behind the last sign of life.
    """
    heartbeat, _ = last_sign(adapters, store)  # a damaged one says nothing about the record
    return max(0, heartbeat.standing.runs - store.tally().last_run) if heartbeat else 0


def lost_words(runs: int) -> str:
    """Return the warning about missing runs, or an empty text if there are none."""
    if not runs:
        return ""
    return (
        f"{format_count(runs, 'run')} that the last process told of {'is' if runs == 1 else 'are'} on "
        f"record no more (was {CAMPAIGN_FILE}-wal deleted, or an older copy put in place?); a campaign that goes on "
        "makes them again"
    )


def write_status_metrics(adapters: Adapters, found: CampaignStatus, path: Path) -> None:
    """Write the textfile for Prometheus.

    Raises:
        OSError: the textfile cannot be written.
    """
    updated = found.heartbeat.updated if found.heartbeat else found.header.started
    is_running = found.life is Life.RUNNING
    adapters.reports.metrics(path, found.header, found.standing, updated, is_running)


def last_sign(adapters: Adapters, store: CampaignRecord) -> tuple[Heartbeat | None, str]:
    """Return the last sign of life, if there is one that can be read, and otherwise why it cannot."""
    try:
        return adapters.records.heartbeat(store.directory.path), ""
    except StoreError as error:
        return None, str(error)


def _life(heartbeat: Heartbeat | None, silent_seconds: float | None) -> Life:
    if heartbeat is None or silent_seconds is None:
        return Life.UNKNOWN
    if heartbeat.state is ProcessState.RUNNING:
        allowed = _LATE_SECONDS if _is_gone(heartbeat) else _SILENCE_SECONDS
        return Life.DIED if silent_seconds > allowed else Life.RUNNING
    return Life(heartbeat.state.value)


def _is_gone(heartbeat: Heartbeat) -> bool:
    """Whether the process ran on this machine and runs no more."""
    if heartbeat.machine != socket.gethostname():
        return False
    try:
        os.kill(heartbeat.pid, 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        pass  # another user's process, or a damaged record
    return False


def _standing(last: CampaignProgress, tally: Tally, anomalies: tuple[Anomaly, ...]) -> CampaignProgress:
    return dataclasses.replace(
        last,
        runs=tally.runs,
        further_phases=tally.further_phases,
        failed_runs=tally.failed_runs,
        elapsed_seconds=tally.elapsed_seconds,
        anomalies={anomaly.id: FoundAnomaly.of(anomaly) for anomaly in anomalies if anomaly.same_as is None},
        last_failure=failure_of(tally.last_failure) if tally.last_failure else None,
    )
