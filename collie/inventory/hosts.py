"""The inventory: hosts that Collie may touch, how to reach them, and which of them measure together.

`InventoryFile` is the file as a person writes it; `Inventory` is what the rest of Collie works with. A host that no
inventory names is never contacted.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from collie.inventory.safety import REAL_HOSTS, SafetyLimits

MOST_HOSTS = 8
"""Hosts that measure together at most: an agent has room for flows with seven others."""
KEY_TYPES = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "ssh-rsa")


@dataclass(frozen=True, slots=True)
class HostSpecification:
    """What the data sheet of a host's RDMA port promises, where the driver does not tell; None is unknown.

    Attributes:
        line_rate_bps: bits/s on the wire.
        pcie_bps: bits/s of payload that PCIe carries.
        packets_per_second: that the NIC processes.
    """

    line_rate_bps: float | None = None
    pcie_bps: float | None = None
    packets_per_second: float | None = None


UNSPECIFIED = HostSpecification()


@dataclass(frozen=True, slots=True)
class Host:
    """One host.

    Attributes:
        name: in the inventory, in messages and in reports.
        address: management address, for SSH.
        data_address: address of the RDMA port's network; never used for SSH.
        device: RDMA device, as `rdma link` names it.
        port, user, identity_file: of SSH; None leaves it to `~/.ssh/config` and SSH's defaults.
        host_key: `TYPE BASE64`, the only key that this host may present.
        host_key_fingerprint: `SHA256:...` of that key instead; with neither, `known_hosts` decides.
        jump: `user@host:port` to go through, several separated by commas; None leaves it to `~/.ssh/config`.
        ib_port: port of the device.
        gid_index: index in the port's GID table; None for the RoCE v2 GID that matches `data_address`.
        python: interpreter that runs the agent.
        specification: caps what a healthy port is expected to deliver.
        data_path: `native` or `pyverbs`; None for the best that the host can use.
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


@dataclass(frozen=True, slots=True)
class Pair:
    """Two hosts that measure together: role A requests from or sends to role B.

    Attributes:
        others: hosts with the roles C, D, ... of workloads that need more than two.
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
        """`lab-a,lab-b`."""
        return ",".join(host.name for host in self.hosts)


@dataclass(frozen=True, slots=True)
class Inventory:
    """Hosts in the order of the file, the pairs they form, and what may be done to their network."""

    hosts: tuple[Host, ...]
    pairs: tuple[Pair, ...]
    safety: SafetyLimits = REAL_HOSTS

    def host(self, name: str) -> Host:
        """Return a host by its name.

        Raises:
            KeyError: no such host.
        """
        for host in self.hosts:
            if host.name == name:
                return host
        raise KeyError(name)


def _word(what: str) -> AfterValidator:
    def check(text: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", text):
            raise ValueError(f"{text!r} is no {what}; letters, digits, '.', '_' and '-' are allowed")
        return text

    return AfterValidator(check)


def _address(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._:%-]*|::[0-9a-fA-F:.]*", text):
        raise ValueError(f"{text!r} is neither a host name nor an IP address; user and port have fields of their own")
    return text


def _ip_address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise ValueError(
            f"{text!r} is no IP address; give the address of the RDMA port, such as 192.168.77.1"
        ) from None


def _program(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9/][^\s\x00]*", text):
        raise ValueError(f"{text!r} is no program; give one path without arguments, such as /usr/bin/python3")
    return text


def _host_key(text: str) -> str:
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


def _fingerprint(text: str) -> str:
    if not re.fullmatch(r"SHA256:[A-Za-z0-9+/]{43}", text):
        raise ValueError(f"{text!r} is no fingerprint; give what `ssh-keygen -lf` prints: SHA256: and 43 characters")
    return text


def _jump(text: str) -> str:
    for hop in text.split(","):
        if not re.fullmatch(r"\s*(?:[^@\s]+@)?(?:\[[0-9a-fA-F:%]+\]|[A-Za-z0-9._-]+)(?::\d{1,5})?\s*", hop):
            raise ValueError(f"{hop.strip()!r} is no jump host; write user@host:port, several separated by commas")
    return text


HostName = Annotated[str, _word("host name for an inventory")]


_Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class SpecificationEntry(BaseModel):
    """`specification:` of a host, as its fields are read from the file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    line_rate_bps: _Rate | None = None
    pcie_bps: _Rate | None = None
    packets_per_second: _Rate | None = None


