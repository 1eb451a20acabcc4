"""Tests of the data paths along a ring of hosts and in every pair, in both directions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import pairwise

from collie.campaign.safety import Guard
from collie.errors import HostUnreachable, TestbedError
from collie.hosts.catalogs import CatalogFor, catalog_of
from collie.hosts.data_path import DataPath, Passed
from collie.hosts.diagnosis import Layer, PathFailure, PathFault, ProofStage, diagnose, unequal_mtu
from collie.hosts.endpoint import Endpoint
from collie.hosts.findings import CheckState, Finding
from collie.hosts.host_info import rdma_port
from collie.hosts.idle import foreign_uses
from collie.hosts.protocol import AgentGone
from collie.hosts.session import HOSTS_AT_ONCE, HostSession
from collie.hosts.wire import PathEnd, observe_ends
from collie.inventory.hosts import Host, Pair, disjoint
from collie.inventory.safety import SafetyLimits
from collie.workloads.units import format_rate

_MIN_SHARE = 0.1
"""Share of the line rate that must pass. On a healthy NIC one queue pair gets most of the rate."""

HostPath = tuple[Host, Host]


def paths_to_test(hosts: Sequence[Host], pairs: Sequence[Pair]) -> tuple[HostPath, ...]:
    """Return the paths between neighbours in a ring, and those of each pair.

    The first devices of all hosts form one ring, their second devices another, usually in separate networks.
    """
    by_machine: dict[str, list[Host]] = {}
    for host in hosts:
        by_machine.setdefault(host.machine, []).append(host)
    known = {host.name: host for host in hosts}
    found: dict[frozenset[str], HostPath] = {}
    for rank in range(max(map(len, by_machine.values()), default=0)):
        rail = [own[rank] for own in by_machine.values() if rank < len(own)]
        for path in pairwise([*rail, rail[0]]):
            found.setdefault(frozenset(host.name for host in path), path)
    for pair in pairs:
        for other in pair.hosts[1:]:
            found.setdefault(frozenset((pair.a.name, other.name)), (pair.a, other))
    return tuple(path for names, path in found.items() if len(names) == 2 and names <= known.keys())


def parallel_groups(paths: Sequence[HostPath]) -> list[tuple[HostPath, ...]]:
    """Return groups of paths. The paths of a group have no common host."""
    return disjoint(paths, lambda path: [host.name for host in path], HOSTS_AT_ONCE)


@contextmanager
def interruptible_pool(threads: int) -> Iterator[Executor]:
    """Yield a pool of threads. An interrupt does not wait for its steps."""
    executor = ThreadPoolExecutor(threads)
    try:
        yield executor
    finally:
        executor.shutdown(wait=False, cancel_futures=True)


def untested(paths: Sequence[HostPath], reason: str) -> list[Finding]:
    """Report that no traffic was sent."""
    return [Finding(f"{a.name},{b.name}", "data path", CheckState.ADVICE, f"not tested: {reason}") for a, b in paths]


class PathCheck:
    """Tests data paths between hosts. With `shared_port` it also uses ports in foreign use.

    With `keep`, connections stay open for the next path.
    """

    def __init__(
        self,
        sessions: Mapping[str, HostSession],
        catalog_for: CatalogFor,
        limits: SafetyLimits,
        *,
        shared_port: bool = False,
        keep: bool = True,
    ) -> None:
        self._sessions = sessions
        self._catalog_for = catalog_for
        self._guard = Guard(limits)
        self._shared_port = shared_port
        self._keep = keep
        self._uses: dict[str, tuple[str, ...]] = {}

    def findings(self, paths: Sequence[HostPath]) -> list[Finding]:
        """Test paths, in parallel where they share no host. A failure is reported as a finding."""
        found: list[Finding] = []
        for chosen in parallel_groups(paths):
            with interruptible_pool(len(chosen)) as tests, interruptible_pool(2 * len(chosen)) as steps:
                found += [each for path in tests.map(partial(self._test, executor=steps), chosen) for each in path]
        return found

    def _test(self, path: HostPath, executor: Executor) -> list[Finding]:
        a, b = (self._sessions[host.name] for host in path)
        try:
            return list(self._both_directions(a, b, executor))
        except TestbedError as error:
            return [_dead(one, other, _untestable(error, one)) for one, other in ((a, b), (b, a))]
        finally:
            if not self._keep:
                a.disconnect()
                b.disconnect()

    def _both_directions(self, a: HostSession, b: HostSession, executor: Executor) -> Iterator[Finding]:
        ends: dict[str, PathEnd] = {}
        for sender, receiver in ((a, b), (b, a)):
            names = sender.host.name, receiver.host.name
            proof = self._proof(sender, receiver, executor)
            if isinstance(proof, Finding):
                yield proof
                continue
            if not ends:
                ends = dict(zip(names, observe_ends(sender, receiver, executor), strict=True))
            yield _dead(sender, receiver, diagnose(ends[names[0]], ends[names[1]], proof), proof)

    def _proof(self, sender: HostSession, receiver: HostSession, executor: Executor) -> Finding | PathFailure:
        """Return a finding, or the failure to diagnose."""
        ends = (("a", sender), ("b", receiver))
        try:
            a, b = (Endpoint(role, each, rdma_port(each.host, each.info)) for role, each in ends)
        except (HostUnreachable, AgentGone):
            raise
        except TestbedError as error:
            return PathFailure(ProofStage.SET_UP, str(error), getattr(error, "host", sender.host.name))
        if uses := [use for endpoint in (a, b) for use in self._foreign_uses(endpoint)]:
            return Finding(sender.host.name, _item(sender, receiver), CheckState.ADVICE, f"not tested: {uses[0]}")
        path = DataPath(a, b, executor, self._catalog_for, self._guard.watch)
        result = path.prove()
        return _passed(path, result) if isinstance(result, Passed) else result

    def _foreign_uses(self, endpoint: Endpoint) -> tuple[str, ...]:
        if self._shared_port:
            return ()
        name, where = endpoint.host.name, (endpoint.session, endpoint.port)
        if name not in self._uses:
            catalog = catalog_of([where], self._catalog_for)
            uses = foreign_uses(*where, catalog)
            self._uses[name] = tuple(str(use) for use in uses if use.forbids)
        return self._uses[name]


def _item(sender: HostSession, receiver: HostSession) -> str:
    return f"data path {sender.host.name} -> {receiver.host.name}"


def _untestable(error: TestbedError, session: HostSession) -> PathFault:
    name = getattr(error, "host", session.host.name)
    return PathFault(
        Layer.UNKNOWN, name, f"not tested: {error}", f"here: collie hosts check --hosts FILE   # see {name}"
    )


def _dead(sender: HostSession, receiver: HostSession, cause: PathFault, failure: PathFailure | None = None) -> Finding:
    symptom = f" ({failure.detail})" if failure and failure.detail not in cause.detail else ""
    detail = f"{cause.layer}: {cause.detail}{symptom}"
    return Finding(cause.host, _item(sender, receiver), CheckState.MISSING, detail, cause.command)


def _passed(path: DataPath, found: Passed) -> Finding:
    item, sender = str(path), path.endpoints[0].host.name
    detail = f"RC WRITE {format_rate(found.rc_bps)}, UD SEND {format_rate(found.ud_bps)}, path MTU {found.mtu}"
    if found.stopped:
        return Finding(sender, item, CheckState.OK, f"{detail}; stopped early: {found.stopped}")
    if cause := unequal_mtu(*map(_end, path.endpoints)) or _slow(path, found):
        return Finding(cause.host, item, CheckState.ADVICE, f"{detail}; {cause.layer}: {cause.detail}", cause.command)
    return Finding(sender, item, CheckState.OK, detail)


def _end(endpoint: Endpoint) -> PathEnd:
    rdma = endpoint.port
    port = endpoint.session.info.port(rdma.device, rdma.port)
    return PathEnd(endpoint.host, port, netdev=rdma.netdev, driver=rdma.driver)


def _slow(path: DataPath, found: Passed) -> PathFault | None:
    line = path.line_rate_bps
    if math.isinf(line) or found.rc_bps >= _MIN_SHARE * line:
        return None
    command = "here: collie hosts fingerprint --hosts FILE   # PCIe, flow control, CPU"
    return PathFault(Layer.THROUGHPUT, path.endpoints[1].host.name, f"the ports carry {format_rate(line)}", command)
