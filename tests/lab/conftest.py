"""A lab of two machines for the tests of this folder: its own state directory, the shared image cache.

`COLLIE_LAB_RELEASE` names the Debian release of the machines; without it, the lab's own default.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.agent_driver import RemoteAgent, read_inventory
from collie.content.inventory import load_inventory
from collie.inventory.hosts import Pair
from collie.lab import lab
from collie.ports import Remote
from collie.readings.policy import WindowPolicy
from collie.ssh.remote import SshRemote

NEEDED = {"qemu-system-x86_64": "qemu-system-x86", "mmdebstrap": "mmdebstrap", "ssh": "openssh-client"}
SHORT = WindowPolicy(window_seconds=1.0, patience_seconds=0.0, averaging_seconds=0.0)


@dataclass(frozen=True, slots=True)
class RunningLab:
    """The lab under test."""

    state_dir: Path
    inventory: Path

    @property
    def pids(self) -> dict[str, int | None]:
        """The process of each machine, by name."""
        return {one.name: one.pid for one in lab.status(self.state_dir).machines}

    def run(self, name: str, command: str, *, timeout_seconds: float = 60.0) -> str:
        """Run a command on a machine; returns what it printed, fails the test when it fails."""
        done = subprocess.run(
            lab.ssh_argv(name, command, state_dir=self.state_dir),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_seconds,
            check=False,
        )
        assert done.returncode == 0, f"{name}: {command}: {done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture(scope="session")
def lab_programs() -> None:
    """Skips without what a lab needs, or fails where lab tests must run."""
    missing = [package for program, package in NEEDED.items() if shutil.which(program) is None]
    if missing:
        reason = f"lab tests need the Debian packages {', '.join(missing)}"
        if os.environ.get("COLLIE_REQUIRE_LAB") == "1":
            pytest.fail(f"{reason}, and COLLIE_REQUIRE_LAB=1 says that they must run")
        pytest.skip(reason)


@pytest.fixture(scope="session")
def running_lab(lab_programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    state_dir = tmp_path_factory.mktemp("lab")
    try:
        status = lab.up(release=os.environ.get("COLLIE_LAB_RELEASE"), state_dir=state_dir, say=_show)
        assert status.inventory is not None
        yield RunningLab(state_dir, status.inventory)
    finally:
        lab.down(state_dir)


@pytest.fixture(scope="session")
def lab_inventory(request: pytest.FixtureRequest) -> Path:
    """The hosts file of a lab: a running one that the environment names, or one of this test session's own."""
    if named := os.environ.get("COLLIE_LAB_INVENTORY"):
        return Path(named)
    return Path(request.getfixturevalue("running_lab").inventory)


@pytest.fixture(scope="session")
def pair(lab_inventory: Path) -> Pair:
    """The two machines of the lab."""
    return load_inventory(lab_inventory).pairs[0]


@pytest.fixture(scope="module")
def remotes(pair: Pair) -> Iterator[tuple[Remote, Remote]]:
    """Connections of our own to both machines, to look behind Collie's back."""
    both = SshRemote(pair.a), SshRemote(pair.b)
    yield both
    for remote in both:
        remote.close()


@pytest.fixture(scope="module")
def agents(running_lab: RunningLab) -> Iterator[list[RemoteAgent]]:
    """An agent on each machine, spoken to without a testbed between."""
    with ThreadPoolExecutor() as pool:
        started = list(pool.map(RemoteAgent, read_inventory(running_lab.inventory)))
    yield started
    for agent in started:
        agent.close()


@pytest.fixture
def said() -> tuple[list[str], Callable[[str], None]]:
    """Progress lines of a call, and what collects them."""
    lines: list[str] = []
    return lines, lines.append


def _show(line: str) -> None:
    print(line)
