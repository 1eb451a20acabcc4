"""Opens untrusted files without blocking, reads them up to a limit, and follows no links below a `Folder`.

1. Only a regular file is opened. Opening a FIFO would block, and opening a device may act on it.
2. The type is checked twice: by name before opening, and on the descriptor afterwards.
3. Below an untrusted folder no symbolic link is followed (`Folder`). Each name is opened relative to the descriptor
   of its folder, so replacing a folder meanwhile has no effect.
4. Every read has a limit in bytes.

Every refusal is an `OSError` whose `strerror` names the kind of file. Standard library only: bundles carry this module.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final, Self, TextIO

FOR_OTHERS: Final = 0o666

_FLAGS = os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
_KINDS = (
    (stat.S_ISDIR, errno.EISDIR, "a directory"),
    (stat.S_ISLNK, errno.ELOOP, "a symbolic link, which is not followed here"),
    (stat.S_ISFIFO, errno.EINVAL, "a FIFO"),
    (stat.S_ISSOCK, errno.EINVAL, "a socket"),
    (stat.S_ISCHR, errno.EINVAL, "a device"),
    (stat.S_ISBLK, errno.EINVAL, "a device"),
)


def require_regular(mode: int, path: str | Path) -> None:
    """Refuse anything but a regular file."""
    if stat.S_ISREG(mode):
        return
    for matches, number, kind in _KINDS:
        if matches(mode):
            raise OSError(number, f"it is {kind}, not a regular file", str(path))
    raise OSError(errno.EINVAL, "it is not a regular file", str(path))


def open_regular(
    path: str | Path, flags: int = os.O_RDONLY, mode: int = 0o600, *, follow: bool = True, dir_fd: int | None = None
) -> int:
    """Open a regular file and return its descriptor. Never blocks. Without `follow`, a link is refused."""
    with suppress(FileNotFoundError):  # `os.open` below creates a missing file, or fails
        require_regular(os.stat(path, dir_fd=dir_fd, follow_symlinks=follow).st_mode, path)
    descriptor = os.open(path, flags | _FLAGS | (0 if follow else os.O_NOFOLLOW), mode, dir_fd=dir_fd)
    return _checked(descriptor, path, require_regular)


def open_output(path: str | Path, mode: int = 0o600, *, append: bool = False) -> int:
    """Open the user's output file and return its descriptor. Create it, or empty it unless `append`.

    It may be a regular file, a character device, or a FIFO with a reader. Never blocks. Links are followed.
    """
    with suppress(FileNotFoundError):
        _require_output(os.stat(path).st_mode, path)
    descriptor = _open_output(path, os.O_WRONLY | os.O_CREAT | (os.O_APPEND if append else os.O_TRUNC), mode)
    return _checked(descriptor, path, _require_output)


def _checked(descriptor: int, path: str | Path, require: Callable[[int, str | Path], None]) -> int:
    try:
        require(os.fstat(descriptor).st_mode, path)
        os.set_blocking(descriptor, True)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _open_output(path: str | Path, flags: int, mode: int) -> int:
    try:
        return os.open(path, flags | _FLAGS, mode)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise OSError(errno.ENXIO, "it is a FIFO without a reader", str(path)) from None
        raise


def is_odd_output(path: str | Path) -> bool:
    """Whether the user's output exists and is not a regular file, such as /dev/stdout."""
    with suppress(FileNotFoundError):
        return not stat.S_ISREG(os.stat(path).st_mode)
    return False


def require_output(path: str | Path) -> None:
    """Refuse an output that `open_output` could not open, long before it is opened.

    A FIFO is opened now and stays open until this process ends, because closing it would end its reader.
    """
    with suppress(FileNotFoundError):
        mode = os.stat(path).st_mode
        _require_output(mode, path)
        if stat.S_ISFIFO(mode):
            _open_output(path, os.O_WRONLY, 0)


def _require_output(mode: int, path: str | Path) -> None:
    if not (stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)):
        require_regular(mode, path)


def is_file_name(path: str | Path) -> bool:
    """Whether a path exists and is not a directory. FIFOs and dangling links count. Reading them reports the error."""
    return os.path.lexists(path) and not os.path.isdir(path)


def read_bytes(path: str | Path, max_bytes: int, *, follow: bool = True, dir_fd: int | None = None) -> bytes:
    """Read a whole file of at most `max_bytes`."""
    with os.fdopen(open_regular(path, follow=follow, dir_fd=dir_fd), "rb") as file:
        return read_up_to(file, max_bytes)


