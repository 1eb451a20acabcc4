"""Catalogs: the counters of a NIC driver, or of a device whose driver has no catalog."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, Final, Literal

from collie.limits import Limits, Text

Source = Literal["hw_counters", "device_hw_counters", "counters", "ethtool", "netdev", "devlink", "model"]


class CounterKind(StrEnum):
    """Purpose of a counter."""

    PERFORMANCE = "perf"
    """Falls during an anomaly: a search drives it down."""
    PAUSE = "pause"
    DIAGNOSTIC = "diag"
    """Rises when a resource runs short: a search drives it up."""
    ERROR = "err"
    """Constant in a sound run. A change voids the run or explains its result."""
    INFO = "info"


SOFTWARE_DRIVERS: Final = frozenset({"rxe", "siw"})
"""Drivers of software devices, which have no data sheet. Other load on the CPU slows the device."""


class Role(StrEnum):
    """Meaning of a counter for verdicts."""

    TX_PAUSE = "tx_pause"
    """Time for which this host paused its peer, per priority."""
    RX_PAUSE = "rx_pause"
    TX_PAUSE_FRAMES = "tx_pause_frames"
    """Pause frames sent, for NICs that do not count pause time."""
    RX_PAUSE_FRAMES = "rx_pause_frames"
    XMIT_WAIT = "xmit_wait"
    """Time or data for which the peer gave this host no credits: InfiniBand's received pause."""
    DISCARD = "discard"
    """Packets that this host dropped, on arrival or by limits of a cloud."""
    OUT_OF_SEQUENCE = "out_of_sequence"
    """Packets that arrived out of sequence, except those after an `RNR_NAK`."""
    RNR_NAK = "rnr_nak"
    """Receiver-not-ready NAKs sent: a message arrived without a posted receive."""
    RX_PACKETS = "rx_packets"


class Unit(StrEnum):
    """Unit of one reading."""

    BYTES = "bytes"
    BITS = "bits"
    PACKETS = "packets"
    OPERATIONS = "operations"
    EVENTS = "events"
    OBJECTS = "objects"
    """Queue pairs, memory regions, pages."""
    SECONDS = "seconds"
    MICROSECONDS = "us"
    PERCENT = "percent"


@dataclass(frozen=True, slots=True)
class Counter:
    """One counter of a driver.

    Attributes:
        name: unique in its catalog. The driver's spelling, unless another source has the same.
        source: place of the reading, `model` on the simulator.
        unit: unit of a reading times `scale`.
        kind: use in a search.
        component: part of the NIC or host to which the counter points.
        width: number of bits after which it wraps. A 32-bit counter wraps in seconds at high rates.
        gauge: whether readings are a level, which is never differenced.
        scale: factor from readings to `unit` (4 for the PMA's `port_*_data`).
        role: use in verdicts.
        refresh_seconds: shortest interval between updates by the driver.
        meaning: one line for people.
        spelled: the driver's spelling, if not `name`.
        canonical: common name for several vendors, such as `rx_discards`, or empty.
        availability: condition under which the driver exposes it, or empty for always.
        saturates: whether it stops at its maximum instead of wrapping, as classic PMA counters do.
        link_layer: the only link layer on which it counts, in sysfs' spelling, or empty for any.
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
        """Source and driver's spelling, which identify a reading."""
        return self.source, self.spelled or self.name

    @property
    def rate_unit(self) -> str:
        """Unit of a measurement's value: `packets/s`, or for a gauge that of its level, such as `us`."""
        return self.unit.value if self.gauge else f"{self.unit.value}/s"


@dataclass(frozen=True, slots=True)
class Ignored:
    """Counters that a catalog excludes.

    Attributes:
        pattern: regular expression for whole names in the driver's spelling.
        source: place of the readings.
        reason: why they are excluded.
    """

    pattern: Annotated[str, Limits(min_length=1, max_length=400)]
    source: Source
    reason: Text

    def covers(self, source: str, name: str) -> bool:
        """Whether the pattern excludes a counter."""
        return source == self.source and re.fullmatch(self.pattern, name) is not None


@dataclass(frozen=True, slots=True)
class Catalog:
    """All counters of a driver, in the file's order.

    Attributes:
        drivers: kernel drivers that the catalog describes, if not `driver`.
    """

    driver: str
    counters: tuple[Counter, ...]
    drivers: tuple[str, ...] = ()
    ignored: tuple[Ignored, ...] = ()

    def of_kind(self, kind: CounterKind) -> tuple[Counter, ...]:
        """Return the counters of one kind."""
        return tuple(counter for counter in self.counters if counter.kind is kind)

    def of_role(self, *roles: Role) -> tuple[Counter, ...]:
        """Return the counters with any of these roles."""
        return tuple(counter for counter in self.counters if counter.role in roles)

    def find(self, name: str) -> Counter | None:
        """Return a counter by name."""
        return next((counter for counter in self.counters if counter.name == name), None)

    def rate_unit(self, name: str) -> str:
        """Return the unit of a counter's value in a measurement, or an empty string for an unknown counter."""
        found = self.find(name)
        return found.rate_unit if found else ""

    def unmapped(self, names: Mapping[str, Iterable[str]]) -> tuple[tuple[str, str], ...]:
        """Return the counters in `names` that this catalog neither lists nor excludes, as (source, name)."""
        listed = {counter.key for counter in self.counters}
        return tuple(
            (source, name)
            for source, found in names.items()
            for name in found
            if (source, name) not in listed and not any(rule.covers(source, name) for rule in self.ignored)
        )

    def on_link(self, link_layer: str | None, rate_bps: float | None) -> Catalog:
        """Return the catalog for a port, without counters of other link layers.

        With a known rate, `Role.XMIT_WAIT` in bytes becomes time.
        """
        fitting = (counter for counter in self.counters if counter.link_layer in {"", link_layer})
        return replace(self, counters=tuple(_as_time(counter, rate_bps) for counter in fitting))

    @property
    def slowest_deciding_seconds(self) -> float:
        """The longest refresh among counters with a role."""
        return max((counter.refresh_seconds for counter in self.counters if counter.role), default=0.0)


def _as_time(counter: Counter, rate_bps: float | None) -> Counter:
    if counter.role is not Role.XMIT_WAIT or counter.unit is not Unit.BYTES or not rate_bps:
        return counter
    return replace(counter, unit=Unit.MICROSECONDS, scale=counter.scale * 8e6 / rate_bps)


Names = Mapping[str, Iterable[str]]
"""Counters by source, in the driver's spelling."""


def discovered(driver: str, names: Names, known: Iterable[Catalog] = ()) -> Catalog:
    """Return a catalog of every counter of a device.

    The first of the `known` catalogs with the same source and spelling describes a counter, including its role. Other
    counters are taken as diagnostic 64-bit counts of events, so a search ranks and drives them.
    """
    described = {counter.key: counter for catalog in reversed(tuple(known)) for counter in catalog.counters}
    counters: dict[str, Counter] = {}
    for source in sorted(names):
        for name in sorted(names[source]):
            unique = name if name not in counters else f"{source}/{name}"
            typical = described.get((source, name), _undescribed(source, name))
            counters[unique] = replace(typical, name=unique, spelled="" if unique == name else name, availability="")
    return Catalog(driver, tuple(counters.values()))


def _undescribed(source: str, name: str) -> Counter:
    meaning = "found on the device; nobody has described it yet"
    return Counter(name, source, Unit.EVENTS, CounterKind.DIAGNOSTIC, "unknown", meaning=meaning)
