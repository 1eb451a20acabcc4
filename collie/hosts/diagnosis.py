"""Why a data path carries nothing: from both ends' observations to a layer, a host, and a repair command. Pure.

A failure shows far from its cause. Without an answer to ARP, a queue pair times out on its way to RTR. Behind a filter
it connects, and its work requests fail. So layers are examined from the bottom (`_LAYERS`), and the first one known to
be broken is named.

A host's kernel sees RDMA packets of software devices only, as those of a NIC bypass its firewall. A host that reports
its own error lost no packet: that error is the diagnosis, unless its link or its GID explains it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from collie.hosts.drop_rules import DropRule
from collie.hosts.facts import ROCE_TYPES, Gid
from collie.hosts.wire import PathEnd

_FRAMES = {4096: 4200, 2048: 2200, 1024: 1500, 512: 700, 256: 400}
"""Smallest MTU of a network device by RoCE path MTU: payload and headers."""
_UNRESOLVED = frozenset({"NONE", "FAILED", "INCOMPLETE"})


class Layer(StrEnum):
    """Where a data path is broken, from the bottom up."""

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
    """Why a data path is broken.

    Attributes:
        host: where the command runs, unless the command names another place.
        detail: the fault.
        command: the repair.
    """

    layer: Layer
    host: str
    detail: str
    command: str

    def __str__(self) -> str:
        return f"{self.layer}: {self.detail}; repair on {self.host}: {self.command}"


class ProofStage(StrEnum):
    """Stage of the test that failed."""

    SET_UP = "set-up"
    TRICKLE = "small messages"
    FULL = "full packets"
    DATAGRAM = "UD"


@dataclass(frozen=True, slots=True)
class PathFailure:
    """Traffic that did not pass.

    Attributes:
        stage: the failed stage. All before it passed.
        refused_by: host that reported its own error, such as ENOMEM. None for a missing answer.
    """

    stage: ProofStage
    detail: str
    refused_by: str | None = None


def diagnose(sender: PathEnd, receiver: PathEnd, failure: PathFailure) -> PathFault:
    """Name the lowest layer known to be broken between two ends, as observed after a failure."""
    ends = ((sender, receiver), (receiver, sender))
    for layer in _suspects(sender, failure):
        for own, other in ends:
            if (cause := layer(own, other)) is not None:
                return cause
    if failure.refused_by is not None:
        return _refused(receiver if failure.refused_by == receiver.host.name else sender, failure)
    if failure.stage in (ProofStage.FULL, ProofStage.DATAGRAM):
        return _by_stage(sender, receiver, failure)
    return _last(sender, receiver, failure)


def unequal_mtu(sender: PathEnd, receiver: PathEnd) -> PathFault | None:
    """Return the end whose network device takes smaller packets than its peer's."""
    return _unequal(sender, receiver) or _unequal(receiver, sender)


def _link(own: PathEnd, _other: PathEnd) -> PathFault | None:
    name, netdev = own.host.name, own.netdev or "NETDEV"
    if own.link is not None and "UP" not in own.link.flags:
        return PathFault(Layer.LINK, name, f"{netdev} of {name} is down", f"ip link set {netdev} up")
    if own.link is not None and "LOWER_UP" not in own.link.flags:
        detail = f"{netdev} of {name} has no carrier: its cable, or the port of the switch"
        return PathFault(
            Layer.LINK, name, detail, f"ip link set {netdev} down; ip link set {netdev} up; ethtool {netdev}"
        )
    if own.port is not None and own.port.state not in (None, "ACTIVE"):
        detail = f"port {own.port.number} of {own.host.device} of {name} is {own.port.state}, not ACTIVE"
        return PathFault(Layer.LINK, name, detail, f"ip link set {netdev} up")
    return None


def _loses(own: PathEnd, _other: PathEnd) -> PathFault | None:
    return next(_dropped(own, Layer.LINK, "everything"), None) if own.is_software else None


