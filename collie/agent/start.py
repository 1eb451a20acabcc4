"""The archive's first program: unpacks what is named after its content, so that Python keeps what it compiles.

Of a zip archive Python compiles every module at every start, which is four fifths of the time that the imports take:
0.2 s on a server, some seconds on an emulated CPU. Standard library only, and little of it: this runs at every start.

A folder is used only where it is ours and closed to all others, and while every file in it is as long as it was: a host
that crashed soon after, or a cleaner of old files, leaves a part. It is opened once and used by its descriptor, so that
another one in its place changes nothing. Otherwise the archive itself serves, which `loader` has compared.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Optional

_NAMED_AFTER_CONTENT = re.compile(r"agent-[0-9a-f]{16}\.pyz")
_CONTENTS = "contents"  # bytes and name of each file


def unpacked(archive: str, path: str) -> str:
    """Return a folder that holds the files of the archive; the archive where that cannot be.

    Args:
        archive: what to unpack.
        path: its name on the host; the folder is beside it.
    """
    if not _NAMED_AFTER_CONTENT.fullmatch(os.path.basename(path)):
        return archive
    folder = path[: -len(".pyz")]
    if not os.path.lexists(folder):
        _unpack(archive, folder)
    try:
        held = _held(folder)
    except (OSError, ValueError):
        return archive
    return held or archive


def _held(folder: str) -> Optional[str]:
    """Return a path that leads to this folder whatever is put in its place; None unless it is ours, and whole."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    held = f"/proc/self/fd/{number}"
    found = os.fstat(number)
    # Closed to all others: what is in it has the mode that the umask left.
    if found.st_uid == os.geteuid() and not found.st_mode & 0o077 and _is_whole(held):
        return held
    os.close(number)
    return None


def _is_whole(folder: str) -> bool:
    with open(os.path.join(folder, _CONTENTS), encoding="utf-8") as lines:
        files = [line.rstrip("\n").split(" ", 1) for line in lines]
    return bool(files) and all(os.path.getsize(os.path.join(folder, name)) == int(size) for size, name in files)


def _unpack(archive: str, folder: str) -> None:
    import shutil
    import tempfile
    import zipfile

    try:
        part = tempfile.mkdtemp(prefix=os.path.basename(folder) + ".", dir=os.path.dirname(folder))
    except OSError:  # read-only or full
        return
    try:
        with zipfile.ZipFile(archive) as content:
            content.extractall(part)
            with open(os.path.join(part, _CONTENTS), "w", encoding="utf-8") as lines:
                lines.writelines(f"{file.file_size} {file.filename}\n" for file in content.infolist())
        os.rename(part, folder)
    except (OSError, zipfile.BadZipFile):  # full, or another start was faster
        shutil.rmtree(part, ignore_errors=True)


if __name__ == "__main__":
    sys.path[0] = unpacked(sys.argv[0], os.path.abspath(sys.argv[-1]))
    from collie.agent.__main__ import main

    sys.exit(main())
