"""The throughput of a victim without a workload."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import replace
from statistics import median

from collie.counters.catalog import Catalog
from collie.detect.measurement import Watch
from collie.errors import TestbedError
from collie.hosts.endpoint import Endpoint
from collie.hosts.run import run_alone
from collie.readings.policy import WindowPolicy
from collie.readings.victim import ALONE_RUNS, PlainFlow
from collie.workloads.plan import ROLES, sinks

logger = logging.getLogger(__name__)


class VictimAlone:
    """What each victim of a testbed gets alone, measured when it is first used."""

    def __init__(self, executor: Executor, policy: WindowPolicy) -> None:
        self._executor = executor
        self._policy = policy
        self._bps: dict[PlainFlow, float] = {}

    def knows(self, beside: PlainFlow) -> bool:
        """Whether a victim has been measured."""
        return beside in self._bps

    def bps(self, beside: PlainFlow, joined: Sequence[Endpoint], catalog: Catalog, watch: Watch | None) -> float | None:
        """Return the bits/s of a victim between the endpoints that it joins, if known.

        Raises:
            TestbedError: a safety limit stopped it.
        """
        if beside in self._bps:
            return self._bps[beside]
        (sink,), rates = sinks(beside.workload), []
        own = [replace(endpoint, role=role) for role, endpoint in zip(ROLES, joined, strict=False)]
        for _ in range(ALONE_RUNS):
            policy = self._policy.for_catalog(catalog)
            measured = run_alone(own, beside.workload, self._executor, catalog, policy, watch)
            if measured.stopped:
                raise TestbedError(f"the victim alone was stopped ({measured.stopped}); measure without --victim")
            delivered = measured.host(sink).delivered_bps
            if delivered is not None and not measured.problems:
                rates.append(delivered)
        if not rates:
            return None
        self._bps[beside] = median(rates)
        logger.info("the victim alone delivers %.3g bit/s, the median of %d runs", self._bps[beside], len(rates))
        return self._bps[beside]
