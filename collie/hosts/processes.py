"""The number of processes that drive the queue pairs of a run on each host. Pure.

One thread can post for about a hundred queue pairs, but it sets up queue pairs one after the other. All hosts of a run
use the same number, because queue pair i of a process connects to queue pair i of its peer process.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable
from math import ceil

from collie.agent.requests import MAX_PROCESSES
from collie.hosts.host_info import HostInfo, RdmaPort
from collie.inventory.hosts import Host
from collie.workloads.workload import Workload

QPS_PER_PROCESS = 64


def processes(
    workload: Workload, hosts: Iterable[tuple[Host, HostInfo, RdmaPort]], *, beside_victim: bool = False
) -> int:
    """Return the number of processes per host, the smallest that any host allows.

    The hosts file can set it. Otherwise there is one for every `QPS_PER_PROCESS` queue pairs, at most one per CPU of
    the NIC's NUMA node. Devices share their node's CPUs, and a victim takes one for its own process. Queue pairs that
    share a receive queue have one process.
    """
    if workload.srq:
        return 1
    hosts = tuple(hosts)
    wanted = ceil(workload.qps / QPS_PER_PROCESS)
    endpoints = Tally((host.machine, port.numa_nodes[:1]) for host, _, port in hosts)
    allowed = (
        host.processes
        or min(wanted, max_processes(host, info, port) // endpoints[host.machine, port.numa_nodes[:1]] - beside_victim)
        for host, info, port in hosts
    )
    return max(1, min(workload.qps, MAX_PROCESSES, *allowed))


def max_processes(host: Host, info: HostInfo, port: RdmaPort) -> int:
    """Return the hosts file's number, else the usable CPUs of the port's NUMA node, else those of the host."""
    if host.processes:
        return host.processes
    return (info.numa_cpus.get(port.numa_nodes[0]) if port.numa_nodes else None) or info.usable_cpus
