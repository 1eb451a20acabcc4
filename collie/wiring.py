"""The concrete classes behind the ports. This is the one module that knows them all.

The functions import what they use, so that a command loads no more than it needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from collie.app.adapters import Adapters, Content, OpenTestbed, Records, Reports, Testbeds
from collie.app.inventories import is_lab
from collie.campaign.choice import TestbedChoice
from collie.clock import SystemClock, utc_now
from collie.files import FOR_OTHERS

if TYPE_CHECKING:
    from collie.campaign.fleet import OpenGroup
    from collie.campaign.reproduce import Bundle
    from collie.detect.symptom import Symptom
    from collie.fleet.fault import Fault
    from collie.hosts.findings import Finding
    from collie.hosts.watch import CounterRates
    from collie.inventory.fingerprint import Fingerprint
    from collie.inventory.hosts import Host, Inventory, Pair
    from collie.inventory.safety import SafetyLimits
    from collie.ports import Testbed
    from collie.readings.policy import WindowPolicy
    from collie.simulator.ground_truth import GroundTruth
    from collie.simulator.subsystem import SubsystemFile
    from collie.workloads.workload import Workload


class _Adapters:
    clock = SystemClock()

    @cached_property
    def content(self) -> Content:
        from collie.content.anomalies import load_reference, load_references
        from collie.content.applications import is_application, load_application, names_application
        from collie.content.catalogs import find_catalog, load_catalog
        from collie.content.inventory import load_inventory
        from collie.content.locate import ContentKind, available, find
        from collie.content.recipes import load_recipe
        from collie.content.spaces import load_space, varied_in
        from collie.content.workload import load_workload

        return Content(
            space=load_space,
            varied_in=varied_in,
            recipe=load_recipe,
            reference=load_reference,
            references=load_references,
            names_reference=lambda name: name in available(ContentKind.ANOMALY),
            application=load_application,
            is_application=is_application,
            names_application=names_application,
            workload=load_workload,
            prototype=_prototype,
            catalog=load_catalog,
            find_catalog=find_catalog,
            inventory=load_inventory,
            subsystem_name=lambda name: find(ContentKind.SUBSYSTEM, name).stem,
        )

    @cached_property
    def records(self) -> Records:
        from collie.store import answers, calibrations, fingerprints, heartbeat
        from collie.store.directory import CampaignDirectory
        from collie.store.memory import MemoryStore
        from collie.store.sqlite import SqliteStore

        return Records(
            create=SqliteStore.create,
            open=SqliteStore.open,
            read=partial(SqliteStore.open, read_only=True),
            in_memory=MemoryStore,
            exists=lambda directory: CampaignDirectory(directory).database.exists(),
            fingerprints=lambda directory: fingerprints.load(CampaignDirectory(directory).fingerprints),
            keep_fingerprints=lambda directory, now: fingerprints.save(
                CampaignDirectory(directory).fingerprints, now, utc_now()
            ),
            accepted_changes=lambda directory: fingerprints.changes(CampaignDirectory(directory).fingerprints),
            fingerprint_file=_fingerprint_file,
            heartbeat=lambda directory: heartbeat.read_heartbeat(CampaignDirectory(directory).status),
            write_heartbeat=lambda directory, now: heartbeat.write_heartbeat(CampaignDirectory(directory).status, now),
            gate_answer=lambda directory: answers.read_answer(CampaignDirectory(directory).answer),
            keep_gate_answer=lambda directory, now: answers.write_answer(CampaignDirectory(directory).answer, now),
            calibration_name=calibrations.name_of,
            calibration=calibrations.load,
            keep_calibration=calibrations.save,
            require_writable_calibrations=calibrations.require_writable,
        )

    @cached_property
    def testbeds(self) -> Testbeds:
        from collie.scheduler.distributed import DistributedPairs, require_usable
        from collie.scheduler.local import LocalPairs

        return Testbeds(
            simulated=_simulated,
            on_hosts=lambda choice, pair, policy: partial(hosts_testbed, choice, pair, policy),
            several=lambda opened, absent_ok: LocalPairs(opened, absent_ok=absent_ok),
            on_workers=lambda address, opens, absent_ok: DistributedPairs(address, opens, absent_ok=absent_ok),
            require_scheduler=require_usable,
            simulated_fleet=_simulated_fleet,
            fingerprints=_fingerprints,
            lab_inventory=_lab_inventory,
        )

    @cached_property
    def reports(self) -> Reports:
        from collie.bundle import archive
        from collie.files import write_whole
        from collie.report import perftest
        from collie.report.ci.prometheus import render_metrics
        from collie.report.html.page import write_comparison, write_report
        from collie.report.quantities import name_testbed

        return Reports(
            campaign_page=lambda store, path, context, follow: write_report(store, path, context, follow=follow),
            comparison_page=write_comparison,
            metrics=lambda path, header, progress, updated, is_running: write_whole(
                path, [render_metrics(header, progress, updated, running=is_running)], FOR_OTHERS
            ),
            testbed_name=name_testbed,
            perftest_commands=perftest.render_commands,
            perftest_script=perftest.render_script,
            perftest_json=perftest.perftest_json,
            bundle=_bundle,
            read_bundle=archive.read,
        )


ADAPTERS: Adapters = _Adapters()


def hosts_testbed(choice: TestbedChoice, pair: Pair, policy: WindowPolicy | None = None) -> Testbed:
    """Open the testbed of real hosts. Machines of the lab are restarted when they lock up."""
    from collie.content.catalogs import discover_catalog, find_catalog
    from collie.hosts.testbed import HostsTestbed
    from collie.lab.lab import LabReviver
    from collie.ssh.remote import SshRemote

    return HostsTestbed(
        pair,
        connect=SshRemote,
        catalog_for=find_catalog,
        discover=discover_catalog,
        policy=policy,
        reviver=LabReviver() if choice.hosts is not None and is_lab(choice.hosts) else None,
        verify=choice.verify,
        victim=choice.victim,
        victim_bps=choice.victim_bps,
    )


def subsystem_of(choice: TestbedChoice) -> SubsystemFile:
    """Load a simulated subsystem with the settings of a choice."""
    from collie.content.subsystems import load_subsystem
    from collie.simulator.subsystem import SubsystemFile

    subsystem = load_subsystem(choice.subsystem, SubsystemFile)
    return subsystem.with_settings(choice.settings) if choice.settings else subsystem


def ground_truth(choice: TestbedChoice) -> GroundTruth:
    """Load the truth about a simulated subsystem, for scoring and maps."""
    from collie.simulator.ground_truth import GroundTruth

    return GroundTruth(subsystem_of(TestbedChoice(subsystem=choice.subsystem)), choice.settings)


def watch(hosts: Sequence[Host], period_seconds: float) -> Iterator[tuple[CounterRates, ...]]:
    """Yield the rates of the counters of real hosts, each period."""
    from collie.content.catalogs import discover_catalog, find_catalog
    from collie.hosts.watch import watch as watch_hosts
    from collie.ssh.remote import SshRemote

    return watch_hosts(hosts, SshRemote, find_catalog, period_seconds, discover=discover_catalog)


def check_hosts(inventory: Inventory, limits: SafetyLimits | None, *, shared_port: bool) -> tuple[Finding, ...]:
    """Check the hosts of an inventory, and test their data paths within `limits`. With None it sends no traffic."""
    from collie.content.catalogs import find_catalog
    from collie.hosts.check import check_hosts as check
    from collie.ssh.remote import SshRemote

    hosts, pairs = inventory.hosts, inventory.pairs
    return check(hosts, SshRemote, catalog_for=find_catalog, pairs=pairs, limits=limits, shared_port=shared_port)


def _prototype(name: str) -> tuple[Workload, Symptom | None, tuple[str, ...]]:
    from collie.content.prototype import load_point

    point = load_point(name)
    return point.workload, point.symptom, point.remarks


def _fingerprint_file(path: Path) -> Mapping[str, Fingerprint]:
    from collie.store import fingerprints

    kept = fingerprints.read(path)
    return {kept.host: kept.fingerprint}


def _simulated(choice: TestbedChoice, seed: int) -> OpenTestbed:
    from collie.content.catalogs import load_catalog
    from collie.simulator.testbed import SimulatedTestbed

    subsystem, catalog = subsystem_of(choice), load_catalog("simulated")
    return partial(
        SimulatedTestbed,
        subsystem,
        catalog,
        seed=seed,
        noise=choice.noise,
        hardships=choice.hardships,
        victim=choice.victim,
        victim_bps=choice.victim_bps,
    )


def _simulated_fleet(choice: TestbedChoice, faults: Mapping[str, Fault], seed: int) -> tuple[str, OpenGroup]:
    from collie.content.catalogs import load_catalog
    from collie.simulator.fleet import group_opener

    plain = subsystem_of(TestbedChoice(subsystem=choice.subsystem))
    catalog = load_catalog("simulated")
    opener = group_opener(
        plain, choice.settings, faults, catalog, seed=seed, noise=choice.noise, hardships=choice.hardships
    )
    return plain.name, opener


def _fingerprints(hosts: Sequence[Host]) -> Mapping[str, Fingerprint]:
    from collie.hosts.fingerprint import fingerprints
    from collie.ssh.remote import SshRemote

    return fingerprints(hosts, SshRemote)


def _lab_inventory() -> Path | None:
    from collie.lab.lab import status

    return status().inventory


def _bundle(bundle: Bundle) -> bytes:
    from collie.agent.build import build as build_agent
    from collie.bundle.archive import build
    from collie.bundle.catalogs import Catalogs
    from collie.content.catalogs import load_catalogs

    return build(bundle, Catalogs(load_catalogs()), build_agent())
