"""Services of the controller's machine: programs, files, locks, and commands with a deadline."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from collie.errors import LabError
from collie.files import open_regular

Say = Callable[[str], None]

MAX_BYTES = 1 << 20
"""Limit of a file that describes a lab."""

QEMU = "qemu-system-x86_64"

# Program -> its Debian package, for error messages.
PACKAGE_OF = {
    QEMU: "qemu-system-x86",
    "mmdebstrap": "mmdebstrap",
    "mkfs.ext4": "e2fsprogs",
    "fakeroot": "fakeroot",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "tar": "tar",
}


def quiet(_line: str) -> None:
    """Drop progress lines."""


def find_program(name: str) -> str | None:
    """Return the path of a program. Directories outside PATH are searched, too."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin:/usr/local/sbin")


def require_programs(*names: str) -> None:
    """Check that programs are installed."""
    missing = [name for name in names if find_program(name) is None]
    if missing:
        packages = " ".join(sorted({PACKAGE_OF.get(name, name) for name in missing}))
        raise LabError(f"the lab needs {', '.join(missing)}, not found here; install with: apt-get install {packages}")


def private_directory(path: Path) -> Path:
    """Return a directory, created for its owner alone unless it exists."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise LabError(f"cannot create the directory {path}: {error.strerror}; choose another one") from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise LabError(f"cannot write to the directory {path}; correct its owner or choose another one")
    return path


def user_directory(variable: str, otherwise: str) -> Path:
    """Return the lab's folder in an XDG directory, or below the home directory."""
    base = os.environ.get(variable)
    return (Path(base) if base else Path.home() / otherwise) / "collie" / "lab"


def remove(path: Path) -> None:
    """Remove a file if it exists."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise LabError(f"{path} cannot be removed: {error.strerror}; remove it yourself") from None


@contextmanager
def locked(path: Path, *, timeout_seconds: float, what: str, say: Say) -> Iterator[int]:
    """Hold an exclusive lock on a file. Yields its descriptor: a child that inherits it keeps the lock."""
    try:
        descriptor = open_regular(path, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise LabError(f"{path} cannot be locked: {error.strerror}") from None
    try:
        deadline = time.monotonic() + timeout_seconds
        announced = False
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise LabError(
                        f"{what} is busy in another process for more than {timeout_seconds:.0f} s; "
                        f"lock {path}; wait for that process or end it"
                    ) from None
                if not announced:
                    say(f"waiting for another process that uses {what}")
                    announced = True
                time.sleep(0.2)
        yield descriptor
    finally:
        os.close(descriptor)


def opened_log(path: Path, how: int) -> BinaryIO:
    """Open a log for writing, with `os.O_APPEND` or `os.O_TRUNC`."""
    try:
        return os.fdopen(open_regular(path, os.O_WRONLY | os.O_CREAT | how), "wb")
    except OSError as error:
        raise LabError(f"{path} cannot be written: {error.strerror}; remove it") from None


def tail(path: Path, lines: int = 15) -> str:
    """Return the last lines of a log."""
    try:
        with os.fdopen(open_regular(path), "rb") as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - 16384))
            text = stream.read().decode("utf-8", errors="replace")
    except OSError:
        return ""
    return "\n".join(line.rstrip() for line in text.splitlines()[-lines:])


def run_logged(
    argv: Sequence[str],
    *,
    log: Path,
    directory: Path,
    timeout_seconds: float,
    on_line: Say = quiet,
    inherit: Sequence[int] = (),
    environment: Mapping[str, str] | None = None,
) -> int:
    """Run a command with its output in a log, report each line, and return its exit status.

    At the deadline, or by Ctrl-C, the command and its children are ended. The deadline raises `LabError`.
    """
    with opened_log(log, os.O_APPEND) as sink, os.fdopen(open_regular(log), "rb") as source:
        source.seek(0, os.SEEK_END)
        process = subprocess.Popen(
            argv,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=tuple(inherit),
            env=None if environment is None else dict(environment),
        )
        deadline = time.monotonic() + timeout_seconds
        pending = b""
        try:
            while process.poll() is None:
                if time.monotonic() > deadline:
                    raise LabError(
                        f"{argv[0]} did not end within {timeout_seconds:.0f} s; its last lines:\n{tail(log)}\n"
                        "is the mirror reachable and fast enough?"
                    )
                time.sleep(0.1)
                *whole, pending = (pending + source.read()).split(b"\n")
                for line in whole:
                    on_line(line.decode("utf-8", errors="replace"))
        except BaseException:
            _end_session(process)
            raise
        return process.returncode


def _end_session(process: subprocess.Popen[bytes]) -> None:
    """End a command and its children. mmdebstrap removes its temporary tree on SIGTERM."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(15.0)
