"""The hosts file in the users' format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from collie.inventory.hosts import (
    MAX_HOSTS,
    UNSPECIFIED,
    Host,
    HostSpecification,
    Inventory,
    Pair,
    check_address,
    check_fingerprint,
    check_host_key,
    check_ip_address,
    check_jump,
    check_program,
    endpoint_name,
    host_of,
    number_or_text,
    read_rate,
    word,
)
from collie.inventory.safety import REAL_HOSTS, SafetyLimits
from collie.limits import Positive
from collie.workloads.units import parse_rate, parse_seconds

HostName = Annotated[str, AfterValidator(word("host name for an inventory"))]
DeviceName = Annotated[str, AfterValidator(word("name for a device"))]

MAX_LISTED = 4096  # limit on hosts, and on pairs
MAX_DEVICES = 64  # limit for one host

_DataAddress = Annotated[str, AfterValidator(check_ip_address)]
_Device = Annotated[str, AfterValidator(word("RDMA device"))]
_IbPort = Annotated[int, Field(ge=1, le=255)]
_GidIndex = Annotated[int, Field(ge=0, le=1023)]
_Processes = Annotated[int, Field(ge=1, le=64)]


class DeviceEntry(BaseModel):
    """One entry under `devices:`. It is no `Host`, which also has the fields that devices share."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    data_address: _DataAddress
    device: _Device | None = None
    """RDMA device, as `rdma link` names it. Default: the key of the entry."""
    ib_port: _IbPort = 1
    gid_index: _GidIndex | None = None
    processes: _Processes | None = None
    """Processes that share the queue pairs of a run on this device. Default: the host's."""
    specification: HostSpecification | None = None
    """Caps the expected throughput of a healthy port. Default: the host's."""


def _address_alone(raw: Any) -> Any:
    return {"data_address": raw} if isinstance(raw, str) else raw


_Devices = Annotated[
    dict[DeviceName, Annotated[DeviceEntry, BeforeValidator(_address_alone)]],
    Field(min_length=1, max_length=MAX_DEVICES),
]
_OF_THE_ONE_DEVICE = ("device", "data_address", "ib_port", "gid_index")


class HostEntry(BaseModel):
    """One entry under `hosts:`. It can become several `Host`s, one for each device."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    address: Annotated[str, AfterValidator(check_address)]
    data_address: _DataAddress | None = None
    """Address of the RDMA port's network, never used for SSH. Required without `devices`."""
    device: _Device | None = None
    """RDMA device, as `rdma link` names it. Required without `devices`."""
    devices: _Devices | None = None
    """Several devices instead of one, by names of your choice: each is an endpoint `HOST/NAME`."""
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    user: Annotated[str, AfterValidator(word("user"))] | None = None
    identity_file: str | None = None
    host_key: Annotated[str, AfterValidator(check_host_key)] | None = None
    host_key_fingerprint: Annotated[str, AfterValidator(check_fingerprint)] | None = None
    jump: Annotated[str, AfterValidator(check_jump)] | None = None
    ib_port: _IbPort = 1
    gid_index: _GidIndex | None = None
    python: Annotated[str, AfterValidator(check_program)] = "/usr/bin/python3"
    data_path: Literal["native", "pyverbs"] | None = None
    processes: _Processes | None = None
    specification: HostSpecification = UNSPECIFIED

    def ports(self, name: str) -> dict[str, tuple[tuple[str, ...], DeviceEntry | HostEntry]]:
        """Return the entry of each endpoint's port, and its place below the host."""
        if self.devices is None:
            return {name: ((), self)}
        return {endpoint_name(name, key): (("devices", key), entry) for key, entry in self.devices.items()}

    def endpoints(self, name: str) -> list[Host]:
        """Return the endpoints of the host."""
        shared = self.model_dump(exclude={"devices", "specification", *_OF_THE_ONE_DEVICE})
        return [
            Host(
                **shared
                | {
                    "name": endpoint,
                    "device": port.device or where[-1],
                    "data_address": port.data_address,
                    "ib_port": port.ib_port,
                    "gid_index": port.gid_index,
                    "processes": port.processes or self.processes,
                    "specification": port.specification or self.specification,
                }
            )
            for endpoint, (where, port) in self.ports(name).items()
        ]

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        own = [name for name in _OF_THE_ONE_DEVICE if name in self.model_fields_set]
        if self.devices is not None and own:
            raise ValueError(f"{own[0]} belongs to one device; give it to each of `devices`, or leave `devices` out")
        if self.devices is None and (
            missing := [name for name in ("device", "data_address") if not getattr(self, name)]
        ):
            raise ValueError(f"key {missing[0]!r} is missing; a host with several devices names them under `devices`")
        ports: Iterable[DeviceEntry | HostEntry] = (self,) if self.devices is None else self.devices.values()
        if any(self.address == port.data_address for port in ports):
            raise ValueError(
                "address and data_address are the same; SSH would share the port under test: "
                "address is the management address, data_address that of the RDMA port"
            )
        if self.host_key and self.host_key_fingerprint:
            raise ValueError("give host_key or host_key_fingerprint, not both")
        return self


def _seconds(given: float | str) -> float:
    return parse_seconds(number_or_text(given))


