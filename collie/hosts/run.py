"""One run on two or more hosts: prepare, connect, start, watch, stop, destroy.

1. Steps run in parallel where their order does not matter. A failed step waits for the others.
2. The controller passes queue pair data from agent to agent unread.
3. Every run ends with `destroy` on all hosts. An unreachable agent ends itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from collie.agent.requests import MAX_ENDS
from collie.counters.catalog import Catalog
from collie.detect.measurement import Measurement, Watch, cut_short
from collie.errors import HostUnreachable, TestbedError
from collie.hosts.host_info import HostInfo, RdmaPort, numa_node
from collie.hosts.processes import processes
from collie.hosts.protocol import AgentGone, StepFailed
from collie.hosts.session import HostSession
from collie.inventory.hosts import Host
from collie.readings.policy import WindowPolicy
from collie.readings.rate_stability import may_settle
from collie.readings.recording import Recording
from collie.readings.sample_monitor import SampleMonitor
from collie.readings.samples import AgentSample
from collie.readings.victim import NAME as VICTIM, RESPONDER, victim_flow
from collie.readings.window import measurement, series_of
from collie.workloads.plan import flows, is_peer
from collie.workloads.workload import Workload, render

logger = logging.getLogger(__name__)

T = TypeVar("T")

_LOOK_SECONDS = 0.02
_DRAIN_SECONDS = 0.1
"""After this time, outstanding work requests are flushed."""
PREPARE_SECONDS = 15.0
_DESTROY_SECONDS = 10.0
"""Deadline. A NIC's firmware destroys queue pairs one by one."""
_VERIFY_SECONDS = 60.0
"""Deadline. An emulated CPU compares only some 50 MB/s."""
_TOPOLOGY = ("requesters", "responders", "remote")


@dataclass(frozen=True)
class Endpoint:
    """One host in a run, or one of its devices, with a role `a`, `b`, ..."""

    role: str
    session: HostSession
    port: RdmaPort

    @property
    def host(self) -> Host:
        """The inventory entry."""
        return self.session.host

    @property
    def described(self) -> tuple[Host, HostInfo, RdmaPort]:
        """Inventory entry, description by the agent, and port."""
        return self.session.host, self.session.info, self.port


def min_active_mtu(endpoints: Iterable[Endpoint], default: int) -> int:
    """Return the smallest known active MTU, in bytes."""
    ports = (endpoint.session.info.port(endpoint.port.device, endpoint.port.port) for endpoint in endpoints)
    return min((port.active_mtu for port in ports if port and port.active_mtu), default=default)


class MissingCapability(Exception):
    """The workload needs something that a host lacks."""


