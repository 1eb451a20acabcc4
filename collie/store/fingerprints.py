"""Fingerprints in a campaign directory: `fingerprint/HOST.json`, and `HOST@2.json` after an accepted change.

A damaged file raises a `StoreError`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

from collie.errors import StoreError
from collie.files import Folder, read_bytes
from collie.inventory.fingerprint import Fingerprint, HostDifference, compare
from collie.plain import CODEC, typed
from collie.store.directory import MAX_BYTES, writing
from collie.untrusted import read_json

_VERSION = 1


@dataclass(frozen=True)
class KeptFingerprint:
    """A fingerprint in a file. Host A has position 0. `number` begins at 1 and grows by one per accepted change."""

    host: str
    position: int
    number: int
    fingerprint: Fingerprint


def save(folder: Path, fingerprints: Mapping[str, Fingerprint], taken: str) -> None:
    """Store fingerprints, host A first, beside earlier ones. `taken` is RFC 3339."""
    kept = _all(folder)
    with writing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
    for position, (host, fingerprint) in enumerate(fingerprints.items()):
        number = max((each.number for each in kept if each.host == host), default=0) + 1
        # A subsystem's name is free text. The + keeps `HOST/DEVICE` distinct from a host `HOST_DEVICE`.
        stem = re.sub(r"[^A-Za-z0-9._+-]", "_", host.replace("/", "+"))
        name = f"{stem}.json" if number == 1 else f"{stem}@{number}.json"  # no host name contains @
        content = {
            "schema_version": _VERSION,
            "host": host,
            "position": position,
            "number": number,
            "taken": taken,
            "digest": fingerprint.digest,
            "fingerprint": CODEC.write(fingerprint.values),
        }
        with (
            writing(folder / name),
            Folder(folder.parent) as campaign,
            campaign.below(folder.name, create_mode=0o777) as inside,
        ):
            inside.write(name, [json.dumps(content, indent=1), "\n"])


def load(folder: Path) -> dict[str, Fingerprint]:
    """Return the latest fingerprint of each host, host A first."""
    return _by_host(sorted(_all(folder), key=lambda each: each.number))


def changes(folder: Path) -> tuple[HostDifference, ...]:
    """Return the accepted changes of hosts since the campaign began."""
    kept = sorted(_all(folder), key=lambda each: each.number)
    compared = compare(_by_host(kept[::-1]), _by_host(kept))
    return tuple(found for found in compared if found.differences)


def _by_host(kept: Iterable[KeptFingerprint]) -> dict[str, Fingerprint]:
    last = {each.host: each for each in kept}
    return {each.host: each.fingerprint for each in sorted(last.values(), key=lambda each: each.position)}


def read(path: Path) -> KeptFingerprint:
    """Read a fingerprint file that the user named. A link is allowed."""
    with _reading():
        return _decoded(path, read_bytes(path, MAX_BYTES))


def _decoded(path: Path, data: bytes) -> KeptFingerprint:
    try:
        content: _Content = typed(_Content, read_json(data.decode()))
    except ValueError as error:
        raise StoreError(f"{path} holds no fingerprint of a host: {error}") from None
    if content["schema_version"] != _VERSION:
        raise StoreError(f"{path} has fingerprint schema {content['schema_version']}; this Collie reads {_VERSION}")
    return KeptFingerprint(content["host"], content["position"], content["number"], Fingerprint(content["fingerprint"]))


@contextmanager
def _reading() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(f"{error.filename} cannot be read: {error.strerror}") from None


class _Content(TypedDict):
    schema_version: int
    host: str
    position: int
    number: int
    fingerprint: Mapping[str, Mapping[str, Any]]


def _all(folder: Path) -> list[KeptFingerprint]:
    with (
        _reading(),
        suppress(FileNotFoundError),
        Folder(folder.parent) as campaign,
        campaign.below(folder.name) as inside,
    ):
        return list(_files(inside))
    return []


def _files(folder: Folder) -> Iterator[KeptFingerprint]:
    left = MAX_BYTES
    for name in folder.names():
        if name.endswith(".json"):
            data = folder.read(name, MAX_BYTES)
            left -= len(data)
            if left < 0:
                raise StoreError(f"{folder.path} holds more than {MAX_BYTES >> 20} MiB of fingerprints")
            yield _decoded(folder.path / name, data)
