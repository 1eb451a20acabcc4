"""The lock of a campaign's only writer. The kernel releases it when the process ends."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

from collie.errors import StoreError, StoreUnwritable
from collie.files import Folder
from collie.store.directory import LOCK_NAME, writing

_ATTEMPTS, _PAUSE_SECONDS = 10, 0.01  # a reader's `is_held` holds the lock for some microseconds


class CampaignLock:
    """An exclusive lock on a campaign directory, held until `close`.

    The locked file is not the database: closing a second descriptor of the database would drop SQLite's POSIX locks.
    """

    def __init__(self, directory: Path) -> None:
        with writing(directory / LOCK_NAME), Folder(directory) as folder:
            self._file = folder.open(LOCK_NAME, os.O_RDWR | os.O_CREAT)
        with suppress(OSError):  # other users could open the lock file of an earlier Collie and hold it for ever
            os.fchmod(self._file, 0o600)
        try:
            _take(self._file)
        except BlockingIOError:
            holder = os.pread(self._file, 32, 0).decode(errors="replace").strip()
            self.close()
            raise StoreError(f"campaign {directory} is in use by process {holder or 'unknown'}") from None
        except OSError as error:
            self.close()
            raise StoreUnwritable(
                f"{directory} cannot be locked: {error.strerror}. Choose a folder on a file system that supports flock "
                "(Lustre: mounted with -o flock; NFS: with a lock service)"
            ) from None
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def close(self) -> None:
        """Release the lock. The file stays, because otherwise two processes could lock two different files."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _take(file: int) -> None:
    for _ in range(_ATTEMPTS - 1):
        with suppress(BlockingIOError):
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        time.sleep(_PAUSE_SECONDS)
    return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def is_held(directory: Folder) -> bool:
    """Whether a process writes the campaign. The check writes nothing and blocks no process."""
    try:
        file = directory.open(LOCK_NAME)
    except (FileNotFoundError, PermissionError):  # no lock file, or one that only another user can open
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # no writer can start on a file system without locks
        return False
    finally:
        os.close(file)
    return False
