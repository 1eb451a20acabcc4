"""Limits of hosts, from their agents' descriptions. Pure."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator, Mapping, Sequence

from collie.agent.memory import USABLE_PART
from collie.hosts.host_info import DeviceInfo, HostInfo, RdmaPort
from collie.inventory.hosts import Host, Pair
from collie.workloads.pruning import Capabilities, Restriction
from collie.workloads.workload import CONTROL_VERBS, Connection, Memory, QpType

_BY_LIMIT: Mapping[str, tuple[str, ...]] = {
    "max_qp": ("qps",),
    "max_qp_wr": ("send_wq_depth", "recv_wq_depth"),
    "max_sge": ("sge_count",),
    "max_mr": ("total_mrs",),
    "max_mr_size": ("mr_bytes",),
    "max_qp_init_rd_atom": ("max_rd_atomic",),
    "max_qp_rd_atom": ("max_dest_rd_atomic",),
}
"""Limits of `ibv_query_device`, and the fields that they bound."""

_RC_UD = (QpType.RC, QpType.UD)
_TRANSPORTS: Mapping[str, tuple[QpType, ...]] = {
    "bnxt_en": _RC_UD,
    "bnxt_re": _RC_UD,
    "efa": (QpType.UD,),
    "erdma": (QpType.RC,),
    "hns3": _RC_UD,
    "hns_roce": _RC_UD,
    "hns_roce_hw_v2": _RC_UD,
    "i40e": _RC_UD,
    "ice": _RC_UD,
    "irdma": _RC_UD,
    "siw": (QpType.RC,),
}
"""Queue pair types of drivers that lack some (create_qp in drivers/infiniband, Linux 6.12). The key is the driver of
the PCI device, which is the network driver for bnxt_re and irdma.
"""


def capabilities(group: Sequence[tuple[Host, HostInfo, RdmaPort]]) -> Capabilities:
    """Return the common capabilities of hosts that measure together."""
    hosts = [host for host, _, _ in group]
    together = f"{len(group)} hosts measure together"
    partners, why = len(group) - 1, together
    if Pair(hosts[0], hosts[1], tuple(hosts[2:])).is_multi_rail:
        partners, why = 1, "the devices are rails of two hosts"
    found = [Restriction(name, why, at_most=partners) for name in ("requesters", "responders")]
    found.append(Restriction("rails", together, at_most=len(group) // 2))
    endpoints = Tally(host.machine for host in hosts)
    for host, info, port in group:
        found += _of_host(host, info, port, endpoints[host.machine])
    return Capabilities(tuple(found))


def _of_host(host: Host, info: HostInfo, port: RdmaPort, endpoints: int) -> Iterator[Restriction]:
    """Yield the limits of one device's host. `endpoints` devices of the host share its memory."""
    where = f"{host.device} of {host.name}"
    path = info.data_path(host.data_path)
    if path is not None and path.name != "native":
        by = f"{host.name} drives traffic by {path.name}, which"
        yield Restriction("offered_bps", f"{by} keeps send queues full", at_most=0)
        for name in CONTROL_VERBS:
            yield Restriction(name, f"{by} makes no control verbs beside the traffic", at_most=0)
    device = info.device(host.device)
    if device is not None:
        yield from _of_device(where, device, port)
    if info.memory_available_bytes is not None:
        most = int(USABLE_PART * info.memory_available_bytes / endpoints)
        shared = f", for each of {endpoints} devices of it" if endpoints > 1 else ""
        reason = f"{USABLE_PART:.0%} of what is available on {host.machine}{shared}"
        yield Restriction("pinned_bytes", reason, at_most=most)
    for name in ("numa_node", "peer_numa_node"):
        nodes = max(1, len(port.numa_nodes))
        known = f"{host.name} has {nodes} NUMA node{'s' * (nodes > 1)}"
        yield Restriction(name, known if port.numa_nodes else f"{where} reports no NUMA node", at_most=nodes - 1)
    if info.rdma_cm_error is not None:
        reason = f"{host.name} has no RDMA-CM: {info.rdma_cm_error}"
        yield Restriction("connection", reason, only=(Connection.OUT_OF_BAND.value,))
    for name in ("memory", "peer_memory"):
        yield Restriction(name, "the agent has no GPU memory", only=(Memory.DRAM.value,))


def _of_device(where: str, device: DeviceInfo, port: RdmaPort) -> Iterator[Restriction]:
    for limit, names in _BY_LIMIT.items():
        most = (device.limits or {}).get(limit)
        for name in names if most else ():
            yield Restriction(name, f"{limit} of {where} is {most}", at_most=most)
    port_info = device.port(port.port)
    if port_info is not None and (mtu := port_info.active_mtu) is not None:
        yield Restriction("mtu", f"the active MTU of {where} is {mtu}", at_most=mtu)
    if port.driver in _TRANSPORTS:
        kinds = tuple(kind.value for kind in _TRANSPORTS[port.driver])
        has = f"driver {port.driver} of {where} has {' and '.join(kinds)} alone"
        yield Restriction("qp_type", has, only=kinds)
        if QpType.RC.value not in kinds:
            yield Restriction("qp_errors_per_second", f"{has}, and only RC queue pairs are broken", at_most=0)
