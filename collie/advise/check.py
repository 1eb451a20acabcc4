"""The known anomalies that an application can hit, and changes that avoid them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TypeVar

from collie.advise.change import SettingChange, changes, hits, pair
from collie.advise.effort import CHECK_STEPS, Effort, Undecided
from collie.advise.overlap import Known, Overlap, overlap, with_margin
from collie.advise.solver import find
from collie.workloads.application import Application, Traffic
from collie.workloads.workload import Workload

T = TypeVar("T")


@dataclass(frozen=True)
class OpenHit:
    """A known anomaly that one kind of traffic may hit. The check ended undecided after `steps` steps, its bound."""

    known: Known
    traffic: Traffic
    steps: int


@dataclass(frozen=True)
class Hit:
    """A known anomaly that one kind of traffic can hit.

    Attributes:
        changes: sound single changes, the cheapest first.
        pair: two changes that are sound together, if no single change is sound.
        changed: the example of the overlap after the cheapest change or the pair.
        undecided: the bound in steps that ended the search for changes.
    """

    known: Known
    traffic: Traffic
    overlap: Overlap
    changes: tuple[SettingChange, ...]
    pair: tuple[SettingChange, SettingChange] | None
    changed: Workload | None
    undecided: int | None = None


@dataclass(frozen=True)
class Advice:
    """The result of checking an application.

    Attributes:
        remedy: changes that avoid all hits: the cheapest for each anomaly in turn, without redundant changes.
        remedy_undecided: the bound in steps that ended the search for a remedy.
    """

    application: Application
    hits: tuple[Hit, ...]
    remedy: tuple[SettingChange, ...] | None
    remedy_undecided: int | None = None
    open: tuple[OpenHit, ...] = ()


def check(application: Application, known: Sequence[Known], effort: Effort | None = None) -> Advice:
    """Check an application. Questions beyond the effort stay open. All other answers are exact."""
    effort = effort or Effort(CHECK_STEPS)
    found: list[Hit] = []
    left_open: list[OpenHit] = []
    for traffic in application.traffic:
        answers = [(each, _within(effort, partial(overlap, traffic, application.space, each))) for each in known]
        left_open += [OpenHit(each, traffic, answer.steps) for each, answer in answers if isinstance(answer, Undecided)]
        avoid = [each for each, answer in answers if not isinstance(answer, Overlap)]
        common = [(each, answer) for each, answer in answers if isinstance(answer, Overlap)]
        found += [_hit(application, traffic, each, answer, avoid, effort) for each, answer in common]
    try:
        remedy, steps = _remedy(application, known, effort), None
    except Undecided as error:
        remedy, steps = None, error.steps
    return Advice(application, tuple(found), remedy, steps, tuple(left_open))


def _within(effort: Effort, ask: Callable[[Effort], T]) -> T | Undecided:
    try:
        return ask(effort.part())
    except Undecided as error:
        return error


def _hit(
    application: Application, traffic: Traffic, known: Known, common: Overlap, avoid: Sequence[Known], effort: Effort
) -> Hit:
    ways = _within(effort, partial(_ways_out, application, traffic, known, avoid))
    if isinstance(ways, Undecided):
        return Hit(known, traffic, common, (), None, None, ways.steps)
    single, both = ways
    last = single[0] if single else both[1] if both else None
    if last is None:
        return Hit(known, traffic, common, (), None, None)
    changed = _within(effort, partial(find, last.traffic, application.space, None, common.example))
    if isinstance(changed, Undecided):
        return Hit(known, traffic, common, (), None, None, changed.steps)
    return Hit(known, traffic, common, single, both, changed)


def _ways_out(
    application: Application, traffic: Traffic, known: Known, avoid: Sequence[Known], effort: Effort
) -> tuple[tuple[SettingChange, ...], tuple[SettingChange, SettingChange] | None]:
    """Return single changes, or else a pair, each with a margin where possible.

    Other anomalies are avoided with a margin too, unless the traffic is already within that margin.
    """
    space, keep = application.space, application.keep
    wider = [(with_margin(each, space), each) for each in avoid]
    others = [exact if hits(traffic, space, wide, effort) else wide for wide, exact in wider]
    wide = with_margin(known, space)
    single = {change.dimension: change for change in changes(traffic, space, wide, others, keep, effort)}
    if wide is not known:
        for change in changes(traffic, space, known, others, keep, effort):
            single.setdefault(change.dimension, replace(change, has_margin=False))
    if single:
        return tuple(sorted(single.values(), key=lambda change: change.cost)), None
    both = pair(traffic, space, wide, others, keep, effort) or pair(traffic, space, known, others, keep, effort)
    return (), both


def _remedy(application: Application, known: Sequence[Known], effort: Effort) -> tuple[SettingChange, ...] | None:
    found: list[SettingChange] = []
    for traffic in application.traffic:
        cleared = _cleared(application, traffic, known, effort.part())
        if cleared is None:
            return None
        found += cleared
    return tuple(found)


def _cleared(
    application: Application, traffic: Traffic, known: Sequence[Known], effort: Effort
) -> list[SettingChange] | None:
    found: list[SettingChange] = []
    changed = traffic
    while hit := [each for each in known if hits(changed, application.space, each, effort)]:
        single, both = _ways_out(application, changed, hit[0], [each for each in known if each not in hit], effort)
        if not single and not both:
            return None
        found += both or single[:1]
        changed = found[-1].traffic
    for change in tuple(found):
        others = [other for other in found if other is not change]
        without = reduce(lambda changed, other: other.applied(changed), others, traffic)
        if not any(hits(without, application.space, each, effort) for each in known):
            found = others
    return [replace(change, before=change.before_in(traffic)) for change in found]
