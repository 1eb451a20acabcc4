"""An anomaly: a confirmed workload, its minimal feature set, and its sentence."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from collie.detect.interval import Interval, wilson
from collie.detect.symptom import Symptom, Verdict, is_of_one_kind, own_figure, severity_in_brief, severity_in_words
from collie.search.likely_cause import DiscriminatingCounter, component
from collie.search.phrases import describe_conditions, describe_traffic, differences, plain_traffic
from collie.search.second_cause import NO_FLOOR, Floor
from collie.workloads.feature import Mfs
from collie.workloads.setup import SetUp
from collie.workloads.workload import Workload

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""An id appears on the command line and names a folder."""


def require_id(name: str) -> str:
    """Return the id of an anomaly, or raise ValueError for an invalid one."""
    if not _ID.fullmatch(name):
        raise ValueError(f"{name[:40]!r} is no id of an anomaly")
    return name


def anomaly_id(name: str) -> str:
    """Return a name as an id: unchanged if valid, else its valid characters and a digest that keeps it unique."""
    if _ID.fullmatch(name):
        return name
    plain = re.sub(r"[^A-Za-z0-9._-]", ".", name).lstrip("._-")
    return f"{plain[:48]}-{hashlib.sha256(name.encode()).hexdigest()[:12]}".lstrip("-")


@dataclass(frozen=True, slots=True)
class LikelySame:
    """The explained anomaly that most likely has the cause of another one, and the chance that it has."""

    id: str
    chance: float


@dataclass(frozen=True, slots=True)
class Claim:
    """How far a minimal feature set was tested. The attributes are those of `Anomaly`."""

    complete: bool = True
    fresh_runs: int = 0
    fresh_shows: int = 0


NO_COUNTERS = "no counter is named: counters are compared with those of plain traffic, which itself shows this anomaly"
"""Why an anomaly of plain traffic has no discriminating counters."""

NOT_BEGUN = "not explained yet: its explanation has not begun"


