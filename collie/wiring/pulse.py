"""The sign of life of a running campaign, given every few seconds whatever the campaign is doing."""

from __future__ import annotations

import dataclasses
import logging
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from collie.campaign.progress import Follower
from collie.files import FOR_OTHERS
from collie.ports import CampaignHeader
from collie.report.ci.prometheus import render_metrics
from collie.store.directory import CampaignDirectory, write_whole
from collie.store.heartbeat import PERIOD_SECONDS, Heartbeat, ProcessState, write_heartbeat
from collie.wiring.parts import system_clock, utc_now

logger = logging.getLogger(__name__)


class Pulse:
    """Writes `status.json`, and a Prometheus textfile if there is to be one, for as long as the context lasts.

    A thread of its own writes: a run on real hosts may take minutes, and the sign of life must not wait for its end.
    What cannot be written is noted in the log once; a full disk under a monitoring system ends no campaign.

    Args:
        directory: of the campaign.
        header: of the campaign, for labels.
        metrics: the textfile; None for none.
    """

    def __init__(self, directory: CampaignDirectory, header: CampaignHeader, metrics: Path | None = None) -> None:
        self.follower = Follower(system_clock())
        self.ended_by: str | None = None
        self._header = header
        self._targets: dict[Path, Callable[[Path], None]] = {directory.status: self._write_status}
        if metrics is not None:
            self._targets[metrics] = self._write_metrics
        now = utc_now()
        self._said = Heartbeat(ProcessState.RUNNING, socket.gethostname(), os.getpid(), now, now)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="pulse", daemon=True)
        self._complained: set[Path] = set()

    def __enter__(self) -> Self:
        self._say()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        if error is None:
            self._say(state=ProcessState.ENDED, ended_by=self.ended_by)
        elif isinstance(error, KeyboardInterrupt):
            self._say(state=ProcessState.INTERRUPTED)
        else:
            self._say(state=ProcessState.FAILED, error=str(error) or type(error).__name__)

    def _beat(self) -> None:
        while not self._stop.wait(PERIOD_SECONDS):
            self._say()

    def _say(
        self, state: ProcessState = ProcessState.RUNNING, ended_by: str | None = None, error: str | None = None
    ) -> None:
        self._said = dataclasses.replace(
            self._said,
            state=state,
            updated=utc_now(),
            standing=self.follower.standing(),
            ended_by=ended_by,
            error=error,
        )
        for path, write in self._targets.items():
            try:
                write(path)
            except OSError as failure:
                if path not in self._complained:
                    self._complained.add(path)
                    logger.warning("%s cannot be written: %s", path, failure.strerror)

    def _write_status(self, path: Path) -> None:
        write_heartbeat(path, self._said)

    def _write_metrics(self, path: Path) -> None:
        running = self._said.state is ProcessState.RUNNING
        text = render_metrics(self._header, self._said.standing, self._said.updated, running=running)
        write_whole(path, [text], FOR_OTHERS)
