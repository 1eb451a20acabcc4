"""Protocols for every contact of the engine with the world.

To test an implementation, subclass its conformance suite in `collie.testing`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from collie.counters.catalog import Catalog
from collie.detect.bounds import Bound, Calibration
from collie.detect.measurement import Measurement, Sample, Watch
from collie.detect.symptom import Verdict
from collie.inventory.fingerprint import Fingerprint
from collie.inventory.hosts import Host
from collie.search.anomaly import Anomaly
from collie.workloads.pruning import Capabilities
from collie.workloads.setup import SetUp
from collie.workloads.workload import Workload

OUTAGE = "data path"  # first words in the `cause` of a run whose data path was dead


@dataclass(frozen=True, slots=True)
class Measured:
    """A run that ended with a measurement.

    Attributes:
        stands: whether another phase can follow on its set-up.
        anew: whether its set-up had to be made anew, although it was to be a further phase of one.
    """

    measurement: Measurement
    elapsed_seconds: float
    stands: bool = False
    anew: bool = False


@dataclass(frozen=True, slots=True)
class SetupFailed:
    """A run whose traffic could not be set up. Its `cause` is short and countable, such as `qp timeout`."""

    cause: str
    detail: str
    elapsed_seconds: float

    @property
    def of_outage(self) -> bool:
        """Whether the data path was dead. Then the run says nothing about its workload."""
        return self.cause.startswith(OUTAGE)


@dataclass(frozen=True, slots=True)
class Unsupported:
    """The device cannot run this workload: no verdict, and no reason to try again."""

    reason: str
    elapsed_seconds: float


@dataclass(frozen=True, slots=True)
class HostLost:
    """A run that made a host hang or crash. Its time includes the restart."""

    host: str
    detail: str
    elapsed_seconds: float


@dataclass(frozen=True, slots=True)
class PairLost:
    """A run that ended with the permanent loss of one of several pairs. The other pairs repeat it."""

    pair: str
    detail: str
    elapsed_seconds: float


RunResult = Measured | SetupFailed | Unsupported | HostLost | PairLost


def is_anew(result: RunResult) -> bool:
    """Whether a run that was to be a further phase of a set-up had one of its own (`Measured.anew`)."""
    return isinstance(result, Measured) and result.anew


@dataclass(frozen=True)
class TestbedInfo:
    """The identity of a testbed.

    Attributes:
        kind: `simulated` or `hosts`.
        name: of the subsystem, or of the pair.
        description: plain values, for output.
        virtual_time: whether elapsed time is computed, not waited for.
        fingerprints: by host, host A first.
    """

    __test__ = False

    kind: str
    name: str
    catalog: Catalog
    description: Mapping[str, Any] = field(default_factory=dict)
    virtual_time: bool = False
    fingerprints: Mapping[str, Fingerprint] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The testbed in words: `simulated subsystem F`, `hosts a,b`."""
        return f"{'simulated subsystem' if self.virtual_time else 'hosts'} {self.name}"


@dataclass(frozen=True, slots=True)
class ForeignUse:
    """A use of a port under test by another program. It forbids a start, or deserves a warning."""

    host: str
    device: str
    detail: str
    forbids: bool

    def __str__(self) -> str:
        return f"host {self.host}, {self.device}: {self.detail}"


class Testbed(Protocol):
    """Runs and measures workloads, without judging them."""

    @property
    def info(self) -> TestbedInfo:
        """The identity of this testbed."""

    @property
    def capabilities(self) -> Capabilities:
        """Known restrictions. No search proposes workloads outside them."""

    def specification(self, workload: Workload) -> Bound:
        """Return the data sheet's limits for a workload, infinite without a data sheet."""

    def measure(self, workload: Workload, run: int, watch: Watch | None = None, on: SetUp | None = None) -> RunResult:
        """Run one workload: on fresh queue pairs that are torn down afterwards, or as a phase of a set-up.

        Args:
            workload: must break no verbs constraint.
            run: number within the campaign. With the seed it determines the noise of a simulated run.
            watch: receives every sample. The first reason that it returns stops traffic at once, and becomes
                `stopped` of the measurement.
            on: the set-up that this run is a phase of. It is used if it still stands here, and else made anew. If
                `Measured.stands`, it stands afterwards, until a run on another one, `foreign_uses` or `close`.

        Raises:
            TestbedError: the testbed is gone. If only this run fails, the result says so.
        """

    def foreign_uses(self) -> tuple[ForeignUse, ...]:
        """Watch every port for about a second without a run. Raises `TestbedError` if a host does not answer."""

    def close(self) -> Mapping[str, int | None]:
        """Release everything on all hosts, and return the queue pairs that each host's kernel still lists.

        None stands for a host that does not answer. A second call returns the same.
        """


def left_in_all(one: int | None, other: int | None) -> int | None:
    """Return the number of queue pairs left on a host by two of its agents, each of which knows only its own ones.

    None stands for an agent that did not report. It matters only where the other one left nothing.
    """
    known = (one or 0) + (other or 0)
    return known if known or None not in (one, other) else None


