"""Calibrations of real hosts, kept by fingerprint: the same hosts are not calibrated twice."""

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
    """Name what a calibration depends on: these very hosts, all that changes their results, and the plain workload.

    Args:
        testbed: name of the pair: two hosts that look alike may be a good and a bad one.
        fingerprints: of its hosts, host A first.
        plain: workload of the space.
    """
    digests = [fingerprint.digest for fingerprint in fingerprints.values()]
    text = json.dumps([testbed, digests, render(plain)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def default_folder() -> Path:
    """Return where calibrations are kept: under `$XDG_STATE_HOME`, else `~/.local/state`."""
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "collie" / "calibrations"


def require_writable(folder: Path | None = None) -> None:
    """Find out that calibrations can be kept before one is measured; make the folder if need be.

    Raises:
        StoreUnwritable: they cannot be.
    """
    folder = folder or default_folder()
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=folder).close()


def save(calibration: Calibration, name: str, folder: Path | None = None) -> Path:
    """Keep a calibration; one of the same name gives way.

    Raises:
        StoreUnwritable: it cannot be kept.
    """
    folder = folder or default_folder()
    path = folder / f"{name}.json"
    content = {"schema_version": _VERSION, **codec.encode_calibration(calibration)}
    with writing(path):
        write_whole(path, [json.dumps(content, indent=1), "\n"], FOR_OTHERS)
    return path


def load(name: str, folder: Path | None = None) -> Calibration | None:
    """Return a calibration, or None when there is none that this version understands."""
    path = (folder or default_folder()) / f"{name}.json"
    try:
        content = read_json(read_bytes(path, MAX_BYTES).decode())
        return codec.decode_calibration(content) if content["schema_version"] == _VERSION else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
