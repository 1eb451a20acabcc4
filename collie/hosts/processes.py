"""How many processes drive the queue pairs of a run on each host. Pure.

One thread posts for some hundred queue pairs without falling behind, but sets up a thousand of them one after the
other, and its NUMA node has CPUs to spare. So many queue pairs are shared by several processes, as applications have
them. All hosts of a run have the same number, as queue pair i of one process meets that of the other host's.
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
"""What a process has at most before there is another."""


def processes(workload: Workload, hosts: Iterable[tuple[Host, HostFacts, RdmaPort]]) -> int:
    """Return how many processes each host uses for a workload.

    As many as the hosts file says, or one for every `QPS_PER_PROCESS` queue pairs as long as there is a CPU on the
    NIC's NUMA node for each, shared among the devices at that node that take part; the least of all hosts, and no more
    than an agent takes. One where queue pairs share a receive queue, which no two processes can.
    """
    if workload.srq:
        return 1
    hosts = tuple(hosts)
    wanted = ceil(workload.qps / QPS_PER_PROCESS)
    endpoints = Tally((host.machine, port.numa_nodes[:1]) for host, _, port in hosts)
    allowed = (
        host.processes or min(wanted, most_processes(host, facts, port) // endpoints[host.machine, port.numa_nodes[:1]])
        for host, facts, port in hosts
    )
    return max(1, min(workload.qps, MAX_PROCESSES, *allowed))


def most_processes(host: Host, facts: HostFacts, port: RdmaPort) -> int:
    """Return what the hosts file says, or the CPUs that an agent may use on the node of a port.

    All CPUs of the host where no node is known to be the port's.
    """
    if host.processes:
        return host.processes
    return (facts.numa_cpus.get(port.numa_nodes[0]) if port.numa_nodes else None) or facts.usable_cpus
