"""The workloads that the simulator supports."""

from __future__ import annotations

from typing import Final

from collie.simulator.hardware import Subsystem
from collie.workloads.plan import hosts
from collie.workloads.pruning import Capabilities, Restriction
from collie.workloads.workload import Connection, Memory, Opcode, QpType, Workload

MODELLED_QP_TYPES: Final = (QpType.RC, QpType.UC, QpType.UD)


def unsupported_reason(subsystem: Subsystem, workload: Workload) -> str | None:
    """Return why the subsystem or its model cannot run a workload, or None if it can."""
    if (roles := len(hosts(workload))) > 2:
        return f"the simulator has two hosts, not {roles}"
    if not workload.remote:
        return "the simulator does not model loopback without traffic between hosts"
    if not subsystem.host.gpu and Memory.GPU in (workload.memory, workload.peer_memory):
        return f"subsystem {subsystem.name} has no GPU"
    node = max(workload.numa_node, workload.peer_numa_node)
    if node >= subsystem.host.sockets:
        return f"subsystem {subsystem.name} has no NUMA node {node}; it has {subsystem.host.sockets}"
    if workload.qp_type not in MODELLED_QP_TYPES:
        return f"subsystem {subsystem.name} has no {workload.qp_type}; it has {', '.join(MODELLED_QP_TYPES)}"
    if workload.connection is not Connection.OUT_OF_BAND:
        return f"the model of subsystem {subsystem.name} knows no RDMA-CM; its queue pairs are connected out of band"
    if workload.huge_pages:
        page = subsystem.translation_cache.page_bytes
        return f"the model of subsystem {subsystem.name} knows pages of {page} bytes, no others"
    if workload.opcode.is_atomic:
        return f"the model of subsystem {subsystem.name} knows no atomics ({workload.opcode})"
    if workload.more_opcodes:
        return f"the model of subsystem {subsystem.name} knows one opcode at a time, not {', '.join(workload.opcodes)}"
    return None


def capabilities(subsystem: Subsystem) -> Capabilities:
    """Return the limits of `unsupported_reason` by dimension."""
    name, sockets = subsystem.name, subsystem.host.sockets
    found = [
        *(Restriction(end, "the simulator has two hosts", at_most=1) for end in ("requesters", "responders", "rails")),
        Restriction("remote", "the simulator does not model loopback alone", only=(True,)),
        Restriction("qp_type", "the simulator models no other", only=tuple(kind.value for kind in MODELLED_QP_TYPES)),
        Restriction(
            "opcode",
            "the simulator models no atomics",
            only=tuple(opcode.value for opcode in Opcode if not opcode.is_atomic),
        ),
        Restriction("connection", "the simulator models no RDMA-CM", only=(Connection.OUT_OF_BAND.value,)),
        Restriction("more_opcodes", "the simulator models one opcode at a time", only=()),
    ]
    nodes = f"subsystem {name} has {sockets} NUMA node{'s' * (sockets > 1)}"
    found += [Restriction(node, nodes, at_most=sockets - 1) for node in ("numa_node", "peer_numa_node")]
    if not subsystem.host.gpu:
        only = (Memory.DRAM.value,)
        found += [Restriction(end, f"subsystem {name} has no GPU", only=only) for end in ("memory", "peer_memory")]
    return Capabilities(tuple(found))
