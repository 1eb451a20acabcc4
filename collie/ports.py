"""Every contact of the engine with the world, as protocols. Adapters implement them; `wiring.py` chooses one each.

`collie.testing` holds one conformance suite per port: an implementation is tested by subclassing it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from collie.counters.catalog import Catalog
from collie.detect.bounds import Bound, Calibration
from collie.detect.measurement import Measurement, Sample, Watch
from collie.detect.symptom import Verdict
from collie.inventory.fingerprint import Fingerprint
from collie.inventory.hosts import Host
from collie.search.anomaly import Anomaly
from collie.workloads.pruning import Capabilities
from collie.workloads.workload import Workload

OUTAGE = "data path"
"""How the cause of a run begins whose data path was dead."""

# --- Testbed ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Measured:
    """A run that ended with a measurement."""

    measurement: Measurement
    elapsed_seconds: float


@dataclass(frozen=True, slots=True)
class SetupFailed:
    """A run whose traffic could not be set up: neither normal nor anomalous.

    Attributes:
        cause: short and countable, such as `qp timeout`.
        detail: the whole message.
    """

    cause: str
    detail: str
    elapsed_seconds: float

    @property
    def of_outage(self) -> bool:
        """Whether the data path was dead, so that the run says nothing of its workload."""
        return self.cause.startswith(OUTAGE)


@dataclass(frozen=True, slots=True)
class Unsupported:
    """The device cannot run this workload at all; no verdict, and no reason to ask again."""

    reason: str
    elapsed_seconds: float


@dataclass(frozen=True, slots=True)
class HostLost:
    """A run that a host did not survive: it locked up or went down, and was brought back. A finding of its own.

    Attributes:
        host: its name.
        detail: what was seen of it.
        elapsed_seconds: until the host was back.
    """

    host: str
    detail: str
    elapsed_seconds: float


@dataclass(frozen=True, slots=True)
class PairLost:
    """A run during which one of several pairs was lost for good. Others make the run again; the pair makes no more.

    Attributes:
        pair: its name.
        detail: the cause.
        elapsed_seconds: until that was known.
    """

    pair: str
    detail: str
    elapsed_seconds: float


RunResult = Measured | SetupFailed | Unsupported | HostLost | PairLost


@dataclass(frozen=True)
class TestbedInfo:
    """What a testbed is.

    Attributes:
        kind: `simulated` or `hosts`.
        name: of the subsystem, or of the pair.
        catalog: the counters that its measurements may hold.
        description: for the report and the JSON output; plain values.
        virtual_time: elapsed time is computed, not waited for.
        fingerprints: what decides how it performs, by host, host A first.
    """

    __test__ = False

    kind: str
    name: str
    catalog: Catalog
    description: Mapping[str, Any] = field(default_factory=dict)
    virtual_time: bool = False
    fingerprints: Mapping[str, Fingerprint] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ForeignUse:
    """A use of a port under test by somebody else.

    Attributes:
        host, device: where.
        detail: what was seen, in words.
        forbids: whether to begin beside it needs the user's word; otherwise it is worth a warning.
    """

    host: str
    device: str
    detail: str
    forbids: bool

    def __str__(self) -> str:
        return f"host {self.host}, {self.device}: {self.detail}"


class Testbed(Protocol):
    """What workloads run on. It measures; it judges nothing."""

    @property
    def info(self) -> TestbedInfo:
        """What this testbed is."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What is known to restrict this testbed, so that no search asks for what it cannot run."""
        ...

    def specification(self, workload: Workload) -> Bound:
        """Return what the data sheet promises for a workload; infinite on a device that has none."""
        ...

    def measure(self, workload: Workload, run: int, watch: Watch | None = None) -> RunResult:
        """Set up fresh queue pairs, run one workload, and tear everything down.

        Args:
            workload: what to run; breaks no verbs constraint.
            run: number of the run within its campaign; the noise of a simulated run depends on it and on the seed.
            watch: is shown every sample as it comes. When it answers with a reason, traffic stops at once, the watch is
                asked no more, and the measurement says `stopped`.

        Raises:
            TestbedError: the testbed itself is gone (host unreachable, agent dead twice), not this one run.
        """
        ...

    def foreign_uses(self) -> tuple[ForeignUse, ...]:
        """Watch every port for about a second without a run and return who else uses it.

        Raises:
            TestbedError: a host cannot be asked.
        """
        ...

    def close(self) -> Mapping[str, int | None]:
        """Leave nothing behind on any host.

        Returns:
            Queue pairs of ours that each host's kernel still lists, by host; None where it cannot be asked. A second
            call does nothing and returns the same.
        """
        ...


class Reviver(Protocol):
    """Whoever can bring back a host that answers nobody, and a data path that carries nothing."""

    def revive(self, host: Host) -> None:
        """Start a host again, whichever of its devices this is, and return when it answers.

        Raises:
            TestbedError: it does not come back.
        """
        ...

    def mend(self, hosts: Sequence[Host]) -> tuple[str, ...]:
        """Restart what is needed so that hosts reach each other over their data addresses, and return when they do.

        Returns:
            Names of the hosts that were started again: nothing of ours runs there any more. Empty where the data path
            was found in order.

        Raises:
            TestbedError: the data path stays dead.
        """
        ...


