"""The file of a bundle, which consists of modules, the agent and data.

A bundle may come from an attacker. Reading it loads one member into memory, up to a limit, and runs, imports or unpacks
nothing.
"""

from __future__ import annotations

import io
import json
import struct
import zipfile
import zlib
from pathlib import Path
from typing import NoReturn

from collie.bundle.catalogs import Catalogs
from collie.bundle.content import decode, encode
from collie.bundle.modules import needed
from collie.campaign.reproduce import Bundle
from collie.errors import ContentError, Problem
from collie.files import read_bytes
from collie.untrusted import no_number

CONTENT = "collie/bundle/content.json"
CATALOGS = "collie/bundle/catalogs.json"
AGENT = "collie/bundle/agent.pyz"
MAX_CONTENT_BYTES = 4 << 20  # typically 20 KB, most of it fingerprints
MAX_FILE_BYTES = 8 << 20  # typically 300 KB

_SHEBANG = b"#!/usr/bin/env python3\n"
_EPOCH = (1980, 1, 1, 0, 0, 0)
_MAIN = """\
import sys

if sys.version_info < (3, 11):
    sys.exit("this bundle needs Python 3.11 or newer where it is started; this is " + sys.version.split()[0])
from collie.bundle.controller import main
from collie.interrupts import ignore_signals

code = main()
ignore_signals()
sys.exit(code)
"""


_DAMAGED = (zipfile.BadZipFile, zlib.error, struct.error, RuntimeError, EOFError, ValueError, ArithmeticError)


def build(bundle: Bundle, catalogs: Catalogs, agent: bytes) -> bytes:
    """Return the file, with the catalogs of all known NICs and the agent's archive."""
    members = {
        **needed("collie.bundle.controller"),
        "__main__.py": _MAIN.encode(),
        CONTENT: json.dumps(encode(bundle), allow_nan=False, indent=1).encode(),
        CATALOGS: json.dumps(catalogs.encode(), allow_nan=False).encode(),
        AGENT: agent,
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(members.items()):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data)
    return _SHEBANG + buffer.getvalue()


def read(path: Path) -> Bundle:
    """Read the anomaly of a bundle. Raises `ContentError`."""
    try:
        with zipfile.ZipFile(io.BytesIO(read_bytes(path, MAX_FILE_BYTES))) as archive:
            if (packed := archive.getinfo(CONTENT)).compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                _wrong(path, "is packed as no bundle is")
            with archive.open(packed) as member:
                text = member.read(MAX_CONTENT_BYTES + 1)  # the size in the archive may be false
    except OSError as error:
        _wrong(path, f"cannot be read: {error.strerror}")
    except KeyError:
        _wrong(path, f"is no bundle of Collie: it holds no {CONTENT}")
    except _DAMAGED as error:
        _wrong(path, f"is no bundle, or a damaged one: {error}")
    if len(text) > MAX_CONTENT_BYTES:
        _wrong(path, f"its {CONTENT} is longer than {MAX_CONTENT_BYTES >> 20} MiB")
    return _decoded(path, text)


def _decoded(path: Path, text: bytes) -> Bundle:
    try:
        return decode(json.loads(text, parse_constant=no_number))
    except (ValueError, RecursionError) as error:
        _wrong(path, f"its {CONTENT} is wrong: {error}")


def _wrong(path: Path, message: str) -> NoReturn:
    raise ContentError([Problem(str(path), 0, message)]) from None
