"""The inventory: hosts that Collie may use, and the pairs that measure together. No other host is contacted.

An *endpoint* is one RDMA port with an agent: a host, or each of its several devices as `HOST/DEVICE` (ADR 14).

A check of a single value returns the value, or raises a `ValueError` that names the remedy.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, TypeVar

from collie.inventory.safety import REAL_HOSTS, SafetyLimits
from collie.limits import Limits, ReadBy
from collie.workloads.units import format_rate, parse_rate

T = TypeVar("T")

MAX_HOSTS = 8  # in one run: an agent has room for flows with seven others
KEY_TYPES = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "ssh-rsa")

_WORD = "[A-Za-z0-9][A-Za-z0-9._-]*"
"""A word that has no meaning to a shell and is no option. ssh builds a shell command from the jump hosts."""
_JUMP = rf"(?:{_WORD}@)?(?P<host>\[[0-9a-fA-F:%]+\]|{_WORD})(?::(?P<port>[0-9]{{1,5}}))?"
_LONGEST_LABEL = 63  # RFC 1035
_BELOW = "/"  # between host and device. No name of either contains it


def endpoint_name(host: str, device: str) -> str:
    """Return the name of an endpoint: `server-1/mlx5_0`."""
    return f"{host}{_BELOW}{device}"


def host_of(endpoint: str) -> str:
    """Return the host of an endpoint: `server-1` for `server-1/mlx5_0` and for `server-1`."""
    return endpoint.partition(_BELOW)[0]


def disjoint(
    groups: Iterable[T], endpoints_of: Callable[[T], Iterable[str]], at_once: float = math.inf
) -> list[tuple[T, ...]]:
    """Return the groups in rounds. The groups of a round share no host, and have at most `at_once` hosts in all."""
    rounds: list[tuple[list[T], set[str]]] = []
    for group in groups:
        own = set(map(host_of, endpoints_of(group)))
        fitting = (each for each in rounds if each[1].isdisjoint(own) and len(each[1] | own) <= at_once)
        together, busy = next(fitting, ([], set()))
        if not together:
            rounds.append((together, busy))
        together.append(group)
        busy |= own
    return [tuple(together) for together, _ in rounds]


def sharing(endpoints: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return the hosts with several endpoints, and those endpoints. `endpoints` maps each endpoint to its host."""
    by_host: dict[str, list[str]] = {}
    for key, host in endpoints.items():
        by_host.setdefault(host, []).append(key)
    return {host: tuple(keys) for host, keys in by_host.items() if len(keys) > 1}


def number_or_text(given: float | str) -> float | str:
    """Return text such as `100_000_000_000` as a number. Text with a unit stays text."""
    try:
        return float(given) if isinstance(given, str) else given
    except ValueError:
        return given


def read_rate(given: float | str) -> float:
    """Read the rate of a port in bits/s. A number far too small was probably meant in Gbit/s."""
    rate = parse_rate(number_or_text(given))
    if not 1e6 <= rate <= 1e14:
        raise ValueError(f"{format_rate(rate)} is no rate of a port; the least is 1Mbit, the most 100000Gbit")
    return rate


PortRate = Annotated[float, ReadBy(read_rate)]
PacketRate = Annotated[float, Limits(ge=1e3, le=1e12)]


@dataclass(frozen=True, slots=True)
class HostSpecification:
    """Data sheet values of an RDMA port that the driver does not report. None is unknown.

    Attributes:
        line_rate_bps: bits/s on the wire, such as `100Gbit`. At least `1Mbit`.
        pcie_bps: payload over PCIe in bits/s, such as `110Gbit`. At least `1Mbit`.
        packets_per_second: packet rate of the NIC.
    """

    line_rate_bps: PortRate | None = None
    pcie_bps: PortRate | None = None
    packets_per_second: PacketRate | None = None


UNSPECIFIED = HostSpecification()


