"""The number of processes that drive the queue pairs of a run on each host. Pure.

One thread can post for about a hundred queue pairs, but sets up a thousand one after the other while its NUMA node has
idle CPUs. So several processes share many queue pairs, as in applications. All hosts of a run use the same number, as
queue pair i of a process connects to queue pair i of its peer.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable
from math import ceil

from collie.agent.requests import MAX_PROCESSES
from collie.hosts.facts import HostFacts, RdmaPort
from collie.inventory.hosts import Host
from collie.workloads.workload import Workload

QPS_PER_PROCESS = 64
"""Queue pairs per process before another is used."""


def processes(workload: Workload, hosts: Iterable[tuple[Host, HostFacts, RdmaPort]]) -> int:
    """Return the number of processes per host for a workload.

    The hosts file decides, otherwise one for every `QPS_PER_PROCESS` queue pairs, limited by the CPUs of the NIC's NUMA
    node, which the devices there share. The minimum of all hosts counts, at most the agent's limit. One where queue
    pairs share a receive queue.
    """
    if workload.srq:
        return 1
    hosts = tuple(hosts)
    wanted = ceil(workload.qps / QPS_PER_PROCESS)
    endpoints = Tally((host.machine, port.numa_nodes[:1]) for host, _, port in hosts)
    allowed = (
        host.processes or min(wanted, max_processes(host, facts, port) // endpoints[host.machine, port.numa_nodes[:1]])
        for host, facts, port in hosts
    )
    return max(1, min(workload.qps, MAX_PROCESSES, *allowed))


def max_processes(host: Host, facts: HostFacts, port: RdmaPort) -> int:
    """Return the hosts file's number, or the agent's CPUs on the port's NUMA node, or on the host."""
    if host.processes:
        return host.processes
    return (facts.numa_cpus.get(port.numa_nodes[0]) if port.numa_nodes else None) or facts.usable_cpus