class HostEntry(BaseModel):
    """One entry under `hosts:`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    address: Annotated[str, AfterValidator(_address)]
    data_address: Annotated[str, AfterValidator(_ip_address)]
    device: Annotated[str, _word("RDMA device")]
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    user: Annotated[str, _word("user")] | None = None
    identity_file: str | None = None
    host_key: Annotated[str, AfterValidator(_host_key)] | None = None
    host_key_fingerprint: Annotated[str, AfterValidator(_fingerprint)] | None = None
    jump: Annotated[str, AfterValidator(_jump)] | None = None
    ib_port: Annotated[int, Field(ge=1, le=255)] = 1
    gid_index: Annotated[int, Field(ge=0, le=1023)] | None = None
    python: Annotated[str, AfterValidator(_program)] = "/usr/bin/python3"
    data_path: Literal["native", "pyverbs"] | None = None
    specification: SpecificationEntry = SpecificationEntry()

    def host(self, name: str) -> Host:
        """Return the host that the entry describes."""
        fields = self.model_dump(exclude={"specification"})
        return Host(name=name, **fields, specification=HostSpecification(**self.specification.model_dump()))

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.address == self.data_address:
            raise ValueError(
                "address and data_address are the same; SSH would share the port under test: "
                "address is the management address, data_address that of the RDMA port"
            )
        if self.host_key and self.host_key_fingerprint:
            raise ValueError("give host_key or host_key_fingerprint, not both")
        return self


Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class SafetyEntry(BaseModel):
    """What stands under `safety:`; null lifts a limit."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    pause_ms_per_second: Annotated[Positive, Field(le=1000)] | None = 1e3 * (REAL_HOSTS.pause_per_second or 0)
    pause_seconds_per_campaign: Positive | None = REAL_HOSTS.pause_per_campaign
    rate_gbit_per_second: Positive | None = REAL_HOSTS.rate_bps

    def limits(self) -> SafetyLimits:
        """Return the limits in seconds and bits/s."""
        per_second, rate = self.pause_ms_per_second, self.rate_gbit_per_second
        return SafetyLimits(
            None if per_second is None else per_second / 1e3,
            self.pause_seconds_per_campaign,
            None if rate is None else rate * 1e9,
        )


class InventoryFile(BaseModel):
    """A hosts file. `hosts.example.yaml` explains every line."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[1]
    hosts: Annotated[dict[HostName, HostEntry], Field(min_length=1)]
    pairs: tuple[Annotated[tuple[str, ...], Field(min_length=2, max_length=MOST_HOSTS)], ...] = ()
    safety: SafetyEntry = SafetyEntry()

    def misfits(self) -> list[tuple[tuple[str | int, ...], str]]:
        """Return what does not fit together: where it stands in the file, and what would be right."""
        return [*self._shared_addresses(), *self._wrong_pairs()]

    def _shared_addresses(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        seen: dict[tuple[str, ...], str] = {}
        for name, entry in self.hosts.items():
            management = ("address", entry.address, str(entry.port or 22), entry.jump or "")
            for key in (management, ("data_address", entry.data_address)):
                other = seen.setdefault(key, name)
                if other != name:
                    yield ("hosts", name, key[0]), f"{key[0]} {key[1]} is that of host {other}; each host has its own"

    def _wrong_pairs(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        for index, pair in enumerate(self.pairs):
            for position, name in enumerate(pair):
                if name not in self.hosts:
                    yield ("pairs", index, position), f"{name!r} is not one of the hosts {', '.join(self.hosts)}"
            if twice := next((name for name in pair if pair.count(name) > 1), None):
                yield ("pairs", index), f"{twice!r} is paired with itself; name each host once"
            if pair in self.pairs[:index]:
                yield ("pairs", index), f"the pair {', '.join(pair)} is listed twice; once is enough"

    def inventory(self) -> Inventory:
        """Return what the file says; two hosts and no pairs are one pair. There must be no misfits."""
        hosts = {name: entry.host(name) for name, entry in self.hosts.items()}
        pairs = self.pairs or ((tuple(hosts),) if len(hosts) == 2 else ())
        groups = ([hosts[name] for name in pair] for pair in pairs)
        formed = tuple(Pair(a, b, tuple(others)) for a, b, *others in groups)
        return Inventory(tuple(hosts.values()), formed, self.safety.limits())
