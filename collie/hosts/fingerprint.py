"""Fingerprints of real hosts, taken by their agents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from collie.errors import TestbedError
from collie.hosts.host_info import rdma_port
from collie.hosts.processes import max_processes
from collie.hosts.session import HOSTS_AT_ONCE, Archive, HostSession
from collie.inventory.fingerprint import Fingerprint
from collie.inventory.hosts import Host
from collie.ports import Clock, Remote

TAKING_SECONDS = 20.0
"""For hundreds of small files, some from a NIC's firmware."""


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
    hosts: Sequence[Host], connect: Callable[[Host], Remote], clock: Clock, archive: Archive | None = None
) -> dict[str, Fingerprint]:
    """Take the fingerprints of hosts in parallel, without traffic. Raises `TestbedError`."""
    program = archive or Archive.agent()
    sessions = [HostSession(host, connect(host), program, clock) for host in hosts]

    def take(session: HostSession) -> Fingerprint:
        try:
            rdma_port(session.host, session.info)
            return fingerprint(session)
        finally:
            session.close()

    with ThreadPoolExecutor(max(1, min(len(hosts), HOSTS_AT_ONCE))) as executor:
        try:
            futures = {session.host.name: executor.submit(take, session) for session in sessions}
            failures = [error for future in futures.values() if isinstance(error := future.exception(), TestbedError)]
        except BaseException:  # an interrupt waits for no silent host
            for session in sessions:
                session.close()
            raise
        if failures:
            raise failures[0]
        return {name: future.result() for name, future in futures.items()}
