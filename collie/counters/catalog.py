"""A catalog: what one NIC driver exposes, in which unit and width, and which component it points at."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What a counter is for."""

    PERFORMANCE = "perf"
    """Falls when something is wrong: a search drives it down."""
    PAUSE = "pause"
    DIAGNOSTIC = "diag"
    """Rises when a resource runs short: a search drives it up."""
    ERROR = "err"
    """Stays flat in a sound run: a change voids the run or explains it."""
    INFO = "info"


class Role(StrEnum):
    """What a verdict needs to know, whatever a vendor calls it."""

    TX_PAUSE = "tx_pause"
    """Time for which this host asked its peer to stop, one counter per priority."""
    RX_PAUSE = "rx_pause"
    DISCARD = "discard"
    """Packets that this host received and dropped."""
    OUT_OF_SEQUENCE = "out_of_sequence"
    """Packets that arrived out of sequence. Those that follow a receiver-not-ready NAK are no loss (`RNR_NAK`)."""
    RNR_NAK = "rnr_nak"
    """Receiver-not-ready NAKs that this host sent: it had no receive posted when a message came."""
    RX_PACKETS = "rx_packets"


class Unit(StrEnum):
    """Unit of one reading."""

    BYTES = "bytes"
    BITS = "bits"
    PACKETS = "packets"
    OPERATIONS = "operations"
    EVENTS = "events"
    MICROSECONDS = "us"
    PERCENT = "percent"


@dataclass(frozen=True, slots=True)
class Counter:
    """One counter of a driver.

    Attributes:
        name: as the driver spells it.
        source: where it is read: `hw_counters`, `counters`, `ethtool`, `netdev`, or `model` on the simulator.
        unit: of one reading, before `scale`.
        kind: what it is for.
        component: the part of the NIC or host that it points at.
        width: bits after which it wraps; a 32-bit counter wraps in seconds at high rates.
        gauge: a level, never to be differenced.
        scale: factor from readings to `unit` (4 for the PMA's `port_*_data`).
        role: what a verdict uses it for, if anything.
        refresh_seconds: the driver refreshes it no more often than this.
        meaning: one line for people.
    """

    name: str
    source: str
    unit: Unit
    kind: Kind
    component: str
    width: int = 64
    gauge: bool = False
    scale: int = 1
    role: Role | None = None
    refresh_seconds: float = 0.0
    meaning: str = ""


@dataclass(frozen=True, slots=True)
class Catalog:
    """Everything that one driver exposes."""

    driver: str
    counters: tuple[Counter, ...]

    def of_kind(self, kind: Kind) -> tuple[Counter, ...]:
        """Return the counters of one kind, in the file's order."""
        return tuple(counter for counter in self.counters if counter.kind is kind)

    def find(self, name: str) -> Counter | None:
        """Return a counter by name."""
        return next((counter for counter in self.counters if counter.name == name), None)
