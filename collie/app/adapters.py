"""What the use cases need of the world besides `collie.ports`, as protocols. `collie/wiring.py` fills them in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, runtime_checkable

from collie.ports import CampaignStore

if TYPE_CHECKING:  # `collie status` needs none of the packages that these types come from
    from collie.app.report_context import ReportContext
    from collie.campaign.bundle import Bundle
    from collie.campaign.choice import TestbedChoice
    from collie.campaign.fleet import OpenGroup
    from collie.campaign.heartbeat import Heartbeat
    from collie.campaign.lanes import Lane
    from collie.campaign.progress import CampaignProgress, Tally
    from collie.counters.catalog import Catalog
    from collie.detect.bounds import Calibration
    from collie.detect.symptom import Symptom
    from collie.fleet.fault import Fault
    from collie.inventory.fingerprint import Fingerprint, HostDifference
    from collie.inventory.hosts import Host, Inventory, Pair
    from collie.perftest.case import PerftestCase
    from collie.ports import CampaignHeader, Clock, Testbed
    from collie.readings.policy import WindowPolicy
    from collie.search.recipe import Recipe
    from collie.workloads.application import Application
    from collie.workloads.reference import ReferenceAnomaly
    from collie.workloads.space import Space
    from collie.workloads.workload import Workload

OpenTestbed: TypeAlias = "Callable[[], Testbed]"
"""Opens one testbed, also on the machine of a scheduler's worker."""


@dataclass(frozen=True)
class Content:
    """Readers of the files that operators and vendors edit. Each raises `ContentError` for a wrong or absent file.

    Attributes:
        space, recipe, reference: load one by name or path.
        references: loads a collection of published anomalies.
        names_reference: whether a name is the id of a published anomaly.
        application: loads one by name or path, in the terms of a space, else of its own, else of a default.
        is_application: whether a file holds an application.
        names_application: whether a name or path is an application and no space.
        workload: reads a file in the terms of a space.
        prototype: reads a point of the released prototype: workload, symptom if the file has readings, remarks.
        catalog: loads the counters of a driver.
        find_catalog: the same, None where the driver has no catalog.
        inventory: reads a hosts file.
        subsystem_name: returns the name of a subsystem, given by name or path.
    """

    space: Callable[[str], Space]
    recipe: Callable[[str], Recipe]
    reference: Callable[[str], ReferenceAnomaly]
    references: Callable[[str], tuple[ReferenceAnomaly, ...]]
    names_reference: Callable[[str], bool]
    application: Callable[[str, str | None, str], Application]
    is_application: Callable[[Path], bool]
    names_application: Callable[[str], bool]
    workload: Callable[[Path, Space], Workload]
    prototype: Callable[[str], tuple[Workload, Symptom | None, tuple[str, ...]]]
    catalog: Callable[[str], Catalog]
    find_catalog: Callable[[str], Catalog | None]
    inventory: Callable[[Path], Inventory]
    subsystem_name: Callable[[str], str]


class CampaignFolder(Protocol):
    """Places in a campaign directory."""

    @property
    def path(self) -> Path:
        """The directory."""
        ...

    @property
    def log(self) -> Path:
        """Directory of logs."""
        ...