def _gid(own: PathEnd, other: PathEnd) -> PathFault | None:
    name, matching = own.host.name, own.matching
    if own.port is None or own.is_infiniband:
        return None
    right = f"in the hosts file, {name}: gid_index: {matching.index if matching else 'INDEX'}"
    if own.gid is None and own.host.gid_index is not None:
        return PathFault(Layer.GID, name, f"{name} has no GID at index {own.host.gid_index}", right)
    if own.gid is None:
        detail = f"{own.host.device} of {name} has no GID for data_address {own.host.data_address}"
        command = f"ip address add {own.host.data_address}/24 dev {own.netdev or 'NETDEV'}"
        return PathFault(Layer.GID, name, detail, command)
    if matching is not None and matching.index != own.gid.index:
        detail = (
            f"{name} uses GID index {own.gid.index} ({_described(own.gid)}), as the hosts file says; that of "
            f"data_address {own.host.data_address} is {matching.index} ({_described(matching)})"
        )
        return PathFault(Layer.GID, name, detail, right)
    return _unlike_gids(own, own.gid, other)


def _unlike_gids(own: PathEnd, gid: Gid, other: PathEnd) -> PathFault | None:
    """Name the end whose GID has the worse type, where the types differ."""
    if other.gid is None or other.gid.type == gid.type or gid.type == ROCE_TYPES[0] or own.port is None:
        return None
    better = [each.index for each in own.port.gids if each.type == other.gid.type and each.address == gid.address]
    name = own.host.name
    detail = f"{name} uses a GID of type {gid.type}, {other.host.name} one of type {other.gid.type}"
    return PathFault(
        Layer.GID, name, detail, f"in the hosts file, {name}: gid_index: {better[0] if better else 'INDEX'}"
    )


def _described(gid: Gid) -> str:
    return f"{gid.address}, {gid.type}"


def _resolution_off(own: PathEnd, _other: PathEnd) -> PathFault | None:
    if own.link is None or "NOARP" not in own.link.flags:
        return None
    name = own.host.name
    detail = f"{own.netdev} of {name} has ARP switched off"
    return PathFault(Layer.ADDRESS, name, detail, f"ip link set {own.netdev} arp on")


def _hung(own: PathEnd, other: PathEnd) -> PathFault | None:
    if not own.hung_queues or not _silent(other):
        return None
    name, netdev = own.host.name, own.netdev
    detail = f"the kernel of {name} found a transmit queue of {netdev} hung, {own.hung_queues} times"
    return PathFault(Layer.LINK, name, detail, f"ip link set {netdev} down; ip link set {netdev} up")


def _address(own: PathEnd, other: PathEnd) -> PathFault | None:
    known, name, peer = own.neighbour, own.host.name, other.host
    if known is None or own.ping is None or own.ping.passed:
        return None
    if known.state in _UNRESOLVED:
        for end in (other, own):
            if dropped := next(_dropped(end, Layer.ADDRESS, "ARP", "everything"), None):
                return dropped
    if _silent(other):
        command = f"ip link set {own.netdev} down; ip link set {own.netdev} up"
        detail = f"nothing that {name} sends arrives at {other.netdev} of {peer.name}: cable, switch, or VLAN"
        return PathFault(Layer.LINK, name, detail, command)
    address, mac = peer.data_address.partition("%")[0], other.link.mac if other.link else None
    if known.state in _UNRESOLVED:
        detail = f"{peer.name} does not answer {name}, which asks for the hardware address of {address}"
    elif known.state == "PERMANENT" and mac is not None and known.mac != mac:
        detail = f"{name} has {known.mac} for {address}, which is at {mac}"
    else:
        return None
    return PathFault(Layer.ADDRESS, name, detail, f"ip neigh replace {address} lladdr {mac or 'MAC'} dev {own.netdev}")