@dataclass(frozen=True, slots=True)
class Host:
    """One endpoint: a host, or one of its several devices.

    Attributes:
        name: name in the inventory, messages and reports.
        address: management address, for SSH.
        data_address: address in the RDMA port's network. Never used for SSH.
        device: RDMA device, as `rdma link` names it.
        port, user, identity_file: for SSH. None leaves them to `~/.ssh/config` and SSH's defaults.
        host_key: `TYPE BASE64`, the only accepted host key.
        host_key_fingerprint: `SHA256:...` of the host key instead. With neither, `known_hosts` decides.
        jump: `user@host:port`, several separated by commas. None leaves it to `~/.ssh/config`.
        ib_port: port of the device.
        gid_index: index in the port's GID table. None selects the RoCE v2 GID of `data_address`.
        python: interpreter of the agent.
        specification: caps the expected throughput of a healthy port.
        data_path: `native` or `pyverbs`. None selects the best usable one.
        processes: number of processes that share the queue pairs of a run. None follows from queue pairs and CPUs.
    """

    name: str
    address: str
    data_address: str
    device: str
    port: int | None = None
    user: str | None = None
    identity_file: str | None = None
    host_key: str | None = None
    host_key_fingerprint: str | None = None
    jump: str | None = None
    ib_port: int = 1
    gid_index: int | None = None
    python: str = "/usr/bin/python3"
    specification: HostSpecification = UNSPECIFIED
    data_path: str | None = None
    processes: int | None = None

    @property
    def machine(self) -> str:
        """The name of the host, for any of its devices."""
        return host_of(self.name)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two hosts that measure together: role A requests from or sends to role B. `others` have the roles C, D, ...

    Both may be devices of one host: their traffic leaves by one port and returns by the other. Devices of two hosts in
    turn are rails: the first device of each host forms a pair, then the second, ....
    """

    a: Host
    b: Host
    others: tuple[Host, ...] = ()

    @property
    def hosts(self) -> tuple[Host, ...]:
        """All hosts in the order of their roles."""
        return (self.a, self.b, *self.others)

    @property
    def name(self) -> str:
        """The name of the pair, such as `lab-a,lab-b`."""
        return ",".join(host.name for host in self.hosts)

    @property
    def is_multi_rail(self) -> bool:
        """Whether these are several devices of each of two hosts, in turn."""
        machines = [host.machine for host in self.hosts]
        a, b = machines[:2]
        return a != b and len(machines) > 2 and machines == [a, b] * (len(machines) // 2)

    @property
    def shared_hosts(self) -> dict[str, tuple[str, ...]]:
        """Hosts with several endpoints that can have traffic with each other, and the names of those endpoints."""
        return {} if self.is_multi_rail else sharing({host.name: host.machine for host in self.hosts})


@dataclass(frozen=True, slots=True)
class Inventory:
    """Hosts in the order of the file, their pairs, and the limits on their network."""

    hosts: tuple[Host, ...]
    pairs: tuple[Pair, ...]
    safety: SafetyLimits = REAL_HOSTS

    def host(self, name: str) -> Host:
        """Return a host by its name. Raises `KeyError`."""
        return {host.name: host for host in self.hosts}[name]


def _matching(pattern: str, problem: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"{text!r} is {problem}")
        return text

    return check


def word(what: str) -> Callable[[str], str]:
    """Return a function that checks a name. Its message calls the name `what`."""
    return _matching(_WORD, f"no {what}; letters, digits, '.', '_' and '-' are allowed")


check_program = _matching(
    r"[A-Za-z0-9/][^\s\x00]*", "no program; give one path without arguments, such as /usr/bin/python3"
)
check_fingerprint = _matching(
    r"SHA256:[A-Za-z0-9+/]{43}", "no fingerprint; give what `ssh-keygen -lf` prints: SHA256: and 43 characters"
)


def check_address(text: str) -> str:
    """Check a host name or an IP address for SSH."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._:%-]*|::[0-9a-fA-F:.]*", text):
        raise ValueError(f"{text!r} is neither a host name nor an IP address; user and port have fields of their own")
    _require_labels(text)
    return text


def _require_labels(name: str) -> None:
    if not all(1 <= len(label) <= _LONGEST_LABEL for label in name.removesuffix(".").split(".")):
        raise ValueError(f"{name!r} is no host name: each part between dots has 1 to {_LONGEST_LABEL} characters")


def check_ip_address(text: str) -> str:
    """Check the address of an RDMA port. Return its canonical form."""
    refused = ValueError(f"{text!r} is no IP address; give the address of the RDMA port, such as 192.168.77.1")
    _, scoped, netdev = text.partition("%")
    if scoped and not re.fullmatch(r"[A-Za-z0-9._-]{1,15}", netdev):
        raise refused  # `ipaddress` accepts any name of a network device, such as `eth1; reboot`
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise refused from None


def check_host_key(text: str) -> str:
    """Check `TYPE BASE64`, with or without a comment."""
    words = text.split()
    if len(words) < 2 or words[0] not in KEY_TYPES:
        raise ValueError(
            "not a host key; give one line of `ssh-keyscan` without the host name, such as `ssh-ed25519 AAAA...`"
        )
    try:
        blob = base64.b64decode(words[1], validate=True)
    except binascii.Error:
        blob = b""
    name = words[0].encode()
    if not blob.startswith(len(name).to_bytes(4, "big") + name):
        raise ValueError(f"the text after {words[0]} is no such key; copy the whole line, unbroken")
    return f"{words[0]} {words[1]}"


def check_jump(text: str) -> str:
    """Check `user@host:port`, several separated by commas."""
    for hop in text.split(","):
        found = re.fullmatch(_JUMP, hop.strip())
        if not found or not 1 <= int(found["port"] or 22) <= 65535:
            raise ValueError(f"{hop.strip()!r} is no jump host; write user@host:port, several separated by commas")
        _require_labels(found["host"])
    return text
