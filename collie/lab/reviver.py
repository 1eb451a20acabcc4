"""Bringing back machines of a lab that a run has locked up."""

from __future__ import annotations

from pathlib import Path

from collie.errors import LabError, TestbedError
from collie.inventory.hosts import Host
from collie.lab.host import Say, quiet
from collie.lab.lab import restart


class LabReviver:
    """A `ports.Reviver` for the machines of one lab.

    Args:
        state_dir: of the lab; None for the default one.
        say: hears of each step.
    """

    def __init__(self, state_dir: Path | None = None, *, say: Say = quiet) -> None:
        self._state_dir = state_dir
        self._say = say

    def revive(self, host: Host) -> None:
        """End the machine's QEMU and start it again."""
        try:
            restart(host.machine, state_dir=self._state_dir, say=self._say)
        except LabError as error:
            raise TestbedError(f"host {host.machine} answers nobody and cannot be brought back: {error}") from error
