"""Which counters tell one anomaly from another with the same symptom.

Two limits of one device may show alike: both pause. What tells them apart is where the device counts: cache misses
here, stalled writes there. A counter is *raised* when it is higher, per packet, than in nearly every healthy run of the
same device; the *signature* of a run is its raised counters, the one furthest above healthy first. Nothing is known
beforehand about any counter but that it is diagnostic.

A signature may be empty: few healthy runs yet, or counters that tell nothing. Then two runs cannot be told apart, and
the symptom decides alone.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from collie.counters.catalog import Catalog, CounterKind, Role
from collie.detect.measurement import Measurement

_MIN_HEALTHY = 12
"""Healthy runs before anything is called raised."""
_ORDINARY_SHARE = 0.95
"""A reading is ordinary up to the one that this share of the healthy runs stays under."""
_MIN_HEIGHT = 0.3
"""Doublings above ordinary from where on a counter is raised: counters of one workload differ by some per cent."""
_MIN_PER_PACKET = 1e-4
"""Events per packet below which a counter is silent."""
_SAME_COSINE = 0.7
_SAME_COSINE_ELSEWHERE = 0.85
_COMMON = 1.5
"""Doublings above ordinary that a counter has to move to tell as much as all counters that did not."""


@dataclass(frozen=True, slots=True)
class Signature:
    """What a run shows besides its symptom.

    Attributes:
        raised: counters above ordinary, with how many doublings above it they are; the highest first.
    """

    raised: tuple[tuple[str, float], ...] = ()


def likeness(first: Signature | None, second: Signature | None) -> float:
    """Return how far two runs may have a cause in common, 0 to 1.

    Compared is the direction in which their counters have moved (the cosine of the angle between them): one cause moves
    much the same counters, however hard it is provoked. All runs have a coordinate in common, `_COMMON`: so runs whose
    counters hardly moved are alike, and unlike one whose counters moved far.
    """
    return _cosine(_heights(first), _heights(second))


def same_cause(first: Signature | None, second: Signature | None, *, elsewhere: bool) -> bool:
    """Whether two runs most likely have one cause: their counters moved alike, and the same one moved most.

    Stricter than `likeness`, for what is not looked at again; runs that tell nothing are never taken for the same.

    Args:
        first: what one run shows.
        second: what the other shows.
        elsewhere: they are of different transports, so they have to be more alike still.
    """
    if not first or not second or not first.raised or not second.raised:
        return False
    least = _SAME_COSINE_ELSEWHERE if elsewhere else _SAME_COSINE
    return first.raised[0][0] == second.raised[0][0] and _cosine(dict(first.raised), dict(second.raised)) >= least


def _heights(signature: Signature | None) -> dict[str, float]:
    return {"": _COMMON, **dict(signature.raised if signature else ())}


def _cosine(ours: Mapping[str, float], theirs: Mapping[str, float]) -> float:
    """Return the cosine of the angle between two sets of heights, neither of them empty."""
    product = sum(height * theirs.get(name, 0.0) for name, height in ours.items())
    return product / (math.hypot(*ours.values()) * math.hypot(*theirs.values()))


@dataclass(frozen=True)
class Levels:
    """What healthy runs of a device read at most, counter by counter.

    Attributes:
        ordinary: events per packet that nearly all healthy runs stay under; a counter that is not in it is unknown.
        packets: the counters of arriving packets; without any, readings are taken as they are.
    """

    ordinary: Mapping[str, float] = field(default_factory=dict)
    packets: tuple[str, ...] = ()

    def signature(self, measurement: Measurement) -> Signature:
        """Return what is raised in a run."""
        heights = {name: self._height(name, value) for name, value in self.readings(measurement, self.ordinary)}
        raised = [(name, height) for name, height in heights.items() if height > _MIN_HEIGHT]
        return Signature(_highest_first(raised))

    def readings(self, measurement: Measurement, names: Iterable[str]) -> Iterable[tuple[str, float]]:
        """Yield each counter that is known in a run, per packet where packets are counted."""
        packets = sum(measurement.counter(name) or 0.0 for name in self.packets)
        for name in names:
            value = measurement.counter(name)
            if value is not None:
                yield name, value / packets if packets > 0 else value

    def _height(self, name: str, value: float) -> float:
        """Return how many doublings a reading lies above ordinary."""
        if value <= _MIN_PER_PACKET:
            return 0.0
        return math.log2(value / max(self.ordinary[name], _MIN_PER_PACKET))


class Ordinary:
    """What healthy runs of a device read, learnt run by run.

    Args:
        catalog: which counters are diagnostic, and which one counts packets.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._names = tuple(counter.name for counter in catalog.counters if counter.kind is CounterKind.DIAGNOSTIC)
        self._nothing = Levels({}, tuple(counter.name for counter in catalog.of_role(Role.RX_PACKETS)))
        self._healthy: dict[str, list[float]] = {}
        self._levels: Levels | None = None

    def learn(self, measurement: Measurement) -> None:
        """Take in a healthy run."""
        self._levels = None
        for name, value in self._nothing.readings(measurement, self._names):
            insort(self._healthy.setdefault(name, []), value)

    @property
    def levels(self) -> Levels:
        """What is ordinary by now; a counter of which few healthy runs are known is left out."""
        if self._levels is None:
            self._levels = self._known()
        return self._levels

    def _known(self) -> Levels:
        known = {name: values for name, values in self._healthy.items() if len(values) >= _MIN_HEALTHY}
        ordinary = {name: values[math.ceil(_ORDINARY_SHARE * (len(values) - 1))] for name, values in known.items()}
        return replace(self._nothing, ordinary=ordinary)


def mean_signature(signatures: Sequence[Signature]) -> Signature:
    """Return what several runs show on average; a counter that is not raised in a run counts as not moved there."""
    names = {name for signature in signatures for name, _ in signature.raised}
    heights = [dict(signature.raised) for signature in signatures]
    means = ((name, math.fsum(each.get(name, 0.0) for each in heights) / len(heights)) for name in names)
    return Signature(_highest_first((name, mean) for name, mean in means if mean > _MIN_HEIGHT))


def same_counters(first: Signature, second: Signature) -> bool | None:
    """Whether the counters moved alike in the runs of one workload; None when none moved on either side.

    Of one workload less has to be shown than `same_cause` asks for: whether what showed then shows now.
    """
    return likeness(first, second) >= _SAME_COSINE if first.raised or second.raised else None


def _highest_first(raised: Iterable[tuple[str, float]]) -> tuple[tuple[str, float], ...]:
    return tuple(sorted(raised, key=lambda pair: (-pair[1], pair[0])))
