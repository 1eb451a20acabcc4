"""Conditions on several dimensions that are one condition on a feature of them (second phase of `search.extract`)."""

from __future__ import annotations

from collections.abc import Generator

from collie.detect.symptom import Verdict
from collie.search.delimit import last_showing
from collie.search.prober import Ask, Conditions, Prober
from collie.workloads.dimension import Choice, Ordered, Vector
from collie.workloads.feature import DERIVED, PRODUCTS, Condition, Op
from collie.workloads.space import Space
from collie.workloads.workload import EVEN, Workload

_PER_HOST = {"gpu_hosts": ("memory", "peer_memory"), "far_hosts": ("numa_node", "peer_numa_node")}
"""Features that count hosts, and the dimension of each host."""
_MIX = ("min_message_bytes", "max_message_bytes", "messages", "sge_split", "sge_count")
"""Features by which scatter/gather entries come to have different sizes."""


def join(prober: Prober, space: Space, simplest: Workload, conditions: list[Condition]) -> Conditions:
    """Return the conditions, as few and as wide as features of several dimensions make them."""
    conditions = yield from _join_segments(prober, space, simplest, conditions)
    conditions = yield from _join_products(prober, space, simplest, conditions)
    conditions = yield from _join_with_plain(prober, space, simplest, conditions)
    conditions = yield from _sharpen_products(prober, space, simplest, conditions)
    return (yield from _join_hosts(prober, space, simplest, conditions))


def _with_room(prober: Prober, space: Space, simplest: Workload) -> Generator[Workload, Verdict | None, Workload]:
    """Return the workload with the largest memory regions that still show.

    Longer messages need longer regions. With room for them from the start, a probe of another message size changes
    nothing else.
    """
    regions = space.dimensions.get("mr_bytes")
    for size in reversed(regions.ladder) if isinstance(regions, Ordered) else ():
        roomy = simplest.with_(mr_bytes=size)
        if size > simplest.mr_bytes and prober.possible(roomy):
            return roomy if (yield from prober.shows(roomy)) else simplest
    return simplest


def _join_segments(
    prober: Prober, space: Space, simplest: Workload, conditions: list[Condition]
) -> Generator[Workload, Verdict | None, list[Condition]]:
    """Replace conditions on messages and splits by conditions on entries, if another way to the same entries shows.

    The even split of two message sizes gives entries of any two sizes, so thresholds are looked for in that form.
    """
    sizes = [size for entries in simplest.segments() for size in entries]
    small, large = min(sizes), max(sizes)
    messages = space.dimensions.get("messages")
    if small == large or simplest.sge_count == 1 or not isinstance(messages, Vector):
        return conditions
    simplest = yield from _with_room(prober, space, simplest)

    def even(small: int, large: int, count: int = simplest.sge_count) -> Workload:
        pair = (small * count, large * count)
        return simplest.with_(sge_split=EVEN, sge_count=count, messages=pair)

    ladder = [size for size in messages.element.ladder if size * simplest.sge_count <= messages.element.high]
    if large * simplest.sge_count > messages.element.high or not (yield from prober.shows(even(small, large))):
        return conditions
    most = yield from last_showing(
        prober, lambda size: even(size, large), small, [size for size in ladder if small < size <= large]
    )
    least = yield from last_showing(
        prober, lambda size: even(small, size), large, [size for size in reversed(ladder) if small <= size < large]
    )
    if most is None or least is None:
        return conditions
    if simplest.sge_split == EVEN and not (yield from _another_form_shows(prober, space, simplest, most, least)):
        return conditions
    joined = [condition for condition in conditions if condition.dimension not in _MIX]
    counts = space.dimensions.get("sge_count")
    if isinstance(counts, Ordered):
        fewer = [count for count in reversed(counts.ladder) if count < simplest.sge_count]
        fewest = yield from last_showing(prober, lambda count: even(small, large, count), simplest.sge_count, fewer)
        if fewest is not None:
            joined.append(Condition("sge_count", Op.AT_LEAST, fewest))
    joined.append(Condition("min_segment_bytes", Op.AT_MOST, most))
    joined.append(Condition("max_segment_bytes", Op.AT_LEAST, least))
    return joined


def _another_form_shows(prober: Prober, space: Space, simplest: Workload, small: int, large: int) -> Ask:
    """Whether messages of one size show as well, cut by a split of the space into entries so short and so long."""
    splits = space.dimensions.get("sge_split")
    for split in splits.values if isinstance(splits, Choice) else ():
        if split == EVEN or len(split) >= simplest.sge_count:
            continue
        message = sum(split) + (simplest.sge_count - len(split)) * max(large, small)
        probe = simplest.with_(sge_split=split, messages=(message,))
        entries = probe.segments()[0]
        if min(entries) <= small and max(entries) >= large and (yield from prober.shows(probe)):
            return True
    return False