class Run:
    """One run of one workload, between endpoints with live agents. `verify` compares received with sent payload."""

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        workload: Workload,
        executor: Executor,
        *,
        verify: bool = False,
        victim: Workload | None = None,
    ) -> None:
        self._verify = verify
        self._victim = victim
        self._endpoints = {endpoint.role: endpoint for endpoint in endpoints}
        self._workload = workload
        self._executor = executor
        self._clock = endpoints[0].session.clock
        self._machines = {endpoint.role: endpoint.host.machine for endpoint in endpoints}
        self._flows = (*flows(workload), *([victim_flow(workload)] if victim else []))
        self._uses_receives = any(opcode.consumes_receive for flow in self._flows for opcode in flow.opcodes)
        self._processes = processes(workload, [endpoint.described for endpoint in endpoints])

    def measure(self, catalog: Catalog, policy: WindowPolicy, watch: Watch | None = None) -> Measurement:
        """Perform the run.

        Raises:
            MissingCapability: a host cannot run this workload.
            StepFailed: a step failed.
            TestbedError: a host or an agent is gone.
        """
        requests = {role: self._prepare_request(endpoint) for role, endpoint in self._endpoints.items()}
        try:
            self._set_up(requests)
            began = self._start(policy)
            measured = self._watch(began, catalog, policy, SampleMonitor(watch, catalog, self._flows))
            if not measured.stopped:  # a stopped run must end at once: `destroy` moves its queue pairs to ERR
                completed = self._stop()
                if self._verify:
                    measured = self._compared(measured, completed)
        finally:
            self._destroy()
        return measured

    def _set_up(self, requests: Mapping[str, dict[str, Any]]) -> None:
        # Work requests take longest: 30 us each on an emulated CPU, at most 65536 of them.
        seconds = PREPARE_SECONDS + self._object_seconds
        prepared = self._all(lambda endpoint: endpoint.session.request("prepare", seconds, **requests[endpoint.role]))
        endpoints = {key: endpoint for answer in prepared.values() for key, endpoint in answer["endpoints"].items()}
        peers = {
            role: {f"{flow}/{end}": endpoints.get(f"{flow}/{other}") for flow, end, other in self._ends(role)}
            for role in self._endpoints
        }
        self._all(lambda endpoint: endpoint.session.request("connect", seconds, peers=peers[endpoint.role]))

    @property
    def _object_seconds(self) -> float:
        qps = self._workload.qps
        return 0.02 * qps * len(self._flows) + 0.001 * qps * self._workload.mrs_per_qp

    def _start(self, policy: WindowPolicy) -> float:
        for endpoint in self._endpoints.values():
            endpoint.session.client_under_way().forget_samples()

        def start(endpoint: Endpoint) -> None:
            endpoint.session.request("start", period_seconds=policy.period_seconds)

        # If the run uses receives, hosts that only respond start first. If all hosts request, one of them starts last.
        requesters = {flow.requester for flow in self._flows}
        last = requesters if requesters < set(self._endpoints) else {self._flows[0].requester}
        first = set(self._endpoints) - last if self._uses_receives else set()
        self._each(first, start)
        self._each(set(self._endpoints) - first, start)
        return self._clock.monotonic()

    def _watch(self, began: float, catalog: Catalog, policy: WindowPolicy, monitor: SampleMonitor) -> Measurement:
        """Wait until the window is full and stable, the policy's patience ends, or the run must stop."""
        victim = self._victim is not None
        wanted = policy.warm_up_seconds + policy.window_seconds
        patient = wanted + policy.patience_seconds
        last = max(patient, wanted + policy.averaging_seconds)
        while True:
            recording = self._record(began, wanted, monitor)
            look = partial(
                measurement, self._workload, recording, catalog, policy, victim=victim, with_series=bool(monitor.reason)
            )
            measured = look()
            if monitor.reason:
                return cut_short(measured, measured.series, monitor.reason)
            over = bool(measured.stable or measured.problems)
            if not over and wanted >= patient:
                whole = look(whole=True)
                if whole.stable and not whole.problems:
                    measured, over = whole, True
                over = over or wanted >= last or not may_settle(self._workload, recording, policy)
            if over:
                return replace(measured, series=series_of(self._workload, recording, catalog))
            wanted = min(last, max(wanted, recording.end) + policy.period_seconds)

    def _record(self, began: float, wanted: float, monitor: SampleMonitor) -> Recording:
        """Return the samples once those of every host cover `wanted` seconds of the run, or a host is late."""
        late = began + wanted + max(endpoint.session.timing.late_seconds for endpoint in self._endpoints.values())
        while True:
            samples = {role: self._samples(endpoint) for role, endpoint in self._endpoints.items()}
            recording = Recording(samples, began, self._machines)
            if monitor.show(recording) or recording.end >= wanted or self._clock.monotonic() > late:
                return recording
            self._clock.sleep(_LOOK_SECONDS)

    def _samples(self, endpoint: Endpoint) -> tuple[AgentSample, ...]:
        client = endpoint.session.client_under_way()
        if client.engine_death is not None:
            error = {"kind": "died", "step": "run", "message": client.engine_death}
            raise StepFailed(endpoint.host.name, error, "run")
        return client.take_samples()

    def _stop(self) -> dict[str, int]:
        """Stop posting. Return the messages of each flow's slowest queue pair, by the key of the responder end."""

        def stop(endpoint: Endpoint) -> Mapping[str, Any]:
            try:
                totals = endpoint.session.request("stop", drain_seconds=_DRAIN_SECONDS)["totals"]
            except TestbedError as error:
                logger.warning("%s", error)
                return {}
            return dict(totals.get("flows", {}))

        stopped = self._each({flow.requester for flow in self._flows}, stop)
        return {
            f"{flow.name}/responder": int(end["qp_messages"]["min"])
            for flow in self._flows
            if (end := stopped[flow.requester].get(f"{flow.name}/requester"))
        }

    def _compared(self, measured: Measurement, completed: Mapping[str, int]) -> Measurement:
        try:
            answers = self._all(
                lambda endpoint: endpoint.session.request("verify", _VERIFY_SECONDS, completed=completed)
            )
        except TestbedError as error:
            return replace(measured, notes=(*measured.notes, f"payload was not compared: {error}"))
        ends = [(role, key, end) for role, answer in answers.items() for key, end in answer["flows"].items() if end]
        own = [end for _, key, end in ends if key != RESPONDER]
        if not own:
            reason = "payload was not compared: atomics change what it would be compared with"
            return replace(measured, notes=(*measured.notes, reason))
        notes = [_wrong_place(role, key, end["first_wrong"]) for role, key, end in ends if end["first_wrong"]]
        wrong = sum(end["wrong_bytes"] for end in own)
        return replace(measured, wrong_bytes=wrong, notes=(*measured.notes, *notes))

    def _destroy(self) -> None:
        def destroy(endpoint: Endpoint) -> None:
            try:
                left = endpoint.session.request("destroy", _DESTROY_SECONDS + self._object_seconds).get("qps_left")
            except TestbedError as error:
                logger.warning("%s; its agent ends and takes the queue pairs with it", error)
                endpoint.session.abandon()
                return
            if left:
                logger.warning("host %s: %d of our queue pairs are left after a run", endpoint.host.name, left)
                endpoint.session.abandon()

        self._all(destroy)

    def _ends(self, role: str) -> list[tuple[str, str, str]]:
        """Return (flow, this end, other end) per end."""
        ends = [(flow.name, "requester", "responder") for flow in self._flows if flow.requester == role]
        return ends + [(flow.name, "responder", "requester") for flow in self._flows if flow.responder == role]

    def _prepare_request(self, endpoint: Endpoint) -> dict[str, Any]:
        ends = self._ends(endpoint.role)
        if len(ends) > MAX_ENDS:
            raise MissingCapability(f"host {endpoint.host.name} has no room for a victim beside so many flows")
        victim = {"workload": _for_agent(self._victim, endpoint)} if self._victim else {}
        forced = endpoint.host.data_path
        return ({"data_path": forced} if forced else {}) | {
            "device": endpoint.port.device,
            "port": endpoint.port.port,
            "gid_index": endpoint.port.gid_index,
            "workload": _for_agent(self._workload, endpoint),
            "flows": [{"flow": flow, "role": end} | (victim if flow == VICTIM else {}) for flow, end, _ in ends],
            "verify": self._verify,
            "processes": self._processes,
        }

    def _all(self, step: Callable[[Endpoint], T]) -> dict[str, T]:
        return self._each(self._endpoints, step)

    def _each(self, roles: Collection[str], step: Callable[[Endpoint], T]) -> dict[str, T]:
        return in_parallel(self._executor, {role: partial(step, self._endpoints[role]) for role in roles})


