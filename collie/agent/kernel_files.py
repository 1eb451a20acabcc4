"""Reads small files of the kernel. None means missing or unreadable. Parts after the first may begin with a slash."""

from __future__ import annotations

import os
from typing import List, Optional

_PART_BYTES = 1 << 16


def below(*parts: str) -> str:
    """Join the parts of a path."""
    return os.path.join(parts[0], *(part.lstrip("/") for part in parts[1:]))


def read_bytes(*parts: str) -> Optional[bytes]:
    """Return a file's bytes."""
    try:
        number = os.open(below(*parts), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    # A file object takes twice as long, and every sample reads dozens of files. A read returns a page of a long one.
    try:
        data = b""
        while part := os.read(number, _PART_BYTES):
            data += part
        return data
    except OSError:
        return None
    finally:
        os.close(number)


def read_text(*parts: str) -> Optional[str]:
    """Return a file's stripped text."""
    data = read_bytes(*parts)
    return None if data is None else data.decode("utf-8", "replace").strip()


def read_int(*parts: str) -> Optional[int]:
    """Return a file as a number."""
    try:
        return int(read_text(*parts) or "")
    except ValueError:
        return None


def entries(*parts: str) -> List[str]:
    """Return a directory's sorted entries."""
    try:
        return sorted(os.listdir(below(*parts)))
    except OSError:
        return []


def link_target(*parts: str) -> Optional[str]:
    """Return the last component of a link's target."""
    try:
        return os.path.basename(os.readlink(below(*parts)))
    except OSError:
        return None
