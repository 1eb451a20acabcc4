"""Hosts of a bundle's run, from the command line or a hosts file in JSON.

Fields and checks are those of Collie's hosts file.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from collie.errors import InventoryError, Problem, UsageError
from collie.files import read_bytes
from collie.inventory.hosts import (
    MAX_HOSTS,
    Host,
    Pair,
    check_address,
    check_host_key,
    check_ip_address,
    check_jump,
    check_program,
    endpoint_name,
    word,
)
from collie.untrusted import read_json

MAX_BYTES = 512 << 10  # the limit of a hosts file in YAML
FORM = "[USER@]HOST[:PORT],DEVICE,DATA_ADDRESS[,FIELD=VALUE...]"


def _text(check: Callable[[str], str]) -> Callable[[Any], Any]:
    def read(raw: Any) -> str:
        if not isinstance(raw, str):
            raise ValueError(f"{raw!r} is no text")
        return check(raw)

    return read


def _whole(low: int, high: int) -> Callable[[Any], Any]:
    def read(raw: Any) -> int:
        text = str(raw)
        if isinstance(raw, bool) or not text.isascii() or not text.isdecimal() or not low <= int(text) <= high:
            raise ValueError(f"{raw!r} is no whole number from {low} to {high}")
        return int(text)

    return read


def _data_path(text: str) -> str:
    if text not in ("native", "pyverbs"):
        raise ValueError(f"{text!r} is no data path; native or pyverbs")
    return text


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "address": _text(check_address),
    "data_address": _text(check_ip_address),
    "device": _text(word("RDMA device")),
    "port": _whole(1, 65535),
    "user": _text(word("user")),
    "identity_file": _text(os.path.expanduser),
    "host_key": _text(check_host_key),
    "jump": _text(check_jump),
    "ib_port": _whole(1, 255),
    "gid_index": _whole(0, 1023),
    "python": _text(check_program),
    "data_path": _text(_data_path),
}
_NEEDED = ("address", "data_address", "device")
OPTIONAL = tuple(name for name in _READERS if name not in (*_NEEDED, "port", "user", "host_key"))


def pair_of(words: Sequence[str]) -> Pair:
    """Return the hosts that words in the form of `FORM` name, or those of one JSON file. Host A is first."""
    if len(words) == 1 and words[0].endswith(".json"):
        return _checked(_from_file(Path(words[0])))
    hosts = [host_of(text) for text in words]
    # Where a host has several devices, each of them is an endpoint.
    places = Counter(host.name for host in hosts)
    return _checked(
        [replace(host, name=endpoint_name(host.name, host.device)) if places[host.name] > 1 else host for host in hosts]
    )


def host_of(text: str) -> Host:
    """Return the host that a word names. Raises `UsageError`."""
    place, *rest = text.split(",")
    positional = [each for each in rest if "=" not in each]
    if len(positional) != 2:
        raise UsageError(f"{text!r} is no host; write {FORM}, such as root@10.0.0.1,mlx5_0,192.168.77.1")
    user, _, where = place.rpartition("@")
    address, port = _address_and_port(where)
    raw: dict[str, Any] = {"address": address, "device": positional[0], "data_address": positional[1]}
    raw |= {name: value for name, value in (("user", user), ("port", port)) if value}
    for each in rest:
        name, sign, value = each.partition("=")
        if sign and name not in OPTIONAL:
            raise UsageError(f"{text!r}: {name!r} is no field; those are {', '.join(OPTIONAL)}")
        raw |= {name: value} if sign else {}
    try:
        return _host(where, raw)  # the port distinguishes hosts at the same address
    except ValueError as error:
        raise UsageError(f"{text!r}: {error}") from None


def _address_and_port(where: str) -> tuple[str, str]:
    """Split `HOST:PORT`. An IPv6 address with a port needs brackets."""
    if where.startswith("["):
        address, _, port = where[1:].partition("]")
        return address, port.removeprefix(":")
    if where.count(":") > 1:
        return where, ""
    address, _, port = where.partition(":")
    return address, port


def _host(name: str, raw: Mapping[str, Any]) -> Host:
    if missing := [each for each in _NEEDED if each not in raw]:
        raise ValueError(f"{missing[0]} is missing")
    values = {}
    for field, value in raw.items():
        if field not in _READERS:
            raise ValueError(f"unknown key {field!r}; a bundle knows {', '.join(_READERS)}")
        try:
            values[field] = _READERS[field](value)
        except ValueError as error:
            raise ValueError(f"{field}: {error}") from None
    if values["address"] == values["data_address"]:
        raise ValueError(
            "the address for SSH and that of the RDMA port are the same; SSH would share the port under test"
        )
    return Host(name=name, **values)


def _from_file(path: Path) -> list[Host]:
    """Read `{"version": 1, "hosts": {NAME: {...}}, "pairs": [[NAME, NAME]]}`. Without `pairs`, take all hosts."""
    try:
        raw = read_json(read_bytes(path, MAX_BYTES).decode())
        if unknown := raw.keys() - {"version", "hosts", "pairs"}:
            raise ValueError(f"unknown key {min(unknown)!r}; a bundle knows version, hosts and pairs")
        hosts = {host.name: host for name, fields in raw["hosts"].items() for host in _named(name, fields)}
        return [hosts[name] for name in (raw.get("pairs") or [list(hosts)])[0]]
    except OSError as error:
        message = f"cannot be read: {error.strerror}"
    except (KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        message = f"is no hosts file; see --about: {error!r}"
    except ValueError as error:
        message = str(error)
    raise InventoryError([Problem(str(path), 0, message)])


def _named(name: str, fields: Mapping[str, Any]) -> list[Host]:
    try:
        word("host name for an inventory")(name)
        if "devices" not in fields:
            return [_host(name, fields)]
        shared = {field: value for field, value in fields.items() if field != "devices"}
        return [
            _host(endpoint_name(name, word("name for a device")(key)), {**shared, "device": key, **_port(own)})
            for key, own in fields["devices"].items()
        ]
    except ValueError as error:
        raise ValueError(f"host {name}: {error}") from None


def _port(raw: Any) -> Mapping[str, Any]:
    """Return the fields of a device. A text is its data address."""
    return {"data_address": raw} if isinstance(raw, str) else raw


def _checked(hosts: Sequence[Host]) -> Pair:
    if not 2 <= len(hosts) <= MAX_HOSTS:
        raise UsageError(f"give two hosts, or up to {MAX_HOSTS} where the workload needs them; these are {len(hosts)}")
    for field in ("name", "data_address"):
        values = [getattr(host, field) for host in hosts]
        if len(set(values)) < len(values):
            raise UsageError(f"two hosts have the same {field}: {', '.join(values)}; each has its own")
    a, b, *others = hosts
    return Pair(a, b, tuple(others))
