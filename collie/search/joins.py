"""Whether an explained anomaly is also the cause of another one that its set covers.

Terms. The *covered* workload lies inside the set of the explained anomaly. A *control* is the covered workload with one
condition of the set broken. The *reduced* workload is the covered one, plain in every dimension that the set does not
name.

Rules.
1. If the set is the only cause, every control is healthy. A control with other counters than the set's cause, or with
   more severity, is suspected of a second cause, which no longer hides behind the first one. Confirmed on set-ups of
   its own, it takes the place of the covered workload. A control that another explanation covers says nothing.
2. A control that shows what the set's own cause shows is beyond a limit that is not exact everywhere. The condition may
   even be needless. Then the simplest workload of the set is anomalous, too, when this condition is broken, and the set
   without the condition is compared again.
3. A second cause can need the same conditions. It then shows in the covered workload and not in the reduced one, whose
   severity and counters are what the set predicts. The anomaly is the same only if both agree.
4. A second cause can also need the same features, beyond other limits. Then the reduced workload shows it, too. It is
   far more severe than the simplest workload of the set, or other counters are raised. Neither is the same anomaly.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass

from collie.detect.signature import contained, likeness
from collie.detect.symptom import Symptom, Verdict
from collie.search.breaking import broken
from collie.search.second_cause import is_beyond, is_more_severe
from collie.workloads.feature import Condition, Mfs, sources
from collie.workloads.space import Space
from collie.workloads.workload import Workload

Controls = Generator[Workload, Verdict | None, "Joined"]
"""Yields workloads. Receives a verdict, or None when the workload cannot run."""

_ALIKE = 0.6
"""Likeness of counters from which the reduced workload has those of the covered one."""
_SAME = 0.85
"""Likeness from which a control has the counters of a set's cause and no others."""
_WORSE = 1.5
"""Factor between the severities of a control and the covered workload, from which the two are not alike."""


@dataclass(frozen=True, slots=True)
class Joined:
    """Whether the covered anomaly is the explained one again.

    Attributes:
        same: every control is healthy, and the set and its simplest workload predict severity and counters.
        suspect: a control with another cause, if it is confirmed, and `symptom` what it shows.
        checked: the conditions whose controls have told all they can, if `suspect` is not confirmed.
        needless: a condition of the set without which its own cause shows as well.
        alone: the verdict on the reduced workload, if it ran.
    """

    same: bool
    suspect: Workload | None = None
    symptom: Symptom | None = None
    checked: frozenset[Condition] = frozenset()
    needless: Condition | None = None
    alone: Verdict | None = None


@dataclass(frozen=True, slots=True)
class Explained:
    """The anomaly whose set covers another one.

    Attributes:
        workload: its simplest workload.
        cause: the verdict on that.
        known: whether the set of a third anomaly covers a workload.
    """

    mfs: Mfs
    workload: Workload
    cause: Verdict
    known: Callable[[Workload], bool]


def compare(
    covered: Workload,
    verdict: Verdict,
    explained: Explained,
    space: Space,
    checked: frozenset[Condition] = frozenset(),
) -> Controls:
    """Run the controls of a covered anomaly with this verdict, but those of the conditions that are `checked`."""
    assert verdict.symptom is not None
    mfs = explained.mfs
    for condition in mfs.conditions:
        if condition in checked:
            continue
        checked |= {condition}
        control = broken(covered, mfs, condition, space)
        if control is None or explained.known(control):
            continue
        answer = yield control
        if answer is None or answer.symptom is None or not verdict.symptom.is_related(answer.symptom):
            continue
        if _is_unchanged(answer, verdict, explained.cause):
            twin = broken(explained.workload, mfs, condition, space)
            if twin is not None and not explained.known(twin) and predicts((yield twin), explained.cause):
                return Joined(False, needless=condition)
            continue
        return Joined(False, control, answer.symptom, checked)
    alone = reduced(covered, mfs, space)
    if alone == covered:
        return Joined(_has_cause(verdict, explained.cause))
    answer = yield alone
    same = answer is not None and predicts(answer, verdict) and _has_cause(answer, explained.cause)
    return Joined(same, alone=answer)


def predicts(alone: Verdict | None, covered: Verdict) -> bool:
    """Whether the reduced workload's verdict accounts for the severity and the counters of the covered one."""
    assert covered.symptom is not None
    if alone is None or not covered.symptom.is_related(alone.symptom):
        return False
    if is_beyond(covered, alone):
        return False
    if is_more_severe(alone, covered.severity) and contained(alone.signature, covered.signature) < _ALIKE:
        return False  # what the set predicts is missing
    raised = alone.signature and covered.signature and alone.signature.raised and covered.signature.raised
    return not raised or likeness(alone.signature, covered.signature) >= _ALIKE


def _has_cause(reduced: Verdict, cause: Verdict) -> bool:
    """Whether a reduced workload shows the cause of the set and no second one, judged by its simplest workload."""
    return not is_beyond(reduced, cause) and likeness(reduced.signature, cause.signature) >= _ALIKE


def _is_unchanged(control: Verdict, covered: Verdict, cause: Verdict) -> bool:
    """Whether a control is as severe as the covered workload, with the counters of the set's cause."""
    less, more = sorted((control.severity, covered.severity))
    if is_more_severe(covered, control.severity) or is_more_severe(control, covered.severity) or more > _WORSE * less:
        return False
    raised = cause.signature and control.signature and cause.signature.raised and control.signature.raised
    return bool(raised) and likeness(cause.signature, control.signature) >= _SAME


def reduced(covered: Workload, mfs: Mfs, space: Space) -> Workload:
    """Return the covered workload, plain wherever the set and the constraints of the space leave it free."""
    named = {name for condition in mfs.conditions for name in sources(condition.dimension)}
    free = [name for name in space.dimensions if name not in named]
    workload, before = covered, None
    while workload != before:  # one dimension can keep another from being plain: messages hold the size of a region
        before = workload
        for name in free:
            plain = workload.with_(**{name: space.base.get(name)})
            if mfs.covers(plain) and space.allows(plain):
                workload = plain
    return workload
