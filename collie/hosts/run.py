"""A set-up on two or more hosts and its phases: prepare and connect, then start, watch and stop each phase, destroy.

1. Steps run in parallel where their order does not matter. A failed step waits for the others.
2. The controller passes queue pair data from agent to agent unread.
3. A set-up stands after a phase if every send has completed, every completion queue is empty and no queue pair has
   failed. Otherwise no other phase may follow.
4. Every set-up ends with `destroy` on all hosts. An unreachable agent ends itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any, TypeVar

from collie.counters.catalog import Catalog
from collie.detect.measurement import Measurement, Watch
from collie.errors import TestbedError
from collie.hosts.drain import drain_seconds
from collie.hosts.endpoint import Endpoint, in_parallel
from collie.hosts.phase import PREPARE_SECONDS, FlowPlan, HostPhase
from collie.hosts.processes import processes
from collie.readings.policy import WindowPolicy
from collie.readings.victim import PlainFlow
from collie.workloads.workload import Workload

logger = logging.getLogger(__name__)

T = TypeVar("T")

_LAST_DRAIN_SECONDS = 0.1
"""After this time, work requests outstanding at the end of a set-up are flushed."""
_DESTROY_SECONDS = 10.0
"""Deadline. A NIC's firmware destroys queue pairs one by one."""


def run_alone(
    endpoints: Sequence[Endpoint],
    workload: Workload,
    executor: Executor,
    catalog: Catalog,
    policy: WindowPolicy,
    watch: Watch | None = None,
    *,
    verify: bool = False,
) -> Measurement:
    """Run one workload on a set-up of its own. Raises what `OpenSetUp` raises."""
    set_up = OpenSetUp(endpoints, workload, executor, verify=verify)
    try:
        set_up.make()
        return set_up.measure(workload, catalog, policy, watch)
    finally:
        set_up.destroy()


class OpenSetUp:
    """The verbs objects of one set-up, between endpoints with live agents. `verify` compares payload in each phase.

    Attributes:
        made_for, victim: the workload and the flow beside it that determine them.
        stands: whether a phase can follow.

    The constructor raises `MissingCapability` if a host cannot run this workload.
    """

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        made_for: Workload,
        executor: Executor,
        *,
        verify: bool = False,
        victim: PlainFlow | None = None,
    ) -> None:
        self.made_for = made_for
        self.stands = False
        self._verify = verify
        self.victim = victim
        self._endpoints = {endpoint.role: endpoint for endpoint in endpoints}
        self._executor = executor
        self._clients = {endpoint.role: endpoint.session.client_under_way() for endpoint in endpoints}
        described = [endpoint.described for endpoint in endpoints]
        self._processes = processes(made_for, described, beside_victim=victim is not None)
        self._plan = FlowPlan(made_for, victim)
        self._requests = {role: self._request(endpoint) for role, endpoint in self._endpoints.items()}

    @property
    def is_alive(self) -> bool:
        """Whether it stands, with the agents and engines that made it."""
        return self.stands and all(
            endpoint.session.is_live
            and endpoint.session.client_under_way() is self._clients[role]
            and self._clients[role].engine_death is None
            for role, endpoint in self._endpoints.items()
        )

    def make(self) -> None:
        """Make and connect the objects.

        Raises:
            StepFailed: a step failed.
            TestbedError: a host or an agent is gone.
        """
        # A slow NIC makes queue pairs and regions one by one.
        seconds = PREPARE_SECONDS + self._object_seconds
        prepared = self._all(
            lambda endpoint: endpoint.session.request("prepare", seconds, **self._requests[endpoint.role])
        )
        endpoints = {key: endpoint for answer in prepared.values() for key, endpoint in answer["endpoints"].items()}
        peers = {
            role: {f"{flow}/{end}": endpoints.get(f"{flow}/{other}") for flow, end, other in self._plan.ends(role)}
            for role in self._endpoints
        }
        self._all(lambda endpoint: endpoint.session.request("connect", seconds, peers=peers[endpoint.role]))

    def measure(
        self,
        workload: Workload,
        catalog: Catalog,
        policy: WindowPolicy,
        watch: Watch | None = None,
        *,
        keep: bool = False,
    ) -> Measurement:
        """Perform a phase. Afterwards the set-up `stands`, if it is to be kept and can be.

        Raises:
            MissingCapability: a host cannot run this workload.
            StepFailed: a step failed.
            TestbedError: a host or an agent is gone.
        """
        self.stands = False
        phase = HostPhase(self._endpoints, workload, self._executor, verify=self._verify, victim=self.victim)
        phase.prepare(self._object_seconds)
        measured = phase.watch(catalog, policy, watch)
        if not measured.stopped:  # a stopped run must end at once: `destroy` moves its queue pairs to ERR
            completed, self.stands = phase.stop(
                drain_seconds(workload, measured) if keep else _LAST_DRAIN_SECONDS, rest=keep
            )
            if self._verify:
                measured = phase.compared(measured, completed)
        return measured

    def destroy(self) -> None:
        """Destroy the objects on every host that still has them."""

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

        self.stands = False
        in_parallel(self._executor, {role: partial(destroy, each) for role, each in self._endpoints.items()})

    def _request(self, endpoint: Endpoint) -> dict[str, Any]:
        forced = endpoint.host.data_path
        return ({"data_path": forced} if forced else {}) | {
            "device": endpoint.port.device,
            "port": endpoint.port.port,
            "gid_index": endpoint.port.gid_index,
            "processes": self._processes,
            **self._plan.request(endpoint),
        }

    @property
    def _object_seconds(self) -> float:
        qps = self.made_for.qps
        return 0.02 * qps * len(self._plan.flows) + 0.001 * qps * self.made_for.mrs_per_qp

    def _all(self, step: Callable[[Endpoint], T]) -> dict[str, T]:
        return in_parallel(self._executor, {role: partial(step, each) for role, each in self._endpoints.items()})
