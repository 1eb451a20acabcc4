"""What is missing before hosts can measure, and the command that mends it. Changes nothing by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from collie.clock import SystemClock
from collie.hosts.catalogs import CatalogFor
from collie.hosts.findings import CheckState, Finding
from collie.hosts.host_check import HostCheck
from collie.hosts.paths import CheckTraffic, PathCheck, at_once, untested, ways
from collie.hosts.session import HOSTS_AT_ONCE, Archive, HostSession
from collie.inventory.fingerprint import Fingerprint, difference
from collie.inventory.hosts import Host, Pair
from collie.ports import Clock, Remote
from collie.workloads.units import format_count

_MAX_SHOWN = 4
TRAFFIC = CheckTraffic()


def check_hosts(
    hosts: Sequence[Host],
    connect: Callable[[Host], Remote],
    archive: Archive | None = None,
    clock: Clock | None = None,
    catalog_for: CatalogFor | None = None,
    pairs: Sequence[Pair] = (),
    traffic: CheckTraffic | None = TRAFFIC,
) -> tuple[Finding, ...]:
    """Look at every host, many at once, and then at the data paths between those on which an agent starts.

    Args:
        hosts: inventory entries.
        connect: makes the remote of a host.
        archive: program to run as the agent; Collie's own by default.
        clock: of the controller.
        catalog_for: counters of a driver by its name; without it nobody looks at counters.
        pairs: that measure together, and should be alike; of two devices of one host, that one reaches the other.
        traffic: what may be sent to test data paths; None to send nothing.

    Returns:
        All findings, in the order of the hosts, then of the data paths, then of the pairs. What fails is a finding,
        never an exception.
    """
    if not hosts:
        return ()
    archive, clock = archive or Archive.agent(), clock or SystemClock()
    across = {name for pair in pairs for names in pair.shared_hosts.values() for name in names}
    checks = [
        HostCheck(host, connect(host), archive, clock, catalog_for, across_ports=host.name in across) for host in hosts
    ]
    sessions = {check.host.name: check.session for check in checks}
    keep = len(checks) <= HOSTS_AT_ONCE
    try:
        found = _of_hosts(checks, keep=keep)
        among = ways([check.host for check in checks if check.answered], pairs)
        if traffic is None:
            found += untested(among, "--no-traffic")
        else:
            known = catalog_for or _nobody_knows
            found += PathCheck(sessions, clock, known, traffic, keep=keep).findings(among)
    finally:  # an interrupt, too, waits for no host that does not answer
        with ThreadPoolExecutor(min(len(sessions), HOSTS_AT_ONCE)) as closing:
            list(closing.map(HostSession.close, sessions.values()))
    taken = {check.host.name: check.fingerprint for check in checks if check.fingerprint is not None}
    couples = ((pair.a.name, other.name) for pair in pairs for other in pair.hosts[1:])
    return (*found, *(_alike(a, b, taken) for a, b in couples if {a, b} <= set(taken)))


def _of_hosts(checks: Sequence[HostCheck], *, keep: bool) -> list[Finding]:
    """Look at each host, with its connection left open or ended."""

    def look(check: HostCheck) -> list[Finding]:
        try:
            return check.findings()
        finally:
            if not keep:
                check.session.disconnect()

    with at_once(min(len(checks), HOSTS_AT_ONCE)) as executor:
        return [finding for findings in executor.map(look, checks) for finding in findings]


def _nobody_knows(_driver: str) -> None:
    """Describe no driver."""


def _alike(a: str, b: str, taken: Mapping[str, Fingerprint]) -> Finding:
    """Say whether two hosts that measure together are alike: else either may be what an anomaly comes from."""
    found = [each for each in difference(taken[a], taken[b]) if each.changes_results]
    names = f"{a},{b}"
    if not found:
        return Finding(names, "alike", CheckState.OK, "nothing that changes results is known to differ")
    displayed = "; ".join(map(str, found[:_MAX_SHOWN])) + ("; ..." if len(found) > _MAX_SHOWN else "")
    detail = f"they differ in {format_count(len(found), 'field')}: {displayed}"
    return Finding(names, "alike", CheckState.ADVICE, detail, f"here: collie hosts diff {a} {b} --hosts FILE")
