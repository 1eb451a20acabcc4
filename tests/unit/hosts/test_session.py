"""A session that is closed while its agent is being started."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NoReturn

import pytest

from collie.clock import SystemClock
from collie.counters.catalog import Catalog
from collie.errors import HostUnreachable, TestbedError
from collie.hosts.check import check_hosts
from collie.hosts.fingerprint import fingerprints
from collie.hosts.session import Archive, HostSession
from collie.hosts.testbed import HostsTestbed
from collie.hosts.timing import HostTiming
from collie.inventory.hosts import Host, Pair
from collie.ports import Channel, Completed

HOSTS = tuple(Host(name, f"mgmt-{name}", "192.0.2.1", "rxe0") for name in ("left", "right"))
ARCHIVE = Archive.of(b"")
SOON = 20.0


class Silent:
    """A host that answers nothing until the connection to it is closed."""

    def __init__(self, host: Host) -> None:
        self.name = host.name
        self.asked = threading.Event()
        self.tries = 0
        self.closed = threading.Event()

    def run(self, argv: Sequence[str], timeout_seconds: float) -> Completed:
        return self._cut_off()

    def put(self, data: bytes, path: str) -> None:
        raise AssertionError("nothing was found out about it yet")

    def open(self, argv: Sequence[str]) -> Channel:
        return self._cut_off()

    def close(self) -> None:
        self.closed.set()

    def _cut_off(self) -> NoReturn:
        self.tries += 1
        self.asked.set()
        assert self.closed.wait(SOON), "nobody has cut it off"
        raise HostUnreachable(self.name, "mgmt", "cut off")


class Refusing(Silent):
    """A host that refuses every connection at once."""

    def open(self, argv: Sequence[str]) -> Channel:
        self.tries += 1
        self.asked.set()
        raise HostUnreachable(self.name, "mgmt", "refused")


class Absent:
    """A loader that finds no agent."""

    def send_line(self, line: str) -> None:
        pass

    def read_line(self, timeout_seconds: float) -> str | None:
        return "absent"

    def stderr_tail(self) -> str:
        return ""

    def close(self) -> None:
        pass


class AtLast(Silent):
    """A host that answers in the very moment in which it is cut off: the step after that has to be cut off, too."""

    def open(self, argv: Sequence[str]) -> Channel:
        with pytest.raises(HostUnreachable):
            super().open(argv)
        self.closed.clear()
        return Absent()

    def put(self, data: bytes, path: str) -> None:
        assert self.closed.wait(SOON), "nobody has cut it off again"
        raise HostUnreachable(self.name, "mgmt", "cut off")


@pytest.mark.parametrize("kind", [Silent, AtLast])
def test_closing_cuts_off_what_a_host_is_asked_and_asks_no_more(kind: type[Silent]) -> None:
    remote = kind(HOSTS[0])
    session = HostSession(HOSTS[0], remote, ARCHIVE, SystemClock())
    with ThreadPoolExecutor(1) as other:
        opening = other.submit(session.client)
        assert remote.asked.wait(SOON)
        assert session.close() == 0
        with pytest.raises(HostUnreachable, match="cut off"):
            opening.result(SOON)
    assert remote.tries == 1
    with pytest.raises(TestbedError, match="closed"):
        session.client()


def test_closing_ends_the_pause_before_another_attempt() -> None:
    remote = Refusing(HOSTS[0])
    timing = HostTiming(start_pauses_seconds=(10 * SOON,))
    session = HostSession(HOSTS[0], remote, ARCHIVE, SystemClock(), timing)
    with ThreadPoolExecutor(1) as other:
        opening = other.submit(session.client)
        assert remote.asked.wait(SOON)
        session.close()
        with pytest.raises(TestbedError):
            opening.result(SOON)
    assert remote.tries == 1


def test_a_session_that_was_disconnected_may_be_used_again() -> None:
    remote = Refusing(HOSTS[0])
    session = HostSession(HOSTS[0], remote, ARCHIVE, SystemClock(), HostTiming(start_pauses_seconds=()))
    session.disconnect()
    with pytest.raises(HostUnreachable, match="refused"):
        session.client()


def test_a_testbed_closes_although_all_its_threads_wait_for_hosts() -> None:
    remotes = {host.name: Silent(host) for host in HOSTS}
    testbed = HostsTestbed(
        Pair(HOSTS[0], HOSTS[1]), lambda host: remotes[host.name], lambda _driver: Catalog("rxe", ()), archive=ARCHIVE
    )
    with ThreadPoolExecutor(1) as other:
        opening = other.submit(lambda: testbed.info)
        assert all(remote.asked.wait(SOON) for remote in remotes.values())
        assert testbed.close() == {"left": 0, "right": 0}
        with pytest.raises(HostUnreachable):
            opening.result(SOON)
    assert [remote.tries for remote in remotes.values()] == [1, 1]


@pytest.mark.usefixtures("heeded")
@pytest.mark.parametrize(
    "ask",
    [
        lambda connect: check_hosts(HOSTS, connect, ARCHIVE),
        lambda connect: fingerprints(HOSTS, connect, ARCHIVE),
    ],
)
def test_an_interrupt_waits_for_no_host(ask: Callable[[Callable[[Host], Silent]], object]) -> None:
    remotes = {host.name: Silent(host) for host in HOSTS}

    def interrupt() -> None:
        for remote in remotes.values():
            remote.asked.wait(SOON)
        time.sleep(0.3)  # a signal on the way into a wait is heeded after it: let whoever asks wait for the answers
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        ask(lambda host: remotes[host.name])
    assert all(remote.closed.is_set() for remote in remotes.values())
