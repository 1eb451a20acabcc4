"""Fingerprints of real hosts, taken by their agents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from collie.clock import SystemClock
from collie.hosts.endpoint import in_parallel
from collie.hosts.host_info import rdma_port
from collie.hosts.processes import max_processes
from collie.hosts.session import HOSTS_AT_ONCE, Archive, HostSession
from collie.inventory.fingerprint import Fingerprint
from collie.inventory.hosts import Host
from collie.ports import Remote

TAKING_SECONDS = 20.0
"""Deadline. A fingerprint reads hundreds of small files, some from a NIC's firmware."""


def fingerprint(session: HostSession) -> Fingerprint:
    """Take the fingerprint of a host and of its inventory entry's port."""
    session.client()
    host = session.host
    answer = session.request("fingerprint", TAKING_SECONDS, device=host.device, port=host.ib_port)["fingerprint"]
    chosen = session.info.data_path(host.data_path)
    generator = {
        "data_path": chosen.name if chosen else None,
        "most_processes": max_processes(host, session.info, rdma_port(host, session.info)),
    }
    return Fingerprint({**answer, "generator": generator})


def fingerprints(
    hosts: Sequence[Host], connect: Callable[[Host], Remote], archive: Archive | None = None
) -> dict[str, Fingerprint]:
    """Take the fingerprints of hosts in parallel, without traffic. Raises `TestbedError`."""
    archive, clock = archive or Archive.agent(), SystemClock()
    sessions = [HostSession(host, connect(host), archive, clock) for host in hosts]

    def take(session: HostSession) -> Fingerprint:
        try:
            rdma_port(session.host, session.info)
            return fingerprint(session)
        finally:
            session.close()

    with ThreadPoolExecutor(max(1, min(len(hosts), HOSTS_AT_ONCE))) as executor:
        try:
            return in_parallel(executor, {session.host.name: partial(take, session) for session in sessions})
        except BaseException:  # an interrupt does not wait for a silent host
            for session in sessions:
                session.close()
            raise
