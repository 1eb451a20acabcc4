"""Why one workload is slow: one dimension after another is changed, and the changes that help are ranked.

Terms. A *change* gives one dimension another value, and others only where the verbs API or the space demand it. A
change *cures* if the changed workload is normal. The *steps* of a change are those on the ladders that it takes.

Method.
1. The workload and its changes to plain values run as phases of one set-up, first those that need no other set-up, the
   cheapest first. Once one looks as if it cures, the dearer ones are left out, unless every change is wanted.
2. If none of them cures, or if every change is wanted, the changes that need a set-up of their own follow. If none of
   these cures, the values beyond the plain one follow.
3. If none cures, the workload has more than one cause. The change that helps most is kept, and the rest begins anew.
4. The cheapest change that cures is measured again on a new set-up, with values between. The smallest one beyond which
   all cure is the advice. If the change does not cure again, the next cheapest follows.
5. If every change is wanted, all values between follow, and those of the other dimensions that cure, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from collie.campaign.single_run import JudgedRun
from collie.workloads.dimension import Choice, Dimension, Ordered, Vector
from collie.workloads.setup import Changes, changes_with
from collie.workloads.space import Space
from collie.workloads.workload import EVEN, Workload


@dataclass(frozen=True, slots=True)
class Batch:
    """Workloads that can share set-ups. With `until_cure`, none runs after one that looks normal."""

    workloads: Sequence[Workload]
    until_cure: bool = False


Batches = Generator[Batch, Sequence[JudgedRun], "Diagnosis"]
"""Yields batches. Receives their runs in the same order, fewer if one looked as if it cures."""

_DEEPEST = 3
"""Limit on causes that are looked for behind each other."""
_BETWEEN = 2
"""Number of values that are measured between the present one and one that cures, unless every change is wanted."""
_SWITCH_STEPS = 4
"""Steps that a value without order takes, because it needs code for another operation or another place of memory."""
_TRANSPORT_STEPS = 8
"""The same for another transport or operation."""
_CLEAR_SHARE = 0.1
_CLEAR_FACTOR = 2.0
"""Differences of two severities that are no noise, one of which a change that helps makes (as `detect.reading`)."""
_REPEATED = 0.03
"""Difference of two severities of one workload. A cause that another one nearly hides leaves little less, but more."""
_TRANSPORT = frozenset({"qp_type", "opcode", "more_opcodes"})


@dataclass(frozen=True, slots=True)
class Change:
    """A change that was measured.

    Attributes:
        dimension: the one that it is about.
        also: dimensions that had to follow.
        run: the changed workload, measured.
        steps: the distance, see the module's terms.
    """

    dimension: str
    also: tuple[str, ...]
    run: JudgedRun
    steps: float

    @property
    def cures(self) -> bool:
        """Whether the changed workload is normal."""
        return self.run.verdict is not None and self.run.verdict.is_normal

    @property
    def severity(self) -> float | None:
        """The severity that is left, or None if the run tells nothing."""
        verdict = self.run.verdict
        return None if verdict is None or verdict.is_inconclusive else verdict.severity


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What was found about one workload.

    Attributes:
        run: the workload as it is.
        changes: those that were measured, the one that helps most with the least first.
        kept: changes that help but do not cure, which all of `changes` include.
        advised: the smallest change of the cheapest dimension that cures. Every larger one that ran cures, too.
        repeated: whether the advised change itself ran on two set-ups. Otherwise the largest of its dimension did.
        untried: dimensions whose change to plain traffic was left out, as one that cures is expected to cost less.
        untried_apart: those of them whose change may cost less, but needs another set-up.
        unjudged: dimensions whose change ran, and has no conclusive verdict. It is not among `changes`.
    """

    run: JudgedRun
    changes: tuple[Change, ...] = ()
    kept: tuple[Change, ...] = ()
    advised: Change | None = None
    repeated: bool = False
    untried: tuple[str, ...] = ()
    untried_apart: tuple[str, ...] = ()
    unjudged: tuple[str, ...] = ()

    def helps(self, change: Change) -> bool:
        """Whether a change leaves clearly less of the severity that there is with those in `kept`."""
        before = self.kept[-1].run.verdict if self.kept else self.run.verdict
        if before is None or change.severity is None:
            return False
        clear = max(before.severity / _CLEAR_FACTOR, before.severity - _CLEAR_SHARE)
        return change.severity < before.severity and change.severity <= clear

    @property
    def cheaper(self) -> Change | None:
        """The change of fewest steps that was normal, if it has fewer than the advised one, and ran less often."""
        if self.advised is None:
            return None
        cheapest = min((each for each in self.changes if each.cures), key=_cheapest_first)
        return cheapest if cheapest.steps < self.advised.steps else None

    @property
    def is_anomalous(self) -> bool:
        """Whether the workload shows an anomaly."""
        return self.run.verdict is not None and self.run.verdict.is_anomalous


