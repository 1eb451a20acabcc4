"""Outages of a data path during a campaign, as opposed to failed runs and anomalies.

A run is doubted if a dead path would look the same: a connection failed without an answer, work requests completed
with errors, or a receiver got nothing at the end. If a few small messages pass, its result stands. Most outages end by
themselves. A lasting outage is repaired where possible.
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
from collie.hosts.endpoint import Endpoint
from collie.hosts.host_info import rdma_port
from collie.ports import OUTAGE, Clock, Measured, Reviver, RunResult, SetupFailed
from collie.workloads.plan import sinks
from collie.workloads.workload import Workload

logger = logging.getLogger(__name__)

_TEST_PERIOD_SECONDS = 2.0


def may_be_outage(workload: Workload, result: RunResult) -> bool:
    """Whether a dead data path would look like this result."""
    if not isinstance(result, Measured) or result.measurement.stopped:
        return False
    measured = result.measurement
    ceased = any(_last_bps(measured, name) == 0 for name in sinks(workload))
    return ceased or bool(measured.health.completion_errors)


def _last_bps(measured: Measurement, name: str) -> float | None:
    """Return a host's rate at the end of a run. Without a series, return the rate over the whole run."""
    own = [sample for sample in measured.series if sample.host == name]
    return own[-1].values.get("delivered_bps") if own else measured.host(name).delivered_bps


class Outages:
    """Tests doubted data paths, waits for their recovery, and lets a `reviver` repair them."""

    def __init__(self, executor: Executor, clock: Clock, reviver: Reviver | None) -> None:
        self._executor = executor
        self._clock = clock
        self._reviver = reviver

    def resolve(
        self, result: RunResult, endpoints: Sequence[Endpoint], catalog: Catalog, watch: Watch | None, started: float
    ) -> RunResult:
        """Return a doubted result if the data paths are alive, otherwise the outcome of the outage.

        The first endpoint is the peer of all others. The run began at `started` on the controller's clock.

        Raises:
            TestbedError: a path stays dead, or a host is gone.
        """
        for other in endpoints[1:]:
            path = DataPath(endpoints[0], other, self._executor, lambda _: catalog, lambda: watch)
            if failed := path.try_small_messages():
                fault = f"{path}: {path.diagnose(failed)}"
                logger.warning("%s; waiting for it", fault)
                ended = self._await_recovery(path, fault)
                logger.warning("%s: %s", path, ended)
                return SetupFailed(f"{OUTAGE} dead", f"{fault}. {ended}", self._clock.monotonic() - started)
        return result

    def _await_recovery(self, path: DataPath, fault: str) -> str:
        began = self._clock.monotonic()
        patience = path.endpoints[0].session.timing.recovery_seconds
        while self._clock.monotonic() - began < patience:
            self._clock.sleep(_TEST_PERIOD_SECONDS)
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
                replace(endpoint, port=rdma_port(endpoint.host, endpoint.session.refreshed_info()))
                for endpoint in path.endpoints
            )
        except (HostUnreachable, CommandTimeout, AgentError):
            raise
        except TestbedError:
            return False  # the port is down, or has lost its address
        return path.between(sender, receiver).try_small_messages() is None
