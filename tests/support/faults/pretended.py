"""`collie` whose hosts are folders of this machine: `python -m tests.support.faults.pretended FOLDER WORDS...`.

Everything is real but the hosts: sessions, the protocol, agents as processes of their own (`fake_agent.py`), which can
be killed and stopped. A host whose folder holds a file `gone` answers nobody.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from collie.content.catalogs import find_catalog
from collie.errors import HostUnreachable
from collie.hosts.session import Archive
from collie.hosts.testbed import HostsTestbed
from collie.inventory.hosts import Host, Pair
from collie.ports import Completed, Testbed
from collie.readings.policy import WindowPolicy
from collie.ssh.local import LocalChannel
from collie.testing.fake_agent import GID_ENTRY, fake_agent_program
from tests.support.local_remote import LocalRemote

INVENTORY = """\
version: 1
hosts:
  left: {{address: pretended-left, data_address: 192.0.2.1, device: rxe0, python: {python}}}
  right: {{address: pretended-right, data_address: 192.0.2.2, device: rxe0, python: {python}}}
"""
QUICK = WindowPolicy(
    period_seconds=0.02, warm_up_seconds=0.06, window_seconds=0.2, patience_seconds=0.2, averaging_seconds=0.75
)


class PretendedRemote(LocalRemote):
    """A folder that takes the part of a host, and can be gone."""

    def __init__(self, host: Host, folder: Path) -> None:
        super().__init__(host.name, folder)
        self._name, self._gone = host.name, folder / "gone"

    def run(self, argv: Sequence[str], timeout_seconds: float) -> Completed:
        """Run a command, if the host is there."""
        self._require()
        return super().run(argv, timeout_seconds)

    def open(self, argv: Sequence[str]) -> LocalChannel:
        """Start a command, if the host is there."""
        self._require()
        return super().open(argv)

    def _require(self) -> None:
        if self._gone.exists():
            raise HostUnreachable(self._name, "pretended", "it is gone")


def testbed_of(pair: Pair, folder: Path) -> Testbed:
    """Return a testbed of two folders."""

    def connect(host: Host) -> PretendedRemote:
        place = folder / host.name
        place.mkdir(parents=True, exist_ok=True)
        gids = [{**GID_ENTRY, "address": host.data_address}]
        (place / "behaviour.json").write_text(json.dumps({"port": {"gids": gids}}))
        return PretendedRemote(host, place)

    return HostsTestbed(pair, connect, find_catalog, policy=QUICK, archive=Archive.of(fake_agent_program()))


if __name__ == "__main__":
    from collie import wiring
    from collie.cli.main import main

    wiring.hosts_testbed = lambda choice, pair, policy=None: testbed_of(pair, Path(sys.argv[1]))
    main(sys.argv[2:])