@dataclass(frozen=True, slots=True)
class _Variant:
    dimension: str
    also: tuple[str, ...]
    workload: Workload
    steps: float


def diagnose(workload: Workload, space: Space, *, every: bool = False) -> Batches:
    """Measure a workload, and find out which of its dimensions to change. `every` tries dearer changes, too."""
    kept: list[Change] = []
    start, first = workload, None
    while True:
        first, changes, left = yield from _until_cure(start, first, space, every=every)
        if not Diagnosis(first).is_anomalous:
            return Diagnosis(first)
        if any(each.cures for each in changes) or len(kept) + 1 >= _DEEPEST:
            break
        helped = _most_helpful(changes, kept[-1].run if kept else first)
        if helped is None:
            break
        kept.append(helped)
        start = helped.run.workload
    return (
        yield from _advised(Diagnosis(first, changes=tuple(changes), kept=tuple(kept)), start, left, space, every=every)
    )


def _until_cure(
    start: Workload, first: JudgedRun | None, space: Space, *, every: bool
) -> Generator[Batch, Sequence[JudgedRun], tuple[JudgedRun, list[Change], list[_Variant]]]:
    """Measure changes of a workload round by round until one cures, with the workload itself unless it has its run.

    Return the run of the workload, the changes, and those to plain values that were left out.
    """
    changes: list[Change] = []
    phases, others, beyond = _rounds(start, space)
    rounds = [[*phases, *others], beyond] if every else [phases, *([each] for each in others), beyond]
    for number, variants in enumerate(rounds, start=1):
        left = sorted(variants, key=_expected_steps(space))
        while first is None or left:
            before = [start] if first is None else []
            runs = yield Batch([*before, *_workloads(left)], until_cure=first is None and not every)
            if first is None:
                first, runs = runs[0], runs[1:]
                if not Diagnosis(first).is_anomalous:
                    return first, [], []
            changes += [_measured(each, run) for each, run in zip(left, runs, strict=False)]
            left = left[len(runs) :]
            if any(each.cures for each in changes):
                return first, changes, [*left, *(each for later in rounds[number:-1] for each in later)]
    assert first is not None, "the first batch has the workload"
    return first, changes, []


def _advised(found: Diagnosis, start: Workload, left: Sequence[_Variant], space: Space, *, every: bool) -> Batches:
    """Measure the cures of a diagnosis again, the cheapest first, then those among the changes that were left out."""
    failed: list[Change] = []
    changes = list(found.changes)
    while True:
        cures = sorted((each for each in changes if each.cures), key=_expected_steps(space))
        for number, cure in enumerate(cures, start=1):
            tried = yield from _smaller([cure], start, space, every=every)
            changes = [each for each in changes if each is not cure] + tried
            advised = _smallest(tried)
            if advised is not None:
                if every:
                    changes += yield from _smaller(cures[number:], start, space, every=every, again=False)
                ranked = _ranked([*failed, *changes], advised)
                untried = tuple(dict.fromkeys(each.dimension for each in left))
                dearer = {each.dimension for each in left if _is_phase(each, start, space)}
                apart = tuple(name for name in untried if name not in dearer)
                left_open = _unjudged([*failed, *changes])
                return Diagnosis(found.run, ranked, found.kept, advised, advised is tried[0], untried, apart, left_open)
        if not left:
            changes = [*failed, *changes]
            return Diagnosis(found.run, _ranked(changes, None), found.kept, unjudged=_unjudged(changes))
        runs = yield Batch(_workloads(left))
        failed, changes = [*failed, *changes], [_measured(each, run) for each, run in zip(left, runs, strict=True)]
        left = []


