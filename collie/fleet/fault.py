"""Faults of single hosts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from collie.errors import UsageError


class FaultKind(StrEnum):
    """A fault of one host of a simulated fleet.

    Attributes:
        PCIE_HALF_WIDTH: the slot trained at half its lanes.
        WRONG_MTU: the port has the Ethernet MTU of 1500 bytes.
        RELAXED_ORDERING_OFF: PCIe writes wait for earlier ones.
        BIT_ERRORS: the cable flips bits, and RC retransmits.
        PFC_OFF: no flow control on this side, sent or received.
        BUSY_MEMORY: another program keeps a memory channel busy.
        OLD_FIRMWARE: the NIC has the firmware before the fleet's.
    """

    PCIE_HALF_WIDTH = "pcie_half_width"
    WRONG_MTU = "wrong_mtu"
    RELAXED_ORDERING_OFF = "relaxed_ordering_off"
    BIT_ERRORS = "bit_errors"
    PFC_OFF = "pfc_off"
    BUSY_MEMORY = "busy_memory"
    OLD_FIRMWARE = "old_firmware"


_SIZES: Final = {FaultKind.BIT_ERRORS: "bit error ratio", FaultKind.BUSY_MEMORY: "share of the memory's bandwidth"}


@dataclass(frozen=True, slots=True)
class Fault:
    """The fault of a host: `size` is the bit error ratio, or the share of bandwidth that `busy_memory` leaves."""

    kind: FaultKind
    size: float | None = None

    def __post_init__(self) -> None:
        if self.size is not None and self.kind not in _SIZES:
            raise UsageError(f"{self.kind} comes in one size; {', '.join(_SIZES)} in others")
        if self.size is not None and not 0 < self.size < 1:
            raise UsageError(f"{self.kind}:{self.size:g} is no {_SIZES[self.kind]}; it is above 0 and below 1")

    @classmethod
    def parse(cls, text: str) -> Fault:
        """Parse `KIND` or `KIND:SIZE`. Raises `UsageError`."""
        kind, colon, size = text.partition(":")
        if kind not in list(FaultKind):
            raise UsageError(f"there is no fault {kind!r}; one of {', '.join(FaultKind)}")
        try:
            return cls(FaultKind(kind), float(size) if colon else None)
        except ValueError:
            raise UsageError(f"{size!r} is no size of {kind}; write a number, as in bit_errors:1e-11") from None
