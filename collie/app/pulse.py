"""The heartbeat of the process that runs a campaign."""

from __future__ import annotations

import dataclasses
import logging
import os
import socket
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from collie.app.adapters import Adapters
from collie.campaign.progress import HEARTBEAT_SECONDS, Answer, Follower, Heartbeat, ProcessState
from collie.campaign.summary import NotConfirmed
from collie.clock import utc_now
from collie.ports import CampaignHeader

logger = logging.getLogger(__name__)


class Pulse:
    """Writes `status.json` every few seconds while its context is open, and a Prometheus textfile on request.

    A separate thread writes, because a run can take minutes. A failed write does not end the campaign. Only the first
    failure of each file is logged.

    Attributes:
        had_ended_by: reason why an earlier process left nothing to measure. An interrupt keeps that end.
    """

    def __init__(
        self, adapters: Adapters, directory: Path, header: CampaignHeader, metrics: Path | None = None
    ) -> None:
        self.follower = Follower(adapters.clock)
        self.ended_by: str | None = None
        self.had_ended_by: str | None = None
        self.answer: Answer | None = None
        self.not_confirmed: Mapping[str, NotConfirmed] = {}
        self._adapters = adapters
        self._header, self._directory = header, directory
        self._targets: dict[Path, Callable[[Path], None]] = {directory / "status.json": self._write_status}
        if metrics is not None:
            self._targets[metrics] = self._write_metrics
        now = utc_now()
        self._heartbeat = Heartbeat(ProcessState.RUNNING, socket.gethostname(), os.getpid(), now, now)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="pulse", daemon=True)
        self._failed: set[Path] = set()

    def __enter__(self) -> Self:
        self._write()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        if error is None:
            self._write(state=ProcessState.ENDED, ended_by=self.ended_by)
        elif isinstance(error, KeyboardInterrupt):
            state = ProcessState.ENDED if self.had_ended_by else ProcessState.INTERRUPTED
            self._write(state=state, ended_by=self.had_ended_by)
        else:
            self._write(state=ProcessState.FAILED, error=str(error) or type(error).__name__)

    def _beat(self) -> None:
        while not self._stop.wait(HEARTBEAT_SECONDS):
            self._write()

    def _write(
        self, state: ProcessState = ProcessState.RUNNING, ended_by: str | None = None, error: str | None = None
    ) -> None:
        self._heartbeat = dataclasses.replace(
            self._heartbeat,
            state=state,
            updated=utc_now(),
            standing=self.follower.standing(),
            ended_by=ended_by,
            error=error,
            answer=self.answer,
            not_confirmed=self.not_confirmed,
        )
        for path, write in self._targets.items():
            try:
                write(path)
            except OSError as failure:
                if path not in self._failed:
                    self._failed.add(path)
                    logger.warning("%s cannot be written: %s", path, failure.strerror)

    def _write_status(self, _path: Path) -> None:
        self._adapters.records.write_heartbeat(self._directory, self._heartbeat)

    def _write_metrics(self, path: Path) -> None:
        last = self._heartbeat
        is_running = last.state is ProcessState.RUNNING
        self._adapters.reports.metrics(path, self._header, last.standing, last.updated, is_running)
