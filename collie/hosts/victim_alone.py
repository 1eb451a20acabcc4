"""The throughput of a victim without a workload."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
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


@dataclass(frozen=True, slots=True)
class Alone:
    """The bits/s of a victim alone. If unknown, `note` has the reason."""

    bps: float | None
    note: str = ""


class VictimAlone:
    """What each victim of a testbed gets alone, measured when it is first used, and once."""

    def __init__(self, executor: Executor, policy: WindowPolicy) -> None:
        self._executor = executor
        self._policy = policy
        self._known: dict[PlainFlow, Alone] = {}

    def knows(self, beside: PlainFlow) -> bool:
        """Whether a victim has been measured, with or without success."""
        return beside in self._known

    def of(self, beside: PlainFlow, joined: Sequence[Endpoint], catalog: Catalog, watch: Watch | None) -> Alone:
        """Return what a victim between the endpoints that it joins gets alone.

        Raises:
            TestbedError: a safety limit stopped it.
        """
        if beside not in self._known:
            # A failure is remembered too. Otherwise every run would end the set-up that stands, and make more runs.
            self._known[beside] = self._measured(beside, joined, catalog, watch)
        return self._known[beside]

    def _measured(self, beside: PlainFlow, joined: Sequence[Endpoint], catalog: Catalog, watch: Watch | None) -> Alone:
        (sink,) = sinks(beside.workload)
        rates: list[float] = []
        faults: tuple[str, ...] = ()
        own = [replace(endpoint, role=role) for role, endpoint in zip(ROLES, joined, strict=False)]
        for _ in range(ALONE_RUNS):
            policy = self._policy.for_catalog(catalog)
            measured = run_alone(own, beside.workload, self._executor, catalog, policy, watch)
            if measured.stopped:
                raise TestbedError(f"the victim alone was stopped ({measured.stopped}); measure without --victim")
            delivered = measured.host(sink).delivered_bps
            if delivered is not None and not measured.problems:
                rates.append(delivered)
            faults = measured.problems or (f"host {sink}: no payload was counted",)
        if rates:
            bps = median(rates)
            logger.info("the victim alone delivers %.3g bit/s, the median of %d runs", bps, len(rates))
            return Alone(bps)
        where = " to ".join(f"{endpoint.host.name} (host {endpoint.role})" for endpoint in own)
        note = f"the victim's loss is unknown: alone, from {where}, it could not be measured: {'; '.join(faults)}"
        logger.warning("%s", note)
        return Alone(None, note)
