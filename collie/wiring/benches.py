"""Single workloads: measured, calibrated with, reproduced."""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from collie.bundle import archive
from collie.campaign.calibrate import DENSE_SIZES
from collie.campaign.choice import SearchChoice, TestbedChoice
from collie.campaign.reproduce import remembered
from collie.campaign.safety import Guard, SafetyRecord, record_of
from collie.campaign.single_run import Case, SingleRunSession
from collie.content.anomalies import load_reference
from collie.content.catalogs import find_catalog, load_catalog
from collie.content.prototype import PrototypePoint, load_point
from collie.content.workload_files import load_workload
from collie.counters.catalog import Catalog
from collie.detect.bounds import Calibration
from collie.detect.signature import Levels
from collie.detect.symptom import Symptom
from collie.errors import StoreError, StoreUnwritable, UsageError
from collie.files import is_file_name
from collie.inventory.fingerprint import Fingerprint, HostDifference, compare
from collie.ports import CampaignHeader, ProgressSink
from collie.report.quantities import name_testbed
from collie.store import calibrations, fingerprints
from collie.store.memory import MemoryStore
from collie.wiring.parts import limits_of, narrowed_space_of, recipe_of, utc_now
from collie.wiring.records import read_campaign
from collie.wiring.testbeds import calibration_name, kept_calibration, open_testbed, require_idle_ports, unlike
from collie.workloads.feature import Mfs
from collie.workloads.space import Space
from collie.workloads.workload import Opcode, Workload

logger = logging.getLogger(__name__)

_YAML = frozenset({".yaml", ".yml"})


@contextmanager
def bench(
    choice: SearchChoice,
    sink: ProgressSink,
    calibration: Calibration | None = None,
    calibrated_on: Mapping[str, Fingerprint] | None = None,
    levels: Levels | None = None,
) -> Iterator[SingleRunSession]:
    """Open a testbed for single workloads, and close it.

    Args:
        choice: testbed, space, recipe (for its thresholds) and seed of a search that would judge alike.
        sink: who watches.
        calibration: ceilings that are known already.
        calibrated_on: fingerprints of the hosts that they were measured on, if known; of other hosts they say nothing.
        levels: what healthy runs read, where that is known already.
    """
    narrowed_space_of(choice)  # what is wrong with the choice is said before any host is asked
    recipe = recipe_of(choice.testbed, choice.recipe)
    guard = Guard(limits_of(choice))
    testbed = open_testbed(choice.testbed, choice.seed)
    try:
        require_idle_ports(testbed, shared_port=choice.shared_port)
        able = choice.capabilities or testbed.capabilities
        space = narrowed_space_of(dataclasses.replace(choice, capabilities=able))
        header = CampaignHeader("bench", {}, space.name, recipe.name, {}, choice.seed, utc_now())
        if calibrated_on and unlike(calibrated_on, testbed):
            calibration = None
        ceilings = calibration or kept_calibration(choice.testbed, testbed, space) or Calibration()
        opened = SingleRunSession(testbed, MemoryStore(header), space, recipe.thresholds, ceilings, sink, guard, levels)
        yield opened
        opened.safety = record_of(guard, testbed.close())
    finally:
        testbed.close()


@dataclass(frozen=True)
class Calibrated:
    """What calibrating has measured.

    Attributes:
        calibration: the ceilings.
        path: where they are kept; None where they could not be.
        safety: what the runs did to the network; None where nothing was limited.
        failure: why they could not be kept.
    """

    calibration: Calibration
    path: Path | None
    safety: SafetyRecord | None
    failure: StoreUnwritable | None = None


def calibrate(
    choice: SearchChoice,
    repeats: int,
    sink: ProgressSink,
    sizes: Sequence[int] = DENSE_SIZES,
    opcodes: Sequence[Opcode] = (),
) -> Calibrated:
    """Measure what plain traffic achieves on real hosts, and keep it for later searches.

    Where it cannot be kept in the end, it is returned all the same: hosts have worked for it.

    Args:
        choice: hosts, and the space that gives plain values.
        repeats: of each workload.
        sink: who watches.
        sizes: of messages, in bytes.
        opcodes: only these; all of the space without any.

    Raises:
        StoreUnwritable: it could not be kept, as is found out before any host is asked.
        TestbedError: the hosts cannot be used.
    """
    calibrations.require_writable()
    with bench(choice, sink) as opened:
        calibration = dataclasses.replace(
            opened.calibrate(repeats, sizes, opcodes), measured_on=utc_now().partition("T")[0]
        )
        name = calibration_name(opened.testbed, opened.space)
    try:
        return Calibrated(calibration, calibrations.save(calibration, name), opened.safety)
    except StoreUnwritable as failure:
        return Calibrated(calibration, None, opened.safety, failure)


def workload_named(name: str) -> tuple[SearchChoice, Callable[[Space], Workload]]:
    """Find a workload file, a point of the released prototype, or the workload of an anomaly as `case_named` does.

    Returns:
        The search that it comes from, the usual one where it comes from none, and what gives the workload once its
        space is known.

    Raises:
        CollieError: there is none, or it is wrong.
    """
    if Path(name).suffix in _YAML:
        return SearchChoice(TestbedChoice()), partial(load_workload, Path(name))
    if _is_prototype(name):
        point = _point(name).workload
        return SearchChoice(TestbedChoice()), lambda _space: point
    named = case_named(name)
    return named.choice, lambda _space: named.case.workload


