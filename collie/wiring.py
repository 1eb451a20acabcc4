"""The one module that names every concrete class: which testbed, which store, which content."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from collie.campaign.bench import Bench, Case
from collie.campaign.budget import Budget, parse_budget
from collie.campaign.calibrate import DENSE_SIZES
from collie.campaign.choice import SearchChoice, TestbedChoice
from collie.campaign.engine import Summary
from collie.campaign.run import Campaign, strategy_generator
from collie.campaign.safety import (
    Guard,
    SafetyRecord,
    described,
    record_of,
    replaced,
    require_unshared,
    tightened,
)
from collie.content.anomalies import load_reference, load_references
from collie.content.catalogs import discover_catalog, find_catalog, load_catalog
from collie.content.locate import Kind, available
from collie.content.recipes import load_recipe
from collie.content.spaces import load_space
from collie.content.subsystems import load_subsystem
from collie.content.workload_files import load_workload
from collie.counters.catalog import Catalog
from collie.detect.bounds import Calibration
from collie.detect.symptom import Symptom
from collie.errors import ContentError, HardwareChanged, Problem, StoreError, UsageError
from collie.inventory.fingerprint import Fingerprint, HostDifference, compare
from collie.inventory.safety import SafetyLimits
from collie.ports import CampaignHeader, ProgressSink, Testbed
from collie.search.recipe import Recipe
from collie.search.strategy import Answer, Fate, build
from collie.simulator.subsystem import SubsystemFile
from collie.simulator.testbed import SimulatedTestbed
from collie.store import calibrations, fingerprints
from collie.store.directory import CampaignDirectory
from collie.store.memory import MemoryStore
from collie.store.sqlite import SqliteStore
from collie.workloads.feature import Mfs
from collie.workloads.narrowing import parse_fixes, parse_limits
from collie.workloads.pruning import Capabilities, Drop, prune
from collie.workloads.space import Space
from collie.workloads.units import format_seconds
from collie.workloads.workload import Opcode, Workload, render

if TYPE_CHECKING:
    from collie.hosts.check import Finding
    from collie.hosts.watch import Reading
    from collie.inventory.hosts import Inventory, Pair
    from collie.report.map_figure import SeverityMap
    from collie.simulator.description import Audit, DescribedPart
    from collie.simulator.truth import Score

LAB = "lab"
_FIRST_PROPOSALS = 5

logger = logging.getLogger(__name__)


def space_of(choice: TestbedChoice, name: str | None) -> Space:
    """Load a space; without a name the one that suits the testbed."""
    return load_space(name or ("nsdi22" if choice.is_simulated else "soft-roce"))


def recipe_of(choice: TestbedChoice, name: str | None) -> Recipe:
    """Load a recipe; without a name the one that suits the testbed."""
    return load_recipe(name or ("guided" if choice.is_simulated else "soft-roce"))


def subsystem_of(choice: TestbedChoice) -> SubsystemFile:
    """Load a simulated subsystem and change its settings.

    Raises:
        ContentError: the file is wrong.
        UsageError: no such setting, or no such value.
    """
    subsystem = load_subsystem(choice.subsystem, SubsystemFile)
    return subsystem.with_settings(choice.settings) if choice.settings else subsystem


def open_testbed(choice: TestbedChoice, seed: int) -> Testbed:
    """Open the testbed that a user chose.

    Raises:
        ContentError: a subsystem or inventory file is wrong.
        TestbedError: the hosts cannot be used.
    """
    if choice.hosts is None:
        if choice.verify:
            raise UsageError("--verify compares payload, and the simulator carries none; add --hosts FILE")
        return SimulatedTestbed(subsystem_of(choice), load_catalog("simulated"), seed=seed, noise=choice.noise)
    if choice.settings:
        raise UsageError("--set changes a simulated subsystem; Collie never changes settings of real hosts")
    from collie.hosts.testbed import HostsTestbed
    from collie.lab.reviver import LabReviver
    from collie.ssh.remote import SshRemote

    pair = first_pair(open_inventory(choice.hosts))
    return HostsTestbed(
        pair,
        connect=SshRemote,
        catalog_for=find_catalog,
        discover=discover_catalog,
        reviver=LabReviver() if _is_lab(choice.hosts) else None,
        verify=choice.verify,
    )


def first_pair(inventory: Inventory) -> Pair:
    """Return the pair that measures.

    Raises:
        UsageError: the inventory forms none.
    """
    if not inventory.pairs:
        raise UsageError("the inventory names no pair of hosts; add one under `pairs:`")
    return inventory.pairs[0]


def open_inventory(hosts: str) -> Inventory:
    """Load an inventory file; `lab` is the one that `collie lab up` wrote.

    Raises:
        InventoryError: the file is wrong.
        LabError: no lab is up.
    """
    from collie.content.inventory import load_inventory

    return load_inventory(lab_inventory() if _is_lab(hosts) else Path(hosts))


def _is_lab(hosts: str) -> bool:
    return hosts.lower() == LAB and not Path(hosts).exists()


def lab_inventory() -> Path:
    """Return the inventory of the lab.

    Raises:
        LabError: no lab is up.
    """
    from collie.errors import LabError
    from collie.lab.lab import status

    inventory = status().inventory
    if inventory is None:
        raise LabError("no lab is up; start one with `collie lab up`")
    return inventory


def known_sets(known: str | None) -> tuple[Mfs, ...]:
    """Load minimal feature sets that need not be found again: the paper's, or those of a campaign.

    Raises:
        ContentError: there are no such anomalies.
        StoreError: there is no such campaign.
    """
    if known is None:
        return ()
    if Path(known).is_dir():
        with SqliteStore.open(Path(known), read_only=True) as store:
            return tuple(anomaly.mfs for anomaly in store.anomalies())
    return tuple(reference.conditions for reference in load_references(known))


@dataclass(frozen=True)
class OpenCampaign:
    """A campaign that is ready to run, with what has to be closed after it.

    Attributes:
        choice: what the user said, now or when the campaign began.
        campaign: the parts.
        testbed, store: to be closed.
    """

    choice: SearchChoice
    campaign: Campaign
    testbed: Testbed
    store: SqliteStore

    def release(self) -> SafetyRecord | None:
        """Leave nothing behind on the testbed; return what the campaign did to it, if it is real or was limited."""
        return record_of(self.campaign.guard, self.testbed.close())

    def run(self, sink: ProgressSink) -> Summary:
        """Search until the budget is spent."""
        return self.campaign.run(sink)

    def close(self) -> None:
        """Leave nothing behind on the testbed, and release the record."""
        try:
            self.testbed.close()
        finally:
            self.store.close()


def begin(choice: SearchChoice, directory: Path) -> OpenCampaign:
    """Begin a campaign in a new directory.

    Raises:
        CollieError: anything that the user chose is wrong, before anything is written.
    """
    choice = choice.with_absolute_paths()
    _parts(choice)  # what is wrong with the choice is said before any host is asked
    testbed = open_testbed(choice.testbed, choice.seed)
    try:
        choice = dataclasses.replace(choice, capabilities=testbed.capabilities)
        parts = _parts(choice)
        look_around(testbed, shared_port=choice.shared_port)
        _warn_of_unlike_known(choice.known, testbed)
        kept = kept_calibration(choice.testbed, testbed, parts.space)
        choice = dataclasses.replace(choice, calibrated=kept is not None)
        header = CampaignHeader(
            campaign=directory.name,
            testbed={"kind": testbed.info.kind, "name": testbed.info.name, **testbed.info.description},
            space=parts.space.name,
            recipe=parts.recipe.name,
            settings=choice.to_settings(),
            seed=choice.seed,
            started=_now(),
        )
        store = SqliteStore.create(directory, header)
        fingerprints.save(store.directory.fingerprints, testbed.info.fingerprints, _now())
        if kept is not None:
            store.set_calibration(kept)
        return _open(choice, parts, testbed, store)
    except BaseException:
        testbed.close()
        raise


def _warn_of_unlike_known(known: str | None, testbed: Testbed) -> None:
    """Say so when the anomalies that need not be found again were found on hosts unlike these."""
    if known is None or not Path(known).is_dir():
        return
    then = fingerprints.load(CampaignDirectory(Path(known)).fingerprints)
    if then and _unlike(then, testbed):
        logger.warning(
            "the anomalies of %s, which are not looked for again, were found on unlike hosts; to see how they differ: "
            "collie hosts diff",
            known,
        )


def resume(
    directory: Path,
    budget: str | None,
    *,
    safety: SafetyLimits | None = None,
    shared_port: bool = False,
    accept_changes: bool = False,
) -> OpenCampaign:
    """Go on with a campaign.

    Args:
        directory: of the campaign.
        budget: a new one; None for the one it began with.
        safety: limits to replace those that the user gave before.
        shared_port: go on although somebody else uses a port.
        accept_changes: go on although the hosts are not what they were.

    Raises:
        CollieError: the campaign or something that it was begun with is gone or has changed.
    """
    store = SqliteStore.open(directory)
    try:
        choice = SearchChoice.from_settings(store.header.settings)
        choice = dataclasses.replace(
            choice,
            budget=budget or choice.budget,
            safety=choice.safety if safety is None else replaced(choice.safety, safety),
            shared_port=shared_port,
        )
        parts = _parts(choice)
        _refuse_less_than_used(parts.budget, store)
        testbed = open_testbed(choice.testbed, choice.seed)
    except BaseException:
        store.close()
        raise
    if testbed.info.kind != store.header.testbed["kind"] or testbed.info.name != store.header.testbed["name"]:
        testbed.close()
        store.close()
        raise StoreError(f"{directory} was begun on {store.header.testbed['name']}, not on {testbed.info.name}")
    try:
        _require_same_hardware(directory, store.directory.fingerprints, testbed.info.fingerprints, accept_changes)
        look_around(testbed, shared_port=choice.shared_port)
    except BaseException:
        testbed.close()
        store.close()
        raise
    store.replace_settings(choice.to_settings())
    return _open(choice, parts, testbed, store)


def _require_same_hardware(directory: Path, folder: Path, now: Mapping[str, Fingerprint], accept_changes: bool) -> None:
    """Refuse hosts that are not what they were when a campaign began; keep an accepted change beside what was.

    Raises:
        HardwareChanged: something that changes results is not known to be equal, and nobody accepts that.
    """
    then = fingerprints.load(folder)
    if not then:  # begun by a Collie that kept none
        fingerprints.save(folder, now, _now())
        return
    changed = [found for found in compare(then, now) if found.changes_results]
    if changed and not accept_changes:
        said = [f"{found.b}: {each}" for found in changed for each in found.differences if each.changes_results]
        raise HardwareChanged(str(directory), said)
    if changed:
        fingerprints.save(folder, now, _now())


def _refuse_less_than_used(budget: Budget, store: SqliteStore) -> None:
    """Refuse a budget under which some of the recorded runs would not have been begun: they cannot be undone."""
    used = list(store.runs())[:-1]
    if used and budget.spent(used[-1].finished_at_seconds, used[-1].run):
        raise UsageError(
            f"budget {budget} is less than the campaign has used: {used[-1].run + 1} runs, "
            f"{format_seconds(used[-1].finished_at_seconds)} before the last; give more, or leave --budget out"
        )


@dataclass(frozen=True)
class _Parts:
    space: Space
    dropped: tuple[Drop, ...]
    recipe: Recipe
    budget: Budget
    known: tuple[Mfs, ...]
    limits: SafetyLimits


def look_around(testbed: Testbed, *, shared_port: bool) -> None:
    """Refuse a testbed whose ports somebody else uses, unless told otherwise; warn of what forbids nothing.

    Raises:
        PortShared: somebody else uses a port.
        TestbedError: a host cannot be asked.
    """
    for use in require_unshared(testbed.other_uses(), shared_port=shared_port):
        logger.warning("%s", use)


def limits_of(choice: SearchChoice) -> SafetyLimits:
    """Return the limits in force: the site's, tightened by the user; a simulation has none of its own.

    Raises:
        UsageError: the user wants more than the site allows.
        InventoryError: the hosts file is wrong.
    """
    hosts = choice.testbed.hosts
    return tightened(SafetyLimits() if hosts is None else open_inventory(hosts).safety, choice.safety)


def narrowed_space_of(choice: SearchChoice) -> Space:
    """Load the space of a search and narrow it: by what the user says, and by what the testbed can do if that is known.

    Raises:
        ContentError: there is no such space, or it is wrong.
        UsageError: what is fixed, limited and possible leaves nothing.
    """
    return _narrowed(choice)[0]


def _narrowed(choice: SearchChoice) -> tuple[Space, tuple[Drop, ...]]:
    """Return the space of a search and what was left out of it because the testbed cannot do it."""
    space = space_of(choice.testbed, choice.space)
    fixes, limits = parse_fixes(choice.fix), parse_limits(choice.limit)
    try:
        narrowed = space.narrowed(fixes, limits) if fixes or limits else space
        return prune(narrowed, choice.capabilities or Capabilities())
    except ValueError as error:
        raise UsageError(str(error)) from None


def _parts(choice: SearchChoice) -> _Parts:
    space, dropped = _narrowed(choice)
    recipe = recipe_of(choice.testbed, choice.recipe)
    budget = parse_budget(choice.budget or recipe.budget)
    return _Parts(space, dropped, recipe, budget, known_sets(choice.known), limits_of(choice))


def _open(choice: SearchChoice, parts: _Parts, testbed: Testbed, store: SqliteStore) -> OpenCampaign:
    campaign = Campaign(
        testbed=testbed,
        store=store,
        space=parts.space,
        recipe=parts.recipe,
        budget=parts.budget,
        seed=choice.seed,
        known=parts.known,
        dropped=parts.dropped,
        # A data sheet is ceiling enough; a device without one is measured first, unless it has been.
        calibration=store.calibration() if choice.testbed.is_simulated or choice.calibrated else None,
        guard=Guard(parts.limits),
    )
    return OpenCampaign(choice, campaign, testbed, store)


def recorded_choice(directory: Path) -> SearchChoice:
    """Return what a campaign was begun with.

    Raises:
        StoreError: there is no such campaign, or it is of a newer schema.
    """
    with read_campaign(directory) as store:
        return SearchChoice.from_settings(store.header.settings)


def read_campaign(directory: Path) -> SqliteStore:
    """Open a campaign to look at it, also while another process writes it.

    Raises:
        StoreError: there is no such campaign, or it is of a newer schema.
    """
    return SqliteStore.open(directory, read_only=True)


def write_report(store: SqliteStore, path: Path, wall_seconds: float | None = None) -> Path:
    """Write the HTML report of a campaign."""
    from collie.report.html import write_report as write  # matplotlib takes a second to import
    from collie.report.view import ReportContext

    space = narrowed_space_of(SearchChoice.from_settings(store.header.settings))
    write(store, path, ReportContext(str(store.directory.path), space, wall_seconds))
    return path


def describe(choice: SearchChoice) -> dict[str, Any]:
    """Return what a search would do, without touching any host: what hosts cannot do is left out once they are asked.

    Raises:
        CollieError: anything that the user chose is wrong.
    """
    contacted: dict[str, str] = {}
    if choice.testbed.hosts is None:
        testbed = open_testbed(choice.testbed, choice.seed)
        choice = dataclasses.replace(choice, capabilities=testbed.capabilities)
        name = f"simulated subsystem {testbed.info.name}"
    else:
        pair = first_pair(open_inventory(choice.testbed.hosts))
        name = pair.name
        contacted = {host.name: f"{host.address}, device {host.device}" for host in pair.hosts}
    parts = _parts(choice)
    return {
        "schema_version": 1,
        "testbed": name,
        "space": parts.space.name,
        "log10_size": round(parts.space.log10_size(), 1),
        "dimensions": list(parts.space.dimensions),
        "dropped": [dataclasses.asdict(drop) for drop in parts.dropped],
        "recipe": parts.recipe.name,
        "strategy": parts.recipe.strategy.value,
        "budget": str(parts.budget),
        "seed": choice.seed,
        "known": len(parts.known),
        "hosts": contacted,
        "safety": described(parts.limits),
        "first_workloads": [
            {name: value for name, value in render(workload).items() if name in parts.space.dimensions}
            for workload in _first_proposals(choice, parts)
        ],
    }


def _first_proposals(choice: SearchChoice, parts: _Parts) -> Iterator[Workload]:
    """Yield what a search proposes before any result could change its mind; no counters are known yet."""
    strategy = build(parts.recipe, parts.space, Catalog("none yet", ()), strategy_generator(choice.seed))
    for _ in range(_FIRST_PROPOSALS):
        workload = strategy.ask()
        yield workload
        strategy.tell(workload, Answer(Fate.SKIPPED))


def score(choice: SearchChoice, summary: Summary) -> Score:
    """Compare what was found with what is planted in the simulated subsystem."""
    from collie.simulator.truth import Truth

    subsystem = subsystem_of(choice.testbed)
    return Truth(subsystem, narrowed_space_of(choice)).score(summary.anomalies)


@contextmanager
def bench(
    choice: SearchChoice,
    sink: ProgressSink,
    calibration: Calibration | None = None,
    calibrated_on: Mapping[str, Fingerprint] | None = None,
) -> Iterator[Bench]:
    """Open a testbed for single workloads, and close it.

    Args:
        choice: testbed, space, recipe (for its thresholds) and seed of a search that would judge alike.
        sink: who watches.
        calibration: ceilings that are known already.
        calibrated_on: fingerprints of the hosts that they were measured on, if known; of other hosts they say nothing.
    """
    narrowed_space_of(choice)  # what is wrong with the choice is said before any host is asked
    recipe = recipe_of(choice.testbed, choice.recipe)
    guard = Guard(limits_of(choice))
    testbed = open_testbed(choice.testbed, choice.seed)
    try:
        look_around(testbed, shared_port=choice.shared_port)
        able = choice.capabilities or testbed.capabilities
        space = narrowed_space_of(dataclasses.replace(choice, capabilities=able))
        header = CampaignHeader("bench", {}, space.name, recipe.name, {}, choice.seed, _now())
        if calibrated_on and _unlike(calibrated_on, testbed):
            calibration = None
        ceilings = calibration or kept_calibration(choice.testbed, testbed, space) or Calibration()
        opened = Bench(testbed, MemoryStore(header), space, recipe.thresholds, ceilings, sink, guard)
        yield opened
        opened.safety = record_of(guard, testbed.close())
    finally:
        testbed.close()


def _unlike(then: Mapping[str, Fingerprint], testbed: Testbed) -> bool:
    """Whether results of hosts as they were must not be compared with those of a testbed without a word about it."""
    return any(found.changes_results for found in compare(then, testbed.info.fingerprints))


def kept_calibration(choice: TestbedChoice, testbed: Testbed, space: Space) -> Calibration | None:
    """Return what `collie hosts calibrate` has kept of these very hosts."""
    if choice.is_simulated:
        return None
    return calibrations.load(_calibration_name(testbed, space))


def _calibration_name(testbed: Testbed, space: Space) -> str:
    return calibrations.name_of(testbed.info.name, testbed.info.fingerprints, space.base)


def calibrate(
    choice: SearchChoice,
    repeats: int,
    sink: ProgressSink,
    sizes: Sequence[int] = DENSE_SIZES,
    opcodes: Sequence[Opcode] = (),
) -> tuple[Calibration, Path]:
    """Measure what plain traffic achieves on real hosts, and keep it for later searches.

    Args:
        choice: hosts, and the space that gives plain values.
        repeats: of each workload.
        sink: who watches.
        sizes: of messages, in bytes.
        opcodes: only these; all of the space without any.

    Raises:
        TestbedError: the hosts cannot be used.
    """
    with bench(choice, sink) as opened:
        calibration = dataclasses.replace(
            opened.calibrate(repeats, sizes, opcodes), measured_on=_now().partition("T")[0]
        )
        name = _calibration_name(opened.testbed, opened.space)
    return calibration, calibrations.save(calibration, name)


def workload_named(name: str, space: Space) -> Workload:
    """Load a workload file, or the trigger of an anomaly.

    Raises:
        ContentError: there is none, or it is wrong.
    """
    if Path(name).suffix in {".yaml", ".yml"}:
        return load_workload(Path(name), space)
    return load_reference(name).trigger


@dataclass(frozen=True)
class NamedCase:
    """An anomaly that a user named, with the search it comes from.

    Attributes:
        case: what to run.
        choice: of the campaign that found it; for one of the paper's, its subsystem and the usual rest.
        calibration: of that campaign.
        fingerprints: of its hosts; empty where none were kept.
    """

    case: Case
    choice: SearchChoice
    calibration: Calibration
    fingerprints: Mapping[str, Fingerprint] = dataclasses.field(default_factory=dict)

    def difference(self, now: Mapping[str, Fingerprint]) -> tuple[HostDifference, ...] | None:
        """Return how a testbed differs from the one that the anomaly was found on; None when that is not on record."""
        return compare(self.fingerprints, now) if self.fingerprints else None


def case_named(name: str) -> NamedCase:
    """Find an anomaly: an id such as `nsdi22-01`, or `CAMPAIGN/ID`.

    Raises:
        ContentError: there is no such anomaly.
        StoreError: there is no such campaign, or it has no such anomaly.
    """
    if "/" not in name:
        reference = load_reference(name)
        case = Case(name, reference.trigger, Symptom(reference.symptom), reference.conditions)
        return NamedCase(
            case, SearchChoice(TestbedChoice(subsystem=reference.subsystem, settings=reference.settings)), Calibration()
        )
    directory, _, identifier = name.rstrip("/").rpartition("/")
    # Both CAMPAIGN/a1 and the path of its folder, CAMPAIGN/anomalies/a1, name it.
    campaign = Path(directory).parent if Path(directory).name == "anomalies" else Path(directory)
    with read_campaign(campaign) as store:
        choice = SearchChoice.from_settings(store.header.settings)
        found = {anomaly.id: anomaly for anomaly in store.anomalies()}
        calibration = store.calibration()
        hardware = fingerprints.load(store.directory.fingerprints)
    if identifier not in found:
        raise StoreError(f"campaign {campaign} has no anomaly {identifier!r}; it has {', '.join(found) or 'none'}")
    anomaly = found[identifier]
    return NamedCase(Case(name, anomaly.workload, anomaly.symptom, anomaly.mfs), choice, calibration, hardware)


def catalog_of(choice: TestbedChoice) -> Catalog:
    """Return the counters of a testbed's NIC.

    Raises:
        TestbedError: the hosts cannot be asked.
    """
    if choice.is_simulated:
        return load_catalog("simulated")
    testbed = open_testbed(choice, 0)
    try:
        return testbed.info.catalog
    finally:
        testbed.close()


def watch(hosts: str, period_seconds: float, names: Sequence[str] = ()) -> Iterator[tuple[Reading, ...]]:
    """Yield how fast the counters of hosts of an inventory move.

    Args:
        hosts: the inventory.
        period_seconds: between readings.
        names: of the hosts to watch; all of the inventory when there are none.

    Raises:
        UsageError: the inventory has no host of that name.
        TestbedError: a host cannot be asked.
    """
    from collie.hosts.watch import watch as watch_hosts
    from collie.ssh.remote import SshRemote

    known = {host.name: host for host in open_inventory(hosts).hosts}
    if strangers := [name for name in names if name not in known]:
        raise UsageError(f"the inventory has no host {strangers[0]}; it has {', '.join(known)}")
    chosen = [known[name] for name in names] or list(known.values())
    return watch_hosts(chosen, SshRemote, find_catalog, period_seconds, discover=discover_catalog)


def check(hosts: str) -> tuple[Finding, ...]:
    """Look at every host of an inventory for what is missing before it can measure."""
    from collie.hosts.check import check_hosts
    from collie.ssh.remote import SshRemote

    inventory = open_inventory(hosts)
    return check_hosts(inventory.hosts, SshRemote, catalog_for=find_catalog, pairs=inventory.pairs)


def take_fingerprints(hosts: str, names: Sequence[str] = ()) -> dict[str, Fingerprint]:
    """Take the fingerprints of hosts of an inventory: of all, or of those that are named.

    Raises:
        UsageError: the inventory has no such host.
        TestbedError: a host cannot be asked.
    """
    from collie.hosts.fingerprint import fingerprints as take
    from collie.hosts.testbed import SystemClock
    from collie.ssh.remote import SshRemote

    inventory = open_inventory(hosts)
    try:
        chosen = [inventory.host(name) for name in names] if names else inventory.hosts
    except KeyError as unknown:
        there = ", ".join(host.name for host in inventory.hosts)
        raise UsageError(f"the inventory has no host {unknown}; it has {there}") from None
    return take(chosen, SshRemote, SystemClock())


def fingerprints_named(name: str, hosts: str | None) -> dict[str, Fingerprint]:
    """Find fingerprints: of a file, of a campaign directory, or of a host of an inventory, as it is now.

    Raises:
        UsageError: it is none of these.
        StoreError: a file is damaged.
        TestbedError: the host cannot be asked.
    """
    path = Path(name)
    if path.is_file():
        kept = fingerprints.read(path)
        return {kept.host: kept.fingerprint}
    if path.is_dir():
        found = fingerprints.load(CampaignDirectory(path).fingerprints)
        if not found:
            raise UsageError(f"{name} holds no fingerprints; is it a campaign directory?")
        return found
    if hosts is None:
        raise UsageError(f"{name!r} is no fingerprint file and no campaign; a host's name needs --hosts FILE")
    return take_fingerprints(hosts, [name])


def diff(a: str, b: str, hosts: str | None) -> tuple[HostDifference, ...]:
    """Compare what two names of `fingerprints_named` stand for.

    Raises:
        UsageError: nobody can say which host is to be compared with which.
        CollieError: as `fingerprints_named`.
    """
    left, right = fingerprints_named(a, hosts), fingerprints_named(b, hosts)
    if len(left) == 1 and len(right) == 1:
        (first, one), (second, other) = *left.items(), *right.items()
        names = (first, second) if first != second else (a, b)
        return compare({names[0]: one}, {names[1]: other})
    if 1 in (len(left), len(right)) and (shared := set(left) & set(right)):
        # One host against a campaign: against what that very host was then.
        left, right = ({name: each[name] for name in shared} for each in (left, right))
    if len(left) != len(right):
        raise UsageError(
            f"{a} has {len(left)} hosts ({', '.join(left)}) and {b} has {len(right)} ({', '.join(right)}); "
            "name one host or one fingerprint file on each side"
        )
    return compare(left, right)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


@dataclass(frozen=True)
class NamedSubsystem:
    """A subsystem that can be named on the command line.

    Attributes:
        name: as `--subsystem` takes it.
        path: of its file.
    """

    name: str
    path: Path
    file: SubsystemFile


def subsystems() -> tuple[tuple[NamedSubsystem, ...], tuple[Problem, ...]]:
    """Load every subsystem of the overlay and of Collie; what is wrong with some does not hide the others."""
    found: list[NamedSubsystem] = []
    problems: list[Problem] = []
    for name, path in available(Kind.SUBSYSTEM).items():
        try:
            found.append(NamedSubsystem(name, path, load_subsystem(name, SubsystemFile)))
        except ContentError as error:
            problems.extend(error.problems)
    return tuple(found), tuple(problems)


def describe_subsystem(subsystem: SubsystemFile) -> tuple[DescribedPart, ...]:
    """Return every quantity of a subsystem by part, with its settings in force."""
    from collie.simulator.description import describe as describe_parts

    return describe_parts(subsystem)


def audit_subsystem(subsystem: SubsystemFile, space: str | None) -> Audit:
    """Check what a subsystem file claims: every witness, every cure.

    Raises:
        ContentError: there is no such space, or it is wrong.
    """
    from collie.simulator.survey import audit

    return audit(subsystem, space_of(TestbedChoice(), space))


@dataclass(frozen=True)
class MapChoice:
    """What a user says about a map of severity.

    Attributes:
        x, y: dimensions.
        space: name or file; None for the usual one.
        workload: what the map lies around: a file, an anomaly, a mechanism's witness; None for the plain workload.
        fix: dimensions with another value, as the user wrote them.
    """

    x: str
    y: str
    space: str | None = None
    workload: str | None = None
    fix: tuple[str, ...] = ()


def severity_map(testbed: TestbedChoice, choice: MapChoice) -> SeverityMap:
    """Judge, without noise, every workload over two dimensions.

    Raises:
        ContentError: a file is wrong or absent.
        UsageError: the dimensions, the fixed values or the workload do not go together.
    """
    from collie.report.map_figure import MapAxis, SeverityMap
    from collie.simulator.survey import survey
    from collie.simulator.truth import Truth

    described = load_subsystem(testbed.subsystem, SubsystemFile)
    subsystem = subsystem_of(testbed)
    space = space_of(testbed, choice.space)
    fixes = parse_fixes(choice.fix)
    try:
        plain = space.narrowed(fixes, {}).base if fixes else space.base
    except ValueError as error:
        raise UsageError(str(error)) from None
    name, base = _map_base(choice.workload, subsystem, space) or ("plain workload", plain)
    base = base.with_(**fixes)
    judged = survey(subsystem, space, base, (choice.x, choice.y), set(fixes))
    x, y = (MapAxis(axis.name, axis.values, axis.ordered, axis.position) for axis in (judged.x, judged.y))
    return SeverityMap(
        subsystem=subsystem.name,
        settings={
            name: setting.value
            for name, setting in subsystem.settings.items()
            if setting.value != described.settings[name].value
        },
        space=space.name,
        base=base,
        base_name=name if choice.workload is None or not fixes else f"{name}, changed",
        fixed=tuple(fixes),
        base_severity=float(Truth(subsystem, space).severities([base])[0]) if space.allows(base) else None,
        plain=space.base,
        x=x,
        y=y,
        severity=tuple(tuple(None if isnan(value) else value for value in row) for row in judged.severity.tolist()),
        mechanisms=tuple(tuple(name.value if name else None for name in row) for row in judged.mechanisms),
        followed=judged.followed,
    )


def _map_base(named: str | None, subsystem: SubsystemFile, space: Space) -> tuple[str, Workload] | None:
    if named is None:
        return None
    witnesses = {witness.mechanism.value: witness.trigger for witness in subsystem.witnesses}
    if named in witnesses:
        return f"witness of {named}", witnesses[named]
    if Path(named).suffix in {".yaml", ".yml"}:
        return Path(named).name, load_workload(Path(named), space)
    if "/" not in named and named not in available(Kind.ANOMALY):
        raise UsageError(
            f"--workload {named!r} is no file, no anomaly such as nsdi22-01 or CAMPAIGN/a1, and no mechanism that "
            f"subsystem {subsystem.name} has a witness of; it has {', '.join(witnesses) or 'none'}"
        )
    return named, case_named(named).case.workload
