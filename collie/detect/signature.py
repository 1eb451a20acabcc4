"""The counters that distinguish anomalies with the same symptom.

Two limits of one device can both cause pause, but their counters differ. A counter is *raised* when it is higher, per
packet, than in nearly every healthy run of the same device. The *signature* of a run is its raised counters, the
highest above healthy first. It is empty if there are too few healthy runs or no raised counters. The symptom then
decides alone.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from collie.counters.catalog import Catalog, CounterKind, Role
from collie.detect.measurement import Measurement

_MIN_HEALTHY = 12
_ORDINARY_SHARE = 0.95
"""Share of the healthy runs at or below the ordinary level."""
_MIN_HEIGHT = 0.3
"""Doublings above ordinary from which a counter is raised. Counters of one workload vary by some per cent."""
_MIN_PER_PACKET = 1e-4
_SAME_COSINE = 0.7
_SAME_COSINE_ELSEWHERE = 0.85
_COMMON = 1.5
"""Height of a coordinate that all signatures share. It stands for the counters that did not move."""


@dataclass(frozen=True, slots=True)
class Signature:
    """The raised counters of a run with their doublings above ordinary, the highest first."""

    raised: tuple[tuple[str, float], ...] = ()


def likeness(first: Signature | None, second: Signature | None) -> float:
    """Return how likely two runs share a cause, 0 to 1.

    It is the cosine between their counter movements, because one cause moves the same counters at any intensity. With
    the common coordinate `_COMMON`, runs with little movement are like each other, and unlike runs with much movement.
    """
    return _cosine(_heights(first), _heights(second))


def contained(part: Signature | None, whole: Signature | None) -> float:
    """Return the share of one run's movement that another run shows, too, 0 to 1. 0 if nothing moved."""
    heights = dict(whole.raised if whole else ())
    moved = math.fsum(height for _, height in part.raised) if part else 0.0
    if part is None or moved <= 0:
        return 0.0
    return math.fsum(min(height, heights.get(name, 0.0)) for name, height in part.raised) / moved


def same_cause(first: Signature | None, second: Signature | None, *, elsewhere: bool) -> bool:
    """Whether two runs most likely have one cause: similar movements and the same highest counter.

    It is stricter than `likeness`, because no further run checks the result. It is stricter still between opcodes
    (`elsewhere`). Empty signatures never match.
    """
    if not first or not second or not first.raised or not second.raised:
        return False
    least = _SAME_COSINE_ELSEWHERE if elsewhere else _SAME_COSINE
    return first.raised[0][0] == second.raised[0][0] and _cosine(dict(first.raised), dict(second.raised)) >= least


def _heights(signature: Signature | None) -> dict[str, float]:
    return {"": _COMMON, **dict(signature.raised if signature else ())}


def _cosine(ours: Mapping[str, float], theirs: Mapping[str, float]) -> float:
    product = sum(height * theirs.get(name, 0.0) for name, height in ours.items())
    return product / (math.hypot(*ours.values()) * math.hypot(*theirs.values()))


@dataclass(frozen=True)
class Levels:
    """Upper levels of healthy runs, counter by counter.

    Attributes:
        ordinary: events per packet that nearly all healthy runs stay under. Absent counters are unknown.
        packets: the counters of arriving packets. Without any, readings are not scaled.
    """

    ordinary: Mapping[str, float] = field(default_factory=dict)
    packets: tuple[str, ...] = ()

    def signature(self, measurement: Measurement) -> Signature:
        """Return the raised counters of a run."""
        heights = {name: self._height(name, value) for name, value in self.readings(measurement, self.ordinary)}
        raised = [(name, height) for name, height in heights.items() if height > _MIN_HEIGHT]
        return Signature(_highest_first(raised))

    def readings(self, measurement: Measurement, names: Iterable[str]) -> Iterable[tuple[str, float]]:
        """Yield each known counter of a run, per packet where packets are counted."""
        packets = sum(measurement.counter(name) or 0.0 for name in self.packets)
        for name in names:
            value = measurement.counter(name)
            if value is not None:
                yield name, value / packets if packets > 0 else value

    def _height(self, name: str, value: float) -> float:
        if value <= _MIN_PER_PACKET:
            return 0.0
        return math.log2(value / max(self.ordinary[name], _MIN_PER_PACKET))


class Ordinary:
    """The levels of a device's healthy runs, learnt run by run."""

    def __init__(self, catalog: Catalog) -> None:
        self._names = tuple(counter.name for counter in catalog.counters if counter.kind is CounterKind.DIAGNOSTIC)
        self._nothing = Levels({}, tuple(counter.name for counter in catalog.of_role(Role.RX_PACKETS)))
        self._healthy: dict[str, list[float]] = {}
        self._levels: Levels | None = None

    def learn(self, measurement: Measurement) -> None:
        """Add a healthy run."""
        self._levels = None
        for name, value in self._nothing.readings(measurement, self._names):
            insort(self._healthy.setdefault(name, []), value)

    @property
    def levels(self) -> Levels:
        """The current levels, without counters that have few healthy runs."""
        if self._levels is None:
            self._levels = self._known()
        return self._levels

    def _known(self) -> Levels:
        known = {name: values for name, values in self._healthy.items() if len(values) >= _MIN_HEALTHY}
        ordinary = {name: values[math.ceil(_ORDINARY_SHARE * (len(values) - 1))] for name, values in known.items()}
        return replace(self._nothing, ordinary=ordinary)


def mean_signature(signatures: Sequence[Signature]) -> Signature:
    """Return the mean of several signatures. A counter that is not raised in a run counts as zero there."""
    names = {name for signature in signatures for name, _ in signature.raised}
    heights = [dict(signature.raised) for signature in signatures]
    means = ((name, math.fsum(each.get(name, 0.0) for each in heights) / len(heights)) for name in names)
    return Signature(_highest_first((name, mean) for name, mean in means if mean > _MIN_HEIGHT))


def same_counters(first: Signature, second: Signature) -> bool | None:
    """Whether the counters of one workload moved alike in two runs, or None when none moved."""
    return likeness(first, second) >= _SAME_COSINE if first.raised or second.raised else None


def _highest_first(raised: Iterable[tuple[str, float]]) -> tuple[tuple[str, float], ...]:
    return tuple(sorted(raised, key=lambda pair: (-pair[1], pair[0])))
