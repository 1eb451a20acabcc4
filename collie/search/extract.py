"""Extraction of a minimal feature set (MFS) from one anomalous workload (paper section 5.3).

Terms. A *probe* is a workload whose verdict the extraction asks for. A probe *shows* when it is anomalous with the
symptom of the finding or a kin of it. *Plain* is each dimension's unremarkable value.

Method, in three phases over one funnel, `Prober.shows`:

1. **Simplify.** Move dimensions to plain, many at once, halving the group when the anomaly goes (delta debugging).
   What is left differs from plain only where it has to. A workload with two causes keeps the one that survives.
2. **Delimit.** For each dimension, find the values around the present one for which the anomaly stays: both ends of the
   ladder, and by bisection the first value on the ladder that still shows. Dimensions that could be made plain are
   delimited too: "no batching" is a condition although plain traffic satisfies it.
3. **Join.** Conditions on several dimensions become one where only a derived feature matters: two thresholds whose
   product counts (queue pairs x regions), or message sizes and splits that only make short entries meet long ones.

Invariant: the simplest workload shows, and every condition holds for it. A probe that cannot be run or says nothing
never removes a condition: an anomaly is explained too narrowly rather than wrongly.

Cost: simplifying takes at most 2 k log2(n/k) + k probes for k of n dimensions that matter, delimiting at most
2 + 2 log2(24) < 12 per ordered dimension and one per other value of the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass

from collie.detect.symptom import Symptom, Verdict
from collie.search.prober import Ask, Prober
from collie.search.recipe import Extraction
from collie.workloads.dimension import Choice, Ordered, Vector
from collie.workloads.feature import DERIVED, PRODUCTS, Condition, Mfs, Op
from collie.workloads.space import Space
from collie.workloads.workload import EVEN, Workload

Probes = Generator[Workload, Verdict | None, "Extracted"]
"""Yields workloads; receives a verdict, or None when the workload cannot be run; returns the result."""


@dataclass(frozen=True, slots=True)
class Extracted:
    """Result of an extraction.

    Attributes:
        mfs: the conditions.
        workload: the simplest workload found; satisfies `mfs`.
        complete: False when the most runs were used up, so some conditions were not looked for.
    """

    mfs: Mfs
    workload: Workload
    complete: bool


def extract(
    workload: Workload, symptom: Symptom, space: Space, policy: Extraction, known: Callable[[Workload], bool]
) -> Probes:
    """Find the minimal feature set of a confirmed anomaly.

    Args:
        workload: anomalous, and confirmed to be.
        symptom: how it shows.
        space: dimensions, their plain values and constraints.
        policy: how many agreeing verdicts decide a probe, and how many runs there may be.
        known: whether an anomaly found before covers a workload. Such a probe is not asked: it would show whatever this
            anomaly does, and simplifying would drift into the known one.
    """
    prober = Prober(symptom, space, policy, known)
    simplest = yield from _simplify(prober, space, workload)
    roomy = yield from _with_room(prober, space, simplest)
    conditions: list[Condition] = []
    for name, dimension in space.dimensions.items():
        match dimension:
            case Choice():
                conditions += yield from _delimit_choice(prober, simplest, dimension)
            case Ordered():
                conditions += yield from _delimit_ordered(prober, simplest, name, dimension.ladder)
            case Vector():
                conditions += yield from _delimit_messages(prober, roomy, dimension)
    conditions = yield from _join_segments(prober, space, roomy, conditions)
    conditions = yield from _join_products(prober, space, simplest, conditions)
    return Extracted(Mfs(tuple(conditions)), simplest, complete=not prober.exhausted)


# --- Phase 1: simplify ------------------------------------------------------------------------------------------------


def _simplify(prober: Prober, space: Space, workload: Workload) -> Generator[Workload, Verdict | None, Workload]:
    names = list(space.dimensions)
    current = yield from _make_plain(prober, space, workload, names)
    for name, dimension in space.dimensions.items():
        if isinstance(dimension, Vector):
            current = yield from _simplify_messages(prober, current, name)
    return current


def _make_plain(
    prober: Prober, space: Space, current: Workload, names: list[str]
) -> Generator[Workload, Verdict | None, Workload]:
    names = [name for name in names if current.get(name) != space.base.get(name)]
    if not names:
        return current
    candidate = current.with_(**{name: space.base.get(name) for name in names})
    if (yield from prober.surely_shows(candidate)):
        return candidate
    if len(names) == 1:
        return current
    middle = len(names) // 2
    current = yield from _make_plain(prober, space, current, names[:middle])
    return (yield from _make_plain(prober, space, current, names[middle:]))


def _simplify_messages(prober: Prober, current: Workload, name: str) -> Generator[Workload, Verdict | None, Workload]:
    sizes: tuple[int, ...] = current.get(name)
    if len(sizes) == 1:
        return current
    shorter: list[tuple[int, ...]] = [(size,) for size in sorted(set(sizes))]
    if len(set(sizes)) > 1 and len(sizes) > 2:
        shorter += [(min(sizes), max(sizes)), (max(sizes), min(sizes))]
    for candidate in (current.with_(**{name: value}) for value in shorter):
        if (yield from prober.surely_shows(candidate)):
            return candidate
    return current


# --- Phase 2: delimit -------------------------------------------------------------------------------------------------


def _delimit_choice(
    prober: Prober, simplest: Workload, dimension: Choice
) -> Generator[Workload, Verdict | None, list[Condition]]:
    present = simplest.get(dimension.name)
    showing, refuted = [present], False
    for value in dimension.values:
        probe = simplest.with_(**{dimension.name: value})
        if value == present or not prober.possible(probe):
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


def _delimit_ordered(
    prober: Prober, simplest: Workload, name: str, ladder: tuple[int, ...]
) -> Generator[Workload, Verdict | None, list[Condition]]:
    present = simplest.get(name)
    below = [value for value in ladder if value < present]
    above = [value for value in ladder if value > present]

    def probe(value: int) -> Workload:
        return simplest.with_(**{name: value})

    conditions = []
    lowest = yield from _last_showing(prober, probe, present, below[::-1])
    if lowest is not None:
        conditions.append(Condition(name, Op.AT_LEAST, lowest))
    highest = yield from _last_showing(prober, probe, present, above)
    if highest is not None:
        conditions.append(Condition(name, Op.AT_MOST, highest))
    return conditions


def _last_showing(
    prober: Prober, probe: Callable[[int], Workload], present: int, values: list[int]
) -> Generator[Workload, Verdict | None, int | None]:
    """Return the value furthest from the present one that still shows, or None when no value refutes.

    Args:
        prober: the funnel.
        probe: from a value to the workload that tests it.
        present: the value that shows.
        values: away from the present value, nearest first.
    """
    values = [value for value in values if prober.possible(probe(value))]
    while values:
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
    return ends[low]


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


def _delimit_messages(
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
    grown = [value for value in ladder if small < value and (not mixed or value <= large)]
    most = yield from _last_showing(prober, lambda value: replaced(small, value), small, grown)
    if most is not None:
        feature = "min_message_bytes" if mixed else (yield from _which_end(prober, simplest, name, small, grown[-1]))
        conditions.append(Condition(feature, Op.AT_MOST, most))
    shrunk = [value for value in reversed(ladder) if value < large and (not mixed or value >= small)]
    least = yield from _last_showing(prober, lambda value: replaced(large, value), large, shrunk)
    if least is not None:
        feature = "max_message_bytes" if mixed else (yield from _which_end(prober, simplest, name, large, shrunk[-1]))
        conditions.append(Condition(feature, Op.AT_LEAST, least))
    if mixed:
        conditions += yield from _delimit_outside(prober, replaced, small, large, ladder)
    return conditions


def _delimit_outside(
    prober: Prober, replaced: Callable[[int, int], Workload], small: int, large: int, ladder: tuple[int, ...]
) -> Generator[Workload, Verdict | None, list[Condition]]:
    conditions = []
    smaller = [value for value in reversed(ladder) if value < small]
    least = yield from _last_showing(prober, lambda value: replaced(small, value), small, smaller)
    if least is not None:
        conditions.append(Condition("min_message_bytes", Op.AT_LEAST, least))
    larger = [value for value in ladder if value > large]
    most = yield from _last_showing(prober, lambda value: replaced(large, value), large, larger)
    if most is not None:
        conditions.append(Condition("max_message_bytes", Op.AT_MOST, most))
    return conditions


def _which_end(
    prober: Prober, simplest: Workload, name: str, showing: int, refuting: int
) -> Generator[Workload, Verdict | None, str]:
    """Return the feature that a threshold on uniform messages is about.

    With one message that shows and one that does not: when the mix shows, the showing one is enough.
    """
    mix = (showing, refuting)
    probe = simplest.with_(**{name: mix})
    enough = yield from prober.shows(probe)
    shows_small = showing < refuting
    return "min_message_bytes" if enough == shows_small else "max_message_bytes"


# --- Phase 3: join ----------------------------------------------------------------------------------------------------


_MIX = ("min_message_bytes", "max_message_bytes", "messages", "sge_split", "sge_count")
"""Features by which scatter/gather entries come to have different sizes."""


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

    def even(small: int, large: int, count: int = simplest.sge_count) -> Workload:
        pair = (small * count, large * count)
        return simplest.with_(sge_split=EVEN, sge_count=count, messages=pair)

    ladder = [size for size in messages.element.ladder if size * simplest.sge_count <= messages.element.high]
    if large * simplest.sge_count > messages.element.high or not (yield from prober.shows(even(small, large))):
        return conditions
    most = yield from _last_showing(
        prober, lambda size: even(size, large), small, [size for size in ladder if small < size <= large]
    )
    least = yield from _last_showing(
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
        fewest = yield from _last_showing(prober, lambda count: even(small, large, count), simplest.sge_count, fewer)
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
