"""Functions of adapters that the use cases call, besides the ports of `collie.ports`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, runtime_checkable

from collie.ports import CampaignStore

if TYPE_CHECKING:  # `collie status` needs none of the packages that these types come from
    from collie.campaign.choice import TestbedChoice
    from collie.campaign.fleet import OpenGroup
    from collie.campaign.gate.answer import GateAnswer
    from collie.campaign.lanes import Lane
    from collie.campaign.progress import CampaignProgress, Heartbeat, Tally
    from collie.campaign.reproduce import Bundle
    from collie.campaign.summary import NotConfirmed
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
    from collie.workloads.pruning import Drop
    from collie.workloads.reference import ReferenceAnomaly
    from collie.workloads.space import Space
    from collie.workloads.workload import Workload

OpenTestbed: TypeAlias = "Callable[[], Testbed]"
"""Opens one testbed, also on the machine of a scheduler's worker."""


@dataclass(frozen=True)
class Content:
    """Readers of the files that operators and vendors edit. Readers raise `ContentError` for a wrong or absent file.

    Attributes:
        varied_in: returns the names of the spaces in which a dimension varies.
        application: takes a name or path, a space to replace the file's, and a default space for files that name none.
        prototype: returns workload, symptom (None if the file has no readings) and remarks.
        find_catalog: returns None if the driver has no catalog.
    """

    space: Callable[[str], Space]
    varied_in: Callable[[str], Sequence[str]]
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

    path: Path
    log: Path


class CampaignRecord(CampaignStore, Protocol):
    """A `CampaignStore` in a directory."""

    @property
    def directory(self) -> CampaignFolder:
        """The directory of the campaign."""

    def tally(self) -> Tally:
        """Count the recorded runs."""

    def replace_settings(self, settings: Mapping[str, Any]) -> None:
        """Change the settings for the next resume."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...


@dataclass(frozen=True)
class Records:
    """Campaigns and calibrations on disk. They raise `StoreError` for a file that they cannot read or write.

    Attributes:
        open: opens a campaign to continue it. `read` also works while another process writes.
        fingerprints: the latest recorded fingerprint of each host, host A first.
        accepted_changes: differences between the hosts at the start and as the operator last accepted them.
        fingerprint_file: reads a file with the fingerprint of one host.
        heartbeat, gate_answer, calibration: return None if absent. A calibration that cannot be read counts as absent.
        write_heartbeat: raises `OSError` instead of `StoreError`.
        calibration_name: takes the testbed's name, its fingerprints and the plain workload.
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
    gate_answer: Callable[[Path], GateAnswer | None]
    keep_gate_answer: Callable[[Path, GateAnswer], None]
    calibration_name: Callable[[str, Mapping[str, Fingerprint], Workload], str]
    calibration: Callable[[str], Calibration | None]
    keep_calibration: Callable[[Calibration, str], Path]
    require_writable_calibrations: Callable[[], None]


@runtime_checkable
class ParallelPairs(Protocol):
    """A testbed of several equal pairs. `absent` maps each pair that did not answer to the reason."""

    lanes: tuple[Lane, ...]
    absent: dict[str, str]


@dataclass(frozen=True)
class Testbeds:
    """Kinds of testbeds.

    Attributes:
        simulated: takes the seed of the noise.
        on_hosts: takes a window policy, or None for the default one.
        several: joins the open testbeds of pairs, given by name. The flag permits pairs that do not answer.
        on_workers: joins pairs that workers of a dask scheduler open. Takes the scheduler's address first.
        require_scheduler: raises `UsageError` for a malformed address. It contacts no scheduler.
        simulated_fleet: returns the name of the subsystem, and a function that opens a group of hosts.
        lab_inventory: returns None if there is no lab.
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


@dataclass(frozen=True, slots=True)
class ReportContext:
    """Facts that a campaign's report needs and the record lacks.

    Attributes:
        place: the campaign directory, as the reader would type it.
        space: gives the plain values and siblings. With None, Collie's defaults serve as plain values.
        dropped: parts of the space that the testbed cannot run.
        fingerprints: the latest recorded fingerprint of each host, host A first.
        catalog: gives the units of counters, and names their components. None if that of the hosts is not known.
        changes: differences between the testbed at the start and as the operator last accepted it.
        search: the command that begins the same campaign.
        is_gate: whether the campaign is a gate.
        answer: the answer of a gate that has ended.
        not_confirmed: known anomalies of another testbed that a search did not confirm, once it has ended.
    """

    place: str = "CAMPAIGN"
    space: Space | None = None
    wall_seconds: float | None = None
    dropped: tuple[Drop, ...] = ()
    fingerprints: Mapping[str, Fingerprint] = field(default_factory=dict)
    catalog: Catalog | None = None
    changes: tuple[HostDifference, ...] = ()
    search: tuple[str, ...] = ()
    is_gate: bool = False
    answer: GateAnswer | None = None
    not_confirmed: Mapping[str, NotConfirmed] = field(default_factory=dict)


@dataclass(frozen=True)
class Reports:
    """Writers of results.

    Attributes:
        campaign_page, comparison_page: the flag permits writing through a symbolic link.
        comparison_page: returns whether both campaigns are known to be of one testbed.
        metrics: writes a Prometheus textfile, or raises OSError. The flag is set while the campaign runs.
        read_bundle: reads a bundle as data.
    """

    campaign_page: Callable[[CampaignStore, Path, ReportContext, bool], None]
    comparison_page: Callable[[CampaignStore, ReportContext, CampaignStore, ReportContext, Path, bool], bool]
    metrics: Callable[[Path, CampaignHeader, CampaignProgress, str, bool], None]
    testbed_name: Callable[[CampaignHeader], str]
    perftest_commands: Callable[[PerftestCase, Mapping[str, Host]], str]
    perftest_script: Callable[[PerftestCase, Mapping[str, Host]], str]
    perftest_json: Callable[[PerftestCase, Mapping[str, Host]], Mapping[str, Any]]
    bundle: Callable[[Bundle], bytes]
    read_bundle: Callable[[Path], Bundle]


class Adapters(Protocol):
    """All adapters of the use cases. Each group is loaded at its first use."""

    @property
    def content(self) -> Content:
        """Readers of files."""

    @property
    def records(self) -> Records:
        """Campaigns on disk."""

    @property
    def testbeds(self) -> Testbeds:
        """Kinds of testbeds."""

    @property
    def reports(self) -> Reports:
        """Writers of results."""

    @property
    def clock(self) -> Clock:
        """Time of this machine."""
