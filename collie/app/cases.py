"""Workloads and anomalies that a command names."""

from __future__ import annotations

import dataclasses
import logging
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from collie.app.adapters import Adapters
from collie.app.inputs import ISOLATE
from collie.app.testbeds import recorded_catalog
from collie.campaign.choice import SearchChoice, TestbedChoice
from collie.campaign.reproduce import BUNDLE_SUFFIX, counters_at_discovery
from collie.campaign.single_run import Case
from collie.detect.bounds import Calibration
from collie.detect.symptom import Symptom
from collie.detect.thresholds import Loss
from collie.errors import StoreError, UsageError
from collie.files import is_file_name
from collie.inventory.fingerprint import Fingerprint, HostDifference, compare
from collie.perftest.parse import read as read_perftest
from collie.ports import CAMPAIGN_FILE
from collie.search.anomaly import Anomaly, Claim
from collie.workloads.feature import Mfs
from collie.workloads.space import Space
from collie.workloads.workload import Workload

logger = logging.getLogger(__name__)

_OF_A_SEARCH = re.compile(r"a\d{1,6}")
WORKLOAD_SUFFIXES = frozenset({".yaml", ".yml"})


class NamedWorkload(NamedTuple):
    """A workload to run.

    Attributes:
        choice: that of the search that found it, if any.
        load: loads the workload for a space.
        hint: the likely cause that a campaign has on record for it, or empty.
    """

    choice: SearchChoice | None
    load: Callable[[Space], Workload]
    hint: str = ""


def workload_named(adapters: Adapters, name: str) -> NamedWorkload:
    """Find a workload file, a point of the released prototype, or the workload of an anomaly (`case_named`)."""
    if Path(name).suffix in WORKLOAD_SUFFIXES:
        return NamedWorkload(None, partial(adapters.content.workload, Path(name)))
    if _is_prototype(name):
        workload, _ = _prototype(adapters, name)
        return NamedWorkload(None, lambda _space: workload)
    named = case_named(adapters, name)
    if named.case.on is not None:
        logger.warning("%s shows only on a set-up for other workloads, too; `collie reproduce` makes it", name)
    is_of_campaign = "/" in name and not name.endswith(BUNDLE_SUFFIX)
    return NamedWorkload(named.choice, lambda _space: named.case.workload, named.likely if is_of_campaign else "")


def workload_given(adapters: Adapters, name: str | None, line: str | None) -> NamedWorkload:
    """Return what `workload_named` does, for a name or else a perftest command line. Without both: plain traffic."""
    if name is not None:
        return workload_named(adapters, name)
    return NamedWorkload(None, lambda space: space.base if line is None else workload_of_perftest(line, space))


def workload_of_perftest(line: str, space: Space) -> Workload:
    """Read a perftest command line. Assumptions are logged."""
    reading = read_perftest(line)
    if wrong := space.violations(reading.workload):
        raise UsageError(f"--perftest {line!r}: " + "; ".join(complaint for _, complaint in wrong))
    for remark in reading.remarks:
        logger.warning("%s: %s", line, remark)
    return reading.workload


def with_values(adapters: Adapters, workload: Workload, values: Mapping[str, Any], space: Space) -> Workload:
    """Return a workload with other values. Raises `UsageError` if the space does not hold it then."""
    changed = workload.with_(**values)
    if wrong := space.complaints(changed, adapters.content.varied_in):
        raise UsageError("--fix: " + "; ".join(complaint for _, complaint in wrong))
    return changed


def common_choice(choices: Sequence[tuple[str, SearchChoice]]) -> SearchChoice:
    """Return the choice of anomalies that are to run on one testbed.

    Raises:
        UsageError: their testbeds, spaces or recipes differ.
    """
    (first, chosen), *others = choices
    for other, choice in others:
        for part, option in (("testbed", "--subsystem or --hosts"), ("space", "--space"), ("recipe", "--recipe")):
            if getattr(choice, part) != getattr(chosen, part):
                raise UsageError(f"{first} and {other} were found with another {part}; choose one with {option}")
    return chosen


@dataclass(frozen=True)
class NamedCase:
    """An anomaly with its search.

    Attributes:
        likely: the component to which counters point, or empty.
        note: how its workload differs from the one that was found, or empty.
        explanation_begun: whether its conditions were looked for.
        claim: how far these were tested.
    """

    case: Case
    choice: SearchChoice
    calibration: Calibration
    fingerprints: Mapping[str, Fingerprint] = dataclasses.field(default_factory=dict)
    found_on: str = ""
    sentence: str = ""
    likely: str = ""
    note: str = ""
    explanation_begun: bool = True
    claim: Claim = dataclasses.field(default_factory=Claim)

    def ceilings(self, testbed: TestbedChoice) -> Calibration | None:
        """Return the campaign's calibration, or None unless both testbeds have the same victim or none."""
        then, now = self.choice.testbed, testbed
        return self.calibration if (then.victim, then.victim_bps) == (now.victim, now.victim_bps) else None

    def difference(self, now: Mapping[str, Fingerprint]) -> tuple[HostDifference, ...] | None:
        """Return the differences from the anomaly's recorded testbed, or None if it has no fingerprints on record."""
        return compare(self.fingerprints, now) if self.fingerprints else None


