"""The archive's first program: unpacks what is named after its content, so that Python keeps what it compiles.

Of a zip archive Python compiles every module at every start, which is four fifths of the time that the imports take:
0.2 s on a server, some seconds on an emulated CPU. Standard library only, and little of it: this runs at every start.
"""

from __future__ import annotations

import os
import re
import sys

_NAMED_AFTER_CONTENT = re.compile(r"agent-[0-9a-f]{16}\.pyz")


def unpacked(archive: str) -> str:
    """Return the folder beside the archive that holds its files; the archive where that cannot be.

    Args:
        archive: path of the archive, which whoever starts it has compared with its name.
    """
    if not _NAMED_AFTER_CONTENT.fullmatch(os.path.basename(archive)):
        return archive
    folder = archive[: -len(".pyz")]
    if not os.path.isdir(folder):
        _unpack(archive, folder)
    return folder if os.path.isdir(folder) else archive


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
        os.rename(part, folder)
    except (OSError, zipfile.BadZipFile):  # full, or another start was faster
        shutil.rmtree(part, ignore_errors=True)


if __name__ == "__main__":
    sys.path[0] = unpacked(os.path.abspath(sys.argv[0]))
    from collie.agent.__main__ import main

    sys.exit(main())