class Reviver(Protocol):
    """Restores a host that does not answer, or a dead data path. Raises `TestbedError` if it cannot."""

    def revive(self, host: Host) -> None:
        """Restart a host, and return when it answers. `host` can be any of its devices."""

    def mend(self, hosts: Sequence[Host]) -> tuple[str, ...]:
        """Restart services or hosts until hosts reach each other over their data addresses.

        Return the names of the restarted hosts, where nothing of Collie runs any more.
        """


class Channel(Protocol):
    """A running command on a host. Its methods raise `HostUnreachable` when the connection is lost."""

    def send_line(self, line: str) -> None:
        """Write one line to standard input."""

    def read_line(self, timeout_seconds: float) -> str | None:
        """Return the next line of standard output, or None at its end. May raise `CommandTimeout`."""

    def stderr_tail(self) -> str:
        """Return the last lines of standard error."""

    def close(self) -> None:
        """Close standard input and wait shortly for the command to end."""


@dataclass(frozen=True, slots=True)
class Completed:
    """A command that has ended."""

    status: int
    stdout: str
    stderr: str


class Remote(Protocol):
    """One host, reached over its management address. Without a connection its methods raise `HostUnreachable`."""

    @property
    def name(self) -> str:
        """The host's name in the inventory."""

    def run(self, argv: Sequence[str], timeout_seconds: float) -> Completed:
        """Run a command to its end. A non-zero status is returned, not raised.

        A command that takes too long is killed and raises `CommandTimeout`.
        """

    def put(self, data: bytes, path: str) -> None:
        """Write a file atomically, with access for its owner alone."""

    def open(self, argv: Sequence[str]) -> Channel:
        """Start a command."""

    def close(self) -> None:
        """Close the connection."""


CAMPAIGN_FILE: Final = "campaign.sqlite"
"""The file by which a directory is known as that of a campaign. It is the record of a `CampaignStore`."""


@dataclass(frozen=True)
class CampaignHeader:
    """The fixed properties of a campaign, compared at every resume. `settings` has all that decides the outcome."""

    campaign: str
    testbed: Mapping[str, Any]
    space: str
    recipe: str
    settings: Mapping[str, Any]
    seed: int
    started: str  # RFC 3339, UTC


@dataclass(frozen=True)
class RunRecord:
    """One recorded run.

    Attributes:
        run: number, from 1.
        purpose: `search`, `sibling`, `confirm`, `extract`, `claim`, `control`, `audit`, `repeat`, `history`, `qualify`,
            `calibrate`, `reproduce`, `gate`.
        finished_at_seconds: testbed time.
        verdict: None before `CampaignStore.annotate`, and for a run without a measurement.
        driven: the counter that the strategy was driving, if any.
        set_up: the run that made the set-up of which this run is a phase. None if the run has one of its own.
        made_for: the workload that the set-up was made for, with `set_up`.
    """

    run: int
    purpose: str
    workload: Workload
    result: RunResult
    finished_at_seconds: float
    verdict: Verdict | None = None
    driven: str | None = None
    set_up: int | None = None
    made_for: Workload | None = None

    @property
    def made_set_up(self) -> bool:
        """Whether this run was the first phase of its set-up."""
        return self.set_up in (None, self.run)

    @property
    def without_series(self) -> RunRecord:
        """This run without its series. Series are most of a campaign's data, and only plots need them."""
        if not isinstance(self.result, Measured):
            return self
        return replace(self, result=replace(self.result, measurement=replace(self.result.measurement, series=())))


class CampaignStore(Protocol):
    """The record of one campaign. Its content survives a kill of the process at any instant."""

    @property
    def header(self) -> CampaignHeader:
        """The fixed properties of the campaign."""

    def add_run(self, record: RunRecord) -> None:
        """Record a run before anything uses it. Raises `StoreError` if its number is recorded already."""

    def annotate(self, run: int, verdict: Verdict | None, driven: str | None) -> None:
        """Record the verdict of a run, for readers. Raises `StoreError` if the run is not recorded."""

    def runs(self, *, with_series: bool = True) -> Iterable[RunRecord]:
        """Yield the recorded runs in order of their numbers."""

    def series(self, run: int) -> Sequence[Sample]:
        """Return the series of a run, empty if there is none."""

    def add_anomaly(self, anomaly: Anomaly) -> None:
        """Record an anomaly, or replace the one with the same id."""

    def anomalies(self) -> tuple[Anomaly, ...]:
        """Return all anomalies in the order found."""

    def set_calibration(self, calibration: Calibration) -> None:
        """Record the calibration that bounds the campaign."""

    def calibration(self) -> Calibration:
        """Return the calibration, or an empty one."""

    def close(self) -> None:
        """Release the campaign."""


class Clock(Protocol):
    """Time of the controller."""

    def monotonic(self) -> float:
        """Seconds since a fixed moment."""

    def sleep(self, seconds: float, until: threading.Event | None = None) -> None:
        """Wait for a time, or until an event is set."""


class ProgressSink(Protocol):
    """Receives the events of a campaign."""

    def on_event(self, event: Any) -> None:
        """Receive one of `campaign.events`."""