def _rounds(workload: Workload, space: Space) -> tuple[list[_Variant], list[_Variant], list[_Variant]]:
    """Return the changes to plain values on the set-up, those that need another one, and those beyond plain values."""
    simpler = list(_towards_plain(workload, space))
    phases = [each for each in simpler if _is_phase(each, workload, space)]
    others = sorted((each for each in simpler if each not in phases), key=lambda each: each.steps)
    return phases, others, list(_beyond_plain(workload, space))


def _is_phase(variant: _Variant, workload: Workload, space: Space) -> bool:
    """Whether a variant can run on the set-up of the workload."""
    traffic = all(changes_with(name) is Changes.TRAFFIC for name in (variant.dimension, *variant.also))
    return traffic and space.misfit(variant.workload, workload) is None


def _towards_plain(workload: Workload, space: Space) -> Iterator[_Variant]:
    for dimension in space.dimensions.values():
        values = _simpler(dimension, workload.get(dimension.name))
        found = [variant for value in values if (variant := _variant(workload, dimension, value, space)) is not None]
        yield from found if isinstance(dimension, Vector) else found[:1]


def _beyond_plain(workload: Workload, space: Space) -> Iterator[_Variant]:
    for dimension in space.dimensions.values():
        now = workload.get(dimension.name)
        if isinstance(dimension, Ordered) and now == dimension.plain:
            for value in sorted({dimension.ladder[0], dimension.ladder[-1]} - {now}):
                variant = _variant(workload, dimension, value, space)
                if variant is not None and _is_phase(variant, workload, space):
                    yield variant


def _simpler(dimension: Dimension, now: Any) -> Iterable[Any]:
    """Return the values to try, the plainest first. Not every one may be possible with the other dimensions."""
    match dimension:
        case Ordered():
            between = [
                step for step in dimension.ladder if min(now, dimension.plain) <= step <= max(now, dimension.plain)
            ]
            return sorted({dimension.plain, *between} - {now}, key=lambda step: abs(step - dimension.plain))
        case Choice():
            return () if now == dimension.plain else (dimension.plain,)
        case Vector():
            short = [(min(now),)] if len(set(now)) > 1 else []  # plain messages are the long ones
            return [value for value in dict.fromkeys((dimension.plain, *short)) if value != now]


def _variant(workload: Workload, dimension: Dimension, value: Any, space: Space) -> _Variant | None:
    """Return the workload with another value, and with what has to follow. None if it cannot have that value.

    None if it would offer more load, too: nobody mends what is slow by asking for more.
    """
    name = dimension.name
    for other in _changed(workload, name, value, space):
        if other is None or _load(other) > _load(workload):
            continue
        if other.get(name) == value and space.allows(other):
            also = tuple(each for each in space.dimensions if each != name and other.get(each) != workload.get(each))
            return _Variant(name, also, other, _steps(workload, other, space))
    return None


def _load(workload: Workload) -> float:
    return workload.offered_bps or math.inf  # 0 is full send queues


def _changed(workload: Workload, name: str, value: Any, space: Space) -> Iterator[Workload | None]:
    other = workload.with_(**{name: value})
    yield other
    if name == "sge_count":
        yield other.with_(sge_split=EVEN)
    room = max(other.messages)
    yield other.with_(mr_bytes=max(other.mr_bytes, room))
    yield space.nearest({each: other.get(each) for each in space.dimensions})


def _steps(workload: Workload, other: Workload, space: Space) -> float:
    steps = 0.0
    for name, dimension in space.dimensions.items():
        before, after = workload.get(name), other.get(name)
        if before == after:
            continue
        match dimension:
            case Ordered():
                steps += _rungs(dimension, before, after)
            case Vector():
                ends = ((min(before), min(after)), (max(before), max(after)))
                steps += sum(_rungs(dimension.element, low, high) for low, high in ends) or 1
            case Choice():
                steps += _TRANSPORT_STEPS if name in _TRANSPORT else _SWITCH_STEPS
    return steps


def _rungs(dimension: Ordered, before: int, after: int) -> int:
    """Return the steps of the ladder between two values."""
    low, high = sorted((before, after))
    return sum(low <= step < high for step in dimension.ladder)


