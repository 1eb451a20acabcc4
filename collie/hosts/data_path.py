"""Tests whether traffic passes from one host to another.

1. Messages of 256 bytes are sent for 0.1 s, one at a time, so that a broken path does not load the network.
2. `RC WRITE` runs for a second, in packets of the full path MTU. The receiver compares the payload.
3. `UD SEND` runs for a second. The receiver counts the messages.
4. A failed stage is repeated once, for 3 s, because an emulated CPU may need longer for its first message.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, replace

from collie.counters.catalog import Catalog
from collie.detect.measurement import Measurement, Watch
from collie.hosts.catalogs import CatalogFor
from collie.hosts.diagnosis import PathFailure, PathFault, ProofStage, diagnose
from collie.hosts.endpoint import Endpoint, MissingCapability, min_active_mtu
from collie.hosts.host_info import line_rate
from collie.hosts.protocol import StepFailed
from collie.hosts.run import run_alone
from collie.hosts.wire import observe_ends
from collie.readings.policy import WindowPolicy
from collie.workloads.workload import Opcode, QpType, Workload

_TRICKLE = Workload(messages=(256,), send_wq_depth=1, recv_wq_depth=1)

_MIN_MTU = 256
_UNANSWERED = frozenset({"transport retry counter exceeded", "response timeout error"})
"""Status of work requests that the peer did not answer."""


@dataclass(frozen=True, slots=True)
class Passed:
    """Traffic that passed in packets of the path MTU. If safety limits stopped it, `stopped` has the reason."""

    mtu: int
    rc_bps: float
    ud_bps: float
    stopped: str | None = None


class DataPath:
    """The path between two endpoints, sender and receiver, with live agents and no run."""

    def __init__(
        self,
        sender: Endpoint,
        receiver: Endpoint,
        executor: Executor,
        catalog_for: CatalogFor,
        watch: Callable[[], Watch | None] = lambda: None,
    ) -> None:
        self.endpoints = (replace(sender, role="a"), replace(receiver, role="b"))
        self._timing = sender.session.timing
        self._executor = executor
        self._catalog_for = catalog_for
        self._watch = watch
        drivers = {endpoint.port.driver for endpoint in self.endpoints}
        catalog = catalog_for(receiver.port.driver) if len(drivers) == 1 else None
        self._catalog = catalog or Catalog(receiver.port.driver, ())
        self._mtu = min_active_mtu(self.endpoints, default=_MIN_MTU)

    def between(self, sender: Endpoint, receiver: Endpoint) -> DataPath:
        """Return the path between other endpoints."""
        return DataPath(sender, receiver, self._executor, self._catalog_for, self._watch)

    def __str__(self) -> str:
        sender, receiver = self.endpoints
        return f"data path {sender.host.name} -> {receiver.host.name}"

    def try_small_messages(self) -> PathFailure | None:
        """Send a few small messages. Return the failure, if any."""
        tried = self._try(ProofStage.TRICKLE, _TRICKLE, self._timing.small_messages)
        return tried if isinstance(tried, PathFailure) else None

    def prove(self) -> Passed | PathFailure:
        """Send small messages, then a second of each transport."""
        if failed := self.try_small_messages():
            return failed
        written = self._try(ProofStage.FULL, Workload(), self._timing.full_packets, verify=True)
        if isinstance(written, PathFailure):
            return written
        datagrams = Workload(qp_type=QpType.UD, opcode=Opcode.SEND, messages=(self._mtu,))
        sent = self._try(ProofStage.DATAGRAM, datagrams, self._timing.full_packets)
        if isinstance(sent, PathFailure):
            return sent
        return Passed(self._mtu, _received_bps(written), _received_bps(sent), written.stopped or sent.stopped)

    def diagnose(self, failed: PathFailure) -> PathFault:
        """Return the cause of a failure."""
        sender, receiver = (endpoint.session for endpoint in self.endpoints)
        return diagnose(*observe_ends(sender, receiver, self._executor), failed)

    @property
    def line_rate_bps(self) -> float:
        """RC WRITE payload that the slower port can carry. Infinite when unknown."""
        return line_rate(tuple(endpoint.port for endpoint in self.endpoints), Workload(mtu=self._mtu)).bps

    def _try(
        self, stage: ProofStage, workload: Workload, policy: WindowPolicy, *, verify: bool = False
    ) -> Measurement | PathFailure:
        for timing in (policy, self._timing.retry):
            sent = workload.with_(mtu=self._mtu)
            try:
                measured = run_alone(
                    self.endpoints, sent, self._executor, self._catalog, timing, self._watch(), verify=verify
                )
            except (StepFailed, MissingCapability) as error:
                return self._not_set_up(ProofStage.SET_UP if stage is ProofStage.TRICKLE else stage, error)
            failed = failure_of(stage, measured, self.endpoints[0].host.name)
            if failed is None:
                return measured
        assert failed is not None, "the last attempt failed"
        return failed

    def _not_set_up(self, stage: ProofStage, error: StepFailed | MissingCapability) -> PathFailure:
        if isinstance(error, StepFailed):
            return PathFailure(stage, str(error), None if error.unanswered else error.host)
        return PathFailure(stage, str(error), self.endpoints[0].host.name)


def _received_bps(measured: Measurement) -> float:
    return measured.host("b").delivered_bps or 0.0


def failure_of(stage: ProofStage, measured: Measurement, sender: str) -> PathFailure | None:
    """Return the failure that a measurement of traffic to host `b` shows, if any."""
    reason = _failure_reason(measured)
    answered = measured.health.completion_errors.keys() - _UNANSWERED
    return PathFailure(stage, reason, sender if answered else None) if reason else None


def _failure_reason(measured: Measurement) -> str | None:
    errors = measured.health.completion_errors
    if errors:
        return "work requests complete with errors: " + ", ".join(f"{count} x {name}" for name, count in errors.items())
    if not _received_bps(measured):
        return "nothing was received" + "".join(f"; {problem}" for problem in measured.problems)
    if measured.wrong_bytes:
        return f"{measured.wrong_bytes:,} bytes of what was received differ from those that were sent"
    return None
