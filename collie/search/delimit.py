"""Where a condition begins: bisection of one dimension between a workload that shows and one that does not."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial

from collie.detect.symptom import Verdict
from collie.search.prober import Conditions, Prober
from collie.workloads.dimension import Choice, Ordered, Vector
from collie.workloads.feature import Condition, Op
from collie.workloads.space import Space
from collie.workloads.workload import Workload

_MIXED = 4
"""Messages of a list that tells whether one of a kind is enough."""


def delimit_choice(prober: Prober, base: Workload, dimension: Choice) -> Conditions:
    """Find the values of a dimension without order that show."""
    present = base.get(dimension.name)
    settled = dimension.name in prober.plain_refuted
    showing, refuted = [present], settled
    for value in dimension.values:
        probe = base.with_(**{dimension.name: value})
        if value == present or (settled and value == dimension.plain) or not prober.possible(probe):
            continue
        if (yield from prober.shows(probe)):
            showing.append(value)
        else:
            refuted |= prober.refuted(probe)
    if not refuted:
        return []
    if len(showing) == 1:
        return [Condition(dimension.name, Op.EQUAL, present)]
    ordered = tuple(value for value in dimension.values if value in showing)
    return [Condition(dimension.name, Op.ONE_OF, ordered)]


def towards_plain(prober: Prober, simplest: Workload, dimension: Ordered) -> Conditions:
    """Delimit a dimension between its present value and plain."""
    name, present, plain = dimension.name, simplest.get(dimension.name), dimension.plain
    if plain < present:
        between = [value for value in reversed(dimension.ladder) if plain <= value < present]
    else:
        between = [value for value in dimension.ladder if present < value <= plain]
    last = yield from last_showing(
        prober,
        lambda value: simplest.with_(**{name: value}),
        present,
        between,
        last_refuted=name in prober.plain_refuted,
    )
    if last is None:
        return []
    return [Condition(name, Op.AT_LEAST if plain < present else Op.AT_MOST, last)]


def last_showing(
    prober: Prober,
    probe: Callable[[int], Workload],
    present: int,
    values: list[int],
    *,
    last_refuted: bool = False,
) -> Generator[Workload, Verdict | None, int | None]:
    """Return the value furthest from the present one that still shows, or None when no value refutes.

    Args:
        prober: the funnel.
        probe: from a value to the workload that tests it.
        present: the value that shows.
        values: away from the present value, nearest first.
        last_refuted: the furthest value is known not to show.
    """
    end = values[-1:] if last_refuted else []
    values = [value for value in values if value in end or prober.possible(probe(value))]
    while values and not end:
        if (yield from prober.shows(probe(values[-1]))):
            return None
        if prober.refuted(probe(values[-1])):
            break
        values.pop()  # it said nothing: the next one inwards may
    if not values:
        return None
    # Invariant: ends[low] shows (or is the present value), ends[high] does not.
    ends = [present, *values]
    low, high = 0, len(ends) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if (yield from prober.shows(probe(ends[middle]))):
            low = middle
        else:
            high = middle
    if high == len(ends) - 1 and prober.passes_into(probe(ends[low]), probe(ends[high])):
        return None
    return ends[low]


def delimit_messages(
    prober: Prober, simplest: Workload, dimension: Vector
) -> Generator[Workload, Verdict | None, list[Condition]]:
    """Delimit the smallest and the largest message.

    A threshold on messages of one size may be one on the smallest or on the largest; a mix of both tells which.
    """
    name = dimension.name
    sizes: tuple[int, ...] = simplest.get(name)
    ladder = dimension.element.ladder

    def replaced(old: int, new: int) -> Workload:
        changed = tuple(new if size == old else size for size in sizes)
        return simplest.with_(**{name: changed})

    small, large = min(sizes), max(sizes)
    mixed = small != large
    conditions = []
    plain = dimension.plain[0]
    settled = not mixed and name in prober.plain_refuted and len(dimension.plain) == 1
    grown = [value for value in ladder if small < value <= (large if mixed else plain)]
    most = yield from last_showing(
        prober, lambda value: replaced(small, value), small, grown, last_refuted=settled and bool(grown)
    )
    if most is not None:
        feature = "min_message_bytes" if mixed else (yield from _which_end(prober, simplest, dimension, most, grown))
        conditions.append(Condition(feature, Op.AT_MOST, most))
    shrunk = [value for value in reversed(ladder) if (small if mixed else plain) <= value < large]
    least = yield from last_showing(
        prober, lambda value: replaced(large, value), large, shrunk, last_refuted=settled and bool(shrunk)
    )
    if least is not None:
        feature = "max_message_bytes" if mixed else (yield from _which_end(prober, simplest, dimension, least, shrunk))
        conditions.append(Condition(feature, Op.AT_LEAST, least))
    return conditions


def _after(value: int, values: list[int]) -> int:
    """Return the value that follows one, or the first."""
    return values[values.index(value) + 1] if value in values else values[0]


def _which_end(
    prober: Prober, base: Workload, dimension: Vector, showing: int, values: list[int]
) -> Generator[Workload, Verdict | None, str]:
    """Return the feature that a threshold on uniform messages is about.

    With one message on this side of the threshold and some beyond it, far beyond or just beyond: when both mixes show,
    the one is enough.

    Args:
        prober: the funnel.
        base: the workload whose messages are varied.
        dimension: messages.
        showing: the last size that shows.
        values: sizes away from where it shows, up to one that does not.
    """
    enough = True
    for refuting in dict.fromkeys((values[-1], _after(showing, values))):
        mix = (showing, *[refuting] * max(1, min(_MIXED, dimension.max_length) - 1))
        enough = enough and (yield from prober.shows(base.with_(**{dimension.name: mix})))
    shows_small = showing < values[-1]
    return "min_message_bytes" if enough == shows_small else "max_message_bytes"


def broken_by(prober: Prober, space: Space, base: Workload, bad: Workload, name: str) -> Conditions:
    """Delimit one dimension between a workload that shows and one that differs in it alone and does not."""
    dimension = space.dimensions[name]
    present, broken = base.get(name), bad.get(name)
    match dimension:
        case Choice():
            return (yield from delimit_choice(prober, base, dimension))
        case Ordered():
            if present < broken:
                between = [value for value in dimension.ladder if present < value <= broken]
            else:
                between = [value for value in reversed(dimension.ladder) if broken <= value < present]
            last = yield from last_showing(prober, lambda value: base.with_(**{name: value}), present, between)
            return [] if last is None else [Condition(name, Op.AT_MOST if present < broken else Op.AT_LEAST, last)]
        case Vector():
            return (yield from _broken_messages(prober, base, dimension, broken))


def _broken_messages(prober: Prober, base: Workload, dimension: Vector, broken: tuple[int, ...]) -> Conditions:
    """Say what is wrong with a list of messages: its shortest, its longest, or that it mixes them."""
    name, ladder = dimension.name, dimension.element.ladder
    sizes: tuple[int, ...] = base.get(name)
    small, large = min(sizes), max(sizes)

    def replaced(old: int, new: int) -> Workload:
        return base.with_(**{name: tuple(new if size == old else size for size in sizes)})

    for old, new, feature in (
        (large, max(broken), "max_message_bytes"),
        (small, min(broken), "min_message_bytes"),
        (small, max(broken), "min_message_bytes"),
        (large, min(broken), "max_message_bytes"),
    ):
        if new == old or (small != large and feature == "min_message_bytes" and new > large):
            continue
        values = [v for v in ladder if old < v <= new] if old < new else [v for v in ladder[::-1] if new <= v < old]
        if not values or not prober.possible(replaced(old, values[-1])):
            continue
        last = yield from last_showing(prober, partial(replaced, old), old, values)
        if last is None:
            continue
        if small == large:
            feature = yield from _which_end(prober, base, dimension, last, values)
        return [Condition(feature, Op.AT_MOST if old < new else Op.AT_LEAST, last)]
    if max(broken) > large:
        return [Condition("max_message_bytes", Op.AT_MOST, large)]
    if min(broken) < small:
        return [Condition("min_message_bytes", Op.AT_LEAST, small)]
    return []
