"""The data paths that `collie hosts check` looks at: both ways along a ring over the hosts, and of every pair."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from collie.campaign.safety import Guard
from collie.errors import HostUnreachable, TestbedError
from collie.hosts.catalogs import CatalogFor, catalog_of
from collie.hosts.data_path import DataPath, Passed
from collie.hosts.diagnosis import Layer, PathFailure, PathFault, ProofStage, diagnose, unequal_mtu
from collie.hosts.facts import rdma_port
from collie.hosts.findings import CheckState, Finding
from collie.hosts.idle import other_uses
from collie.hosts.protocol import AgentGone
from collie.hosts.run import Endpoint
from collie.hosts.session import HOSTS_AT_ONCE, HostSession
from collie.hosts.wire import End, look
from collie.inventory.hosts import Host, Pair
from collie.inventory.safety import REAL_HOSTS, SafetyLimits
from collie.ports import Clock
from collie.workloads.units import format_rate

MIN_SHARE = 0.1
"""Of the line rate. One queue pair with plain traffic gets most of it on any NIC in good order."""

Way = tuple[Host, Host]


@dataclass(frozen=True, slots=True)
class CheckTraffic:
    """What the check may send.

    Attributes:
        limits: that stop it.
        shared_port: send on ports that somebody else uses, too.
    """

    limits: SafetyLimits = REAL_HOSTS
    shared_port: bool = False


def ways(hosts: Sequence[Host], pairs: Sequence[Pair]) -> tuple[Way, ...]:
    """Return which hosts are to reach each other: neighbours in a ring, and the hosts of each pair.

    Hosts with several devices have a ring for the first device of each, one for the second, and so on: such devices are
    mostly in networks of their own.
    """
    by_machine: dict[str, list[Host]] = {}
    for host in hosts:
        by_machine.setdefault(host.machine, []).append(host)
    known = {host.name: host for host in hosts}
    found: dict[frozenset[str], Way] = {}
    for rank in range(max(map(len, by_machine.values()), default=0)):
        rail = [own[rank] for own in by_machine.values() if rank < len(own)]
        for way in pairwise([*rail, rail[0]]):
            found.setdefault(frozenset(host.name for host in way), way)
    for pair in pairs:
        for other in pair.hosts[1:]:
            found.setdefault(frozenset((pair.a.name, other.name)), (pair.a, other))
    return tuple(way for names, way in found.items() if len(names) == 2 and names <= known.keys())


def rounds(among: Sequence[Way]) -> Iterator[tuple[Way, ...]]:
    """Yield ways that have no host in common, and can be tested at once; as many as hosts may be asked at once."""
    left = list(among)
    while left:
        busy: set[str] = set()
        chosen = []
        for way in left:
            names = {host.machine for host in way}
            if not names & busy and len(busy) + 2 <= HOSTS_AT_ONCE:
                chosen.append(way)
                busy |= names
        left = [way for way in left if way not in chosen]
        yield tuple(chosen)


@contextmanager
def at_once(threads: int) -> Iterator[Executor]:
    """Run things at once; an interrupt waits for none of them."""
    executor = ThreadPoolExecutor(threads)
    try:
        yield executor
    finally:
        executor.shutdown(wait=False, cancel_futures=True)


def untested(among: Sequence[Way], reason: str) -> list[Finding]:
    """Say that no traffic was sent."""
    return [Finding(f"{a.name},{b.name}", "data path", CheckState.ADVICE, f"not tested: {reason}") for a, b in among]


class PathCheck:
    """Tests data paths between hosts.

    Args:
        sessions: of all hosts, by name; agents are started where none runs.
        clock: of the controller.
        catalog_for: counters of a driver by its name.
        traffic: what may be sent.
        keep: leave connections open for the next way; else they are ended after each.
    """

    def __init__(
        self,
        sessions: Mapping[str, HostSession],
        clock: Clock,
        catalog_for: CatalogFor,
        traffic: CheckTraffic,
        *,
        keep: bool = True,
    ) -> None:
        self._sessions = sessions
        self._clock = clock
        self._catalog_for = catalog_for
        self._guard = Guard(traffic.limits)
        self._shared_port = traffic.shared_port
        self._keep = keep
        self._uses: dict[str, tuple[str, ...]] = {}
        self._lock = threading.Lock()

    def findings(self, among: Sequence[Way]) -> list[Finding]:
        """Test ways, those that have no host in common at once; what fails is a finding, never an exception."""
        found: list[Finding] = []
        for chosen in rounds(among):
            with at_once(len(chosen)) as tests, at_once(2 * len(chosen)) as steps:
                found += [each for way in tests.map(partial(self._way, executor=steps), chosen) for each in way]
        return found

    def _way(self, way: Way, executor: Executor) -> list[Finding]:
        a, b = (self._sessions[host.name] for host in way)
        try:
            return list(self._both_ways(a, b, executor))
        except TestbedError as error:
            return [_dead(one, other, _gone(error, one)) for one, other in ((a, b), (b, a))]
        finally:
            if not self._keep:
                a.disconnect()
                b.disconnect()

    def _both_ways(self, a: HostSession, b: HostSession, executor: Executor) -> Iterator[Finding]:
        seen: dict[str, End] = {}
        for sender, receiver in ((a, b), (b, a)):
            names = sender.host.name, receiver.host.name
            proof = self._proof(sender, receiver, executor)
            if isinstance(proof, Finding):
                yield proof
                continue
            if not seen:
                seen = dict(zip(names, look(sender, receiver, executor), strict=True))
            yield _dead(sender, receiver, diagnose(seen[names[0]], seen[names[1]], proof), proof)

    def _proof(self, sender: HostSession, receiver: HostSession, executor: Executor) -> Finding | PathFailure:
        """Return how well traffic passes, that it may not be sent, or how it failed."""
        ends = (("a", sender), ("b", receiver))
        try:
            a, b = (Endpoint(role, each, rdma_port(each.host, each.facts)) for role, each in ends)
        except (HostUnreachable, AgentGone):
            raise
        except TestbedError as error:
            return PathFailure(ProofStage.SET_UP, str(error), getattr(error, "host", sender.host.name))
        if uses := [use for endpoint in (a, b) for use in self._other_uses(endpoint)]:
            return Finding(sender.host.name, _item(sender, receiver), CheckState.ADVICE, f"not tested: {uses[0]}")
        path = DataPath(a, b, executor, self._clock, self._catalog_for, self._guard.watch)
        result = path.proves()
        return _passed(path, result) if isinstance(result, Passed) else result

    def _other_uses(self, endpoint: Endpoint) -> tuple[str, ...]:
        """Return who else uses a port, looked at before the first traffic of ours."""
        if self._shared_port:
            return ()
        name = endpoint.session.host.name
        with self._lock:
            known = self._uses.get(name)
        if known is None:
            catalog = catalog_of([(endpoint.session, endpoint.port)], self._catalog_for, self._clock)
            known = tuple(
                str(use) for use in other_uses(endpoint.session, endpoint.port, catalog, self._clock) if use.forbids
            )
            with self._lock:
                self._uses[name] = known
        return known


def _item(sender: HostSession, receiver: HostSession) -> str:
    return f"data path {sender.host.name} -> {receiver.host.name}"


def _gone(error: TestbedError, session: HostSession) -> PathFault:
    name = getattr(error, "host", session.host.name)
    return PathFault(
        Layer.UNKNOWN, name, f"not tested: {error}", f"here: collie hosts check --hosts FILE   # see {name}"
    )


def _dead(sender: HostSession, receiver: HostSession, cause: PathFault, failure: PathFailure | None = None) -> Finding:
    said = f" ({failure.detail})" if failure and failure.detail not in cause.detail else ""
    detail = f"{cause.layer}: {cause.detail}{said}"
    return Finding(cause.host, _item(sender, receiver), CheckState.MISSING, detail, cause.command)


def _passed(path: DataPath, found: Passed) -> Finding:
    sender, receiver = (endpoint.session for endpoint in path.endpoints)
    item = _item(sender, receiver)
    detail = f"RC WRITE {format_rate(found.rc_bps)}, UD SEND {format_rate(found.ud_bps)}, path MTU {found.mtu}"
    if found.stopped:
        return Finding(sender.host.name, item, CheckState.OK, f"{detail}; stopped early: {found.stopped}")
    if cause := unequal_mtu(*map(_end, path.endpoints)) or _slow(path, found):
        return Finding(cause.host, item, CheckState.ADVICE, f"{detail}; {cause.layer}: {cause.detail}", cause.command)
    return Finding(sender.host.name, item, CheckState.OK, detail)


def _end(endpoint: Endpoint) -> End:
    device = endpoint.session.facts.device(endpoint.port.device)
    port = device.port(endpoint.port.port) if device else None
    return End(endpoint.session.host, port, netdev=endpoint.port.netdev, driver=endpoint.port.driver)


def _slow(path: DataPath, found: Passed) -> PathFault | None:
    line = path.line_rate_bps
    if line == float("inf") or found.rc_bps >= MIN_SHARE * line:
        return None
    receiver = path.endpoints[1].session.host.name
    detail = f"the ports carry {format_rate(line)}"
    return PathFault(
        Layer.THROUGHPUT, receiver, detail, "here: collie hosts fingerprint --hosts FILE   # PCIe, flow control, CPU"
    )
