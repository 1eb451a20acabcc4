"""Outages of a data path during a campaign: distinguished from failed runs, waited for, and never taken for an anomaly.

Rules:

1. A run is doubted if a dead path would look the same: a connection failed for want of an answer, work requests
   completed with errors, or a receiver got nothing in the end. A few small messages then test the path.
2. If they pass, the result stands. Otherwise the result is a dead path.
3. A dead path is waited for, as most outages end by themselves, and then repaired where possible. Otherwise the testbed
   is gone.
4. Ports and addresses are read again for each test, as indexes may change.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import replace

from collie.counters.catalog import Catalog
from collie.detect.measurement import Measurement, Watch
from collie.errors import AgentError, CommandTimeout, HostUnreachable, TestbedError
from collie.hosts.data_path import DataPath
from collie.hosts.facts import rdma_port
from collie.hosts.run import Endpoint
from collie.ports import OUTAGE, Clock, Measured, Reviver, RunResult, SetupFailed
from collie.workloads.plan import sinks
from collie.workloads.workload import Workload

logger = logging.getLogger(__name__)

TEST_PERIOD_SECONDS = 2.0


def may_be_outage(workload: Workload, result: RunResult) -> bool:
    """Whether a dead data path would look like this result."""
    if not isinstance(result, Measured) or result.measurement.stopped:
        return False
    measured = result.measurement
    ceased = any(_last_bps(measured, name) == 0 for name in sinks(workload))
    return ceased or bool(measured.health.completion_errors)


def _last_bps(measured: Measurement, name: str) -> float | None:
    """Return a host's received rate at the end of a run, or over all of it without samples."""
    own = [sample for sample in measured.series if sample.host == name]
    return own[-1].values.get("delivered_bps") if own else measured.host(name).delivered_bps


class Outages:
    """Tests data paths after a doubted run, waits for their recovery, and has a `reviver` repair them."""

    def __init__(self, executor: Executor, clock: Clock, reviver: Reviver | None) -> None:
        self._executor = executor
        self._clock = clock
        self._reviver = reviver

    def settled(
        self, result: RunResult, endpoints: Sequence[Endpoint], catalog: Catalog, watch: Watch | None, started: float
    ) -> RunResult:
        """Return a doubted result if data paths are alive, otherwise the outcome of the outage.

        Args:
            result: the doubted result.
            endpoints: those of the run, the common peer first.
            catalog: their counters.
            watch: receives every sample and may order a stop.
            started: begin of the run.

        Raises:
            TestbedError: a path stays dead, or a host is gone.
        """
        for other in endpoints[1:]:
            path = self._path(endpoints[0], other, catalog, watch)
            failed = path.trickles()
            if failed is not None:
                fault = f"{path}: {path.diagnosed(failed)}"
                logger.warning("%s; waiting for it", fault)
                ended = self._await_recovery(path, fault)
                logger.warning("%s: %s", path, ended)
                return SetupFailed(f"{OUTAGE} dead", f"{fault}. {ended}", self._clock.monotonic() - started)
        return result

    def _path(self, sender: Endpoint, receiver: Endpoint, catalog: Catalog, watch: Watch | None) -> DataPath:
        return DataPath(sender, receiver, self._executor, self._clock, lambda _: catalog, lambda: watch)

    def _await_recovery(self, path: DataPath, fault: str) -> str:
        """Describe how an outage ended.

        Raises:
            TestbedError: it has not ended.
        """
        began = self._clock.monotonic()
        patience = path.endpoints[0].session.timing.recovery_seconds
        while self._clock.monotonic() - began < patience:
            self._clock.sleep(TEST_PERIOD_SECONDS)
            if self._is_back(path):
                return f"It was back after {self._clock.monotonic() - began:.0f} s"
        if self._reviver is None:
            raise TestbedError(f"{fault}. It has been dead for {patience:g} s")
        sessions = [endpoint.session for endpoint in path.endpoints]
        restarted = self._reviver.mend([session.host for session in sessions])
        for session in sessions:
            if session.host.machine in restarted:
                session.disconnect()
        return f"It was repaired by a restart of {', '.join(restarted)}" if restarted else "It works again"

    def _is_back(self, path: DataPath) -> bool:
        try:
            sender, receiver = (
                replace(endpoint, port=rdma_port(endpoint.session.host, endpoint.session.refreshed_facts()))
                for endpoint in path.endpoints
            )
        except (HostUnreachable, CommandTimeout, AgentError):
            raise
        except TestbedError:
            return False  # the port is down, or has lost its address
        return path.between(sender, receiver).trickles() is None