def _route(own: PathEnd, other: PathEnd) -> PathFault | None:
    if own.routed is not False or own.link is None:
        return None
    name, address = own.host.name, other.host.data_address.partition("%")[0]
    bits = 128 if ":" in address else 32
    detail = f"{name} has no route to {address} through {own.netdev}"
    return PathFault(Layer.ROUTE, name, detail, f"ip route add {address}/{bits} dev {own.netdev}")


def _firewall(own: PathEnd, _other: PathEnd) -> PathFault | None:
    return next(_dropped(own, Layer.FIREWALL, "UDP 4791"), None) if own.is_software else None


def _policy(own: PathEnd, _other: PathEnd) -> PathFault | None:
    """Guess at a default-drop firewall that shows no rule about RoCE."""
    return next(_dropped(own, Layer.FIREWALL, "UDP 4791", surely=False), None) if own.is_software else None


def _mtu(own: PathEnd, other: PathEnd) -> PathFault | None:
    if own.full_ping is None or own.full_ping.passed or own.port is None:
        return None
    if cause := unequal_mtu(own, other):
        return cause
    frame = own.full_ping.limit
    where = f"takes no more than {frame} bytes" if frame else f"loses packets of a path MTU of {own.port.active_mtu}"
    detail = f"the way from {own.host.name} to {other.host.name} {where}: the switch between them"
    command = f"ip link set {own.netdev} mtu {frame or 1500}; on the switch: allow larger frames instead"
    return PathFault(Layer.MTU, own.host.name, detail, command)


def _unequal(own: PathEnd, other: PathEnd) -> PathFault | None:
    """Name this end if its network device takes smaller packets than its peer's."""
    mtu = own.port.active_mtu if own.port else None
    wanted = other.port.active_mtu if other.port else None
    if mtu is None or wanted is None or mtu >= wanted:
        return None
    frame = other.link.mtu if other.link and other.link.mtu else _FRAMES.get(wanted, wanted + 104)
    name, netdev = own.host.name, own.netdev
    detail = f"{netdev} of {name} is set for a path MTU of {mtu}, that of {other.host.name} for one of {wanted}"
    return PathFault(Layer.MTU, name, detail, f"ip link set {netdev} mtu {frame}")


_Suspect = Callable[[PathEnd, PathEnd], PathFault | None]
_LAYERS: tuple[_Suspect, ...] = (
    _link,
    _gid,
    _resolution_off,
    _loses,
    _hung,
    _address,
    _route,
    _firewall,
    _mtu,
    _policy,
)


def _suspects(sender: PathEnd, failure: PathFailure) -> tuple[_Suspect, ...]:
    if failure.refused_by is not None:
        return _link, _gid
    if failure.stage in (ProofStage.FULL, ProofStage.DATAGRAM):
        return () if sender.is_infiniband else (_mtu,)
    return (_link,) if sender.is_infiniband else _LAYERS


def _dropped(own: PathEnd, layer: Layer, *what: str, surely: bool = True) -> Iterator[PathFault]:
    found = (rule for rule in own.rules or () if rule.drops in what and rule.surely is surely)
    yield from (_of_rule(own, layer, rule) for rule in found)


def _of_rule(own: PathEnd, layer: Layer, rule: DropRule) -> PathFault:
    return PathFault(layer, own.host.name, f"on {own.host.name}, {rule.text}", rule.undo)


def _silent(other: PathEnd) -> bool:
    """Whether nothing arrived at an end while its peer sent pings or ARP requests."""
    return other.arrived == 0


