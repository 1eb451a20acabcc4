"""Recovery of machines of a lab, and of links between them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from collie.errors import LabError, TestbedError
from collie.inventory.hosts import Host
from collie.lab import lab
from collie.lab.host import Say, quiet


class LabReviver:
    """A `ports.Reviver` for one lab."""

    def __init__(self, state_dir: Path | None = None, *, say: Say = quiet) -> None:
        self._state_dir = state_dir
        self._say = say

    def revive(self, host: Host) -> None:
        """Restart the machine's QEMU."""
        try:
            lab.restart(host.machine, state_dir=self._state_dir, say=self._say)
        except LabError as error:
            raise TestbedError(f"host {host.machine} does not answer and cannot be restarted: {error}") from error

    def mend(self, hosts: Sequence[Host]) -> tuple[str, ...]:
        """Restart machines until all joined machines reach each other."""
        try:
            return lab.mend(state_dir=self._state_dir, say=self._say)
        except LabError as error:
            names = " and ".join(dict.fromkeys(host.machine for host in hosts))
            raise TestbedError(f"hosts {names} do not reach each other, and no restart helps: {error}") from error