def _join_products(
    prober: Prober, space: Space, simplest: Workload, conditions: list[Condition]
) -> Generator[Workload, Verdict | None, list[Condition]]:
    for feature, (first, second) in PRODUCTS.items():
        pair = [c for c in conditions if c.dimension in (first, second) and c.op is Op.AT_LEAST]
        if {condition.dimension for condition in pair} != {first, second}:
            continue
        if (yield from _trades(prober, space, simplest, pair, first, second)):
            least = min(
                DERIVED[feature](simplest.with_(**{condition.dimension: condition.value})) for condition in pair
            )
            conditions = [c for c in conditions if c not in pair]
            conditions.append(Condition(feature, Op.AT_LEAST, least))
    return conditions


def _join_with_plain(prober: Prober, space: Space, simplest: Workload, conditions: list[Condition]) -> Conditions:
    """Replace a threshold on one dimension by one on a product, if more of a plain one makes up for less of it."""
    for condition in list(conditions):
        name, dimension = condition.dimension, space.dimensions.get(condition.dimension)
        if condition.op is not Op.AT_LEAST or not isinstance(dimension, Ordered):
            continue
        below = [value for value in dimension.ladder if value * 2 <= condition.value]
        if not below:
            continue
        fewer = simplest.with_(**{name: below[-1]})
        raised: dict[str, tuple[str, int]] = {}
        for feature, (first, second) in PRODUCTS.items():
            other = second if name == first else first
            values = space.dimensions.get(other)
            if name not in (first, second) or not isinstance(values, Ordered) or simplest.get(other) != values.plain:
                continue
            enough = 2 * DERIVED[feature](simplest.with_(**{name: condition.value}))
            more = next((v for v in values.ladder if DERIVED[feature](fewer.with_(**{other: v})) >= enough), None)
            if more is not None:
                raised[other] = feature, more
        for others in (list(raised), *([other] for other in raised)):
            probe = fewer.with_(**{other: raised[other][1] for other in others})
            shows = bool(others) and (yield from prober.shows(probe))
            if shows and len(others) == 1:
                feature = raised[others[0]][0]
                least = DERIVED[feature](simplest.with_(**{name: condition.value}))
                conditions = [c for c in conditions if c is not condition]
                conditions.append(Condition(feature, Op.AT_LEAST, least))
                break
            if not shows and len(others) == len(raised):
                break
    return conditions


def _sharpen_products(prober: Prober, space: Space, simplest: Workload, conditions: list[Condition]) -> Conditions:
    """Move a threshold on a product half a step down, if that shows: its factors' ladders are coarser than itself."""
    for condition in list(conditions):
        if condition.dimension not in PRODUCTS or condition.op is not Op.AT_LEAST:
            continue
        ladders = [space.dimensions.get(name) for name in PRODUCTS[condition.dimension]]
        first, second = (ladder.ladder if isinstance(ladder, Ordered) else () for ladder in ladders)
        names = PRODUCTS[condition.dimension]
        wanted = condition.value / 2**0.5
        between = [
            probe
            for one in first
            for other in second
            if condition.value / 2 < one * other < condition.value
            and prober.possible(probe := simplest.with_(**{names[0]: one, names[1]: other}))
        ]
        if not between:
            continue
        value = DERIVED[condition.dimension]
        nearest = min(
            between, key=lambda w: (abs(value(w) - wanted), sum(abs(w.get(n) - simplest.get(n)) for n in names))
        )
        if (yield from prober.shows(nearest)):
            conditions = [Condition(c.dimension, c.op, value(nearest)) if c is condition else c for c in conditions]
    return conditions


def _join_hosts(prober: Prober, space: Space, simplest: Workload, conditions: list[Condition]) -> Conditions:
    """Replace a condition on one host by one on either, if the other host's setting does as well."""
    for feature, names in _PER_HOST.items():
        own = [condition for condition in conditions if condition.dimension in names]
        if {condition.dimension for condition in own} == set(names):
            continue
        for condition in own:
            other = names[1] if condition.dimension == names[0] else names[0]
            if other not in space.dimensions or DERIVED[feature](simplest) != 1:
                continue
            swapped = {other: simplest.get(condition.dimension), condition.dimension: simplest.get(other)}
            if (yield from prober.shows(simplest.with_(**swapped))):
                conditions = [c for c in conditions if c is not condition]
                conditions.append(Condition(feature, Op.AT_LEAST, 1))
    return conditions


def _trades(prober: Prober, space: Space, simplest: Workload, pair: list[Condition], first: str, second: str) -> Ask:
    """Whether less of one dimension is made up for by more of the other, in both directions."""
    least = {condition.dimension: condition.value for condition in pair}
    tried = 0
    for fewer, more in ((first, second), (second, first)):
        lesser, greater = space.dimensions[fewer], space.dimensions[more]
        if not isinstance(lesser, Ordered) or not isinstance(greater, Ordered):
            return False
        below = [value for value in lesser.ladder if value < least[fewer]]
        if not below:
            continue
        factor = simplest.get(fewer) / below[-1]
        above = [value for value in greater.ladder if value >= factor * simplest.get(more)]
        if not above:
            continue
        probe = simplest.with_(**{fewer: below[-1], more: above[0]})
        if not prober.possible(probe):
            continue
        if not (yield from prober.shows(probe)):
            return False
        tried += 1
    return tried > 0
