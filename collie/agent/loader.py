"""Starts a shipped program on a host: exactly the bytes that were verified.

The controller sends this source over standard input to ``python3 -c BOOT PATH SHA256``, so no file on the host is
trusted. The answer is one line on standard output:

``running``: the program runs and owns both streams.
``absent``: PATH does not hold the program with this SHA-256.
``refused WHY``: a user other than this one and root could replace PATH.

Rules:

1. Only this user and root can change a folder or link on the way from the home directory to PATH. Exceptions: a sticky
   folder such as /tmp, where others cannot replace this user's entries, and folders below one that only its owner can
   enter. The folders of a link's target are checked, too.
2. The file is read once, and an unnamed copy of the verified bytes runs.

This module runs at every start, so it imports little and only the standard library.
"""

from __future__ import annotations

import os
import stat
import sys

BOOT = "import sys; sys.path[:] = [p for p in sys.path if p]; exec(bytes.fromhex(input()))"
"""`-c` puts the current folder first on `sys.path`. `BOOT` removes it, because it is not checked yet."""
RUNNING, ABSENT, REFUSED = "running", "absent", "refused "
MAX_BYTES = 64 << 20
MAX_LINKS = 40
"""The kernel's limit for one path."""


class Refused(Exception):
    """Another user could replace the program. The text names the remedy."""


def settled(path: str) -> str:
    """Return a path without links, none of whose folders another user can change. The last folders may be missing.

    Raises:
        Refused: another user can change a folder.
        OSError: a folder cannot be examined.
    """
    folder, name = os.path.split(path)
    here = os.getcwd()
    is_closed = _require_own(here, is_closed=False)
    waiting = folder.split("/")
    links = 0
    while waiting:
        part = waiting.pop(0) or "."
        step = os.path.normpath(os.path.join(here, part))
        if not os.path.lexists(step):
            return os.path.join(step, *waiting, name)
        is_closed = _require_own(step, is_closed=is_closed and part != "..")
        if os.path.islink(step):
            links += 1
            if links > MAX_LINKS:
                raise Refused(f"{step} is a link that leads to itself; remove it on the host")
            target = os.readlink(step)
            waiting[:0] = target.split("/")
            if target.startswith("/"):
                here, is_closed = "/", False
        else:
            here = step
    return os.path.join(here, name)


def _require_own(path: str, is_closed: bool) -> bool:
    """Refuse a folder or link that another user owns or can write to.

    ``is_closed``: only its owner can enter some folder above. The result is ``is_closed`` for entries of ``path``.
    """
    found = os.lstat(path)
    if found.st_uid not in (0, os.geteuid()):
        why = f"{path} belongs to user id {found.st_uid}, who could replace the agent in it"
        raise Refused(f"{why}; on the host: chown {'-h ' * stat.S_ISLNK(found.st_mode)}{os.geteuid()} {_quoted(path)}")
    if not stat.S_ISDIR(found.st_mode) or is_closed:
        return is_closed
    if found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX:
        why = f"others can write to {path} (mode {stat.S_IMODE(found.st_mode):o}), and could replace the agent in it"
        raise Refused(f"{why}; on the host: chmod go-w {_quoted(path)}")
    return not found.st_mode & 0o011


def _quoted(path: str) -> str:
    import shlex

    return shlex.quote(path)


def read(path: str, sha256: str) -> bytes | None:
    """Return the program, None if it cannot be read or has another SHA-256."""
    import hashlib

    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):  # opening another type may block or act on a device
            return None
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            data = file.read(MAX_BYTES)
    except OSError:
        return None
    return data if hashlib.sha256(data).hexdigest() == sha256 else None


def copied(data: bytes) -> str:
    """Return the path of a copy that only this process can reach."""
    try:
        number = os.memfd_create("collie-agent")
    except (OSError, AttributeError):  # forbidden, or Python built on an old libc
        import tempfile

        with tempfile.TemporaryFile() as unnamed:
            number = os.dup(unnamed.fileno())
    with open(number, "wb", closefd=False) as file:
        file.write(data)
    return f"/proc/self/fd/{number}"


def main() -> None:
    """Write the answer, and run the program."""
    path, sha256 = sys.argv[1:]
    try:
        path = settled(path)
        program = read(path, sha256)
    except (Refused, OSError) as error:
        _say(REFUSED + " ".join(str(error).split("\n")))
        return
    if program is None:
        _say(ABSENT)
        return
    import runpy

    place = copied(program)
    _say(RUNNING)
    sys.argv[1:] = [path]
    runpy.run_path(place, run_name="__main__")


def _say(word: str) -> None:
    os.write(1, os.fsencode(word) + b"\n")


if __name__ == "__main__":
    main()
