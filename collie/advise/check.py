"""Which known anomalies an application can hit, and what to change so that it hits none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from collie.advise.box import find
from collie.advise.change import Change, changes, meets, pair
from collie.advise.overlap import Known, Overlap, overlap
from collie.workloads.application import Application, Traffic
from collie.workloads.workload import Workload


@dataclass(frozen=True)
class Hit:
    """A known anomaly that one kind of traffic can hit.

    Attributes:
        known: the anomaly.
        traffic: the kind.
        overlap: what both have in common.
        changes: single changes that keep clear of it and enter no other, the cheapest first.
        pair: two changes that do so together; None where a single one does, or no two do.
        changed: the example of the overlap after the cheapest change, or after the pair; None without either.
    """

    known: Known
    traffic: Traffic
    overlap: Overlap
    changes: tuple[Change, ...]
    pair: tuple[Change, Change] | None
    changed: Workload | None


@dataclass(frozen=True)
class Advice:
    """What a check of an application found.

    Attributes:
        application: what was checked.
        hits: one for each anomaly and kind of traffic that meet.
        remedy: changes after which it hits none, the cheapest for each anomaly in turn; None when there are not.
    """

    application: Application
    hits: tuple[Hit, ...]
    remedy: tuple[Change, ...] | None


def check(application: Application, known: Sequence[Known]) -> Advice:
    """Say which of the known anomalies an application can hit, and what to change."""
    hits = tuple(hit for traffic in application.traffic for hit in _hits(application, traffic, known))
    return Advice(application, hits, _remedy(application, known))


def _hits(application: Application, traffic: Traffic, known: Sequence[Known]) -> Iterator[Hit]:
    space, keep = application.space, application.keep
    met = [(each, common) for each in known if (common := overlap(traffic, space, each)) is not None]
    avoid = [each for each in known if all(each is not other for other, _ in met)]
    for each, common in met:
        single = changes(traffic, space, each, avoid, keep)
        both = None if single else pair(traffic, space, each, avoid, keep)
        after = single[0] if single else both[1] if both else None
        moved = find(after.traffic, space, None, common.example) if after else None
        yield Hit(each, traffic, common, single, both, moved)


def _remedy(application: Application, known: Sequence[Known]) -> tuple[Change, ...] | None:
    found: list[Change] = []
    for traffic in application.traffic:
        applied = _cleared(application, traffic, known)
        if applied is None:
            return None
        found += applied
    return tuple(found)


def _cleared(application: Application, traffic: Traffic, known: Sequence[Known]) -> list[Change] | None:
    """Return changes of one kind of traffic, each the cheapest for one anomaly that the earlier ones left."""
    space, keep = application.space, application.keep
    applied: list[Change] = []
    while met := [each for each in known if meets(traffic, space, each)]:
        avoid = [each for each in known if each not in met]
        single = changes(traffic, space, met[0], avoid, keep)[:1]
        step = single or pair(traffic, space, met[0], avoid, keep) or ()
        if not step:
            return None
        applied += step
        traffic = step[-1].traffic
    return applied
