"""Files that somebody else may have put there: opened without waiting, read up to a bound, reached through no link.

Rules:

1. Only a regular file is opened. A FIFO would wait for ever for its other end, and opening a device may act on it.
2. The type is checked twice: by name before the file is opened, and on its descriptor afterwards.
3. Below a folder that others may have filled, no name is followed when it is a symbolic link (`Folder`). Each step
   starts from the descriptor of the folder above it, so a folder that is exchanged meanwhile changes nothing.
4. Everything that is read has a bound in bytes.

A file that the user names to be written may also be a FIFO that is being read or a character device, such as
`/dev/stdout` (`open_output`).

Every refusal is an `OSError` whose `strerror` says what stands there. Standard library only: bundles carry this module.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self, TextIO

FOR_OTHERS: Final = 0o666
"""Mode of files that others are to read: as far as the umask allows."""

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
    """Refuse what is no regular file.

    Args:
        mode: as `stat` returns it.
        path: for the error.

    Raises:
        OSError: it is something else; `strerror` says what.
    """
    if stat.S_ISREG(mode):
        return
    for matches, number, kind in _KINDS:
        if matches(mode):
            raise OSError(number, f"it is {kind}, not a regular file", str(path))
    raise OSError(errno.EINVAL, "it is not a regular file", str(path))


def open_regular(
    path: str | Path, flags: int = os.O_RDONLY, mode: int = 0o600, *, follow: bool = True, dir_fd: int | None = None
) -> int:
    """Open a regular file and return its descriptor; never waits.

    Args:
        path: the file; relative to `dir_fd` when that is given.
        flags: of `os.open`.
        mode: of a file that is created.
        follow: whether the last part of the path may be a symbolic link.
        dir_fd: descriptor of the folder that holds it.

    Raises:
        OSError: it is no regular file, or cannot be opened.
    """
    with suppress(FileNotFoundError):  # to be created, or the error of `os.open`
        require_regular(os.stat(path, dir_fd=dir_fd, follow_symlinks=follow).st_mode, path)
    descriptor = os.open(path, flags | _FLAGS | (0 if follow else os.O_NOFOLLOW), mode, dir_fd=dir_fd)
    try:
        require_regular(os.fstat(descriptor).st_mode, path)
        os.set_blocking(descriptor, True)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def open_output(path: str | Path, mode: int = 0o600, *, append: bool = False) -> int:
    """Open a file that the user names to be written and return its descriptor; never waits.

    It is a regular file, a character device such as a terminal, or a FIFO that is being read. Links are the user's own.

    Args:
        path: the file; made where there is none, else emptied.
        mode: of a file that is made, as far as the umask allows.
        append: keep the content of the file, and add to it.

    Raises:
        OSError: it is something else, a FIFO without a reader, or cannot be opened.
    """
    with suppress(FileNotFoundError):
        _require_output(os.stat(path).st_mode, path)
    descriptor = _open_output(path, os.O_WRONLY | os.O_CREAT | (os.O_APPEND if append else os.O_TRUNC), mode)
    try:
        _require_output(os.fstat(descriptor).st_mode, path)
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
    """Whether something that is no regular file stands where the user wants a file written, such as /dev/stdout.

    Raises:
        OSError: that cannot be told, as of a link that leads to itself.
    """
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return False


def require_output(path: str | Path) -> None:
    """Refuse a name that `open_output` could not open, long before it is opened.

    A FIFO is opened now, and stays open until this process ends: its reader would take a close for the end of all.

    Raises:
        OSError: something else stands there, or a FIFO without a reader.
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
    """Whether a name stands for a file: it leads to something other than a directory, be it to a FIFO or nowhere.

    Its reader then says what is wrong with it, which `os.path.isfile` would pass over in silence.
    """
    return os.path.lexists(path) and not os.path.isdir(path)


def read_bytes(path: str | Path, max_bytes: int, *, follow: bool = True, dir_fd: int | None = None) -> bytes:
    """Read a whole file of at most `max_bytes`.

    Raises:
        OSError: it is no regular file, is larger, or cannot be read.
    """
    with os.fdopen(open_regular(path, follow=follow, dir_fd=dir_fd), "rb") as file:
        return read_up_to(file, max_bytes)


