"""A host over the `ssh` program, for use without paramiko. The program's check of host keys is never loosened."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import selectors
import shlex
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, cast

from collie.errors import CommandFailed, CommandTimeout, HostKeyMismatch, HostUnreachable, TestbedError
from collie.inventory.hosts import Host
from collie.ports import Completed
from collie.ssh.lines import MAX_OUTPUT_BYTES
from collie.ssh.local import LocalChannel
from collie.ssh.timeouts import CLOSE_SECONDS, GRACE_SECONDS, TIMED_OUT, with_timeout
from collie.untrusted import sanitized

CONNECT_SECONDS = 10
OPENING_SECONDS = 25.0
"""Time for the log-in to a busy host."""
PUT_SECONDS = 60.0
ALIVE_SECONDS = 2
ALIVE_COUNT = 5
"""Unanswered keepalives before the host counts as gone."""
SSH_FAILED = 255
"""Exit status of a failed `ssh`. A command with this status looks the same."""

_KEYS_PREFIX = "collie-ssh-"

_WRITE = """set -e
umask 077
mkdir -p -- "$1"
trap 'rm -f -- "$2"' EXIT
cat >"$2"
test "$(wc -c <"$2")" -eq "$4"
mv -f -- "$2" "$3"
"""
"""Writes standard input to a file. Its size is checked, because a lost connection looks like the end of input."""


class OpenSshRemote:
    """`Remote` over the `ssh` program, with one connection per command.

    If the inventory pins a `host_key`, only that is trusted. Otherwise only the keys in `known_hosts` are, if given. A
    pinned fingerprint is refused, because `ssh` cannot check it.
    """

    def __init__(self, host: Host, known_hosts: Path | None = None, config_file: str | None = None) -> None:
        if host.host_key_fingerprint:
            raise TestbedError(
                f"host {host.name}: ssh takes no fingerprint; give `host_key`, the line that `ssh-keyscan` "
                "prints, or leave it to known_hosts"
            )
        self.name = host.name
        self._host = host
        self._known_hosts = known_hosts
        self._config_file = config_file
        self._keys: tempfile.TemporaryDirectory[str] | None = None
        self._lock = threading.Lock()
        self._channels: list[LocalChannel] = []
        self._running: set[subprocess.Popen[bytes]] = set()

    def run(self, argv: Sequence[str], timeout_seconds: float) -> Completed:
        """Run a command to its end."""
        return self._run(argv, timeout_seconds, None)

    def put(self, data: bytes, path: str) -> None:
        """Write a file atomically."""
        temporary = f"{path}.{secrets.token_hex(4)}"
        folder = path.rpartition("/")[0] or ("/" if path.startswith("/") else ".")
        argv = ["sh", "-c", _WRITE, "sh", folder, temporary, path, str(len(data))]
        done = self._run(argv, PUT_SECONDS, data)
        if done.status != 0:
            raise CommandFailed(self.name, ["write", path], done.status, done.stderr)

    def open(self, argv: Sequence[str]) -> LocalChannel:
        """Start a command."""
        channel = _OpenSshChannel(self._popen(argv, subprocess.PIPE), self.name, shlex.join(argv), self._failure)
        with self._lock:
            self._channels = [*(one for one in self._channels if one.process.poll() is None), channel]
        return channel

    def close(self) -> None:
        """End every open or running command."""
        with self._lock:
            channels, self._channels = self._channels, []
            running, self._running = self._running, set()
            keys, self._keys = self._keys, None
        for process in running:
            with contextlib.suppress(ProcessLookupError):  # it has ended just now
                os.killpg(process.pid, signal.SIGKILL)  # an ssh to a jump host holds our pipes as well
        for channel in channels:
            channel.close()
        if keys is not None:
            keys.cleanup()

    def _run(self, argv: Sequence[str], timeout_seconds: float, data: bytes | None) -> Completed:
        started = time.monotonic()
        process = self._popen(
            with_timeout(argv, timeout_seconds), subprocess.DEVNULL if data is None else subprocess.PIPE
        )
        with self._lock:
            self._running.add(process)
        with process:
            try:
                deadline = timeout_seconds + GRACE_SECONDS + OPENING_SECONDS
                stdout, stderr = (part.decode(errors="replace") for part in self._communicate(process, data, deadline))
            except BaseException as error:
                process.kill()
                if isinstance(error, subprocess.TimeoutExpired):
                    raise CommandTimeout(self.name, shlex.join(argv), timeout_seconds) from None
                raise
            finally:
                with self._lock:
                    self._running.discard(process)
        status = process.returncode
        if status == -signal.SIGKILL:
            raise HostUnreachable(self.name, self._host.address, "closed while a command ran")
        if status == SSH_FAILED:
            raise self._failure(stderr)
        if status in TIMED_OUT and time.monotonic() - started >= timeout_seconds:
            raise CommandTimeout(self.name, shlex.join(argv), timeout_seconds)
        return Completed(status, stdout, sanitized(stderr))

    def _communicate(
        self, process: subprocess.Popen[bytes], data: bytes | None, timeout_seconds: float
    ) -> tuple[bytes, bytes]:
        """Act as `Popen.communicate`, with a limit on the output."""
        deadline = time.monotonic() + timeout_seconds
        if data is not None:
            threading.Thread(target=_feed, args=(process.stdin, data), daemon=True).start()
        output = {cast("IO[bytes]", process.stdout): bytearray(), cast("IO[bytes]", process.stderr): bytearray()}
        with selectors.DefaultSelector() as waiting:
            for stream in output:
                waiting.register(stream, selectors.EVENT_READ, stream)
            while waiting.get_map():
                ready = waiting.select(max(0.0, deadline - time.monotonic()))
                if not ready:
                    raise subprocess.TimeoutExpired(process.args, timeout_seconds)
                for key, _ in ready:
                    chunk = os.read(key.fd, 65536)
                    output[key.data] += chunk
                    if not chunk:
                        waiting.unregister(key.fileobj)
                    if len(output[key.data]) > MAX_OUTPUT_BYTES:
                        words = f"a command printed more than {MAX_OUTPUT_BYTES >> 20} MiB"
                        raise HostUnreachable(self._host.name, self._host.address, words)
        process.wait(max(0.0, deadline - time.monotonic()))
        stdout, stderr = output.values()
        return bytes(stdout), bytes(stderr)

    def _popen(self, argv: Sequence[str], stdin: int) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        try:
            return subprocess.Popen(
                [*self._ssh(), shlex.join(argv)], stdin=stdin, stdout=pipe, stderr=pipe, start_new_session=True
            )
        except FileNotFoundError:
            raise TestbedError("there is no `ssh` here; install the OpenSSH client") from None

    def _ssh(self) -> list[str]:
        host = self._host
        options = {
            "BatchMode": "yes",
            "ConnectTimeout": str(CONNECT_SECONDS),
            "ServerAliveInterval": str(ALIVE_SECONDS),
            "ServerAliveCountMax": str(ALIVE_COUNT),
            "ForwardAgent": "no",
            "ForwardX11": "no",
            "ClearAllForwardings": "yes",
            "LogLevel": "ERROR",
            **self._trusted(),
        }
        argv = ["ssh", "-T"]
        if self._config_file is not None:
            argv += ["-F", self._config_file]
        for name, value in options.items():
            argv += ["-o", f"{name}={value}"]
        for letter, given in (("-p", host.port), ("-l", host.user), ("-J", host.jump), ("-i", host.identity_file)):
            argv += [letter, str(given)] if given else []
        return [*argv, "--", host.address]

    def _trusted(self) -> dict[str, str]:
        """Return the options that make ssh trust the named keys alone."""
        file, alias = self._known_hosts, {}
        if self._host.host_key:
            with self._lock:  # `close` may remove the folder while a session begins
                if self._keys is None:  # written once: an ssh that is starting may be reading it
                    self._keys = tempfile.TemporaryDirectory(prefix=_KEYS_PREFIX)
                    (Path(self._keys.name) / "known_hosts").write_text(f"{self.name} {self._host.host_key}\n")
                file = Path(self._keys.name) / "known_hosts"
            alias = {"HostKeyAlias": self.name}
        if file is None:
            return {}
        # The path is quoted, because the option is a list of files.
        return {
            "StrictHostKeyChecking": "yes",
            "UserKnownHostsFile": f'"{file.absolute()}"',
            "GlobalKnownHostsFile": "/dev/null",
            "ControlMaster": "no",
            "ControlPath": "none",  # an open connection of the user was verified with other keys
            **alias,
        }

    def _failure(self, stderr: str) -> TestbedError:
        host = self._host
        lines = (line.strip() for line in sanitized(stderr.replace("\r", "")).splitlines())
        reported = [line for line in lines if line and _KEYS_PREFIX not in line]  # without our temporary file
        words = " | ".join(reported[-3:]) or "ssh ended without a message"
        if "host key verification failed" not in stderr.lower():
            return HostUnreachable(host.name, host.address, words)
        where = "known_hosts" if self._known_hosts is None else str(self._known_hosts)
        about = re.search(r"host key (?:is known )?for (\S+)", stderr, re.IGNORECASE)
        at_jump = host.host_key is not None and about is not None and about[1] != self.name
        mended = f"add it to {where}" if at_jump or not host.host_key else "change `host_key` in the hosts file"
        return HostKeyMismatch(
            host.name,
            host.address,
            f"ssh rejects the host key of {'its jump' if at_jump else 'the'} host: {words}. Compare its key with "
            f"`ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` on {'that' if at_jump else 'the'} host itself, then "
            f"{mended}",
        )


class _OpenSshChannel(LocalChannel):
    """The pipes of an `ssh` process. Its failure raises an error, and does not look like the end of the output."""

    def __init__(
        self, process: subprocess.Popen[bytes], host: str, command: str, failure: Callable[[str], TestbedError]
    ) -> None:
        super().__init__(process, host, command)
        self._failure = failure

    def read_line(self, timeout_seconds: float) -> str | None:
        """Return the next line of output, or None at its end."""
        line = super().read_line(timeout_seconds)
        if line is None and self._status() not in range(SSH_FAILED):
            raise self._failure(self.stderr_tail())
        return line

    def _status(self) -> int:
        """Return the exit status of an `ssh` process whose output has ended, 0 if the process still runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.process.wait(CLOSE_SECONDS)
        return 0


def _feed(stdin: IO[bytes], data: bytes) -> None:
    with contextlib.suppress(OSError), stdin:
        stdin.write(data)
