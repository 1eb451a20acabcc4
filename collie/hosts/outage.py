"""A data path that dies under a campaign: told from a run that failed, outlasted, and never taken for an anomaly.

Rules:

1. What a run says is doubted where a dead path would say the same: a connection that was not made for want of an
   answer, work requests that completed with errors, a receiver that got nothing in the end. Then a few small messages
   are sent.
2. Where they pass, the run stands. Where they do not, its result is that the path was dead, whatever it was before.
3. A dead path is waited for, as most outages end by themselves; then it is mended where somebody can. A campaign goes
   on in both cases. Otherwise the testbed is gone.
4. Ports and addresses are read anew for each look, as what comes back may have another index.
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

PATIENCE_SECONDS = 45.0
"""For a path to come back by itself: with the spanning tree protocol a switch port takes 30 s to forward again."""
LOOK_SECONDS = 2.0


def doubtful(workload: Workload, result: RunResult) -> bool:
    """Whether a dead data path would show as what a run has measured."""
    if not isinstance(result, Measured) or result.measurement.stopped:
        return False
    measured = result.measurement
    ceased = any(_last_bps(measured, name) == 0 for name in sinks(workload))
    return ceased or bool(measured.health.completion_errors)


def _last_bps(measured: Measurement, name: str) -> float | None:
    """Return what a host received at the end of a run, or over all of it where there are no samples."""
    own = [sample for sample in measured.series if sample.host == name]
    return own[-1].values.get("delivered_bps") if own else measured.host(name).delivered_bps


class Outages:
    """Tests the data paths of a testbed where a run is doubted, and outlasts their outages.

    Args:
        executor: runs the hosts' steps side by side.
        clock: of the controller.
        reviver: mends data paths; None where nobody can.
    """

    def __init__(self, executor: Executor, clock: Clock, reviver: Reviver | None) -> None:
        self._executor = executor
        self._clock = clock
        self._reviver = reviver

    def settled(
        self, result: RunResult, endpoints: Sequence[Endpoint], catalog: Catalog, watch: Watch | None, started: float
    ) -> RunResult:
        """Return a doubted result where data paths are alive; else what became of the outage.

        Args:
            result: of a run.
            endpoints: that took part, the one that all others talk to first.
            catalog: their counters.
            watch: is shown every sample, and may order a stop.
            started: when the run began, by the clock.

        Raises:
            TestbedError: a path stays dead, and nobody could mend it; or a host is gone.
        """
        for other in endpoints[1:]:
            path = self._path(endpoints[0], other, catalog, watch)
            failed = path.trickles()
            if failed is not None:
                said = f"{path}: {path.diagnosed(failed)}"
                logger.warning("%s; waiting for it", said)
                ended = self._outlasted(path, said)
                logger.warning("%s: %s", path, ended)
                return SetupFailed(f"{OUTAGE} dead", f"{said}. {ended}", self._clock.monotonic() - started)
        return result

    def _path(self, sender: Endpoint, receiver: Endpoint, catalog: Catalog, watch: Watch | None) -> DataPath:
        return DataPath(sender, receiver, self._executor, self._clock, lambda _: catalog, lambda: watch)

    def _outlasted(self, path: DataPath, said: str) -> str:
        """Return how an outage ended.

        Raises:
            TestbedError: it has not.
        """
        began = self._clock.monotonic()
        while self._clock.monotonic() - began < PATIENCE_SECONDS:
            self._clock.sleep(LOOK_SECONDS)
            if self._is_back(path):
                return f"It was back after {self._clock.monotonic() - began:.0f} s"
        if self._reviver is None:
            raise TestbedError(f"{said}. It has been dead for {PATIENCE_SECONDS:g} s")
        sessions = [endpoint.session for endpoint in path.endpoints]
        restarted = self._reviver.mend([session.host for session in sessions])
        for session in sessions:
            if session.host.machine in restarted:
                session.disconnect()
        return f"It was mended by starting {', '.join(restarted)} again" if restarted else "It was found in order again"

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
