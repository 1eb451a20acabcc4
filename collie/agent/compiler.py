"""Compiles the traffic loop (``native/traffic.c``), and tells whether a shared object was compiled from it.

The build of a wheel loads only this module, so it imports nothing else of Collie.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import tempfile
from typing import Dict, Mapping, Optional

SOURCES = ("traffic.c", "nic_clock.h", "verbs_abi.h")
OBJECT = "traffic.x86_64.so"
SHIPPED_MACHINE = "x86_64"

COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-std=gnu11", "-O2", "-g0", "-Wall", "-fPIC", "-shared", "-fvisibility=hidden")
MAX_SECONDS = 20.0

ELF_X86_64 = 62


class NotCompiled(Exception):
    """The source could not be compiled. The text has the reason."""


def read(folder: str) -> Dict[str, bytes]:
    """Return the bytes of `SOURCES` in a folder, by name."""
    found = {}
    for name in SOURCES:
        with open(os.path.join(folder, name), "rb") as file:
            found[name] = file.read()
    return found


def digest(sources: Mapping[str, bytes]) -> str:
    """Return 16 hexadecimal digits of the sources' SHA-256."""
    whole = hashlib.sha256()
    for name in SOURCES:
        whole.update(name.encode() + b"\0" + sources[name])
    return whole.hexdigest()[:16]


def is_current(data: bytes, sources: Mapping[str, bytes]) -> bool:
    """Whether a shared object was compiled from these sources. It contains the digest of its sources."""
    return f"collie-source:{digest(sources)}\0".encode() in data


def _fits_shipping(data: bytes) -> bool:
    return data[:6] == b"\x7fELF\x02\x01" and int.from_bytes(data[18:20], "little") == ELF_X86_64


def compile_object(sources: Mapping[str, bytes]) -> bytes:
    """Compile with the first compiler that succeeds, or raise NotCompiled with the last one's error."""
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
            argv, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=MAX_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(argv, 1, "", f"it did not end in {MAX_SECONDS} s")
    except OSError:
        return None


def current(folder: str) -> bytes:
    """Return the shared object in ``folder``. Compile it first if it is absent or outdated.

    Raises NotCompiled. An outdated object is removed first, so that nothing loads it.
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
    with contextlib.suppress(OSError):  # a read-only installation compiles again next time
        _keep(path, data)
    return data


def _keep(path: str, data: bytes) -> None:
    """Write atomically."""
    with tempfile.NamedTemporaryFile(dir=os.path.dirname(path), delete=False) as file:
        file.write(data)
    os.chmod(file.name, 0o644)
    os.replace(file.name, path)
