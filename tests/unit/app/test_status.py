"""Whether a campaign runs, and how it ended."""

from __future__ import annotations

import os
import socket
import subprocess
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from collie.app import status
from collie.app.pulse import Pulse
from collie.app.status import Life
from collie.campaign.progress import HEARTBEAT_SECONDS, Heartbeat, ProcessState
from collie.errors import HostUnreachable
from collie.store.directory import CampaignDirectory
from collie.store.heartbeat import read_heartbeat, write_heartbeat
from collie.store.sqlite import SqliteStore
from collie.wiring import ADAPTERS
from tests.support.campaigns import HEADER, fill
from tests.support.standings import STANDING, UPDATED


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign on disk, without a process."""
    directory = tmp_path_factory.mktemp("campaigns") / "one"
    with SqliteStore.create(directory, HEADER) as store:
        fill(store)
    return directory


def test_a_process_of_this_machine_that_is_gone_counts_as_dead_after_two_signs(campaign: Path) -> None:
    """Another process can have the number of a process of another machine."""
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    for machine, pid, life in (
        (socket.gethostname(), ended.pid, Life.DIED),
        (socket.gethostname(), os.getpid(), Life.RUNNING),
        ("server", ended.pid, Life.RUNNING),
    ):
        said = Heartbeat(ProcessState.RUNNING, machine, pid, UPDATED, UPDATED, replace(STANDING, runs=1))
        write_heartbeat(CampaignDirectory(campaign).status, said)
        for silent, expected in ((2 * HEARTBEAT_SECONDS - 1, Life.RUNNING), (2 * HEARTBEAT_SECONDS + 1, life)):
            moment = datetime.fromisoformat(UPDATED) + timedelta(seconds=silent)
            assert status.status(ADAPTERS, campaign, moment).life is expected, (machine, pid, silent)


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