@dataclass(frozen=True, slots=True)
class Anomaly:
    """One finding of a campaign.

    Attributes:
        id: `a1`, `a2`, ... within the campaign.
        severity: max(pause ratio, 1 - delivered / bound) of the run of middle severity of `workload`: of those that
            confirmed it, or of all once the extraction has simplified it.
        workload: the simplest workload that extraction found. It satisfies `mfs`.
        found_as: the workload that was confirmed: the search's, or a control of it that showed this second cause.
        reason: the sentence of this run with its figures.
        found_severity, found_reason: the same of `found_as`, or None and empty if `workload` is no simpler.
        found_at_run: number of the run that raised the suspicion, or of that control.
        found_at_seconds: elapsed testbed time at the end of confirmation.
        extraction_runs: runs of the extraction, with those of revisions.
        complete: False if the budget or the limit of runs cut the extraction short.
        trials, passed: runs inside the conditions, and those of them that reproduced the symptom.
        confidence: chance that the next run reproduces it, or None without an explanation.
        revised: earlier explanations that a measurement contradicted, oldest first.
        telling, hint: counters that moved most against healthy plain traffic, and the cause that they suggest.
        same_as: id of the anomaly that has the same cause, as control runs showed.
        likely_same_as: without an explanation, the anomaly that most likely has the same cause (`search.familiarity`).
        fresh_runs, fresh_shows: runs drawn anew inside the finished `mfs`, and those of them that were anomalous.
        floor: what a fresh run must show. A milder run shows only the anomaly whose set is around it.
        history: the shortest sequence of workloads after which it shows on the same set-up. Empty if it needs none.
        made_for: the workload whose set-up it needs, or None if a set-up of its own shows it.
        is_plain: whether plain traffic itself shows it: `workload` is its own plain sibling, on a set-up of its own.
        known_as: name of the anomaly of another testbed that was looked for here and whose set its explanation began
            with, or empty.
    """

    id: str
    symptom: Symptom
    severity: float
    workload: Workload
    found_as: Workload
    mfs: Mfs
    reason: str
    host: str | None
    found_at_run: int
    found_at_seconds: float
    extraction_runs: int
    complete: bool
    trials: int = 0
    passed: int = 0
    confidence: float | None = None
    telling: tuple[DiscriminatingCounter, ...] = ()
    hint: str = ""
    same_as: str | None = None
    likely_same_as: LikelySame | None = None
    revised: tuple[Mfs, ...] = ()
    fresh_runs: int = 0
    fresh_shows: int = 0
    floor: Floor = NO_FLOOR
    history: tuple[Workload, ...] = ()
    made_for: Workload | None = None
    found_severity: float | None = None
    found_reason: str = ""
    is_plain: bool = False
    known_as: str = ""

    def reduced_to(self, workload: Workload, typical: Verdict | None) -> Anomaly:
        """Return the anomaly with a simpler workload, and the figures of a `typical` run of it if there is one."""
        if typical is None or workload == self.workload:
            return replace(self, workload=workload)
        found = self.found_severity, self.found_reason
        if self.workload == self.found_as:
            found = self.severity, self.reason
        if workload == self.found_as:
            found = None, ""
        figures = replace(self, severity=typical.severity, reason=typical.reason, host=typical.host)
        return replace(figures, workload=workload, found_severity=found[0], found_reason=found[1])

    def with_reproduction(self) -> Anomaly:
        """Return the anomaly with one more reproducing run inside its conditions."""
        trials, passed = self.trials + 1, self.passed + 1
        return replace(self, trials=trials, passed=passed, confidence=chance_of_next(passed, trials))

    def without_explanation(self) -> Anomaly:
        """Return the anomaly after a measurement contradicted its explanation."""
        open_again = replace(self, mfs=Mfs(()), complete=False, trials=0, passed=0, confidence=None)
        open_again = replace(open_again, fresh_runs=0, fresh_shows=0, floor=NO_FLOOR)
        return replace(open_again, revised=(*self.revised, self.mfs))

    @property
    def set_up(self) -> SetUp | None:
        """The set-up that it needs, after the phases that bring it. None: any set-up of its own."""
        return None if self.made_for is None else SetUp(self.made_for, self.history)

    @property
    def figure(self) -> str:
        """The severity in words, see `severity_in_words`."""
        return severity_in_words(self.symptom, self.severity, self.reason)

    @property
    def brief_figure(self) -> str:
        """The severity for a column, see `severity_in_brief`."""
        return severity_in_brief(self.symptom, self.severity, self.reason)

    @property
    def found_figure(self) -> str:
        """The severity of the workload that was found in words, or an empty string if `workload` is no simpler."""
        if self.found_severity is None:
            return ""
        return severity_in_words(self.symptom, self.found_severity, self.found_reason)

    @property
    def compared_figures(self) -> tuple[str, str]:
        """The severity here and as found, in words. Two of different kinds give way to the symptom's own figures."""
        here, found = self.figure, self.found_figure
        if not found or is_of_one_kind(here, found):
            return here, found
        own, found_own = own_figure(self.symptom, self.reason), own_figure(self.symptom, self.found_reason)
        if not own or not found_own:
            return here, f"{found}, another measure,"
        return here if own == here else f"{here}, {own}", found_own

    @property
    def component(self) -> str:
        """The component that `hint` blames, or an empty string if no counter moved."""
        return component(self.telling, self.mfs)

    @property
    def claim(self) -> Claim:
        """How far `mfs` was tested."""
        return Claim(self.complete, self.fresh_runs, self.fresh_shows)

    @property
    def shown_interval(self) -> Interval | None:
        """The interval that the fresh runs give for the share of runs inside `mfs` that show an anomaly, if any."""
        return wilson(self.fresh_shows, self.fresh_runs)

    @property
    def explanation_begun(self) -> bool:
        """Whether its conditions were looked for. The budget can end before."""
        return bool(self.complete or self.extraction_runs or self.mfs.conditions)

    @property
    def sentence(self) -> str:
        """The summary for an engineer."""
        if self.same_as is not None:
            return f"Explained by {self.same_as}: {self.reason}."
        workload = self.workload
        plain = f"P{plain_traffic(workload)[1:]} itself is anomalous" if self.is_plain else ""
        if not self.mfs.conditions and not self.complete:
            subject = plain or f"{workload.qp_type} {workload.opcode}"
            return f"{subject}, not explained yet{self._only}: {self.reason}."
        plain = plain and f"{plain}. "
        if not self.mfs.conditions:
            return f"{plain}Any workload of the space{self._only}: {self.reason}."
        traffic = describe_traffic(workload, self.mfs, complete=self.complete)
        conditions = describe_conditions(self.mfs)
        needs = f" when {conditions}" if conditions else ""
        cut_short = "" if self.complete else " (not explained to the end)"
        return f"{plain}{traffic}{needs}{self._only}: {self.reason}{cut_short}."

    @property
    def _only(self) -> str:
        """The phases, or else the set-up, without which it does not show, in words."""
        if self.made_for is None:
            return ""
        if self.history:
            phases = " and then ".join(f"a phase with {differences(each, self.workload)}" for each in self.history)
            return f", only after {phases} on the same set-up"
        return f", only on a set-up for traffic with {differences(self.made_for, self.workload)}"


def chance_of_next(passed: int, trials: int) -> float:
    """Return (passed + 1) / (trials + 2), Laplace's estimate that the next trial passes."""
    return (passed + 1) / (trials + 2)


def causes_of(anomalies: Sequence[Anomaly]) -> list[tuple[Anomaly, tuple[Anomaly, ...]]]:
    """Return each anomaly that is not joined to another one, with those that are joined to it."""
    by_id = {anomaly.id: anomaly for anomaly in anomalies}

    def root(anomaly: Anomaly) -> Anomaly:
        seen = {anomaly.id}
        while anomaly.same_as in by_id and anomaly.same_as not in seen:
            anomaly = by_id[anomaly.same_as]
            seen.add(anomaly.id)
        return anomaly

    roots = {anomaly.id: root(anomaly).id for anomaly in anomalies}
    return [
        (anomaly, tuple(other for other in anomalies if other is not anomaly and roots[other.id] == anomaly.id))
        for anomaly in anomalies
        if roots[anomaly.id] == anomaly.id
    ]


class KnownAnomalies:
    """The minimal feature sets found so far. A search skips workloads that they cover."""

    def __init__(self, sets: Iterable[Mfs] = ()) -> None:
        self._sets = list(sets)

    def copy(self) -> KnownAnomalies:
        """Return the sets known now, to which later ones are not added."""
        return KnownAnomalies(self._sets)

    def add(self, mfs: Mfs) -> None:
        """Add a set."""
        self._sets.append(mfs)

    def remove(self, mfs: Mfs) -> None:
        """Remove a set that proved wrong."""
        self._sets.remove(mfs)

    def covers(self, workload: Workload, but: Collection[Mfs] = ()) -> bool:
        """Whether a known anomaly explains a workload (paper, MatchMFS), other than some of them."""
        return any(mfs not in but and mfs.covers(workload) for mfs in self._sets)