def _smaller(
    cures: Sequence[Change], start: Workload, space: Space, *, every: bool, again: bool = True
) -> Generator[Batch, Sequence[JudgedRun], list[Change]]:
    """Measure changes that cure `again`, and smaller ones of their dimensions. Return them, the largest first."""
    variants: list[_Variant] = []
    for cure in cures:
        name, cured = cure.dimension, cure.run.workload
        values = _between(space.dimensions[name], start.get(name), cured.get(name), None if every else _BETWEEN)
        own = [_Variant(name, cure.also, cured, cure.steps)] if again else []
        smaller = (_variant(start, space.dimensions[name], value, space) for value in values)
        variants += sorted((*own, *(each for each in smaller if each is not None)), key=lambda each: -each.steps)
    if not variants:
        return []
    runs = yield Batch(_workloads(variants))
    return [_measured(each, run) for each, run in zip(variants, runs, strict=True)]


def _smallest(changes: Sequence[Change]) -> Change | None:
    """Return the last change, the largest first, before one does not cure. A lone cure among others is luck."""
    cures = list(takewhile(lambda each: each.cures, changes))
    return cures[-1] if cures else None


def _expected_steps(space: Space) -> Callable[[Change | _Variant], tuple[float, int]]:
    """Return the order in which changes are tried: about half of the steps of an ordered dimension suffice."""

    def steps(change: Change | _Variant) -> tuple[float, int]:
        is_ordered = not isinstance(space.dimensions[change.dimension], Choice)
        return change.steps / (2 if is_ordered else 1), len(change.also)

    return steps


def _between(dimension: Dimension, now: Any, cured: Any, most: int | None) -> list[Any]:
    """Return values between two, at `most` so many."""
    if isinstance(dimension, Vector):
        if len(now) > 1 or len(cured) > 1:
            return []
        return [(size,) for size in _between(dimension.element, now[0], cured[0], most)]
    if not isinstance(dimension, Ordered):
        return []
    low, high = sorted((now, cured))
    inside = [step for step in dimension.ladder if low < step < high]
    count = len(inside) if most is None else min(most, len(inside))
    return [inside[(2 * place + 1) * len(inside) // (2 * count)] for place in range(count)]


def _workloads(variants: Iterable[_Variant]) -> list[Workload]:
    return [variant.workload for variant in variants]


def _measured(variant: _Variant, run: JudgedRun) -> Change:
    return Change(variant.dimension, variant.also, run, variant.steps)


def _most_helpful(changes: Sequence[Change], before: JudgedRun) -> Change | None:
    """Return the change that leaves the least severity, if it leaves less than a repeated run would."""
    assert before.verdict is not None
    judged = [each for each in changes if each.severity is not None]
    best = min(judged, key=_severity_left, default=None)
    return best if best is not None and _severity_left(best) <= before.verdict.severity - _REPEATED else None


def _severity_left(change: Change) -> float:
    return change.severity or 0.0


def _cheapest_first(change: Change) -> tuple[float, int]:
    return change.steps, len(change.also)


def _ranked(changes: Sequence[Change], advised: Change | None) -> tuple[Change, ...]:
    """Order changes: the advised one, the other dimensions that cure, then by the severity that is left."""
    cheapest: dict[str, Change] = {}
    for cure in sorted((each for each in changes if each.cures), key=_cheapest_first):
        cheapest.setdefault(cure.dimension, cure)
    first = list(cheapest.values())
    if advised is not None:
        first = [advised, *(each for each in first if each.dimension != advised.dimension)]
    rest = [each for each in changes if not each.cures and each.severity is not None]
    return (*first, *sorted(rest, key=lambda each: (_severity_left(each), each.steps)))


def _unjudged(changes: Sequence[Change]) -> tuple[str, ...]:
    judged = {each.dimension for each in changes if each.severity is not None}
    return tuple(dict.fromkeys(each.dimension for each in changes if each.dimension not in judged))


def changed_values(before: Workload, change: Change) -> Mapping[str, tuple[Any, Any]]:
    """Return the values before and after a change, by dimension, the one that it is about first."""
    after = change.run.workload
    return {name: (before.get(name), after.get(name)) for name in (change.dimension, *change.also)}
