"""Compiles the traffic loop (``native/traffic.c``) and recognises objects of the current source.

The build of a wheel uses this module alone, so it imports nothing else of Collie.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import tempfile
from typing import Dict, Mapping, Optional

SOURCES = ("traffic.c", "verbs_abi.h")
OBJECT = "traffic.x86_64.so"
SHIPPED_MACHINE = "x86_64"

COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-std=gnu11", "-O2", "-g0", "-Wall", "-fPIC", "-shared", "-fvisibility=hidden")
COMPILE_SECONDS = 20.0

ELF_X86_64 = 62


class NotCompiled(Exception):
    """There is no object, for the reason in the text."""


def read(folder: str) -> Dict[str, bytes]:
    """Return the sources in a folder."""
    found = {}
    for name in SOURCES:
        with open(os.path.join(folder, name), "rb") as file:
            found[name] = file.read()
    return found


def digest(sources: Mapping[str, bytes]) -> str:
    """Return a digest of the sources."""
    whole = hashlib.sha256()
    for name in SOURCES:
        whole.update(name.encode() + b"\0" + sources[name])
    return whole.hexdigest()[:16]


def is_current(data: bytes, sources: Mapping[str, bytes]) -> bool:
    """Whether an object was compiled from these sources."""
    return f"collie-source:{digest(sources)}\0".encode() in data


def _fits_shipping(data: bytes) -> bool:
    return data[:6] == b"\x7fELF\x02\x01" and int.from_bytes(data[18:20], "little") == ELF_X86_64


def compile_object(sources: Mapping[str, bytes]) -> bytes:
    """Compile with the first available compiler, or raise NotCompiled with its error."""
    problem = f"there is no C compiler ({', '.join(COMPILERS)})"
    with tempfile.TemporaryDirectory(prefix="collie-") as folder:
        for name, data in sources.items():
            with open(os.path.join(folder, name), "wb") as file:
                file.write(data)
        for compiler in COMPILERS:
            argv = [compiler, *FLAGS, f'-DSOURCE_DIGEST="{digest(sources)}"', "-o", "traffic.so", "traffic.c"]
            done = _run(argv, folder)
            if done is None:
                continue
            if done.returncode:
                problem = f"{compiler}: {done.stderr.strip()[:200] or done.returncode}"
                continue
            with open(os.path.join(folder, "traffic.so"), "rb") as file:
                return file.read()
    raise NotCompiled(problem)


def _run(argv: list[str], folder: str) -> Optional[subprocess.CompletedProcess[str]]:
    try:
        return subprocess.run(
            argv,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMPILE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None


def current(folder: str) -> bytes:
    """Return the current object in ``folder``, compiled if necessary.

    An outdated object is removed even if compiling raises NotCompiled.
    """
    sources, path = read(folder), os.path.join(folder, OBJECT)
    if os.path.exists(path):
        with open(path, "rb") as file:
            data = file.read()
        if is_current(data, sources):
            return data
        with contextlib.suppress(OSError):
            os.unlink(path)
    data = compile_object(sources)
    if not _fits_shipping(data):
        raise NotCompiled(f"the compiler does not target {SHIPPED_MACHINE}")
    with contextlib.suppress(OSError):  # read-only installation: compiled again next time
        _keep(path, data)
    return data


def _keep(path: str, data: bytes) -> None:
    """Write atomically."""
    with tempfile.NamedTemporaryFile(dir=os.path.dirname(path), delete=False) as file:
        file.write(data)
    os.chmod(file.name, 0o644)
    os.replace(file.name, path)
