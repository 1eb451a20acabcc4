"""The cause of a dead data path, from observations of both ends. Pure.

A failure shows far from its cause. Without an answer to ARP, a queue pair times out on its way to RTR. Behind a filter
it connects, and its work requests fail. So the cause is the first broken layer from the bottom (`_LAYERS`). If a host
reports an error of its own, no packet was lost. That error is the cause, unless link or GID explain it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain

from collie.hosts.host_info import ROCE_TYPES, Gid
from collie.hosts.wire import PathEnd

_FRAMES = {4096: 4200, 2048: 2200, 1024: 1500, 512: 700, 256: 400}
"""MTU that a network device needs at least, by RoCE path MTU. It includes the headers."""
_UNRESOLVED = frozenset({"NONE", "FAILED", "INCOMPLETE"})


class Layer(StrEnum):
    """Layers of a data path, from the bottom up."""

    LINK = "link"
    GID = "GID"
    ADDRESS = "address resolution"
    ROUTE = "IP route"
    MTU = "MTU"
    FIREWALL = "UDP 4791"
    FABRIC = "fabric"
    QUEUE_PAIR = "queue pair"
    DATAGRAM = "UD"
    THROUGHPUT = "throughput"
    UNKNOWN = "unknown cause"


@dataclass(frozen=True, slots=True)
class PathFault:
    """The cause of a broken data path. The repair runs on `host` unless its text names another place."""

    layer: Layer
    host: str
    detail: str
    command: str

    def __str__(self) -> str:
        return f"{self.layer}: {self.detail}; repair on {self.host}: {self.command}"


class ProofStage(StrEnum):
    """Stages of the test of a data path."""

    SET_UP = "set-up"
    TRICKLE = "small messages"
    FULL = "full packets"
    DATAGRAM = "UD"


@dataclass(frozen=True, slots=True)
class PathFailure:
    """Traffic that did not pass at a stage. `refused_by` is a host that reported its own error."""

    stage: ProofStage
    detail: str
    refused_by: str | None = None


def diagnose(sender: PathEnd, receiver: PathEnd, failure: PathFailure) -> PathFault:
    """Return the fault of the lowest broken layer."""
    ends = ((sender, receiver), (receiver, sender))
    faults = (layer(own, other) for layer in _checks(sender, failure) for own, other in ends)
    if fault := next(chain.from_iterable(faults), None):
        return fault
    if failure.refused_by is not None:
        return _refused(receiver if failure.refused_by == receiver.name else sender, failure)
    if failure.stage in (ProofStage.FULL, ProofStage.DATAGRAM):
        return _by_stage(sender, receiver, failure)
    return _last(sender, receiver, failure)


def unequal_mtu(sender: PathEnd, receiver: PathEnd) -> PathFault | None:
    """Return the fault of the end with the smaller active MTU, if any."""
    return next(chain(_smaller_mtu(sender, receiver), _smaller_mtu(receiver, sender)), None)


def _link(own: PathEnd, _other: PathEnd) -> Iterator[PathFault]:
    name, netdev = own.name, own.netdev or "NETDEV"
    if own.link is not None and "UP" not in own.link.flags:
        yield PathFault(Layer.LINK, name, f"{netdev} of {name} is down", f"ip link set {netdev} up")
    if own.link is not None and "LOWER_UP" not in own.link.flags:
        detail = f"{netdev} of {name} has no carrier: its cable, or the port of the switch"
        yield PathFault(Layer.LINK, name, detail, f"{_restart(netdev)}; ethtool {netdev}")
    if own.port is not None and own.port.state not in (None, "ACTIVE"):
        detail = f"port {own.port.number} of {own.host.device} of {name} is {own.port.state}, not ACTIVE"
        yield PathFault(Layer.LINK, name, detail, f"ip link set {netdev} up")


def _restart(netdev: str | None) -> str:
    return f"ip link set {netdev} down; ip link set {netdev} up"


def _gid(own: PathEnd, other: PathEnd) -> Iterator[PathFault]:
    name, matching = own.name, own.matching
    if own.port is None or own.is_infiniband:
        return
    right = f"in the hosts file, {name}: gid_index: {matching.index if matching else 'INDEX'}"
    if own.gid is None and own.host.gid_index is not None:
        yield PathFault(Layer.GID, name, f"{name} has no GID at index {own.host.gid_index}", right)
    elif own.gid is None:
        detail = f"{own.host.device} of {name} has no GID for data_address {own.host.data_address}"
        command = f"ip address add {own.host.data_address}/24 dev {own.netdev or 'NETDEV'}"
        yield PathFault(Layer.GID, name, detail, command)
    elif matching is not None and matching.index != own.gid.index:
        detail = (
            f"{name} uses GID index {own.gid.index} ({_described(own.gid)}), as the hosts file says; that of "
            f"data_address {own.host.data_address} is {matching.index} ({_described(matching)})"
        )
        yield PathFault(Layer.GID, name, detail, right)
    elif other.gid is not None and other.gid.type != own.gid.type != ROCE_TYPES[0]:
        alike = (gid for gid in own.port.gids if (gid.type, gid.address) == (other.gid.type, own.gid.address))
        better = next((gid.index for gid in alike), "INDEX")
        detail = f"{name} uses a GID of type {own.gid.type}, {other.name} one of type {other.gid.type}"
        yield PathFault(Layer.GID, name, detail, f"in the hosts file, {name}: gid_index: {better}")


def _described(gid: Gid) -> str:
    return f"{gid.address}, {gid.type}"


def _resolution_off(own: PathEnd, _other: PathEnd) -> Iterator[PathFault]:
    if own.link is not None and "NOARP" in own.link.flags:
        detail = f"{own.netdev} of {own.name} has ARP switched off"
        yield PathFault(Layer.ADDRESS, own.name, detail, f"ip link set {own.netdev} arp on")


def _hung(own: PathEnd, other: PathEnd) -> Iterator[PathFault]:
    if own.hung_queues and other.is_silent:
        detail = f"the kernel of {own.name} found a transmit queue of {own.netdev} hung, {own.hung_queues} times"
        yield PathFault(Layer.LINK, own.name, detail, _restart(own.netdev))


def _address(own: PathEnd, other: PathEnd) -> Iterator[PathFault]:
    known, name, address = own.neighbour, own.name, other.address
    if known is None or own.ping is None or own.ping.passed:
        return
    if known.state in _UNRESOLVED:
        for end in (other, own):
            yield from _dropped(end, Layer.ADDRESS, "ARP", "everything")
    if other.is_silent:
        detail = f"nothing that {name} sends arrives at {other.netdev} of {other.name}: cable, switch, or VLAN"
        yield PathFault(Layer.LINK, name, detail, _restart(own.netdev))
    mac = other.link.mac if other.link else None
    command = f"ip neigh replace {address} lladdr {mac or 'MAC'} dev {own.netdev}"
    if known.state in _UNRESOLVED:
        detail = f"{other.name} does not answer {name}, which asks for the hardware address of {address}"
        yield PathFault(Layer.ADDRESS, name, detail, command)
    elif known.state == "PERMANENT" and mac is not None and known.mac != mac:
        detail = f"{name} has {known.mac} for {address}, which is at {mac}"
        yield PathFault(Layer.ADDRESS, name, detail, command)


def _route(own: PathEnd, other: PathEnd) -> Iterator[PathFault]:
    if own.routed is False and own.link is not None:
        bits = 128 if ":" in other.address else 32
        detail = f"{own.name} has no route to {other.address} through {own.netdev}"
        yield PathFault(Layer.ROUTE, own.name, detail, f"ip route add {other.address}/{bits} dev {own.netdev}")


def _in_kernel(layer: Layer, what: str, *, surely: bool = True) -> _Check:
    """Return a check that finds what makes the kernel drop packets of a software device."""
    return lambda own, _other: iter(_dropped(own, layer, what, surely=surely) if own.is_software else ())


def _mtu(own: PathEnd, other: PathEnd) -> Iterator[PathFault]:
    if own.full_ping is None or own.full_ping.passed or own.port is None:
        return
    yield from _smaller_mtu(own, other)
    yield from _smaller_mtu(other, own)
    frame = own.full_ping.limit
    where = f"takes no more than {frame} bytes" if frame else f"loses packets of a path MTU of {own.port.active_mtu}"
    detail = f"the way from {own.name} to {other.name} {where}: the switch between them"
    command = f"ip link set {own.netdev} mtu {frame or 1500}; on the switch: allow larger frames instead"
    yield PathFault(Layer.MTU, own.name, detail, command)


def _smaller_mtu(own: PathEnd, other: PathEnd) -> Iterator[PathFault]:
    mtu, wanted = own.active_mtu, other.active_mtu
    if mtu is not None and wanted is not None and mtu < wanted:
        frame = other.link.mtu if other.link and other.link.mtu else _FRAMES.get(wanted, wanted + 104)
        detail = f"{own.netdev} of {own.name} is set for a path MTU of {mtu}, that of {other.name} for one of {wanted}"
        yield PathFault(Layer.MTU, own.name, detail, f"ip link set {own.netdev} mtu {frame}")


_Check = Callable[[PathEnd, PathEnd], Iterator[PathFault]]
_LAYERS: tuple[_Check, ...] = (
    _link,
    _gid,
    _resolution_off,
    _in_kernel(Layer.LINK, "everything"),
    _hung,
    _address,
    _route,
    _in_kernel(Layer.FIREWALL, "UDP 4791"),
    _mtu,
    _in_kernel(Layer.FIREWALL, "UDP 4791", surely=False),  # a default-drop firewall without a rule about RoCE
)


def _checks(sender: PathEnd, failure: PathFailure) -> tuple[_Check, ...]:
    if failure.refused_by is not None:
        return _link, _gid
    if failure.stage in (ProofStage.FULL, ProofStage.DATAGRAM):
        return () if sender.is_infiniband else (_mtu,)
    return (_link,) if sender.is_infiniband else _LAYERS


def _dropped(own: PathEnd, layer: Layer, *what: str, surely: bool = True) -> Iterator[PathFault]:
    for rule in own.rules or ():
        if rule.drops in what and rule.surely is surely:
            yield PathFault(layer, own.name, f"on {own.name}, {rule.text}", rule.undo)


def _by_stage(sender: PathEnd, receiver: PathEnd, failure: PathFailure) -> PathFault:
    statistics = f"rdma statistic show link {receiver.host.device}/{receiver.host.ib_port}"
    if failure.stage is ProofStage.DATAGRAM:
        detail = f"RC passes from {sender.name} to {receiver.name}, and UD does not: {failure.detail}"
        return PathFault(Layer.DATAGRAM, receiver.name, detail, statistics)
    packets = f"packets of {sender.active_mtu or 'the path MTU'}"
    detail = f"small messages pass from {sender.name} to {receiver.name}, and {packets} do not"
    pings_pass = all(end.full_ping is not None and end.full_ping.passed for end in (sender, receiver))
    if pings_pass or sender.is_infiniband:
        though = ", though pings as large do" if pings_pass else ""
        return PathFault(Layer.UNKNOWN, receiver.name, f"{detail}{though}: {failure.detail}", statistics)
    command = f"ip link set {sender.netdev or 'NETDEV'} mtu 1500"
    return PathFault(Layer.MTU, sender.name, f"{detail}: {failure.detail}", command)


def _refused(own: PathEnd, failure: PathFailure) -> PathFault:
    command = f"rdma link show {own.host.device}/{own.host.ib_port}; dmesg | tail -n 20"
    return PathFault(Layer.QUEUE_PAIR, own.name, failure.detail, command)


def _last(sender: PathEnd, receiver: PathEnd, failure: PathFailure) -> PathFault:
    answered = [end.ping.passed for end in (sender, receiver) if end.ping is not None]
    if not sender.is_infiniband and (not answered or None in (sender.link, receiver.link)):
        lacking = sender if sender.ping is None or sender.link is None else receiver
        detail = f"{failure.detail}. Its cause is unknown, as `ip` or `ping` cannot be used"
        return PathFault(Layer.UNKNOWN, lacking.name, detail, "apt-get install iproute2 iputils-ping")
    if failure.stage is ProofStage.SET_UP:
        return _refused(sender, failure)
    if sender.is_infiniband:
        return _subnet(sender, receiver, failure)
    answers = "pings pass" if all(answered) else "the address is resolved"
    detail = f"{answers} between {sender.name} and {receiver.name}, and RDMA does not"
    return _filter(sender, receiver, detail, failure) if receiver.is_software else _switch(receiver, detail, failure)


def _subnet(sender: PathEnd, receiver: PathEnd, failure: PathFailure) -> PathFault:
    device, port = receiver.host.device, receiver.host.ib_port
    detail = (
        f"the ports of {sender.name} and {receiver.name} are ACTIVE, and nothing passes between them: their "
        f"partition keys, or the routes of the subnet manager: {failure.detail}"
    )
    command = f"ibstat {device} {port}; grep -v 0x0000 /sys/class/infiniband/{device}/ports/{port}/pkeys/*"
    return PathFault(Layer.FABRIC, receiver.name, detail, command)


def _switch(receiver: PathEnd, detail: str, failure: PathFailure) -> PathFault:
    netdev = receiver.netdev or "NETDEV"
    command = f"ip -d link show {netdev}; dcb pfc show dev {netdev}; ethtool -S {netdev} | grep -E 'discard|drop|pause'"
    detail = f"{detail}: VLAN, PFC, or an ACL of the switch between them: {failure.detail}"
    return PathFault(Layer.FABRIC, receiver.name, detail, command)


def _filter(sender: PathEnd, receiver: PathEnd, detail: str, failure: PathFailure) -> PathFault:
    ends = (sender, receiver)
    hints = [cause.detail for end in ends for cause in _dropped(end, Layer.LINK, "everything", surely=False)]
    if receiver.rules is None:
        hints.append("the rules of its firewall could not be read")
    detail = "; ".join([f"{detail}: a filter of UDP 4791 on {receiver.name} or between them", *hints])
    command = "iptables -I INPUT -p udp --dport 4791 -j ACCEPT"
    return PathFault(Layer.FIREWALL, receiver.name, f"{detail}: {failure.detail}", command)