@dataclass(frozen=True)
class NamedCase:
    """An anomaly that a user named, with the search it comes from.

    Attributes:
        case: what to run.
        choice: of the campaign that found it; for one of the paper's, its subsystem and the usual rest.
        calibration: of that campaign.
        fingerprints: of its hosts; empty where none were kept.
        found_on: where it was found, in words.
        sentence: what was found, for people.
        likely: what the counters point at; empty where they do not tell.
    """

    case: Case
    choice: SearchChoice
    calibration: Calibration
    fingerprints: Mapping[str, Fingerprint] = dataclasses.field(default_factory=dict)
    found_on: str = ""
    sentence: str = ""
    likely: str = ""

    def ceilings(self, testbed: TestbedChoice) -> Calibration | None:
        """Return the calibration of the campaign if it holds here: with a victim beside every run, or without one."""
        return self.calibration if self.choice.testbed.victim == testbed.victim else None

    def difference(self, now: Mapping[str, Fingerprint]) -> tuple[HostDifference, ...] | None:
        """Return how a testbed differs from the one that the anomaly was found on; None when that is not on record."""
        return compare(self.fingerprints, now) if self.fingerprints else None


def case_named(name: str) -> NamedCase:
    """Find an anomaly: an id such as `nsdi22-01`, `CAMPAIGN/ID`, a bundle file, or a file of the released prototype.

    Raises:
        ContentError: there is no such anomaly, or the file is none of these.
        StoreError: there is no such campaign, or it has no such anomaly.
        UsageError: the file does not tell what to look for.
    """
    if name.endswith(archive.SUFFIX):
        return _bundled(Path(name))
    if _is_prototype(name):
        return _found_by_prototype(name)
    if os.path.lexists(Path(name) / "campaign.sqlite"):
        with read_campaign(Path(name)) as store:
            found = ", ".join(anomaly.id for anomaly in store.anomalies()) or "none"
        raise UsageError(f"{name} is a whole campaign; name one of its anomalies as {name.rstrip('/')}/ID: {found}")
    return _found(name) if "/" in name else _published(name)


def _published(name: str) -> NamedCase:
    reference = load_reference(name)
    case = Case(name, reference.trigger, Symptom(reference.symptom), reference.conditions)
    choice = SearchChoice(TestbedChoice(subsystem=reference.subsystem, settings=reference.settings))
    sentence = f"{reference.title}: {reference.severity.text} ({reference.source})"
    return NamedCase(
        case, choice, Calibration(), {}, f"subsystem {reference.subsystem} of the paper", sentence, reference.cause
    )


def _bundled(path: Path) -> NamedCase:
    bundle = archive.read(path)
    case = Case(bundle.name, bundle.plan.anomaly, bundle.symptom, bundle.mfs, bundle.then)
    choice = SearchChoice(TestbedChoice(verify=bundle.verify))
    known = (bundle.fingerprints, bundle.found_on, bundle.sentence, bundle.likely)
    return NamedCase(case, choice, Calibration(), *known)


def _is_prototype(name: str) -> bool:
    path = Path(name.partition("#")[0])
    return is_file_name(path) and path.suffix not in {*_YAML, archive.SUFFIX}


def _point(name: str) -> PrototypePoint:
    point = load_point(name)
    for remark in point.remarks:
        logger.warning("%s: %s", name, remark)
    return point


def _found_by_prototype(name: str) -> NamedCase:
    point = _point(name)
    if point.symptom is None:
        raise UsageError(
            f"{name} has no readings that tell what to look for; `collie measure {name}` runs it and says what it shows"
        )
    case = Case(name, point.workload, point.symptom, Mfs(()))
    return NamedCase(case, SearchChoice(TestbedChoice()), Calibration(), sentence="a point of the released prototype")


def _found(name: str) -> NamedCase:
    directory, _, identifier = name.rstrip("/").rpartition("/")
    # Both CAMPAIGN/a1 and the path of its folder, CAMPAIGN/anomalies/a1, name it.
    campaign = Path(directory).parent if Path(directory).name == "anomalies" else Path(directory)
    with read_campaign(campaign) as store:
        choice = SearchChoice.from_settings(store.header.settings)
        found = {anomaly.id: anomaly for anomaly in store.anomalies()}
        if identifier not in found:
            raise StoreError(f"campaign {campaign} has no anomaly {identifier!r}; it has {', '.join(found) or 'none'}")
        anomaly, calibration = found[identifier], store.calibration()
        hardware = fingerprints.load(store.directory.fingerprints)
        catalog = _catalog_of(choice.testbed, hardware)
        then = remembered(store.runs(with_series=False), anomaly, catalog) if catalog else None
        testbed = name_testbed(store.header.testbed)
    case = Case(name, anomaly.workload, anomaly.symptom, anomaly.mfs, then)
    return NamedCase(case, choice, calibration, hardware, testbed, anomaly.sentence, anomaly.hint)


def _catalog_of(choice: TestbedChoice, hardware: Mapping[str, Fingerprint]) -> Catalog | None:
    """Return the counters of the testbed that a campaign ran on; None when nobody has described its driver."""
    if choice.is_simulated:
        return load_catalog("simulated")
    drivers = {str(fingerprint.fields.get("nic.driver")) for fingerprint in hardware.values()}
    return find_catalog(drivers.pop()) if len(drivers) == 1 else None
