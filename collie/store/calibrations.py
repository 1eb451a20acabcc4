"""Calibrations of real hosts, stored by fingerprint so that the same hosts are calibrated once."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryFile

from collie.detect.bounds import Calibration
from collie.files import FOR_OTHERS, read_bytes
from collie.inventory.fingerprint import Fingerprint
from collie.store import codec
from collie.store.directory import MAX_BYTES, write_whole, writing
from collie.untrusted import read_json
from collie.workloads.workload import Workload, render

_VERSION = 1


def name_of(testbed: str, fingerprints: Mapping[str, Fingerprint], plain: Workload) -> str:
    """Return the name of a calibration: a digest of hosts, result-changing settings and the plain workload.

    It contains the name of the pair, because two hosts that look alike can perform differently.
    """
    digests = [fingerprint.digest for fingerprint in fingerprints.values()]
    text = json.dumps([testbed, digests, render(plain)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def default_folder() -> Path:
    """Return the folder of calibrations, under `$XDG_STATE_HOME` or `~/.local/state`."""
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "collie" / "calibrations"


def require_writable(folder: Path | None = None) -> None:
    """Check that calibrations can be stored, and create the folder if it is missing.

    Raises:
        StoreUnwritable: they cannot.
    """
    folder = folder or default_folder()
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=folder).close()


def save(calibration: Calibration, name: str, folder: Path | None = None) -> Path:
    """Store a calibration in place of one with the same name.

    Raises:
        StoreUnwritable: it cannot be stored.
    """
    folder = folder or default_folder()
    path = folder / f"{name}.json"
    content = {"schema_version": _VERSION, **codec.encode_calibration(calibration)}
    with writing(path):
        write_whole(path, [json.dumps(content, indent=1), "\n"], FOR_OTHERS)
    return path


def load(name: str, folder: Path | None = None) -> Calibration | None:
    """Return a calibration, or None if there is none that this version understands."""
    path = (folder or default_folder()) / f"{name}.json"
    try:
        content = read_json(read_bytes(path, MAX_BYTES).decode())
        return codec.decode_calibration(content) if content["schema_version"] == _VERSION else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