def read_up_to(file: BinaryIO, max_bytes: int) -> bytes:
    """Read the rest of an open file of at most `max_bytes`."""
    data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise OSError(errno.EFBIG, f"it is larger than {_size(max_bytes)}", str(file.name))
    return data


def _size(count: int) -> str:
    if count >= 1 << 20:
        return f"{count >> 20} MiB"
    return f"{count >> 10} KiB" if count >= 1 << 10 else f"{count} bytes"


class Folder:
    """An untrusted folder, held by its descriptor. Nothing below it is reached through a link."""

    def __init__(self, path: str | Path, *, _descriptor: int | None = None) -> None:
        self.path = Path(path)
        if _descriptor is None:
            _descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._descriptor = _descriptor

    def below(self, *names: str, create_mode: int | None = None) -> Folder:
        """Open a folder below this one, one step per name. `create_mode` creates missing ones."""
        descriptor = os.dup(self._descriptor)
        path = self.path
        try:
            for name in names:
                path /= _component(name)
                if create_mode is not None:
                    with suppress(FileExistsError):
                        os.mkdir(name, create_mode, dir_fd=descriptor)
                if stat.S_ISLNK(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode):
                    raise OSError(errno.ELOOP, "it is a symbolic link, which is not followed here")
                flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
                inner = os.open(name, flags, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = inner
        except BaseException as error:
            os.close(descriptor)
            if isinstance(error, OSError):
                error.filename = str(path)
            raise
        return Folder(path, _descriptor=descriptor)

    def open(self, name: str, flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
        """Open a regular file in this folder and return its descriptor."""
        with self._naming(name):
            return open_regular(_component(name), flags, mode, follow=False, dir_fd=self._descriptor)

    def read(self, name: str, max_bytes: int) -> bytes:
        """Read a whole file of at most `max_bytes`."""
        with self._naming(name):
            return read_bytes(_component(name), max_bytes, follow=False, dir_fd=self._descriptor)

    def stat(self, name: str) -> os.stat_result | None:
        """Return the status of a name, None if it does not exist. A link is not followed."""
        try:
            return os.stat(_component(name), dir_fd=self._descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def names(self) -> list[str]:
        """Return the sorted names in this folder."""
        return sorted(os.listdir(self._descriptor))

    @contextmanager
    def new(self, name: str, mode: int = 0o600, *, survives: bool = True) -> Iterator[TextIO]:
        """Write a text file. A reader sees the old file or the complete new one. A link of that name is replaced.

        Unless the file `survives` a crash of the machine, which can then leave it empty, nobody waits for the disk.
        """
        # The name is unique, because two processes may write the same report.
        unfinished = f".{_component(name)}.{threading.get_native_id()}.new"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with self._naming(name), ExitStack() as on_failure:
            self._remove_abandoned(name)
            descriptor = os.open(unfinished, flags, mode, dir_fd=self._descriptor)
            on_failure.callback(self._remove, unfinished)
            with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
                yield file
                file.flush()
                if survives:
                    os.fsync(file.fileno())
            os.replace(unfinished, name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
            on_failure.pop_all()

    def _remove_abandoned(self, name: str) -> None:
        """Remove unfinished versions of a file that this thread or ended threads left."""
        for found in os.listdir(self._descriptor):
            left = re.fullmatch(rf"\.{re.escape(name)}\.(\d+)\.new", found)
            if left and (left[1] == str(threading.get_native_id()) or not os.path.exists(f"/proc/{left[1]}")):
                self._remove(found)

    def _remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._descriptor)

    @contextmanager
    def _naming(self, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            error.filename, error.filename2 = str(self.path / name), None
            raise

    def write(self, name: str, parts: Iterable[str], mode: int = 0o600, *, survives: bool = True) -> None:
        """Write a text file like `new`."""
        with self.new(name, mode, survives=survives) as file:
            for part in parts:
                file.write(part)

    def close(self) -> None:
        """Close the descriptor. A second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def write_whole(path: Path, parts: Iterable[str], mode: int = 0o600, *, survives: bool = True) -> None:
    """Create a folder and write a text file in it, like `Folder.write`. Links in the folder's path are followed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with Folder(path.parent) as folder:
        folder.write(path.name, parts, mode, survives=survives)


def _component(name: str) -> str:
    if name in {"", ".", ".."} or "/" in name or "\0" in name:
        raise OSError(errno.EINVAL, "it is no name of a file in a folder", name)
    return name
