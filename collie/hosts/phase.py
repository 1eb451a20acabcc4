"""One phase on the hosts of a set-up: work requests, start, watch, stop, verify."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from collie.agent.requests import MAX_ENDS
from collie.counters.catalog import Catalog
from collie.detect.measurement import Measurement, Watch, cut_short
from collie.errors import TestbedError
from collie.hosts.endpoint import Endpoint, MissingCapability, in_parallel
from collie.hosts.host_info import numa_node
from collie.hosts.protocol import StepFailed
from collie.readings.policy import WindowPolicy
from collie.readings.rate_stability import may_settle
from collie.readings.recording import Recording
from collie.readings.sample_monitor import SampleMonitor
from collie.readings.samples import AgentSample
from collie.readings.victim import NAME as VICTIM, RESPONDER, PlainFlow
from collie.readings.window import measurement, series_of
from collie.workloads.plan import flows, is_peer
from collie.workloads.workload import Workload, render

logger = logging.getLogger(__name__)

T = TypeVar("T")

PREPARE_SECONDS = 15.0
_LOOK_SECONDS = 0.02
_STOP_SECONDS = 10.0
"""Deadline of `stop` beyond its drain."""
_VERIFY_SECONDS = 60.0
"""Deadline. An emulated CPU compares only some 50 MB/s."""
_TOPOLOGY = ("requesters", "responders", "rails", "remote")


class FlowPlan:
    """The flows of a workload and its victim, as the agents are asked for them."""

    def __init__(self, workload: Workload, victim: PlainFlow | None) -> None:
        self._workload = workload
        self._victim = victim
        self.flows = (*flows(workload), *([victim.flow] if victim else []))

    def ends(self, role: str) -> list[tuple[str, str, str]]:
        """Return (flow, this end, other end) per end."""
        ends = [(flow.name, "requester", "responder") for flow in self.flows if flow.requester == role]
        return ends + [(flow.name, "responder", "requester") for flow in self.flows if flow.responder == role]

    def request(self, endpoint: Endpoint) -> dict[str, Any]:
        """Return the fields of `prepare` and `phase` that name the flows on a host."""
        ends = self.ends(endpoint.role)
        if len(ends) > MAX_ENDS:
            raise MissingCapability(f"host {endpoint.host.name} has no room for a victim beside so many flows")
        # With an engine of its own, the victim loses nothing to the loop of the workload.
        victim = {"workload": _for_agent(self._victim.workload, endpoint), "apart": True} if self._victim else {}
        return {
            "workload": _for_agent(self._workload, endpoint),
            "flows": [{"flow": flow, "role": end} | (victim if flow == VICTIM else {}) for flow, end, _ in ends],
        }


class HostPhase:
    """One workload on an open set-up."""

    def __init__(
        self,
        endpoints: Mapping[str, Endpoint],
        workload: Workload,
        executor: Executor,
        *,
        verify: bool,
        victim: PlainFlow | None,
    ) -> None:
        self._endpoints = endpoints
        self._workload = workload
        self._executor = executor
        self._verify = verify
        self._victim = victim
        self._clock = next(iter(endpoints.values())).session.clock
        self._machines = {role: endpoint.host.machine for role, endpoint in endpoints.items()}
        self._plan = FlowPlan(workload, victim)
        self._flows = self._plan.flows
        self._uses_receives = any(opcode.consumes_receive for flow in self._flows for opcode in flow.opcodes)

    def prepare(self, object_seconds: float) -> None:
        """Have all agents build the work requests and post the receives."""
        requests = {role: self._plan.request(endpoint) for role, endpoint in self._endpoints.items()}
        # Work requests take longest: 30 us each on an emulated CPU, at most 65536 of them.
        seconds = PREPARE_SECONDS + object_seconds
        self._all(
            lambda endpoint: endpoint.session.request("phase", seconds, verify=self._verify, **requests[endpoint.role])
        )

    def watch(self, catalog: Catalog, policy: WindowPolicy, watch: Watch | None) -> Measurement:
        """Start traffic, and watch it until the window is full or the phase must stop."""
        return self._watch(self._start(policy), catalog, policy, SampleMonitor(watch, catalog, self._flows))

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
        victim = self._victim.flow if self._victim else None
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

    def stop(self, drain_seconds: float, *, rest: bool) -> tuple[dict[str, int], bool]:
        """Stop posting. Return what `verify` needs, and whether another phase can follow.

        That is the number of messages of each flow's slowest queue pair, by the key of the responder end. `rest` also
        stops the hosts that only respond, and their samples: a set-up may stand for hours.
        """

        def stop(endpoint: Endpoint) -> Mapping[str, Any]:
            try:
                answer = endpoint.session.request("stop", drain_seconds + _STOP_SECONDS, drain_seconds=drain_seconds)
                if rest:
                    endpoint.session.request("sampling", on=False)
            except TestbedError as error:
                logger.warning("%s", error)
                return {}
            return answer

        requesters = {flow.requester for flow in self._flows}
        stopped = self._each(requesters, stop)
        if rest:
            stopped |= self._each(set(self._endpoints) - requesters, stop)
        completed = {
            f"{flow.name}/responder": int(end["qp_messages"]["min"])
            for flow in self._flows
            if (end := stopped[flow.requester].get("totals", {}).get("flows", {}).get(f"{flow.name}/requester"))
        }
        return completed, rest and all(each and each["drained"] and not each["failed_qps"] for each in stopped.values())

    def compared(self, measured: Measurement, completed: Mapping[str, int]) -> Measurement:
        """Return a measurement with the number of wrong bytes, or the reason that there is none."""
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
