"""Trying a set of conditions on workloads inside it, and adding what is missing (third phase of `search.extract`)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from random import Random
from typing import Any

from collie.detect.symptom import Verdict
from collie.search.delimit import broken_by
from collie.search.prober import Conditions, Prober
from collie.workloads.dimension import Choice, Ordered, Vector
from collie.workloads.feature import PRODUCTS, Condition, Op, feature_value
from collie.workloads.space import Space
from collie.workloads.workload import Workload

Judgements = Callable[[], Iterable[tuple[Workload, Verdict]]]
"""Gives what the campaign has measured by now."""

_LOAD = frozenset({"qps", "send_wq_depth"})
"""Dimensions that say how much is in flight: at their lowest together nothing shows, whatever the cause."""
_CHOICE_SHARE = 0.3
_ORDERED_SHARE = 0.9
"""Dimensions that a random workload moves. Choices of topology bring anomalies of their own, which hide this one."""
_CUT_POINTS = 60
"""Workloads drawn, not run, to see how much of a set a further condition would take away."""
_CUT_FEATURES = ("min_message_bytes", "max_message_bytes", *PRODUCTS)
"""Derived features that such a condition may be on."""
_SUSPECTS = ("send_wq_depth", "recv_wq_depth", "wqe_batch", "mr_bytes", "messages", "mtu", "sge_count", "qps")
_SUSPICION = 3
"""Dimensions that often have a limit where a finding is plain, and how much likelier they are than others. Queues come
before the batches that fill them, and regions before messages."""
_TRIALS = 4
"""Workloads inside the set that have to show one after another."""
_MOST_DRAWS = 40
"""Random workloads at most; those that another anomaly hides say nothing."""
_LATEST_REPAIR = 36
"""Runs after which no further condition is looked for."""


def sufficient(
    prober: Prober, space: Space, simplest: Workload, conditions: list[Condition], measured: Judgements
) -> Generator[Workload, Verdict | None, tuple[list[Condition], int, int]]:
    """Try random workloads inside the set; a healthy one tells a condition that is missing.

    Returns:
        The conditions; how many random workloads their final form was tried on, and how many of those showed.
    """
    rng = Random(repr(simplest))
    for workload, verdict in list(measured()):
        if not (verdict.is_normal and within(conditions, workload) and prober.possible(workload)):
            continue
        if not (yield from prober.shows(workload)) and prober.is_healthy(workload):
            conditions = yield from _repaired(prober, space, simplest, conditions, workload)
    passed = failed = 0
    ends = [False, True]
    for _ in range(_MOST_DRAWS):
        if prober.exhausted or (passed >= _TRIALS and not ends):
            break
        trial = _draw_inside(space, simplest, conditions, rng, ends[0] if ends else None)
        shows = trial == simplest or (prober.possible(trial) and (yield from prober.shows(trial)))
        if shows or not prober.is_healthy(trial):
            passed += shows and trial != simplest
            del ends[:1]
            continue
        repaired = conditions
        if prober.runs < _LATEST_REPAIR:
            repaired = yield from _repaired(prober, space, simplest, conditions, trial)
        if repaired == conditions:
            failed = 1
            break
        conditions, passed = repaired, 0
    for healthy in prober.healthy:
        if within(conditions, healthy) and (cut := _least_cut(prober, space, simplest, conditions, healthy)):
            conditions, passed, failed = _with_conditions(conditions, [cut]), 0, 0
    return conditions, passed + failed, passed


def within(conditions: list[Condition], workload: Workload) -> bool:
    """Whether a workload satisfies every condition."""
    return all(condition.holds(workload) for condition in conditions)


def _draw_inside(
    space: Space, simplest: Workload, conditions: list[Condition], rng: Random, high: bool | None = None
) -> Workload:
    """Draw a workload that keeps the conditions.

    Args:
        space: gives values and constraints.
        simplest: where the drawing starts.
        conditions: to keep.
        rng: of the drawing.
        high: every ordered dimension as high as it may be, or as low; None draws most dimensions at random.
    """
    workload = simplest
    named = {condition.dimension for condition in conditions}
    names = list(space.dimensions)
    if high is None:
        names = [
            name
            for name, dimension in space.dimensions.items()
            if name in named or rng.random() < (_CHOICE_SHARE if isinstance(dimension, Choice) else _ORDERED_SHARE)
        ]
    else:
        names = [name for name in names if name not in _LOAD and not isinstance(space.dimensions[name], Choice)]
    for _ in range(2):
        rng.shuffle(names)
        for name in names:
            for value in _far_values(space.dimensions[name], rng, high):
                candidate = workload.with_(**{name: value})
                if within(conditions, candidate) and space.allows(candidate):
                    workload = candidate
                    break
    return workload


def _far_values(dimension: Choice | Ordered | Vector, rng: Random, high: bool | None) -> list[Any]:
    """Return values of a dimension in the order in which a workload tries them."""
    if isinstance(dimension, Vector):
        ladder = dimension.element.ladder
        if high is not None:
            sizes = [(size,) for size in sorted(ladder, reverse=high)]
            return [*sizes, *((first[0], last[0]) for first, last in zip(sizes, sizes[::-1], strict=True))]
        lists = [tuple(rng.choice(ladder) for _ in range(rng.randint(1, dimension.max_length))) for _ in range(4)]
        return [*lists, (rng.choice(ladder),), (rng.choice(ladder),)]
    values = list(dimension.candidates())
    rng.shuffle(values)
    if isinstance(dimension, Ordered):
        if high is not None:
            values.sort(reverse=high)
        elif rng.random() < 0.5:
            values.sort(reverse=rng.random() < 0.5)
    return values


def _repaired(
    prober: Prober, space: Space, simplest: Workload, conditions: list[Condition], healthy: Workload
) -> Conditions:
    """Add the condition that a healthy workload inside the set breaks."""
    names = [name for name in space.dimensions if simplest.get(name) != healthy.get(name)]
    names.sort(key=lambda name: _SUSPECTS.index(name) if name in _SUSPECTS else len(_SUSPECTS))

    def mixture(count: int) -> Workload:
        return simplest.with_(**{name: healthy.get(name) for name in names[:count]})

    # Invariant: with the first `low` dimensions moved it shows, with the first `high` it does not.
    low, high = 0, len(names)
    tried: set[int] = set()
    while high - low > 1:
        middle = _middle(names, low, high)
        near = sorted((count for count in range(low + 1, high) if count not in tried), key=lambda n: abs(n - middle))
        count = next((count for count in near if prober.possible(mixture(count))), None)
        if count is None:
            break
        tried.add(count)
        if (yield from prober.shows(mixture(count))):
            low = count
        elif prober.is_healthy(mixture(count)):
            high = count
    suspects = names[low:high]
    for name in suspects:
        alone = simplest.with_(**{name: healthy.get(name)})
        if not within(conditions, alone) or not prober.possible(alone):
            continue
        if not (yield from prober.shows(alone)) and prober.refuted(alone):
            found = yield from broken_by(prober, space, simplest, alone, name)
            if found:
                return _with_conditions(conditions, found)
    cut = _least_cut(prober, space, simplest, conditions, mixture(high))
    return _with_conditions(conditions, [cut]) if cut else conditions


def _middle(names: list[str], low: int, high: int) -> int:
    """Return where to cut a list of suspects so that either part is as likely as the other to hold the culprit."""
    weights = [_SUSPICION if name in _SUSPECTS else 1 for name in names]
    return min(range(low + 1, high), key=lambda cut: abs(sum(weights[low:cut]) - sum(weights[cut:high])))


def _with_conditions(conditions: list[Condition], found: list[Condition]) -> list[Condition]:
    """Return the conditions with some added; each replaces one on the same side of the same feature."""
    sides = {(condition.dimension, condition.op) for condition in found}
    return [condition for condition in conditions if (condition.dimension, condition.op) not in sides] + found


def _least_cut(
    prober: Prober, space: Space, simplest: Workload, conditions: list[Condition], bad: Workload
) -> Condition | None:
    """Return the threshold that excludes a healthy workload and the least of what the conditions cover now.

    Several dimensions together make it healthy, none of them alone. Any one of them, or a feature of several, may be
    cut; what showed, and then what is likely to, decides which.
    """
    rng = Random(repr(bad))
    inside = [_draw_inside(space, simplest, conditions, rng) for _ in range(_CUT_POINTS)]
    shown = [workload for workload in prober.shown if within(conditions, workload)]
    best: tuple[float, Condition] | None = None
    ordered = [name for name, dimension in space.dimensions.items() if isinstance(dimension, Ordered)]
    for feature in (*ordered, *_CUT_FEATURES):
        present, broken = feature_value(simplest, feature), feature_value(bad, feature)
        if present == broken:
            continue
        steps = _steps(space, feature)
        if broken < present:
            cut = Condition(feature, Op.AT_LEAST, min((s for s in steps if broken < s <= present), default=present))
        else:
            cut = Condition(feature, Op.AT_MOST, max((s for s in steps if present <= s < broken), default=present))
        lost = sum(not cut.holds(workload) for workload in shown) / (len(shown) + 1)
        share = sum(not cut.holds(workload) for workload in inside) / len(inside)
        if best is None or lost + share < best[0]:
            best = (lost + share, cut)
    return best[1] if best else None


def _steps(space: Space, feature: str) -> tuple[int, ...]:
    """Return the values at which a threshold on a feature may lie."""
    dimension = space.dimensions.get(feature)
    if isinstance(dimension, Ordered):
        return dimension.ladder
    messages = space.dimensions.get("messages")
    if feature.endswith("_message_bytes") and isinstance(messages, Vector):
        return messages.element.ladder
    return tuple(1 << power for power in range(40))