class CampaignRecord(CampaignStore, Protocol):
    """A `CampaignStore` in a directory."""

    @property
    def directory(self) -> CampaignFolder:
        """Its directory."""
        ...

    def tally(self) -> Tally:
        """Count the recorded runs."""
        ...

    def replace_settings(self, settings: Mapping[str, Any]) -> None:
        """Change the settings that the campaign goes on with."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...


@dataclass(frozen=True)
class Records:
    """Campaigns and calibrations on disk. Each raises `StoreError` for a file that it cannot read or write.

    Attributes:
        create: begins a record in a new directory, with a calibration if one is known.
        open: opens a record to go on with it.
        read: opens a record to read it, also while another process writes it.
        in_memory: begins a record that is not kept.
        exists: whether a directory holds a record.
        fingerprints: of a campaign's hosts, the latest of each, host A first, empty without any.
        keep_fingerprints: keeps those of a campaign's hosts beside earlier ones.
        accepted_changes: how the hosts changed while a campaign was resumed.
        fingerprint_file: reads one file, by host.
        heartbeat: the last sign of life of a campaign's process, None without one.
        write_heartbeat: replaces it. Raises OSError.
        calibration_name: names the calibration of hosts, by testbed name, fingerprints and plain workload.
        calibration: the one of a name, None without one.
        keep_calibration: keeps one under a name and returns its file.
        require_writable_calibrations: refuses a folder of calibrations that cannot be written.
    """

    create: Callable[[Path, CampaignHeader, Calibration | None], CampaignRecord]
    open: Callable[[Path], CampaignRecord]
    read: Callable[[Path], CampaignRecord]
    in_memory: Callable[[CampaignHeader], CampaignStore]
    exists: Callable[[Path], bool]
    fingerprints: Callable[[Path], Mapping[str, Fingerprint]]
    keep_fingerprints: Callable[[Path, Mapping[str, Fingerprint]], None]
    accepted_changes: Callable[[Path], tuple[HostDifference, ...]]
    fingerprint_file: Callable[[Path], Mapping[str, Fingerprint]]
    heartbeat: Callable[[Path], Heartbeat | None]
    write_heartbeat: Callable[[Path, Heartbeat], None]
    calibration_name: Callable[[str, Mapping[str, Fingerprint], Workload], str]
    calibration: Callable[[str], Calibration | None]
    keep_calibration: Callable[[Calibration, str], Path]
    require_writable_calibrations: Callable[[], None]


@runtime_checkable
class ParallelPairs(Protocol):
    """The additional surface of a testbed of several pairs of hosts that are alike.

    Attributes:
        lanes: one for each pair.
        absent: pairs that do not answer, with the reason.
    """

    lanes: tuple[Lane, ...]
    absent: dict[str, str]


@dataclass(frozen=True)
class Testbeds:
    """Kinds of testbeds.

    Attributes:
        simulated: returns the opener of a simulated testbed with a seed. Raises `ContentError`, `UsageError`.
        on_hosts: returns the opener of a testbed of real hosts, with a policy of windows or the usual one.
        several: joins the testbeds of pairs in this process. The flag goes on without those that do not answer.
        on_workers: the same, opened on the workers of the dask scheduler at an address.
        require_scheduler: refuses an address that this machine cannot use.
        simulated_fleet: returns the name of a fleet's subsystem, and the opener of each group of its hosts.
        fingerprints: takes those of real hosts. Raises `TestbedError`.
        lab_inventory: returns the hosts file of the lab, None while no lab is up.
    """

    __test__ = False

    simulated: Callable[[TestbedChoice, int], OpenTestbed]
    on_hosts: Callable[[TestbedChoice, Pair, WindowPolicy | None], OpenTestbed]
    several: Callable[[Mapping[str, Testbed], bool], Testbed]
    on_workers: Callable[[str, Mapping[str, OpenTestbed], bool], Testbed]
    require_scheduler: Callable[[str], object]
    simulated_fleet: Callable[[TestbedChoice, Mapping[str, Fault], int], tuple[str, OpenGroup]]
    fingerprints: Callable[[Sequence[Host]], Mapping[str, Fingerprint]]
    lab_inventory: Callable[[], Path | None]


@dataclass(frozen=True)
class Reports:
    """Writers of results.

    Attributes:
        campaign_page: writes the HTML report of a campaign. The flag is for writing through a link.
        comparison_page: writes the page of two campaigns. Returns whether both are known to be of one testbed.
        metrics: writes a Prometheus textfile as of a time. The flag is set while the campaign runs. Raises OSError.
        testbed_name: names the testbed of a campaign's header.
        perftest_commands, perftest_script: an anomaly as command lines and as a shell script, for hosts by role.
        perftest_json: the command lines as plain values.
        bundle: an anomaly as a file that runs without Collie.
        read_bundle: reads such a file as data. Raises `ContentError`.
    """

    campaign_page: Callable[[CampaignStore, Path, ReportContext, bool], None]
    comparison_page: Callable[[CampaignStore, ReportContext, CampaignStore, ReportContext, Path, bool], bool]
    metrics: Callable[[Path, CampaignHeader, CampaignProgress, str, bool], None]
    testbed_name: Callable[[Mapping[str, object]], str]
    perftest_commands: Callable[[PerftestCase, Mapping[str, Host]], str]
    perftest_script: Callable[[PerftestCase, Mapping[str, Host]], str]
    perftest_json: Callable[[PerftestCase, Mapping[str, Host]], Mapping[str, Any]]
    bundle: Callable[[Bundle], bytes]
    read_bundle: Callable[[Path], Bundle]


class Adapters(Protocol):
    """The world as use cases see it. A group is loaded when a use case first asks for it."""

    @property
    def content(self) -> Content:
        """Readers of files."""
        ...

    @property
    def records(self) -> Records:
        """Campaigns on disk."""
        ...

    @property
    def testbeds(self) -> Testbeds:
        """Kinds of testbeds."""
        ...

    @property
    def reports(self) -> Reports:
        """Writers of results."""
        ...

    @property
    def clock(self) -> Clock:
        """Time of this machine."""
        ...
