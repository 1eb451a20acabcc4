"""Real hosts as a testbed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

from collie.clock import SystemClock
from collie.counters.catalog import Catalog, discovered
from collie.detect.bounds import Bound
from collie.detect.measurement import Measurement, Watch
from collie.errors import AgentError, CommandTimeout, HostUnreachable, TestbedError
from collie.hosts.capabilities import capabilities
from collie.hosts.catalogs import CatalogFor, Discover, catalog_of
from collie.hosts.endpoint import Endpoint, MissingCapability, in_parallel, min_active_mtu
from collie.hosts.fingerprint import fingerprint
from collie.hosts.host_info import RdmaPort, line_rate, rdma_port
from collie.hosts.idle import foreign_uses
from collie.hosts.outage import Outages, may_be_outage
from collie.hosts.protocol import AgentGone, StepFailed
from collie.hosts.run import OpenSetUp
from collie.hosts.session import Archive, HostSession
from collie.hosts.timing import DEFAULT_TIMING, HostTiming
from collie.hosts.victim_alone import Alone, VictimAlone
from collie.inventory.fingerprint import Fingerprint
from collie.inventory.hosts import Host, Pair
from collie.ports import (
    Clock,
    ForeignUse,
    HostLost,
    Measured,
    Remote,
    Reviver,
    RunResult,
    SetupFailed,
    TestbedInfo,
    Unsupported,
)
from collie.readings.policy import WindowPolicy
from collie.readings.victim import MIN_MTU, OTHER_RAIL, PlainFlow, victim, victim_flow, why_none
from collie.workloads.plan import ROLES, hosts
from collie.workloads.pruning import Capabilities
from collie.workloads.setup import SetUp
from collie.workloads.workload import Workload

logger = logging.getLogger(__name__)

AGENT_ATTEMPTS = 2
STALE_FAILURES = 4
"""Consecutive failed set-ups before the agents restart. The GID index of an address may have changed."""
_ACROSS_PORTS = "loopback across ports"
"""Marks a fingerprint of loopback across ports, as opposed to traffic between hosts."""


class HostsTestbed:
    """`Testbed` over hosts of an inventory. It contacts them when first used.

    An agent that ends during a run is restarted and the run repeated, once. All agents are restarted after
    `STALE_FAILURES` failed set-ups. A host too busy to answer in time fails the set-up of that run. A `reviver`
    restarts hosts that run no command, and the run ends as `HostLost`.

    At most one set-up stands. Another one, a run on its own, `foreign_uses`, `close`, a lost agent and every doubt
    about the data path end it.

    Devices of one host have an agent each. `discover` makes the catalog of a driver that has none. `verify` compares
    received with sent payload. With `victim` a plain flow runs beside every workload, at a load of `victim_bps` unless
    that is 0.
    """

    def __init__(
        self,
        pair: Pair,
        connect: Callable[[Host], Remote],
        catalog_for: CatalogFor,
        *,
        policy: WindowPolicy | None = None,
        clock: Clock | None = None,
        archive: Archive | None = None,
        reviver: Reviver | None = None,
        discover: Discover = discovered,
        verify: bool = False,
        victim: bool = False,
        victim_bps: int = 0,
        timing: HostTiming = DEFAULT_TIMING,
    ) -> None:
        self._verify = verify
        self._with_victim = victim
        self._victim_bps = victim_bps
        self._pair = pair
        self._catalog_for = catalog_for
        self._discover = discover
        self._reviver = reviver
        self._policy = policy or WindowPolicy()
        self._clock = clock or SystemClock()
        archive = archive or Archive.agent()
        self._sessions = {
            role: HostSession(host, connect(host), archive, self._clock, timing)
            for role, host in zip(ROLES, pair.hosts, strict=False)
        }
        self._executor = ThreadPoolExecutor(len(self._sessions), thread_name_prefix=f"hosts {pair.name}")
        self._alone = VictimAlone(self._executor, self._policy)
        self._outages = Outages(self._executor, self._clock, reviver)
        self._explained: set[str] = set()
        self._catalog: Catalog | None = None
        self._info: TestbedInfo | None = None
        self._ports: tuple[RdmaPort, ...] = ()
        self._left: Mapping[str, int | None] | None = None
        self._failures = 0
        self._open: OpenSetUp | None = None
        self._history: SetUp | None = None
        self._made_anew = False

    @property
    def info(self) -> TestbedInfo:
        """The identity of this testbed, from its agents."""
        if self._info is None:
            self._end_set_up()
            endpoints = self._ready(self._sessions)
            described = {endpoint.host.name: dict(endpoint.session.info.description) for endpoint in endpoints}
            steps = {endpoint.host.name: partial(fingerprint, endpoint.session) for endpoint in endpoints}
            fingerprints = in_parallel(self._executor, steps)
            description: dict[str, Any] = {"hosts": described}
            if shared := self._pair.shared_hosts:
                description["loopback_across_ports"] = {host: list(endpoints) for host, endpoints in shared.items()}
                across = {endpoint for endpoints in shared.values() for endpoint in endpoints}
                fingerprints |= {name: _across_ports(fingerprints[name]) for name in sorted(across)}
            catalog = self._catalog_of(endpoints)
            self._info = TestbedInfo("hosts", self._pair.name, catalog, description, fingerprints=fingerprints)
        return self._info

    def specification(self, workload: Workload) -> Bound:
        """Return the slowest port's bound. A software device has none, except from the hosts file."""
        if not self._ports:
            self._ports = tuple(endpoint.port for endpoint in self._ready(self._sessions))
        return line_rate(self._ports, workload)

    @property
    def capabilities(self) -> Capabilities:
        """The common capabilities of the hosts, from their agents."""
        return capabilities([endpoint.described for endpoint in self._ready(self._sessions)])

    def measure(self, workload: Workload, run: int, watch: Watch | None = None, on: SetUp | None = None) -> RunResult:
        """Run one workload, on the set-up that stands or on a new one."""
        started = self._clock.monotonic()
        roles = hosts(workload)
        if self._victim_is_on_other_rail and not why_none(workload):
            roles = ROLES[: max(len(roles), 1 + ROLES.index(OTHER_RAIL[-1]))]
        if missing := set(roles) - set(self._sessions):
            reason = f"the workload needs {len(roles)} hosts; {self._pair.name} lacks {len(missing)}"
            return Unsupported(reason, self._clock.monotonic() - started)
        if on is not None and (misfit := on.misfit(workload)):
            logger.warning("run %d is no phase of its set-up: %s; it has one of its own", run, misfit)
            on = None
        if self._failures >= STALE_FAILURES:
            if problem := self._restart_agents():
                return SetupFailed("port", problem, self._clock.monotonic() - started)
            self._failures = 0
        result = self._with_agents(roles, workload, run, started, watch, on)
        if not isinstance(result, Unsupported):  # it is often detected before a set-up, so it proves no set-up works
            self._failures = self._failures + 1 if isinstance(result, SetupFailed) else 0
        return result

    def _restart_agents(self) -> str | None:
        """Restart all agents. Return why a port is now unusable, if one is."""
        self._end_set_up()
        for session in self._sessions.values():
            session.abandon()
        try:
            self._ready(self._sessions)
        except (HostUnreachable, CommandTimeout, AgentError):
            return None  # the run that follows handles it
        except TestbedError as error:
            if self._left is not None:
                raise
            return str(error)
        return None

    def _with_agents(
        self,
        roles: Sequence[str],
        workload: Workload,
        run: int,
        started: float,
        watch: Watch | None,
        on: SetUp | None,
    ) -> RunResult:
        for attempt in range(1, AGENT_ATTEMPTS + 1):
            try:
                endpoints = self._ready(roles)
            except (HostUnreachable, CommandTimeout) as error:
                if lost := self._lost(roles, f"before the run: {error}", started):
                    return lost
                raise
            try:
                result = self._measure(endpoints, workload, started, watch, on)
                return self._lost(roles, "while the run was torn down", started) or result
            except (AgentGone, HostUnreachable) as error:
                if self._left is not None:
                    raise  # closed during the run
                if lost := self._lost(roles, str(error), started):
                    return lost
                logger.warning("run %d, attempt %d of %d: %s", run, attempt, AGENT_ATTEMPTS, error)
                if attempt == AGENT_ATTEMPTS:
                    raise
            except CommandTimeout as error:
                if lost := self._lost(roles, str(error), started):
                    return lost
                logger.warning("run %d: %s", run, error)
                return SetupFailed(f"{error.step} timeout", str(error), self._clock.monotonic() - started)
        raise AssertionError("unreachable")

    def foreign_uses(self) -> tuple[ForeignUse, ...]:
        """Watch all ports in parallel for about a second."""
        self._end_set_up()
        endpoints = self._ready(self._sessions)
        catalog = self._catalog_of(endpoints)
        steps = {
            endpoint.role: partial(foreign_uses, endpoint.session, endpoint.port, catalog) for endpoint in endpoints
        }
        return tuple(use for uses in in_parallel(self._executor, steps).values() for use in uses)

    def close(self) -> Mapping[str, int | None]:
        """Leave nothing behind on any host."""
        if self._left is None:
            self._left = {}
            self._open = self._history = None  # an agent destroys what it has when it ends
            try:
                steps = {session.host.name: session.close for session in self._sessions.values()}
                # All threads of the testbed may wait for hosts until closing ends their waits.
                with ThreadPoolExecutor(len(steps), thread_name_prefix=f"close {self._pair.name}") as closing:
                    self._left = in_parallel(closing, steps)
            finally:
                self._executor.shutdown(wait=False, cancel_futures=True)
        return self._left

    def _lost(self, roles: Iterable[str], symptom: str, started: float) -> HostLost | None:
        """Revive the hosts that cannot run a command, if possible."""
        suspects = {role: self._sessions[role] for role in roles if not self._sessions[role].is_live}
        if self._reviver is None or self._left is not None or not suspects:
            return None  # a closed testbed contacts no host
        answers = in_parallel(self._executor, {role: session.answers for role, session in suspects.items()})
        silent = [session.host for role, session in suspects.items() if not answers[role]]
        if not silent:
            return None
        lost = {host.machine: host for host in silent}  # one entry for all devices of a host
        names = ", ".join(lost)
        noticed = self._clock.monotonic() - started
        logger.warning("host %s does not answer (%s); restarting it", names, symptom)
        for session in self._sessions.values():
            if session.host.machine in lost:
                session.disconnect()
        for host in lost.values():
            self._reviver.revive(host)
        detail = f"host {names} does not answer, noticed {noticed:.0f} s after the run began: {symptom}"
        return HostLost(next(iter(lost)), detail, self._clock.monotonic() - started)

    def _measure(
        self,
        endpoints: Sequence[Endpoint],
        workload: Workload,
        started: float,
        watch: Watch | None,
        on: SetUp | None,
    ) -> RunResult:
        result, in_doubt = self._run_once(endpoints, workload, started, watch, on)
        if isinstance(result, Unsupported) and on is not None and not on.is_own(workload):
            # The device may refuse the set-up, which needs more than the workload does.
            result, in_doubt = self._run_once(endpoints, workload, started, watch, None)
            result = replace(result, anew=bool(on.before)) if isinstance(result, Measured) else result
        if not in_doubt or not workload.remote:
            return result
        self._end_set_up()
        result = replace(result, stands=False) if isinstance(result, Measured) else result
        return self._outages.resolve(result, endpoints, self._catalog_of(endpoints), watch, started)

    def _run_once(
        self,
        endpoints: Sequence[Endpoint],
        workload: Workload,
        started: float,
        watch: Watch | None,
        on: SetUp | None,
    ) -> tuple[RunResult, bool]:
        """Return the result of a run, and whether a dead data path may have caused it."""
        try:
            measured = self._run(endpoints, workload, watch, on)
        except MissingCapability as error:
            return Unsupported(str(error), self._clock.monotonic() - started), False
        except StepFailed as error:
            elapsed = self._clock.monotonic() - started
            if error.unsupported:
                return Unsupported(str(error), elapsed), False
            return SetupFailed(error.cause, str(error), elapsed), error.unanswered
        elapsed, stands = self._clock.monotonic() - started, self._open is not None
        result = Measured(measured, elapsed, stands, anew=self._made_anew)
        return result, may_be_outage(workload, result)

    def _run(
        self, endpoints: Sequence[Endpoint], workload: Workload, watch: Watch | None, on: SetUp | None
    ) -> Measurement:
        no_victim = why_none(workload) if self._with_victim else ""
        beside, alone = None, Alone(None)
        if self._with_victim and not no_victim:
            other_rail = self._victim_is_on_other_rail
            joined = [each for each in endpoints if each.role in (OTHER_RAIL if other_rail else hosts(workload)[:2])]
            mtu = min_active_mtu(joined, MIN_MTU)
            plain = victim(mtu, remote=workload.remote or other_rail, offered_bps=self._victim_bps)
            beside = PlainFlow(plain, victim_flow(workload, other_rail=other_rail))
            if not self._alone.knows(beside):
                self._end_set_up()
            alone = self._alone.of(beside, joined, self._catalog_of(joined), watch)
        measured = self._phase(endpoints, workload, watch, on, beside)
        if no_victim:
            return replace(measured, notes=(*measured.notes, no_victim))
        if measured.victim is None:
            return measured
        notes = [alone.note] if alone.note else []
        if self._victim_is_on_other_rail:
            ports = " to ".join(self._sessions[role].host.name for role in OTHER_RAIL)
            notes.append(f"the plain flow runs between the other ports, {ports}")
        own = replace(measured.victim, alone_bps=alone.bps, offered_bps=self._victim_bps)
        return replace(measured, victim=own, notes=(*measured.notes, *notes))

    @property
    def _victim_is_on_other_rail(self) -> bool:
        return self._with_victim and self._pair.is_multi_rail

    def _phase(
        self,
        endpoints: Sequence[Endpoint],
        workload: Workload,
        watch: Watch | None,
        on: SetUp | None,
        beside: PlainFlow | None,
    ) -> Measurement:
        """Measure a phase of `on`, or a set-up's only phase. Then `_open` is the set-up if it stands."""
        catalog = self._catalog_of(endpoints)
        policy = self._policy.for_catalog(catalog)
        set_up = self._set_up_of(endpoints, workload, on, beside)
        try:
            if not set_up.stands:
                set_up.make()
            measured = set_up.measure(workload, catalog, policy, watch, keep=on is not None)
        except BaseException:
            set_up.destroy()
            raise
        if not set_up.stands:
            set_up.destroy()
        elif on is not None:
            before = SetUp(on.made_for) if self._made_anew else on
            self._open, self._history = set_up, before.after(workload)
        return measured

    def _set_up_of(
        self, endpoints: Sequence[Endpoint], workload: Workload, on: SetUp | None, beside: PlainFlow | None
    ) -> OpenSetUp:
        """Take the set-up that stands if it is `on`. Otherwise end it, and return one that is still to be made."""
        standing = self._open
        if standing is not None and standing.is_alive and self._history == on and standing.victim == beside:
            self._open, self._history, self._made_anew = None, None, False
            return standing
        self._end_set_up()
        self._made_anew = on is not None and bool(on.before)
        made_for = workload if on is None else on.made_for
        return OpenSetUp(endpoints, made_for, self._executor, verify=self._verify, victim=beside)

    def _end_set_up(self) -> None:
        """Destroy the set-up that stands, if one does."""
        standing, self._open, self._history = self._open, None, None
        if standing is not None and standing.is_alive:
            standing.destroy()

    def _ready(self, roles: Iterable[str]) -> tuple[Endpoint, ...]:
        if self._left is not None:
            raise TestbedError(f"the testbed of {self._pair.name} is closed")
        return tuple(in_parallel(self._executor, {role: partial(self._endpoint, role) for role in roles}).values())

    def _endpoint(self, role: str) -> Endpoint:
        session = self._sessions[role]
        port = rdma_port(session.host, session.info)
        if port.explanation not in self._explained:
            self._explained.add(port.explanation)
            logger.info(port.explanation)
        return Endpoint(role, session, port)

    def _catalog_of(self, endpoints: Sequence[Endpoint]) -> Catalog:
        if self._catalog is None:
            ports = ((endpoint.session, endpoint.port) for endpoint in endpoints)
            self._catalog = catalog_of(ports, self._catalog_for, self._discover)
        return self._catalog


def _across_ports(taken: Fingerprint) -> Fingerprint:
    return Fingerprint({**taken.values, "link": {**taken.values.get("link", {}), "path": _ACROSS_PORTS}})