def _by_stage(sender: PathEnd, receiver: PathEnd, failure: PathFailure) -> PathFault:
    if failure.stage is ProofStage.DATAGRAM:
        detail = f"RC passes from {sender.host.name} to {receiver.host.name}, and UD does not: {failure.detail}"
        command = f"rdma statistic show link {receiver.host.device}/{receiver.host.ib_port}"
        return PathFault(Layer.DATAGRAM, receiver.host.name, detail, command)
    mtu = sender.port.active_mtu if sender.port else None
    packets = f"packets of {mtu or 'the path MTU'}"
    detail = f"small messages pass from {sender.host.name} to {receiver.host.name}, and {packets} do not"
    pings_pass = all(end.full_ping is not None and end.full_ping.passed for end in (sender, receiver))
    if pings_pass or sender.is_infiniband:
        command = f"rdma statistic show link {receiver.host.device}/{receiver.host.ib_port}"
        though = ", though pings as large do" if pings_pass else ""
        return PathFault(Layer.UNKNOWN, receiver.host.name, f"{detail}{though}: {failure.detail}", command)
    command = f"ip link set {sender.netdev or 'NETDEV'} mtu 1500"
    return PathFault(Layer.MTU, sender.host.name, f"{detail}: {failure.detail}", command)


def _refused(own: PathEnd, failure: PathFailure) -> PathFault:
    command = f"rdma link show {own.host.device}/{own.host.ib_port}; dmesg | tail -n 20"
    return PathFault(Layer.QUEUE_PAIR, own.host.name, failure.detail, command)


def _last(sender: PathEnd, receiver: PathEnd, failure: PathFailure) -> PathFault:
    answered = [end.ping.passed for end in (sender, receiver) if end.ping is not None]
    if not sender.is_infiniband and (not answered or None in (sender.link, receiver.link)):
        lacking = sender if sender.ping is None or sender.link is None else receiver
        detail = f"{failure.detail}. Its cause is unknown, as `ip` or `ping` cannot be used"
        return PathFault(Layer.UNKNOWN, lacking.host.name, detail, "apt-get install iproute2 iputils-ping")
    if failure.stage is ProofStage.SET_UP:
        return _refused(sender, failure)
    if sender.is_infiniband:
        return _subnet(sender, receiver, failure)
    answers = "pings pass" if all(answered) else "the address is resolved"
    detail = f"{answers} between {sender.host.name} and {receiver.host.name}, and RDMA does not"
    return _filter(sender, receiver, detail, failure) if receiver.is_software else _switch(receiver, detail, failure)


def _subnet(sender: PathEnd, receiver: PathEnd, failure: PathFailure) -> PathFault:
    device, port = receiver.host.device, receiver.host.ib_port
    detail = (
        f"the ports of {sender.host.name} and {receiver.host.name} are ACTIVE, and nothing passes between them: their "
        f"partition keys, or the routes of the subnet manager: {failure.detail}"
    )
    command = f"ibstat {device} {port}; grep -v 0x0000 /sys/class/infiniband/{device}/ports/{port}/pkeys/*"
    return PathFault(Layer.FABRIC, receiver.host.name, detail, command)


def _switch(receiver: PathEnd, detail: str, failure: PathFailure) -> PathFault:
    netdev = receiver.netdev or "NETDEV"
    command = f"ip -d link show {netdev}; dcb pfc show dev {netdev}; ethtool -S {netdev} | grep -E 'discard|drop|pause'"
    detail = f"{detail}: VLAN, PFC, or an ACL of the switch between them: {failure.detail}"
    return PathFault(Layer.FABRIC, receiver.host.name, detail, command)


def _filter(sender: PathEnd, receiver: PathEnd, detail: str, failure: PathFailure) -> PathFault:
    name = receiver.host.name
    hints = [
        cause.detail for end in (sender, receiver) for cause in _dropped(end, Layer.LINK, "everything", surely=False)
    ]
    if receiver.rules is None:
        hints.append("the rules of its firewall could not be read")
    detail = "; ".join([f"{detail}: a filter of UDP 4791 on {name} or between them", *hints])
    command = "iptables -I INPUT -p udp --dport 4791 -j ACCEPT"
    return PathFault(Layer.FIREWALL, name, f"{detail}: {failure.detail}", command)