def _for_agent(workload: Workload, endpoint: Endpoint) -> dict[str, Any]:
    """Return a workload in the agent's terms: requester and responder instead of A and B."""
    fields = {name: value for name, value in render(workload).items() if name not in _TOPOLOGY}
    own = "peer_" if is_peer(workload, endpoint.role) else ""
    try:
        node = numa_node(endpoint.port, fields[f"{own}numa_node"])
    except ValueError as error:
        raise MissingCapability(f"host {endpoint.host.name}: {error}") from error
    memory = fields[f"{own}memory"]  # a flow inside one host uses this memory at both ends
    return fields | {"numa_node": node, "peer_numa_node": node, "memory": memory, "peer_memory": memory}


def _wrong_place(role: str, key: str, first: Mapping[str, Any]) -> str:
    return (
        f"host {role}, {key}: wrong payload from byte {first['offset']} of region {first['mr']} of queue pair "
        f"{first['qp']}: {first['found']} instead of {first['expected']}"
    )


def in_parallel(executor: Executor, steps: Mapping[str, Callable[[], T]]) -> dict[str, T]:
    """Run steps and wait for all. Raises the gravest error: a lost host, a lost agent, a failed step."""
    futures = {name: executor.submit(step) for name, step in steps.items()}
    failures = [failure for future in futures.values() if (failure := future.exception()) is not None]
    if failures:
        raise min(failures, key=_gravity)
    return {name: future.result() for name, future in futures.items()}


def _gravity(failure: BaseException) -> int:
    if not isinstance(failure, TestbedError):
        return 0  # a bug or an interrupt outranks the errors that it causes
    return 1 if isinstance(failure, HostUnreachable) else 2 if isinstance(failure, AgentGone) else 3