# --- Remote ----------------------------------------------------------------------------------------------------------


class Channel(Protocol):
    """A running command on a host: lines in, lines out. Closing it ends the command."""

    def send_line(self, line: str) -> None:
        """Write one line to the command's standard input.

        Raises:
            HostUnreachable: the connection is gone.
        """
        ...

    def read_line(self, timeout_seconds: float) -> str | None:
        """Return the next line of standard output, or None at its end.

        Raises:
            CommandTimeout: no line came in time.
            HostUnreachable: the connection is gone.
        """
        ...

    def stderr_tail(self) -> str:
        """Return the last lines that the command wrote to standard error."""
        ...

    def close(self) -> None:
        """Close standard input and wait shortly for the command to end."""
        ...


@dataclass(frozen=True, slots=True)
class Completed:
    """A command that has ended."""

    status: int
    stdout: str
    stderr: str


class Remote(Protocol):
    """One host as the controller reaches it over its management address."""

    @property
    def name(self) -> str:
        """The host's name in the inventory."""
        ...

    def run(self, argv: Sequence[str], timeout_seconds: float) -> Completed:
        """Run a command to its end; a status other than zero is returned, not raised.

        Raises:
            CommandTimeout: it did not end in time; it has been ended.
            HostUnreachable: no connection.
        """
        ...

    def put(self, data: bytes, path: str) -> None:
        """Write a file atomically, readable and writable by its owner alone."""
        ...

    def open(self, argv: Sequence[str]) -> Channel:
        """Start a command and talk to it."""
        ...

    def close(self) -> None:
        """End the connection."""
        ...


# --- CampaignStore ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CampaignHeader:
    """What fixes a campaign; written once, compared at every resume.

    Attributes:
        campaign: identifier.
        testbed: kind and name, and whatever describes the hardware.
        space, recipe: names.
        settings: everything else that decides the outcome, as plain values.
        seed: of all generators.
        started: RFC 3339, UTC.
    """

    campaign: str
    testbed: Mapping[str, Any]
    space: str
    recipe: str
    settings: Mapping[str, Any]
    seed: int
    started: str


@dataclass(frozen=True)
class RunRecord:
    """One run as it was recorded.

    Attributes:
        run: number, from 1.
        purpose: `search`, `sibling`, `confirm`, `extract`, `calibrate`, `reproduce`, `gate`.
        workload: what ran.
        result: what came of it.
        finished_at_seconds: elapsed testbed time at its end.
        verdict: what the run was judged to mean; None until `CampaignStore.annotate`, and without a measurement.
        driven: the counter that the strategy was driving when it proposed the run; None when it drove none.
    """

    run: int
    purpose: str
    workload: Workload
    result: RunResult
    finished_at_seconds: float
    verdict: Verdict | None = None
    driven: str | None = None

    @property
    def without_series(self) -> RunRecord:
        """This run without its samples over time: only pictures need them, and they are most of a campaign."""
        if not isinstance(self.result, Measured):
            return self
        return replace(self, result=replace(self.result, measurement=replace(self.result.measurement, series=())))


class CampaignStore(Protocol):
    """The record of one campaign. Everything it was given survives a kill of the process at any instant."""

    @property
    def header(self) -> CampaignHeader:
        """What fixes the campaign."""
        ...

    def add_run(self, record: RunRecord) -> None:
        """Record a run, before anybody acts on it.

        Raises:
            StoreError: a run of that number is recorded already; it is left as it was.
        """
        ...

    def annotate(self, run: int, verdict: Verdict | None, driven: str | None) -> None:
        """Note what a run was judged to mean, replacing earlier notes; for people, a resume does not need it.

        Raises:
            StoreError: no such run.
        """
        ...

    def runs(self, *, with_series: bool = True) -> Iterable[RunRecord]:
        """Yield the runs recorded by now, in order of their numbers, with their samples over time or without."""
        ...

    def series(self, run: int) -> Sequence[Sample]:
        """Return the samples over time of a run; none where none were kept, or there is no such run."""
        ...

    def add_anomaly(self, anomaly: Anomaly) -> None:
        """Record an anomaly, or replace the one with the same id."""
        ...

    def anomalies(self) -> tuple[Anomaly, ...]:
        """Return all anomalies in the order found."""
        ...

    def set_calibration(self, calibration: Calibration) -> None:
        """Record the calibration that the campaign is judged by."""
        ...

    def calibration(self) -> Calibration:
        """Return the calibration, empty when there is none."""
        ...

    def close(self) -> None:
        """Release the campaign."""
        ...


# --- Clock and progress ----------------------------------------------------------------------------------------------


class Clock(Protocol):
    """Time of the controller."""

    def monotonic(self) -> float:
        """Seconds since some moment."""
        ...

    def sleep(self, seconds: float, until: threading.Event | None = None) -> None:
        """Wait; no longer than until an event is set, where one is given."""
        ...


class ProgressSink(Protocol):
    """Whoever watches a campaign: a terminal, a log, a test."""

    def on_event(self, event: Any) -> None:
        """Take one of `campaign.events`."""
        ...
