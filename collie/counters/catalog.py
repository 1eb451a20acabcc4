"""A catalog: what one NIC driver exposes, in which unit and width, and which component it points at."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, Final, Literal

from collie.limits import Limits, Text

Source = Literal["hw_counters", "device_hw_counters", "counters", "ethtool", "netdev", "devlink", "model"]
"""Where a file may say that a counter is read."""


class CounterKind(StrEnum):
    """What a counter is for."""

    PERFORMANCE = "perf"
    """Falls when something is wrong: a search drives it down."""
    PAUSE = "pause"
    DIAGNOSTIC = "diag"
    """Rises when a resource runs short: a search drives it up."""
    ERROR = "err"
    """Stays flat in a sound run: a change voids the run or explains it."""
    INFO = "info"


SOFTWARE_DRIVERS: Final = frozenset({"rxe", "siw"})
"""Drivers whose device is the host's own CPU: no data sheet, no unit that a workload could fill, and whoever takes CPU
time takes it from the device."""


class Role(StrEnum):
    """What a verdict needs to know, whatever a vendor calls it."""

    TX_PAUSE = "tx_pause"
    """Time for which this host asked its peer to stop, one counter per priority."""
    RX_PAUSE = "rx_pause"
    TX_PAUSE_FRAMES = "tx_pause_frames"
    """Frames that asked the peer to stop: all that a NIC without pause durations tells."""
    RX_PAUSE_FRAMES = "rx_pause_frames"
    XMIT_WAIT = "xmit_wait"
    """InfiniBand has credits where Ethernet has pause: what this host could have sent while its peer gave it none."""
    DISCARD = "discard"
    """Packets that this host dropped, on arrival or, under a cloud's limits, before they left."""
    OUT_OF_SEQUENCE = "out_of_sequence"
    """Packets that arrived out of sequence. Those that follow a receiver-not-ready NAK are no loss (`RNR_NAK`). NAKs
    that a host *receives* are of what it sent, and no share of the few packets that acknowledge it."""
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
    OBJECTS = "objects"
    """Queue pairs, memory regions, pages: things that a driver holds."""
    SECONDS = "seconds"
    MICROSECONDS = "us"
    PERCENT = "percent"


@dataclass(frozen=True, slots=True)
class Counter:
    """One counter of a driver.

    Attributes:
        name: unique in its catalog: as the driver spells it, unless another source spells one alike.
        source: where it is read: `hw_counters`, `device_hw_counters`, `counters`, `ethtool`, `netdev`, `devlink`, or
            `model` on the simulator.
        unit: of one reading, before `scale`.
        kind: what it is for.
        component: the part of the NIC or host that it points at.
        width: bits after which it wraps; a 32-bit counter wraps in seconds at high rates.
        gauge: a level, never to be differenced.
        scale: factor from readings to `unit` (4 for the PMA's `port_*_data`).
        role: what a verdict uses it for, if anything.
        refresh_seconds: the driver refreshes it no more often than this.
        meaning: one line for people.
        spelled: as the driver spells it, where that is not `name`.
        canonical: one name for what several vendors count alike, such as `rx_discards`; empty where none fits.
        availability: what has to be there for the driver to expose it; empty when it always does.
        saturates: stops at its largest value instead of wrapping, as the classic PMA counters do.
        link_layer: the only one on which it means anything, as sysfs spells it; empty for any.
    """

    name: Text
    source: str
    unit: Unit
    kind: CounterKind
    component: Text
    width: Annotated[int, Limits(ge=4, le=64)] = 64
    gauge: bool = False
    scale: float = 1
    role: Role | None = None
    refresh_seconds: Annotated[float, Limits(ge=0, le=3600)] = 0.0
    meaning: str = ""
    spelled: str = ""
    canonical: Annotated[str, Limits(pattern=r"^[a-z0-9_{}]*$")] = ""
    availability: str = ""
    saturates: bool = False
    link_layer: Literal["", "Ethernet", "InfiniBand"] = ""

    @property
    def key(self) -> tuple[str, str]:
        """Where a reading is found: source, and name as the driver spells it."""
        return self.source, self.spelled or self.name


@dataclass(frozen=True, slots=True)
class Ignored:
    """What a driver exposes and Collie leaves out.

    Attributes:
        pattern: regular expression for whole names, as the driver spells them.
        source: where they are read.
        reason: why they are left out.
    """

    pattern: Annotated[str, Limits(min_length=1, max_length=400)]
    source: Source
    reason: Text

    def covers(self, source: str, name: str) -> bool:
        """Whether this says why a counter is left out."""
        return source == self.source and re.fullmatch(self.pattern, name) is not None


@dataclass(frozen=True, slots=True)
class Catalog:
    """Everything that one driver exposes.

    Attributes:
        driver: its name, and that of its folder.
        counters: in the file's order.
        drivers: kernel drivers of devices that it describes, where they are not named `driver`.
        ignored: what is left out, and why.
    """

    driver: str
    counters: tuple[Counter, ...]
    drivers: tuple[str, ...] = ()
    ignored: tuple[Ignored, ...] = ()

    def of_kind(self, kind: CounterKind) -> tuple[Counter, ...]:
        """Return the counters of one kind, in the file's order."""
        return tuple(counter for counter in self.counters if counter.kind is kind)

    def of_role(self, *roles: Role) -> tuple[Counter, ...]:
        """Return the counters with one of some roles, in the file's order."""
        return tuple(counter for counter in self.counters if counter.role in roles)

    def find(self, name: str) -> Counter | None:
        """Return a counter by name."""
        return next((counter for counter in self.counters if counter.name == name), None)

    def unmapped(self, names: Mapping[str, Iterable[str]]) -> tuple[tuple[str, str], ...]:
        """Return what a device exposes and this catalog neither lists nor leaves out with a reason.

        Args:
            names: by source, as the driver spells them.
        """
        listed = {counter.key for counter in self.counters}
        return tuple(
            (source, name)
            for source, found in names.items()
            for name in found
            if (source, name) not in listed and not any(rule.covers(source, name) for rule in self.ignored)
        )

    def on_link(self, link_layer: str | None, rate_bps: float | None) -> Catalog:
        """Return the catalog as it holds on a port.

        Counters of other link layers are left out (on an unknown one, all that need a certain one), and bytes that
        could not be sent become the time for which they could not (`Role.XMIT_WAIT`), where the port's rate is known.
        """
        fitting = (counter for counter in self.counters if counter.link_layer in {"", link_layer})
        return replace(self, counters=tuple(_as_time(counter, rate_bps) for counter in fitting))

    @property
    def slowest_deciding_seconds(self) -> float:
        """The longest refresh among the counters that verdicts read."""
        return max((counter.refresh_seconds for counter in self.counters if counter.role), default=0.0)


def _as_time(counter: Counter, rate_bps: float | None) -> Counter:
    if counter.role is not Role.XMIT_WAIT or counter.unit is not Unit.BYTES or not rate_bps:
        return counter
    return replace(counter, unit=Unit.MICROSECONDS, scale=counter.scale * 8e6 / rate_bps)
