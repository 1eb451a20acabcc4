"""Checks hosts for missing requirements, and names the commands that add them. It changes nothing itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from collie.clock import SystemClock
from collie.hosts.catalogs import CatalogFor
from collie.hosts.findings import CheckState, Finding
from collie.hosts.host_check import HostCheck
from collie.hosts.paths import PathCheck, interruptible_pool, paths_to_test, untested
from collie.hosts.session import HOSTS_AT_ONCE, Archive, HostSession
from collie.hosts.timing import DEFAULT_TIMING, HostTiming
from collie.inventory.fingerprint import Fingerprint, difference
from collie.inventory.hosts import Host, Pair
from collie.inventory.safety import REAL_HOSTS, SafetyLimits
from collie.ports import Remote
from collie.workloads.units import format_count

_MAX_SHOWN = 4


def check_hosts(
    hosts: Sequence[Host],
    connect: Callable[[Host], Remote],
    archive: Archive | None = None,
    catalog_for: CatalogFor | None = None,
    pairs: Sequence[Pair] = (),
    limits: SafetyLimits | None = REAL_HOSTS,
    *,
    shared_port: bool = False,
    hosts_at_once: int = HOSTS_AT_ONCE,
    timing: HostTiming = DEFAULT_TIMING,
) -> tuple[Finding, ...]:
    """Check hosts in parallel, then the data paths between those whose agent starts.

    `pairs` are hosts that measure together, or devices of one host that should reach each other. Without `limits` no
    data path is tested, without `catalog_for` no counter. `shared_port` permits traffic on ports in foreign use.

    Returns:
        Findings of hosts, then of data paths, then of pairs. A failure is reported as a finding.
    """
    if not hosts:
        return ()
    archive, clock = archive or Archive.agent(), SystemClock()
    across = {name for pair in pairs for names in pair.shared_hosts.values() for name in names}
    sessions = {host.name: HostSession(host, connect(host), archive, clock, timing) for host in hosts}
    checks = [HostCheck(session, catalog_for, across_ports=name in across) for name, session in sessions.items()]
    keep = len(checks) <= hosts_at_once
    try:
        found = _of_hosts(checks, hosts_at_once, keep=keep)
        paths = paths_to_test([check.host for check in checks if check.answered], pairs)
        if limits is None:
            found += untested(paths, "--no-traffic")
        else:
            known = catalog_for or (lambda _driver: None)
            found += PathCheck(sessions, known, limits, shared_port=shared_port, keep=keep).findings(paths)
    finally:  # so that not even an interrupt waits for a silent host
        with ThreadPoolExecutor(min(len(sessions), hosts_at_once)) as closing:
            list(closing.map(HostSession.close, sessions.values()))
    taken = {check.host.name: check.fingerprint for check in checks if check.fingerprint is not None}
    couples = ((pair.a.name, other.name) for pair in pairs for other in pair.hosts[1:])
    return (*found, *(_alike(a, b, taken) for a, b in couples if {a, b} <= set(taken)))


def _of_hosts(checks: Sequence[HostCheck], hosts_at_once: int, *, keep: bool) -> list[Finding]:

    def look(check: HostCheck) -> list[Finding]:
        try:
            return check.findings()
        finally:
            if not keep:
                check.session.disconnect()

    with interruptible_pool(min(len(checks), hosts_at_once)) as executor:
        return [finding for findings in executor.map(look, checks) for finding in findings]


def _alike(a: str, b: str, taken: Mapping[str, Fingerprint]) -> Finding:
    found = [each for each in difference(taken[a], taken[b]) if each.changes_results]
    names = f"{a},{b}"
    if not found:
        return Finding(names, "alike", CheckState.OK, "nothing that changes results is known to differ")
    displayed = "; ".join(map(str, found[:_MAX_SHOWN])) + ("; ..." if len(found) > _MAX_SHOWN else "")
    detail = f"they differ in {format_count(len(found), 'field')}: {displayed}"
    return Finding(names, "alike", CheckState.ADVICE, detail, f"here: collie hosts diff {a} {b} --hosts FILE")
