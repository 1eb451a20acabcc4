"""Faults of single hosts, by name. `simulator.faults` applies them to simulated hosts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from collie.errors import UsageError


class FaultKind(StrEnum):
    """A fault of one host of a simulated fleet."""

    PCIE_HALF_WIDTH = "pcie_half_width"
    """The slot was trained at half its lanes."""
    WRONG_MTU = "wrong_mtu"
    """The port was left at the Ethernet MTU of 1500 bytes."""
    RELAXED_ORDERING_OFF = "relaxed_ordering_off"
    """PCIe writes wait for earlier ones."""
    BIT_ERRORS = "bit_errors"
    """The cable flips bits, and RC retransmits."""
    PFC_OFF = "pfc_off"
    """Flow control is off on this side, for pause sent and received."""
    BUSY_MEMORY = "busy_memory"
    """Another program keeps a memory channel busy."""
    OLD_FIRMWARE = "old_firmware"
    """The NIC has the firmware before the fleet's."""


_SIZES: Final = {FaultKind.BIT_ERRORS: "bit error ratio", FaultKind.BUSY_MEMORY: "share of the memory's bandwidth"}


@dataclass(frozen=True, slots=True)
class Fault:
    """The fault of a host.

    Attributes:
        size: bit error ratio of `bit_errors`, share that `busy_memory` leaves, or None for the usual one.

    Raises:
        UsageError: a kind has no sizes, or none like that.
    """

    kind: FaultKind
    size: float | None = None

    def __post_init__(self) -> None:
        if self.size is not None and self.kind not in _SIZES:
            raise UsageError(f"{self.kind} comes in one size; {', '.join(_SIZES)} in others")
        if self.size is not None and not 0 < self.size < 1:
            raise UsageError(f"{self.kind}:{self.size:g} is no {_SIZES[self.kind]}; it is above 0 and below 1")

    @classmethod
    def parse(cls, text: str) -> Fault:
        """Parse `KIND` or `KIND:SIZE`.

        Raises:
            UsageError: there is no such fault.
        """
        kind, colon, size = text.partition(":")
        if kind not in list(FaultKind):
            raise UsageError(f"there is no fault {kind!r}; one of {', '.join(FaultKind)}")
        try:
            return cls(FaultKind(kind), float(size) if colon else None)
        except ValueError:
            raise UsageError(f"{size!r} is no size of {kind}; write a number, as in bit_errors:1e-11") from None
