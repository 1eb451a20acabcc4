"""A local user of a host cannot have a session start anything but the agent that the controller has."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from collie.clock import SystemClock
from collie.errors import AgentError, TestbedError
from collie.hosts.check import check_hosts
from collie.hosts.findings import CheckState
from collie.hosts.session import Archive, HostSession
from collie.hosts.timing import HostTiming
from collie.inventory.hosts import Host
from collie.ports import Completed
from collie.ssh.local import LocalChannel
from collie.testing.fake_agent import fake_agent_program
from tests.support.local_remote import LocalRemote

ARCHIVE = Archive.of(fake_agent_program())
HOST = Host("left", "mgmt-left", "192.0.2.1", "rxe0", python=sys.executable)
THEIRS = b"open('theirs-ran', 'w')"


class Exchanged(LocalRemote):
    """A host with somebody who exchanges the agent before each command, which is after each check."""

    def open(self, argv: Sequence[str]) -> LocalChannel:
        file = self._home / ARCHIVE.path
        if file.exists():
            file.unlink()
            file.write_bytes(THEIRS)
        return super().open(argv)


@pytest.fixture
def exchanged(tmp_path: Path) -> Iterator[HostSession]:
    yield from _session(Exchanged("left", tmp_path))


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[HostSession]:
    yield from _session(LocalRemote("left", tmp_path))


def _session(remote: LocalRemote) -> Iterator[HostSession]:
    session = HostSession(HOST, remote, ARCHIVE, SystemClock())
    yield session
    session.close()


def test_a_file_that_is_exchanged_again_and_again_never_runs(exchanged: HostSession, tmp_path: Path) -> None:
    with pytest.raises(TestbedError, match=r"host left: .*\.pyz differs from the data just written to it"):
        exchanged.client()
    assert (tmp_path / ARCHIVE.path).read_bytes() == THEIRS
    assert not (tmp_path / "theirs-ran").exists()


def test_a_file_that_was_exchanged_is_shipped_anew(plain: HostSession, tmp_path: Path) -> None:
    (tmp_path / ARCHIVE.path).parent.mkdir(parents=True)
    (tmp_path / ARCHIVE.path).write_bytes(THEIRS)
    assert plain.info
    assert (tmp_path / ARCHIVE.path).read_bytes() == ARCHIVE.data
    assert not (tmp_path / "theirs-ran").exists()


def test_nothing_is_written_where_others_can_write(plain: HostSession, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache").chmod(0o777)
    with pytest.raises(TestbedError) as caught:
        plain.client()
    assert f"host left: others can write to {tmp_path / '.cache'} (mode 777)" in str(caught.value)
    assert f"on the host: chmod go-w {tmp_path / '.cache'}" in str(caught.value)
    assert not list((tmp_path / ".cache").iterdir())


class Greeted(LocalRemote):
    """A host whose shell prints something before each command."""

    def run(self, argv: Sequence[str], timeout_seconds: float) -> Completed:
        return super().run(self._greeted(argv), timeout_seconds)

    def open(self, argv: Sequence[str]) -> LocalChannel:
        return super().open(self._greeted(argv))

    def _greeted(self, argv: Sequence[str]) -> list[str]:
        return ["sh", "-c", 'echo welcome to node7; exec "$@"', "sh", *argv]


SPEAKS = "the shell before the agent printed `welcome to node7`; it must print nothing"


AT_ONCE = HostTiming(start_pauses_seconds=())


def test_a_shell_that_speaks_first_is_named(tmp_path: Path) -> None:
    session = HostSession(HOST, Greeted("left", tmp_path), ARCHIVE, SystemClock(), AT_ONCE)
    with pytest.raises(AgentError, match=SPEAKS):
        session.client()
    session.close()


def test_the_check_of_hosts_names_a_shell_that_speaks_first(tmp_path: Path) -> None:
    class Unlimited(Greeted):
        def run(self, argv: Sequence[str], timeout_seconds: float) -> Completed:
            return super().run(["echo", "unlimited"] if argv[-1] == "ulimit -l" else argv, timeout_seconds)

    found = check_hosts([HOST], lambda host: Unlimited(host.name, tmp_path), ARCHIVE, timing=AT_ONCE)
    (missing,) = (finding for finding in found if finding.state is CheckState.MISSING)
    assert missing.item == "agent"
    assert missing.detail.endswith(SPEAKS)
