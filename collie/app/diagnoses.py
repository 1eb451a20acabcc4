"""Why a workload, or an application, is slow on a testbed."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from collie.advise.corners import Corner, corners
from collie.advise.overlap import Known
from collie.app.adapters import Adapters
from collie.app.checks import application_named, known_anomalies
from collie.app.sessions import open_session
from collie.campaign.choice import SearchChoice
from collie.campaign.diagnose import Diagnosis, diagnose
from collie.campaign.safety import SafetyRecord
from collie.campaign.single_run import JudgedRun, SingleRunSession
from collie.campaign.suspected_set import suspected_set
from collie.ports import Measured, ProgressSink
from collie.search.discriminating_counters import rank
from collie.search.likely_cause import DiscriminatingCounter
from collie.workloads.application import Application
from collie.workloads.feature import Mfs
from collie.workloads.workload import Workload

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Diagnosed:
    """A diagnosis with what else is known.

    Attributes:
        telling, hint: counters that moved most against healthy traffic, and the cause that they suggest with the
            conditions of the first known anomaly, or of the changes that cure.
        known: known anomalies whose conditions the workload meets.
        runs, elapsed_seconds: what it took on the testbed, plain siblings included.
        recorded_hint: the cause that the campaign of the workload has on record, from many more runs, or empty.
    """

    diagnosis: Diagnosis
    telling: tuple[DiscriminatingCounter, ...]
    hint: str
    known: tuple[Known, ...]
    runs: int
    elapsed_seconds: float
    safety: SafetyRecord | None
    recorded_hint: str = ""


@dataclass(frozen=True)
class DiagnosedApplication:
    """The corners of an application as measured, and for each kind of traffic the diagnosis of the worst that is slow.

    Attributes:
        runs, elapsed_seconds: what all of it took on the testbed.
    """

    application: Application
    corners: tuple[tuple[Corner, JudgedRun], ...]
    diagnoses: tuple[tuple[Corner, Diagnosed], ...]
    runs: int
    elapsed_seconds: float
    safety: SafetyRecord | None


def diagnose_workload(
    adapters: Adapters,
    choice: SearchChoice,
    workload: Workload,
    against: str,
    sink: ProgressSink,
    *,
    every: bool = False,
) -> Diagnosed:
    """Diagnose a workload, and look it up `against` known anomalies (a collection or a campaign)."""
    known = _known(adapters, choice, against)
    with open_session(adapters, choice, sink) as session:
        found = _diagnosed(session, workload, known, every=every)
    return replace(found, safety=session.safety)


def diagnose_application(
    adapters: Adapters, choice: SearchChoice, name: str, against: str, sink: ProgressSink, *, every: bool = False
) -> DiagnosedApplication:
    """Measure the corners of an application, and diagnose the worst of each kind of traffic.

    `choice` has the application as its space, so that every change stays within its values.
    """
    known = _known(adapters, choice, against)
    application = application_named(adapters, name)
    chosen = corners(application, known)
    with open_session(adapters, choice, sink) as session:
        runs = session.measure_together([each.workload for each in chosen])
        measured = tuple(zip(chosen, runs, strict=True))
        diagnoses = tuple(
            (corner, _diagnosed(session, corner.workload, known, every=every)) for corner in _worst(measured)
        )
        made, seconds = session.runs, session.elapsed_seconds
    return DiagnosedApplication(application, measured, diagnoses, made, seconds, session.safety)


def _worst(measured: Sequence[tuple[Corner, JudgedRun]]) -> list[Corner]:
    """Return the most severe anomalous corner of each kind of traffic."""
    worst: dict[str, tuple[float, Corner]] = {}
    for corner, run in measured:
        if run.verdict is not None and run.verdict.is_anomalous:
            severity = run.verdict.severity
            if corner.traffic not in worst or severity > worst[corner.traffic][0]:
                worst[corner.traffic] = (severity, corner)
    return [corner for _, corner in worst.values()]


def _known(adapters: Adapters, choice: SearchChoice, against: str) -> tuple[Known, ...]:
    found = known_anomalies(adapters, against, choice.testbed.subsystem if choice.testbed.is_simulated else None)
    if found.unexplained:
        logger.warning("not compared, as nobody knows yet what it takes: %s", ", ".join(found.unexplained))
    return found.known


def _diagnosed(session: SingleRunSession, workload: Workload, known: Sequence[Known], *, every: bool) -> Diagnosed:
    runs, seconds = session.runs, session.elapsed_seconds
    found = drive(session, workload, every=every)
    covering = _covering(known, found)
    telling, hint = _counters(session, found, covering[0].mfs if covering else suspected_set(found, session.space))
    return Diagnosed(
        found, telling, hint, covering, session.runs - runs, session.elapsed_seconds - seconds, session.safety
    )


def drive(session: SingleRunSession, workload: Workload, *, every: bool = False) -> Diagnosis:
    """Measure what the diagnosis of a workload asks for, with `every` change if wanted."""
    batches = diagnose(workload, session.space, every=every)
    batch = next(batches)
    try:
        while True:
            runs = session.measure_together(batch.workloads, until_normal=batch.until_cure)
            batch = batches.send(runs)
    except StopIteration as stop:
        found: Diagnosis = stop.value
        return found


def _covering(known: Sequence[Known], found: Diagnosis) -> tuple[Known, ...]:
    """Return the known anomalies that the workload can have, first those that the advice breaks."""
    verdict = found.run.verdict
    if not found.is_anomalous or verdict is None or verdict.symptom is None:
        return ()
    covering = [each for each in known if each.explains(found.run.workload, verdict.symptom)]
    advised = found.advised
    return tuple(sorted(covering, key=lambda each: advised is not None and each.mfs.covers(advised.run.workload)))


def _counters(
    session: SingleRunSession, found: Diagnosis, conditions: Mfs
) -> tuple[tuple[DiscriminatingCounter, ...], str]:
    """Rank the counters against plain traffic or, where no verdict needed any, against the changes that cure.

    These can move the same counters, and be healthy for another reason. Then plain traffic runs after all.
    `conditions` are those of a known anomaly if there is one, so that the hint does not contradict it.
    """
    verdict = found.run.verdict
    if verdict is None or verdict.symptom is None or not isinstance(found.run.result, Measured):
        return (), ""
    cured = [
        each.run.result.measurement for each in found.changes if each.cures and isinstance(each.run.result, Measured)
    ]
    about = verdict.symptom, session.testbed.info.catalog, conditions
    measured = found.run.result.measurement
    if not session.plain:
        telling, hint = rank(measured, cured, *about)
        if telling:
            return telling, hint
        session.measure_plain(found.run.workload)
    return rank(measured, session.plain, *about)
