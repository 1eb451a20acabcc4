"""Hosts that are directories of this machine, with agents that only pretend."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from collie.counters.catalog import Catalog, Counter, CounterKind, Role, Unit
from collie.errors import HostUnreachable
from collie.hosts.session import Archive
from collie.hosts.testbed import HostsTestbed
from collie.hosts.timing import DEFAULT_TIMING, HostTiming
from collie.inventory.hosts import Host, Pair
from collie.ports import Channel, Completed, Measured, Remote
from collie.readings.policy import WindowPolicy
from collie.testing.fake_agent import fake_agent_program
from tests.support.local_remote import LocalRemote

CATALOG = Catalog(
    "rxe",
    (
        Counter("rcvd_pkts", "hw_counters", Unit.PACKETS, CounterKind.PERFORMANCE, "software", role=Role.RX_PACKETS),
        Counter("send_err", "hw_counters", Unit.EVENTS, CounterKind.ERROR, "software"),
        Counter("tx_pause", "hw_counters", Unit.MICROSECONDS, CounterKind.PAUSE, "wire", role=Role.TX_PAUSE),
    ),
)


QUICK = WindowPolicy(
    period_seconds=0.01, warm_up_seconds=0.03, window_seconds=0.1, patience_seconds=0.1, averaging_seconds=0.5
)


ARCHIVE = Archive.of(fake_agent_program())


PAIR = Pair(
    Host("left", "mgmt-left", "192.0.2.1", "rxe0", python=sys.executable),
    Host("right", "mgmt-right", "192.0.2.1", "rxe0", python=sys.executable),
)


GROUP = Pair(
    PAIR.a,
    PAIR.b,
    tuple(Host(name, f"mgmt-{name}", "192.0.2.1", "rxe0", python=sys.executable) for name in ("third", "fourth")),
)


ONE_HOST = Pair(replace(PAIR.a, name="server/rxe0"), replace(PAIR.a, name="server/rxe1", device="rxe1"))
"""Two devices of one host: two agents in one home directory."""


@dataclass(frozen=True)
class Rig:
    """A testbed whose hosts are directories of this machine."""

    directory: Path
    testbed: HostsTestbed

    def behave(self, host: str, **behaviour: Any) -> None:
        (self.directory / host / "behaviour.json").write_text(json.dumps(behaviour))

    def asked(self, host: str) -> list[str]:
        file = self.directory / host / "asked"
        return file.read_text().split() if file.exists() else []


def local(directory: Path) -> Callable[[Host], Remote]:
    def connect(host: Host) -> Remote:
        (directory / host.machine).mkdir(exist_ok=True)
        return LocalRemote(host.name, directory / host.machine)

    return connect


@contextmanager
def rigged(directory: Path, pair: Pair, timing: HostTiming = DEFAULT_TIMING) -> Iterator[Rig]:
    """Hosts that are directories, and their testbed, which is closed in the end."""
    for host in pair.hosts:
        (directory / host.machine).mkdir(exist_ok=True)
    testbed = HostsTestbed(pair, local(directory), lambda driver: CATALOG, policy=QUICK, archive=ARCHIVE, timing=timing)
    yield Rig(directory, testbed)
    testbed.close()


class Unreachable:
    """A remote that was never there, or is gone."""

    def __init__(self, host: Host) -> None:
        self.name = host.name
        self.tries = 0

    def run(self, argv: object, timeout_seconds: float) -> Completed:
        raise HostUnreachable(self.name, "mgmt", "No route to host")

    def put(self, data: bytes, path: str) -> None:
        raise HostUnreachable(self.name, "mgmt", "No route to host")

    def open(self, argv: object) -> Channel:
        self.tries += 1
        raise HostUnreachable(self.name, "mgmt", "No route to host")

    def close(self) -> None:
        pass


def received(result: Measured) -> dict[str, float | None]:
    return {host.host: host.delivered_bps for host in result.measurement.hosts}