def _milliseconds(given: float | str) -> float:
    number = number_or_text(given)
    return 1e3 * parse_seconds(number) if isinstance(number, str) else number


def _gigabits(given: float | str) -> float:
    number = number_or_text(given)
    return read_rate(parse_rate(number) * (1.0 if isinstance(number, str) else 1e9)) / 1e9


class SafetyEntry(BaseModel):
    """The section `safety:`. Null lifts a limit. It is no `SafetyLimits`, because numbers have other units."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    pause_ms_per_second: Annotated[Positive, Field(le=1000), BeforeValidator(_milliseconds)] | None = 1e3 * (
        REAL_HOSTS.pause_per_second or 0
    )
    """Stop a run in which a host sends pause for longer within a second, such as `200ms`."""
    pause_seconds_per_campaign: Annotated[Positive, BeforeValidator(_seconds)] | None = REAL_HOSTS.pause_per_campaign
    """End a campaign when its hosts have sent pause for so long in all, such as `2m`."""
    rate_gbit_per_second: Annotated[float, BeforeValidator(_gigabits)] | None = REAL_HOSTS.rate_bps
    """Stop a run in which a host receives or sends more payload, such as `50Gbit`. At least `1Mbit`."""

    def limits(self) -> SafetyLimits:
        """Return the limits in seconds and bits/s."""
        per_second, rate = self.pause_ms_per_second, self.rate_gbit_per_second
        return SafetyLimits(
            None if per_second is None else per_second / 1e3,
            self.pause_seconds_per_campaign,
            None if rate is None else rate * 1e9,
        )


Location = tuple[str | int, ...]
Contradiction = tuple[Location, str]
_OWN = {
    "address": "each host has its own",
    "data_address": "each port has its own",
    "device": "name each port of a device once",
}


class InventoryFile(BaseModel):
    """A hosts file. `hosts.example.yaml` explains every line. It refers to hosts by name, unlike an `Inventory`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[1]
    """Version of this format."""
    hosts: Annotated[dict[HostName, HostEntry], Field(min_length=1, max_length=MAX_LISTED)]
    """Hosts by their name in messages and reports. One of several devices is `HOST/DEVICE`."""
    pairs: Annotated[
        tuple[Annotated[tuple[str, ...], Field(min_length=2, max_length=MAX_HOSTS)], ...],
        Field(max_length=MAX_LISTED),
    ] = ()
    """Hosts that measure together, by name. Two hosts without pairs are one pair."""
    safety: SafetyEntry = SafetyEntry()
    """Limits on the use of these hosts' network. Null lifts a limit."""

    def contradictions(self) -> list[Contradiction]:
        """Return the places in the file that contradict others, each with the remedy."""
        return [*self._claimed_twice(), *self._wrong_pairs()]

    def _claimed_twice(self) -> Iterator[Contradiction]:
        owners: dict[tuple[str, ...], str] = {}
        for place, claim, owner in self._claims():
            other = owners.setdefault(claim, owner)
            if other != owner:
                what, value, *_ = claim
                yield place, f"{what} {value} is that of host {other}; {_OWN[what]}"

    def _claims(self) -> Iterator[tuple[Location, tuple[str, ...], str]]:
        """Yield the values that must be unique, as (place, value, owner)."""
        for name, entry in self.hosts.items():
            yield ("hosts", name, "address"), ("address", entry.address, str(entry.port or 22), entry.jump or ""), name
            for endpoint, (where, port) in entry.ports(name).items():
                place: Location = ("hosts", name, *where)
                device = port.device or where[-1]
                yield (*place, "data_address"), ("data_address", str(port.data_address)), endpoint
                yield (*place, "device"), ("device", f"{device} port {port.ib_port}", name), endpoint

    def _wrong_pairs(self) -> Iterator[Contradiction]:
        known = [endpoint for name, entry in self.hosts.items() for endpoint in entry.ports(name)]
        some = _some(known)
        for index, pair in enumerate(self.pairs):
            for position, name in enumerate(pair):
                if name not in known:
                    yield ("pairs", index, position), self._unknown_endpoint(name, some)
            if twice := next((name for name in pair if pair.count(name) > 1), None):
                yield ("pairs", index), f"{twice!r} is paired with itself; name each host once"
            if pair in self.pairs[:index]:
                yield ("pairs", index), f"the pair {', '.join(pair)} is listed twice; once is enough"

    def _unknown_endpoint(self, name: str, known: str) -> str:
        host = host_of(name)
        if host not in self.hosts:
            return f"{name!r} is not one of the hosts {known}"
        there = _some(list(self.hosts[host].ports(host)))
        if name == host:
            return f"{name!r} has several devices; name one of {there}"
        return f"host {host} lists no device {name!r}; it has {there}"

    def inventory(self) -> Inventory:
        """Return the inventory of a file without contradictions."""
        hosts = {endpoint.name: endpoint for name, entry in self.hosts.items() for endpoint in entry.endpoints(name)}
        pairs = self.pairs or ((tuple(hosts),) if len(hosts) == 2 else ())
        groups = ([hosts[name] for name in pair] for pair in pairs)
        formed = tuple(Pair(a, b, tuple(others)) for a, b, *others in groups)
        return Inventory(tuple(hosts.values()), formed, self.safety.limits())


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
