"""Calibrations of real hosts, stored by fingerprint so that the same hosts are calibrated once."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryFile

from collie.detect.bounds import Calibration
from collie.files import FOR_OTHERS, read_bytes, write_whole
from collie.inventory.fingerprint import Fingerprint
from collie.store import codec
from collie.store.directory import MAX_BYTES, writing
from collie.untrusted import read_json
from collie.workloads.workload import Workload, render

_VERSION = 1


def name_of(testbed: str, fingerprints: Mapping[str, Fingerprint], plain: Workload) -> str:
    """Return a digest of the hosts, the settings that change results, and the plain workload.

    The digest covers the name of the pair, because two hosts that look alike can perform differently.
    """
    digests = [fingerprint.digest for fingerprint in fingerprints.values()]
    text = json.dumps([testbed, digests, render(plain)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _folder() -> Path:
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "collie" / "calibrations"


def require_writable() -> None:
    """Refuse a folder without room for calibrations. Raises `StoreUnwritable`."""
    folder = _folder()
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=folder).close()


def save(calibration: Calibration, name: str) -> Path:
    """Store a calibration in place of one with the same name. Raises `StoreUnwritable`."""
    path = _folder() / f"{name}.json"
    content = {"schema_version": _VERSION, **codec.encode(calibration)}
    with writing(path):
        write_whole(path, [json.dumps(content, indent=1), "\n"], FOR_OTHERS)
    return path


def load(name: str) -> Calibration | None:
    """Return a calibration, or None if there is none that this version understands."""
    try:
        content = read_json(read_bytes(_folder() / f"{name}.json", MAX_BYTES).decode())
        return codec.decode_calibration(content) if content["schema_version"] == _VERSION else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
