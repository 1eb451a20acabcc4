"""Running an anomaly again, and its controls: the same workload with one condition broken at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from collie.campaign.measure import Measurer
from collie.detect.symptom import Symptom, Verdict, inconclusive
from collie.search.breaking import broken
from collie.workloads.feature import Condition, Mfs
from collie.workloads.space import Space
from collie.workloads.workload import Workload

_SHARE_TO_REPRODUCE = 0.6
_SHARE_TO_GIVE_UP = 1 / 3


class Reproduced(StrEnum):
    """The answer."""

    YES = "yes"
    NO = "no"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class Trial:
    """One workload, run several times.

    Attributes:
        workload: what ran.
        broken: the condition that it breaks; None for the anomaly itself.
        verdicts: one per run.
    """

    workload: Workload
    broken: Condition | None
    verdicts: tuple[Verdict, ...]

    def shown(self, symptom: Symptom) -> int:
        """Count the runs that showed a symptom."""
        return sum(verdict.symptom is symptom for verdict in self.verdicts)

    @property
    def normal(self) -> int:
        """Count the normal runs."""
        return sum(verdict.is_normal for verdict in self.verdicts)


@dataclass(frozen=True, slots=True)
class Reproduction:
    """An anomaly and its controls, run again.

    Attributes:
        symptom: what had to show.
        trial: the anomaly itself.
        controls: one per condition that can be broken alone, when asked for.
        uncontrolled: the conditions that no value of the space breaks alone, when controls were asked for.
    """

    symptom: Symptom
    trial: Trial
    controls: tuple[Trial, ...]
    uncontrolled: tuple[Condition, ...] = ()

    @property
    def answer(self) -> Reproduced:
        """Yes at ceil(0.6 N) runs with the same symptom; inconclusive when more than a third of the runs were."""
        return self._answer(self.trial)

    def explains(self, control: Trial) -> bool | None:
        """Whether the symptom goes with the condition that a control breaks.

        Returns:
            None when nothing can be said: the anomaly itself did not show, or too many runs of the control were
            inconclusive.
        """
        answer = self._answer(control)
        if answer is Reproduced.YES:
            return False
        return True if answer is Reproduced.NO and self.answer is Reproduced.YES else None

    def _answer(self, trial: Trial) -> Reproduced:
        runs = len(trial.verdicts)
        if trial.shown(self.symptom) >= math.ceil(_SHARE_TO_REPRODUCE * runs):
            return Reproduced.YES
        void = sum(verdict.is_inconclusive for verdict in trial.verdicts)
        return Reproduced.INCONCLUSIVE if void > _SHARE_TO_GIVE_UP * runs else Reproduced.NO


def reproduce(
    measurer: Measurer, workload: Workload, symptom: Symptom, mfs: Mfs, space: Space, *, repeat: int, controls: bool
) -> Reproduction:
    """Run an anomaly `repeat` times, and with `controls` each of its conditions broken as often.

    The runs of anomaly and controls take turns, so that a testbed that drifts treats all of them alike.

    Raises:
        TestbedError: the testbed is gone.
    """
    cases: list[tuple[Workload, Condition | None]] = [(workload, None)]
    uncontrolled: list[Condition] = []
    for condition in mfs.conditions if controls else ():
        control = broken(workload, mfs, condition, space)
        if control is None:
            uncontrolled.append(condition)
        else:
            cases.append((control, condition))
    verdicts: list[list[Verdict]] = [[] for _ in cases]
    for _ in range(repeat):
        for (case, _condition), answers in zip(cases, verdicts, strict=True):
            measurer.measure_sibling(case)
            verdict = measurer.probe(case, "reproduce")
            answers.append(inconclusive("the device cannot run this workload") if verdict is None else verdict)
    trials = _trials(cases, verdicts)
    return Reproduction(symptom, trials[0], tuple(trials[1:]), tuple(uncontrolled))


def _trials(cases: Sequence[tuple[Workload, Condition | None]], verdicts: Sequence[list[Verdict]]) -> list[Trial]:
    return [Trial(case, condition, tuple(answers)) for (case, condition), answers in zip(cases, verdicts, strict=True)]
