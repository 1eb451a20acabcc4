"""Counters that a search drives, for tests."""

from __future__ import annotations

from collie.counters.catalog import Catalog, Counter, CounterKind, Unit
from collie.detect.measurement import HostMeasurement, Measurement

CATALOG = Catalog(
    "test",
    (
        Counter("misses", "model", Unit.EVENTS, CounterKind.DIAGNOSTIC, "cache"),
        Counter("stalls", "model", Unit.EVENTS, CounterKind.DIAGNOSTIC, "pcie"),
        Counter("still", "model", Unit.EVENTS, CounterKind.DIAGNOSTIC, "port"),
        Counter("absent", "model", Unit.EVENTS, CounterKind.DIAGNOSTIC, "port"),
        Counter("rx_bytes", "model", Unit.BYTES, CounterKind.PERFORMANCE, "port"),
    ),
)


def reading(**counters: float | None) -> Measurement:
    return Measurement((HostMeasurement("a"), HostMeasurement("b", counters=counters)), 4.0)
