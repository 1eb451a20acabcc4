"""Builds the archive that is copied to a host."""

from __future__ import annotations

import hashlib
import io
import logging
import zipfile
from pathlib import Path
from typing import Dict, Mapping

from . import compiler

logger = logging.getLogger(__name__)

SHEBANG = b"#!/usr/bin/env python3\n"
MAIN = "start.py"
CONTROLLER_ONLY = {"build.py", "loader.py"}
# The earliest time that a zip file can hold. A fixed time makes the archive depend on the sources alone.
EPOCH = (1980, 1, 1, 0, 0, 0)


def sources() -> Dict[str, bytes]:
    """Return the archive's files by name."""
    here = Path(__file__).parent
    files = {"__main__.py": (here / MAIN).read_bytes(), "collie/__init__.py": b""}
    for path in here.glob("*.py"):
        if path.name not in {*CONTROLLER_ONLY, MAIN}:
            files[f"collie/agent/{path.name}"] = path.read_bytes()
    native = here / "native"
    for name in compiler.SOURCES:
        files[f"collie/agent/native/{name}"] = (native / name).read_bytes()
    try:
        files[f"collie/agent/native/{compiler.OBJECT}"] = compiler.current(str(native))
    except compiler.NotCompiled as error:
        logger.warning("the agent is shipped without its compiled traffic loop, hosts may use pyverbs: %s", error)
    return files


def build() -> bytes:
    """Return the archive. It depends on the sources alone."""
    return pack(sources())


def pack(files: Mapping[str, bytes]) -> bytes:
    """Return an archive of files, by name."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(files.items()):
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data)
    return SHEBANG + buffer.getvalue()


def digest(archive: bytes) -> str:
    """Return the digest that names the archive on the host."""
    return hashlib.sha256(archive).hexdigest()[:16]
