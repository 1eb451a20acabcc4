"""Whether traffic passes from one host to another: little of it first, then a second of each transport.

What runs are ordinary runs, on the agents and by the steps of a measurement (`run.py`): what passes here is what a
search needs. A proof goes from small to large, and the first step that fails ends it:

1. `TRICKLE`: messages of 256 bytes one at a time, for a tenth of a second: nobody's network is disturbed by traffic
   that cannot arrive. An emulated CPU may need longer for its first message, so that three seconds are tried then.
2. `RC WRITE` for a second, in packets of the full path MTU. What has arrived is compared at the receiver.
3. `UD SEND` for a second; its receiver counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace

from collie.counters.catalog import Catalog
from collie.detect.measurement import Measurement, Watch
from collie.hosts.catalogs import CatalogFor
from collie.hosts.diagnosis import PathFailure, PathFault, ProofStage, diagnose
from collie.hosts.facts import line_rate
from collie.hosts.protocol import StepFailed
from collie.hosts.run import Endpoint, Impossible, Run
from collie.hosts.wire import look
from collie.ports import Clock
from collie.readings.policy import WindowPolicy
from collie.workloads.workload import Opcode, QpType, Workload

TRICKLE = Workload(messages=(256,), send_wq_depth=1, recv_wq_depth=1)
MOMENT = WindowPolicy(0.05, warm_up_seconds=0.0, window_seconds=0.1, patience_seconds=0.0, averaging_seconds=0.0)
SECOND = replace(MOMENT, period_seconds=0.25, window_seconds=1.0)
LONG = replace(MOMENT, period_seconds=0.5, window_seconds=3.0)
"""For hosts that are short of CPU: where nothing arrives at first."""
_MIN_MTU = 256
_UNANSWERED = frozenset({"transport retry counter exceeded", "response timeout error"})
"""Work requests complete so where nothing came back from the peer; with every other error, something did."""


@dataclass(frozen=True, slots=True)
class Passed:
    """Traffic that passed.

    Attributes:
        mtu: path MTU of its packets, in bytes.
        rc_bps, ud_bps: payload received, in bits/s.
        stopped: by the safety limits, and why; None when it ran to its end.
    """

    mtu: int
    rc_bps: float
    ud_bps: float
    stopped: str | None = None


class DataPath:
    """The way from one host to another.

    Args:
        sender, receiver: with live agents, of which no run is under way.
        executor: runs the hosts' steps side by side.
        clock: of the controller.
        catalog_for: counters of a driver by its name.
        watch: is shown every sample, and may order a stop.

    Attributes:
        endpoints: sender and receiver.
    """

    def __init__(
        self,
        sender: Endpoint,
        receiver: Endpoint,
        executor: Executor,
        clock: Clock,
        catalog_for: CatalogFor,
        watch: Callable[[], Watch | None] = lambda: None,
    ) -> None:
        self.endpoints = (replace(sender, role="a"), replace(receiver, role="b"))
        self._executor = executor
        self._clock = clock
        self._catalog_for = catalog_for
        self._watch = watch
        drivers = {endpoint.port.driver for endpoint in self.endpoints}
        catalog = catalog_for(receiver.port.driver) if len(drivers) == 1 else None
        self._catalog = catalog or Catalog(receiver.port.driver, ())
        mtus = [endpoint.session.facts.active_mtu(endpoint.port) for endpoint in self.endpoints]
        self._mtu = min((mtu for mtu in mtus if mtu), default=_MIN_MTU)

    def between(self, sender: Endpoint, receiver: Endpoint) -> DataPath:
        """Return the way between others, tested by the same means."""
        return DataPath(sender, receiver, self._executor, self._clock, self._catalog_for, self._watch)

    def __str__(self) -> str:
        sender, receiver = (endpoint.session.host.name for endpoint in self.endpoints)
        return f"data path {sender} -> {receiver}"

    def trickles(self) -> PathFailure | None:
        """Send a few small messages; return how that failed, if it did.

        Raises:
            TestbedError: a host or an agent is gone.
        """
        return self._try(ProofStage.TRICKLE, TRICKLE, (MOMENT, LONG))[1]

    def proves(self) -> Passed | PathFailure:
        """Send small messages, then a second of each transport.

        Raises:
            TestbedError: a host or an agent is gone.
        """
        if failed := self.trickles():
            return failed
        written, failed = self._try(ProofStage.FULL, Workload(), (SECOND, LONG), verify=True)
        if written is None:
            assert failed is not None, "one of the two"
            return failed
        datagrams = Workload(qp_type=QpType.UD, opcode=Opcode.SEND, messages=(self._mtu,))
        sent, failed = self._try(ProofStage.DATAGRAM, datagrams, (SECOND, LONG))
        if sent is None:
            assert failed is not None, "one of the two"
            return failed
        stopped = written.stopped or sent.stopped
        return Passed(self._mtu, _received(written), _received(sent), stopped)

    def diagnosed(self, failed: PathFailure) -> PathFault:
        """Say why traffic does not pass."""
        sender, receiver = (endpoint.session for endpoint in self.endpoints)
        return diagnose(*look(sender, receiver, self._executor), failed)

    @property
    def line_rate_bps(self) -> float:
        """What the slower port can carry of RC WRITE, in bits/s; infinite where no driver tells."""
        return line_rate(tuple(endpoint.port for endpoint in self.endpoints), Workload(mtu=self._mtu)).bps

    def _try(
        self, stage: ProofStage, workload: Workload, policies: Sequence[WindowPolicy], *, verify: bool = False
    ) -> tuple[Measurement | None, PathFailure | None]:
        """Run a workload, and where nothing arrives for longer; return what was measured, or how it failed."""
        failed = None
        for policy in policies:
            run = Run(self.endpoints, workload.with_(mtu=self._mtu), self._executor, self._clock, verify=verify)
            try:
                measured = run.measure(self._catalog, policy, self._watch())
            except (StepFailed, Impossible) as error:
                return None, self._not_set_up(ProofStage.SET_UP if stage is ProofStage.TRICKLE else stage, error)
            failed = failure_of(stage, measured, self._sender)
            if failed is None:
                return measured, None
        return None, failed

    def _not_set_up(self, stage: ProofStage, error: StepFailed | Impossible) -> PathFailure:
        if isinstance(error, StepFailed):
            return PathFailure(stage, str(error), None if error.unanswered else error.host)
        return PathFailure(stage, str(error), self._sender)

    @property
    def _sender(self) -> str:
        return self.endpoints[0].session.host.name


def _received(measured: Measurement) -> float:
    return measured.host("b").delivered_bps or 0.0


def failure_of(stage: ProofStage, measured: Measurement, sender: str) -> PathFailure | None:
    """Return what shows that nothing passed to host `b`; None where something did, and all of it well."""
    why = _why_dead(measured)
    answered = measured.health.completion_errors.keys() - _UNANSWERED
    return PathFailure(stage, why, sender if answered else None) if why else None


def _why_dead(measured: Measurement) -> str | None:
    """Say what shows that nothing passed; None where something did, and all of it well."""
    errors = measured.health.completion_errors
    if errors:
        return "work requests complete with errors: " + ", ".join(f"{count} x {name}" for name, count in errors.items())
    if not _received(measured):
        return "nothing was received" + "".join(f"; {problem}" for problem in measured.problems)
    if measured.wrong_bytes:
        return f"{measured.wrong_bytes:,} bytes of what was received differ from those that were sent"
    return None