def read_up_to(file: BinaryIO, max_bytes: int) -> bytes:
    """Read the rest of an open file of at most `max_bytes`.

    Raises:
        OSError: it is larger, or cannot be read.
    """
    data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise OSError(errno.EFBIG, f"it is larger than {_size(max_bytes)}", str(file.name))
    return data


def _size(count: int) -> str:
    if count >= 1 << 20:
        return f"{count >> 20} MiB"
    return f"{count >> 10} KiB" if count >= 1 << 10 else f"{count} bytes"


class Folder:
    """A folder that others may have filled, held by its descriptor. Nothing below it is reached through a link.

    Names are single path components. Use it as a context, or close it.

    Args:
        path: of the folder; links on the way to it are the caller's own.

    Raises:
        OSError: it is no folder, or cannot be opened.
    """

    def __init__(self, path: str | Path, *, _descriptor: int | None = None) -> None:
        self.path = Path(path)
        if _descriptor is None:
            _descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._descriptor = _descriptor

    def below(self, *names: str, create_mode: int | None = None) -> Folder:
        """Open a folder below this one, step by step.

        Args:
            names: one for each step.
            create_mode: mode of folders that are made where there are none; None makes none.

        Raises:
            OSError: a step is a link or no folder, or cannot be opened or made.
        """
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
        """Open a regular file in this folder and return its descriptor.

        Raises:
            OSError: it is no regular file, or cannot be opened.
        """
        with self._naming(name):
            return open_regular(_component(name), flags, mode, follow=False, dir_fd=self._descriptor)

    def read(self, name: str, max_bytes: int) -> bytes:
        """Read a whole file of at most `max_bytes`.

        Raises:
            OSError: it is no regular file, is larger, or cannot be read.
        """
        with self._naming(name):
            return read_bytes(_component(name), max_bytes, follow=False, dir_fd=self._descriptor)

    def stat(self, name: str) -> os.stat_result | None:
        """Return what stands under a name, be it a link; None for nothing.

        Raises:
            OSError: the folder cannot be searched.
        """
        try:
            return os.stat(_component(name), dir_fd=self._descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def names(self) -> list[str]:
        """Return the names in this folder, sorted."""
        return sorted(os.listdir(self._descriptor))

    @contextmanager
    def new(self, name: str, mode: int = 0o600) -> Iterator[TextIO]:
        """Write a text file that a reader sees either as it was or complete; a link in its place is replaced.

        Raises:
            OSError: it cannot be written; what was there stays.
        """
        # A name of its own: somebody may ask for a report while a search ends and writes it, too.
        unfinished = f".{_component(name)}.{threading.get_native_id()}.new"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with self._naming(name), ExitStack() as on_failure:
            self._remove_abandoned(name)
            descriptor = os.open(unfinished, flags, mode, dir_fd=self._descriptor)
            on_failure.callback(self._remove, unfinished)
            with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(unfinished, name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
            on_failure.pop_all()

    def _remove_abandoned(self, name: str) -> None:
        """Remove what threads that were killed left of a file, and this one."""
        for found in os.listdir(self._descriptor):
            left = re.fullmatch(rf"\.{re.escape(name)}\.(\d+)\.new", found)
            if left and (left[1] == str(threading.get_native_id()) or not os.path.exists(f"/proc/{left[1]}")):
                self._remove(found)

    def _remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._descriptor)

    @contextmanager
    def _naming(self, name: str) -> Iterator[None]:
        """Give errors the whole path of a file in this folder."""
        try:
            yield
        except OSError as error:
            error.filename, error.filename2 = str(self.path / name), None
            raise

    def write(self, name: str, parts: Iterable[str], mode: int = 0o600) -> None:
        """Write a text file whole, as `new` does."""
        with self.new(name, mode) as file:
            for part in parts:
                file.write(part)

    def close(self) -> None:
        """Close the descriptor. A second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _component(name: str) -> str:
    """Refuse a name that would leave its folder."""
    if name in {"", ".", ".."} or "/" in name or "\0" in name:
        raise OSError(errno.EINVAL, "it is no name of a file in a folder", name)
    return name