def case_named(adapters: Adapters, name: str) -> NamedCase:
    """Find an anomaly: an id such as `nsdi22-01`, `CAMPAIGN/ID`, a bundle file, or a file of the released prototype."""
    if name.endswith(BUNDLE_SUFFIX):
        return _bundled(adapters, Path(name))
    if _is_prototype(name):
        return _found_by_prototype(adapters, name)
    if os.path.lexists(Path(name) / CAMPAIGN_FILE):
        with adapters.records.read(Path(name)) as store:
            found = ", ".join(anomaly.id for anomaly in store.anomalies())
        if not found:
            raise UsageError(f"{name} is a campaign that has found no anomaly")
        raise UsageError(f"{name} is a whole campaign; name one of its anomalies as {name.rstrip('/')}/ID: {found}")
    if _OF_A_SEARCH.fullmatch(name):
        raise UsageError(f"{name} is an anomaly of some campaign; name that, too, as in last/{name} or CAMPAIGN/{name}")
    return _found(adapters, name) if "/" in name else _published(adapters, name)


def _published(adapters: Adapters, name: str) -> NamedCase:
    reference = adapters.content.reference(name)
    case = Case(name, reference.trigger, Symptom(reference.symptom), reference.conditions)
    choice = SearchChoice(TestbedChoice(subsystem=reference.subsystem, settings=reference.settings))
    sentence = f"{reference.title}: {reference.severity.text} ({reference.source})"
    return NamedCase(
        case, choice, Calibration(), {}, f"subsystem {reference.subsystem} of the paper", sentence, reference.cause
    )


def _bundled(adapters: Adapters, path: Path) -> NamedCase:
    bundle = adapters.reports.read_bundle(path)
    case = Case(bundle.name, bundle.plan.anomaly, bundle.symptom, bundle.mfs, bundle.at_discovery, bundle.plan.on)
    testbed = TestbedChoice(verify=bundle.verify, victim=bundle.victim, victim_bps=bundle.victim_bps)
    # Its thresholds are the sender's. Only whose loss they judge says which symptoms a run can show.
    choice = SearchChoice(testbed, recipe=ISOLATE if bundle.thresholds.loss_of is Loss.OF_VICTIM else None)
    known = (bundle.fingerprints, bundle.found_on, bundle.sentence, bundle.likely)
    return NamedCase(case, choice, Calibration(), *known, claim=bundle.claim)


def _is_prototype(name: str) -> bool:
    path = Path(name.partition("#")[0])
    return is_file_name(path) and path.suffix not in {*WORKLOAD_SUFFIXES, BUNDLE_SUFFIX}


def _prototype(adapters: Adapters, name: str) -> tuple[Workload, Symptom | None]:
    workload, symptom, remarks = adapters.content.prototype(name)
    for remark in remarks:
        logger.warning("%s: %s", name, remark)
    return workload, symptom


def _found_by_prototype(adapters: Adapters, name: str) -> NamedCase:
    workload, symptom = _prototype(adapters, name)
    if symptom is None:
        raise UsageError(
            f"{name} has no readings that tell what to look for; `collie measure {name}` runs it and says what it shows"
        )
    case = Case(name, workload, symptom, Mfs(()))
    return NamedCase(case, SearchChoice(), Calibration(), sentence="a point of the released prototype")


def _found(adapters: Adapters, name: str) -> NamedCase:
    directory, identifier = Path(name).parent, Path(name).name
    # An anomaly is named by CAMPAIGN/a1 or by the path of its folder, CAMPAIGN/anomalies/a1.
    campaign = directory.parent if directory.name == "anomalies" else directory
    if os.path.isdir(name) and not os.path.lexists(campaign / CAMPAIGN_FILE):
        raise UsageError(f"{name} holds no campaign (no {CAMPAIGN_FILE} in it), and is no anomaly of one")
    with adapters.records.read(campaign) as store:
        choice = SearchChoice.from_settings(store.header.settings)
        found = {anomaly.id: anomaly for anomaly in store.anomalies()}
        if identifier not in found:
            raise StoreError(f"campaign {campaign} has no anomaly {identifier!r}; it has {', '.join(found) or 'none'}")
        anomaly, calibration = found[identifier], store.calibration()
        hardware = adapters.records.fingerprints(campaign)
        catalog = recorded_catalog(adapters, choice.testbed, hardware)
        runs = list(store.runs(with_series=False))
        at_discovery = counters_at_discovery(runs, anomaly, catalog) if catalog else None
        testbed = adapters.reports.testbed_name(store.header)
    case = Case(name, anomaly.workload, anomaly.symptom, anomaly.mfs, at_discovery, anomaly.set_up)
    about = anomaly.sentence, anomaly.hint, _simplified(anomaly), anomaly.explanation_begun, anomaly.claim
    return NamedCase(case, choice, calibration, hardware, testbed, *about)


def _simplified(anomaly: Anomaly) -> str:
    """Say that an anomaly's workload is not the one that was found, and what that showed."""
    if not anomaly.found_figure:
        return ""
    found = f"{anomaly.symptom.words}, {anomaly.found_figure}"
    return f"this is the simplest workload of {anomaly.id}; the one that was found: {found}"
