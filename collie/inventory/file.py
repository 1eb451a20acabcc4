"""The hosts file as a person writes it. `inventory.hosts` is what the rest of Collie works with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from collie.inventory.hosts import (
    MOST_HOSTS,
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
    word,
)
from collie.inventory.safety import REAL_HOSTS, SafetyLimits

HostName = Annotated[str, AfterValidator(word("host name for an inventory"))]


MOST_LISTED = 4096
"""Hosts, and pairs, of one file."""

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

    address: Annotated[str, AfterValidator(check_address)]
    data_address: Annotated[str, AfterValidator(check_ip_address)]
    device: Annotated[str, AfterValidator(word("RDMA device"))]
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    user: Annotated[str, AfterValidator(word("user"))] | None = None
    identity_file: str | None = None
    host_key: Annotated[str, AfterValidator(check_host_key)] | None = None
    host_key_fingerprint: Annotated[str, AfterValidator(check_fingerprint)] | None = None
    jump: Annotated[str, AfterValidator(check_jump)] | None = None
    ib_port: Annotated[int, Field(ge=1, le=255)] = 1
    gid_index: Annotated[int, Field(ge=0, le=1023)] | None = None
    python: Annotated[str, AfterValidator(check_program)] = "/usr/bin/python3"
    data_path: Literal["native", "pyverbs"] | None = None
    processes: Annotated[int, Field(ge=1, le=64)] | None = None
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
    """Stop a run in which a host sends pause for longer within a second."""
    pause_seconds_per_campaign: Positive | None = REAL_HOSTS.pause_per_campaign
    """End a campaign when its hosts have sent pause for that long in all."""
    rate_gbit_per_second: Positive | None = REAL_HOSTS.rate_bps
    """Stop a run in which a host moves more payload than that."""

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
    """Of this format."""
    hosts: Annotated[dict[HostName, HostEntry], Field(min_length=1, max_length=MOST_LISTED)]
    """Hosts by the name that messages and reports use."""
    pairs: Annotated[
        tuple[Annotated[tuple[str, ...], Field(min_length=2, max_length=MOST_HOSTS)], ...],
        Field(max_length=MOST_LISTED),
    ] = ()
    """Who measures with whom, by name; two hosts and no pairs are one pair."""
    safety: SafetyEntry = SafetyEntry()
    """What may be done to the network of these hosts; null lifts a limit."""

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
                    yield ("pairs", index, position), f"{name!r} is not one of the hosts {self._known}"
            if twice := next((name for name in pair if pair.count(name) > 1), None):
                yield ("pairs", index), f"{twice!r} is paired with itself; name each host once"
            if pair in self.pairs[:index]:
                yield ("pairs", index), f"the pair {', '.join(pair)} is listed twice; once is enough"

    @property
    def _known(self) -> str:
        first = list(self.hosts)[:10]
        return ", ".join(first) + (", ..." if len(self.hosts) > len(first) else "")

    def inventory(self) -> Inventory:
        """Return what the file says; two hosts and no pairs are one pair. There must be no misfits."""
        hosts = {name: entry.host(name) for name, entry in self.hosts.items()}
        pairs = self.pairs or ((tuple(hosts),) if len(hosts) == 2 else ())
        groups = ([hosts[name] for name in pair] for pair in pairs)
        formed = tuple(Pair(a, b, tuple(others)) for a, b, *others in groups)
        return Inventory(tuple(hosts.values()), formed, self.safety.limits())
