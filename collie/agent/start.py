"""First program of the archive. It unpacks the archive once, so that Python can cache the compiled modules.

Compiling the modules of an archive takes 0.2 s at each start on a server, and seconds on an emulated CPU. This module
runs at every start, so it imports little and only the standard library.

The unpacked folder is used only if this user owns it, no other user can enter it, and every file has its recorded size.
It is used through an open descriptor, so replacing it has no effect. Otherwise the verified archive runs.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Optional

_NAMED_AFTER_CONTENT = re.compile(r"agent-[0-9a-f]{16}\.pyz")
_CONTENTS = "contents"  # size and name of each file


def unpacked(archive: str, path: str) -> str:
    """Return a folder with the files of the archive, or the archive if there is no usable folder.

    Args:
        archive: path of the verified copy.
        path: the archive's path on the host. The folder is beside it.
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
    """Return a path that stays bound to this folder. None if it is incomplete, or another user has access."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    held = f"/proc/self/fd/{number}"
    found = os.fstat(number)
    # The mode of the folder protects its files. Their own modes depend on the umask.
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
    except (OSError, zipfile.BadZipFile):  # full, or another process was faster
        shutil.rmtree(part, ignore_errors=True)


if __name__ == "__main__":
    sys.path[0] = unpacked(sys.argv[0], os.path.abspath(sys.argv[-1]))
    from collie.agent.__main__ import main

    sys.exit(main())
