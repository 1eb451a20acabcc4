"""This machine as a host: the remote of the tests that need a real agent and no network."""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

from collie.errors import CommandFailed, CommandTimeout
from collie.ports import Completed
from collie.ssh.local import LocalChannel, end

NOT_FOUND = 127
NOT_EXECUTABLE = 126


class LocalRemote:
    """`Remote` by subprocesses. Relative paths and commands start at `home`."""

    def __init__(self, name: str, home: Path) -> None:
        self.name = name
        self._home = home
        self._channels: list[LocalChannel] = []

    def run(self, argv: Sequence[str], timeout_seconds: float) -> Completed:
        """Run a command to its end."""
        try:
            process = self._popen(argv, subprocess.DEVNULL)
        except OSError as error:
            # The answer of a shell at the other end of SSH.
            status = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
            return Completed(status, "", f"{argv[0]}: {error.strerror}")
        try:
            stdout, stderr = process.communicate(timeout=timeout_seconds)
        except subprocess.TimeoutExpired:
            raise CommandTimeout(self.name, shlex.join(argv), timeout_seconds) from None
        finally:
            end(process)
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
        return Completed(process.returncode, stdout.decode(errors="replace"), stderr.decode(errors="replace"))

    def put(self, data: bytes, path: str) -> None:
        """Write a file atomically."""
        target = self._home / path
        temporary = target.with_name(f"{target.name}.{secrets.token_hex(4)}")
        try:
            for directory in reversed(target.parents):
                if not directory.is_dir():
                    with contextlib.suppress(FileExistsError):
                        directory.mkdir(0o700)
            with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(data)
            temporary.replace(target)
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise CommandFailed(self.name, ["write", path], 1, str(error)) from error

    def open(self, argv: Sequence[str]) -> LocalChannel:
        """Start a command."""
        try:
            process = self._popen(argv, subprocess.PIPE)
        except OSError as error:
            # A shell at the other end of SSH would report it on stderr and end.
            text = f"echo {shlex.quote(f'{argv[0]}: {error.strerror}')} >&2; exit {NOT_FOUND}"
            process = self._popen(["sh", "-c", text], subprocess.PIPE)
        channel = LocalChannel(process, self.name, shlex.join(argv))
        self._channels.append(channel)
        return channel

    def close(self) -> None:
        """End every command."""
        channels, self._channels = self._channels, []  # another thread may open one meanwhile
        for channel in channels:
            channel.close()

    def _popen(self, argv: Sequence[str], stdin: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            argv,
            cwd=self._home,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
