"""Starts a shipped program on a host so that the program which runs is the one that was checked.

The controller sends this source over standard input to ``python3 -c BOOT PATH SHA256``. Nothing that lies on the host
decides over it. One line on standard output is its answer:

``running``: the program runs, and has both streams from here on.
``absent``: PATH does not hold the program that has this SHA-256.
``refused WHY``: somebody else than the user and root could exchange what lies at PATH.

Rules:

1. Only the user and root can change a folder on the way to PATH. The way begins at the folder that this is started in,
   the user's home. Others may write to a folder with the sticky bit, such as /tmp: they cannot exchange an entry of the
   user's there. They may write to a folder below one that only its owner can enter, such as a home directory of mode
   0700: they cannot reach it. A link is followed when it is the user's or root's, and each folder that it leads through
   is checked.
2. The file is read once. The bytes that were compared are copied to a file without a name, and this copy is run. A
   file that is exchanged after the comparison changes nothing, even where rule 1 is deceived.

Standard library only, and little of it: this runs at every start.
"""

from __future__ import annotations

import os
import stat
import sys

BOOT = "import sys; sys.path[:] = [p for p in sys.path if p]; exec(bytes.fromhex(input()))"
"""`-c` puts the folder that it is started in first on the path, which is not checked yet."""
RUNNING, ABSENT, REFUSED = "running", "absent", "refused "
MAX_BYTES = 64 << 20
MAX_LINKS = 40
"""As the kernel follows."""


class Refused(Exception):
    """Somebody else could exchange the program; the text says where, and what mends it."""


def settled(path: str) -> str:
    """Return a path without links, of which others can change no folder; folders at its end may not exist yet.

    Raises:
        Refused: others can.
        OSError: a folder cannot be looked at.
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
    """Refuse what others can change: its entries, or itself by its owner.

    Args:
        path: of a folder or link on the way.
        is_closed: whether others cannot reach it, as a folder above it lets only its owner in.

    Returns:
        Whether others cannot reach what lies below it.
    """
    found = os.lstat(path)
    if found.st_uid not in (0, os.geteuid()):
        why = f"{path} belongs to user id {found.st_uid}, who could exchange the agent in it"
        raise Refused(f"{why}; on the host: chown {'-h ' * stat.S_ISLNK(found.st_mode)}{os.geteuid()} {_quoted(path)}")
    if not stat.S_ISDIR(found.st_mode) or is_closed:
        return is_closed
    if found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX:
        why = f"others can write to {path} (mode {stat.S_IMODE(found.st_mode):o}), and could exchange the agent in it"
        raise Refused(f"{why}; on the host: chmod go-w {_quoted(path)}")
    return not found.st_mode & 0o011


def _quoted(path: str) -> str:
    import shlex

    return shlex.quote(path)


def read(path: str, sha256: str) -> bytes | None:
    """Return the program at a path; None unless it is the one that has this SHA-256."""
    import hashlib

    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):  # opening anything else may wait, or act on a device
            return None
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            data = file.read(MAX_BYTES)
    except OSError:
        return None
    return data if hashlib.sha256(data).hexdigest() == sha256 else None


def copied(data: bytes) -> str:
    """Return the path of a copy that only this process can reach, until it ends."""
    try:
        number = os.memfd_create("collie-agent")
    except (OSError, AttributeError):  # forbidden, or an interpreter that was built on an old libc
        import tempfile

        with tempfile.TemporaryFile() as unnamed:
            number = os.dup(unnamed.fileno())
    with open(number, "wb", closefd=False) as file:
        file.write(data)
    return f"/proc/self/fd/{number}"


def main() -> None:
    """Answer, and run the program."""
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
