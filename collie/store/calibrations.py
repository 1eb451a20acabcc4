"""Calibrations of real hosts, kept by fingerprint: the same hosts are not calibrated twice."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from collie.detect.bounds import Calibration
from collie.store import codec
from collie.store.directory import publish
from collie.workloads.workload import Workload, render

_VERSION = 1


def fingerprint(description: Mapping[str, Any], plain: Workload) -> str:
    """Name what a calibration depends on: the hosts as they describe themselves, and the plain workload."""
    text = json.dumps([description, render(plain)], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def default_folder() -> Path:
    """Return where calibrations are kept: under `$XDG_STATE_HOME`, else `~/.local/state`."""
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "collie" / "calibrations"


def save(calibration: Calibration, name: str, folder: Path | None = None) -> Path:
    """Keep a calibration; one of the same name gives way."""
    folder = folder or default_folder()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    unfinished = path.with_suffix(".new")
    content = {"schema_version": _VERSION, **codec.encode_calibration(calibration)}
    unfinished.write_text(json.dumps(content, indent=1) + "\n")
    publish(unfinished, path)
    return path


def load(name: str, folder: Path | None = None) -> Calibration | None:
    """Return a calibration, or None when there is none that this version understands."""
    path = (folder or default_folder()) / f"{name}.json"
    try:
        content = json.loads(path.read_text())
        return codec.decode_calibration(content) if content["schema_version"] == _VERSION else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
