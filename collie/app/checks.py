"""Checks applications against known anomalies."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from collie.advise.check import Hit
from collie.advise.overlap import Known
from collie.app.adapters import Adapters
from collie.app.cases import WORKLOAD_SUFFIXES, case_named
from collie.app.inputs import PAPER
from collie.app.sessions import open_session
from collie.campaign.choice import SearchChoice
from collie.campaign.safety import SafetyRecord
from collie.campaign.single_run import JudgedRun
from collie.detect.symptom import Symptom
from collie.errors import UsageError
from collie.files import is_file_name
from collie.perftest.parse import read as read_perftest
from collie.ports import ProgressSink
from collie.workloads.application import Application
from collie.workloads.reference import FixStatus, ReferenceAnomaly

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Collection:
    """Anomalies to compare with, and the names of those of a campaign that lack conditions to compare."""

    known: tuple[Known, ...]
    unexplained: tuple[str, ...] = ()


def known_anomalies(adapters: Adapters, against: str, subsystem: str | None = None) -> Collection:
    """Load the anomalies of a published collection or of a campaign directory.

    A collection is limited to the anomalies of `subsystem` (name or file). If it has none, all are loaded.
    """
    if os.path.isdir(against):
        with adapters.records.read(Path(against)) as store:
            kinds = [anomaly for anomaly in store.anomalies() if anomaly.same_as is None]
        folder = against.rstrip("/")
        if not kinds:
            logger.warning("campaign %s has found nothing that an application could hit", against)
        explained = [anomaly for anomaly in kinds if anomaly.mfs.conditions]
        return Collection(
            tuple(
                Known(f"{folder}/{each.id}", each.sentence, each.mfs, each.workload, symptom=each.symptom)
                for each in explained
            ),
            tuple(f"{folder}/{each.id}" for each in kinds if not each.mfs.conditions),
        )
    references = adapters.content.references(against)
    shown_on = adapters.content.subsystem_name(subsystem) if subsystem else None
    own = [each for each in references if each.subsystem == shown_on]
    return Collection(tuple(_published(each) for each in own or references))


def _published(reference: ReferenceAnomaly) -> Known:
    cure = reference.fix_text if reference.fix in {FixStatus.FIXED, FixStatus.BYPASS} else ""
    return Known(
        reference.id,
        reference.title,
        reference.conditions,
        reference.trigger,
        reference.subsystem,
        cure,
        is_coarse=True,
        symptom=Symptom(reference.symptom),
    )


def names_application(adapters: Adapters, name: str) -> bool:
    """Whether a name or a YAML file is that of an application, and not of one workload or of an anomaly."""
    path = Path(name)
    is_yaml = path.suffix in WORKLOAD_SUFFIXES
    return (is_yaml or not (path.suffix or "/" in name)) and adapters.content.names_application(name)


def application_named(adapters: Adapters, name: str, space: str | None = None) -> Application:
    """Load an application, or an application of one workload: a workload file, or the trigger of an anomaly."""
    path = Path(name)
    if "/" in name and not os.path.lexists(name) and not path.suffix:
        named = case_named(adapters, name)
        return Application.of(name, named.case.workload, adapters.content.space(space or named.choice.space or PAPER))
    if is_file_name(path) and not adapters.content.is_application(path):
        terms = adapters.content.space(space or PAPER)
        return Application.of(path.stem, adapters.content.workload(path, terms), terms)
    if not is_file_name(path) and adapters.content.names_reference(name):
        return Application.of(name, adapters.content.reference(name).trigger, adapters.content.space(space or PAPER))
    return adapters.content.application(name, space, PAPER)


def application_of_perftest(
    adapters: Adapters, lines: Sequence[str], space: str | None = None
) -> tuple[Application, tuple[str, ...]]:
    """Read simultaneous perftest command lines as one workload. Return it with the assumptions made."""
    reading = read_perftest(*lines)
    terms = adapters.content.space(space or PAPER)
    if wrong := terms.violations(reading.workload):
        raise UsageError("--perftest: " + "; ".join(complaint for _, complaint in wrong))
    return Application.of("perftest", reading.workload, terms), reading.remarks


@dataclass(frozen=True)
class MeasuredHits:
    """Runs by the position of a hit: one of its example, and one of the changed workload or None."""

    runs: Mapping[int, tuple[JudgedRun, JudgedRun | None]]
    safety: tuple[SafetyRecord, ...]


def measure_hits(
    adapters: Adapters, hits: Sequence[Hit], choose: Callable[[SearchChoice], SearchChoice], sink: ProgressSink
) -> MeasuredHits:
    """Run the example of each hit, and the example after the cheapest change.

    `choose` turns the choice of an anomaly's campaign into that of its runs.
    """
    choices = [choose(case_named(adapters, hit.known.id).choice) for hit in hits]
    places: dict[str, list[int]] = {}
    for place, choice in enumerate(choices):
        places.setdefault(repr((choice.testbed, choice.recipe)), []).append(place)
    runs: dict[int, tuple[JudgedRun, JudgedRun | None]] = {}
    safety = []
    for same in places.values():
        with open_session(adapters, choices[same[0]], sink) as opened:
            for place in same:
                hit = hits[place]
                example = opened.measure(hit.overlap.example)
                runs[place] = (example, opened.measure(hit.changed) if hit.changed else None)
        safety += [opened.safety] if opened.safety else []
    return MeasuredHits(runs, tuple(safety))
