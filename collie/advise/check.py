"""Which known anomalies an application can hit, and what to change so that it hits none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from collie.advise.change import Change, changes, meets, pair
from collie.advise.margin import with_margin
from collie.advise.overlap import Known, Overlap, overlap
from collie.advise.solver import find
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
        remedy: changes after which it hits none: the cheapest for each anomaly in turn, without those that later ones
            make needless; None when there are none.
    """

    application: Application
    hits: tuple[Hit, ...]
    remedy: tuple[Change, ...] | None


def check(application: Application, known: Sequence[Known]) -> Advice:
    """Say which of the known anomalies an application can hit, and what to change."""
    hits = tuple(hit for traffic in application.traffic for hit in _hits(application, traffic, known))
    return Advice(application, hits, _remedy(application, known))


def _hits(application: Application, traffic: Traffic, known: Sequence[Known]) -> Iterator[Hit]:
    met = [(each, common) for each in known if (common := overlap(traffic, application.space, each)) is not None]
    avoid = [each for each in known if all(each is not other for other, _ in met)]
    for each, common in met:
        single, both = _ways_out(application, traffic, each, avoid)
        after = single[0] if single else both[1] if both else None
        moved = find(after.traffic, application.space, None, common.example) if after else None
        yield Hit(each, traffic, common, single, both, moved)


def _ways_out(
    application: Application, traffic: Traffic, known: Known, avoid: Sequence[Known]
) -> tuple[tuple[Change, ...], tuple[Change, Change] | None]:
    """Return single changes, or else a pair; of each dimension one that keeps a margin, or else one without.

    Other anomalies are avoided with a margin too, but for those that the traffic is that near to already.
    """
    space, keep = application.space, application.keep
    wider = [(with_margin(each, space), each) for each in avoid]
    others = [exact if meets(traffic, space, wide) else wide for wide, exact in wider]
    wide = with_margin(known, space)
    single = {change.dimension: change for change in changes(traffic, space, wide, others, keep)}
    if wide is not known:
        for change in changes(traffic, space, known, others, keep):
            single.setdefault(change.dimension, replace(change, has_margin=False))
    if single:
        return tuple(sorted(single.values(), key=lambda change: change.cost)), None
    return (), pair(traffic, space, wide, others, keep) or pair(traffic, space, known, others, keep)


def _remedy(application: Application, known: Sequence[Known]) -> tuple[Change, ...] | None:
    found: list[Change] = []
    for traffic in application.traffic:
        applied = _cleared(application, traffic, known)
        if applied is None:
            return None
        found += applied
    return tuple(found)


def _cleared(application: Application, traffic: Traffic, known: Sequence[Known]) -> list[Change] | None:
    """Return changes of one kind of traffic after which it meets nothing."""
    found: list[Change] = []
    changed = traffic
    while met := [each for each in known if meets(changed, application.space, each)]:
        single, both = _ways_out(application, changed, met[0], [each for each in known if each not in met])
        if not single and not both:
            return None
        found += both or single[:1]
        changed = found[-1].traffic
    for change in tuple(found):
        others = [other for other in found if other is not change]
        if not any(meets(_with_all(traffic, others), application.space, each) for each in known):
            found = others
    return found


def _with_all(traffic: Traffic, changes: Sequence[Change]) -> Traffic:
    for change in changes:
        traffic = change.applied(traffic)
    return traffic
