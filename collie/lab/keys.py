"""SSH from the controller to the machines: keys, the hosts file, and commands."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from collie.errors import LabError
from collie.files import read_bytes, write_whole
from collie.inventory.hosts import MAX_HOSTS, endpoint_name
from collie.lab.host import MAX_BYTES, remove
from collie.lab.spec import LabSpec, MachineSpec, StateDir


def ensure_key(path: Path, comment: str) -> str:
    """Create an ed25519 key pair unless it exists. Return its public half as `type base64`."""
    public = path.with_name(path.name + ".pub")
    if not (path.is_file() and public.is_file()):
        for half in (path, public):
            remove(half)
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)]
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=False)
        if done.returncode != 0:
            raise LabError(f"ssh-keygen could not write {path}: {done.stderr.strip()}; is the disk full?")
    try:
        return " ".join(read_bytes(public, MAX_BYTES).decode("ascii").split()[:2])
    except (OSError, ValueError) as error:
        raise LabError(f"{public} cannot be read: {error}; remove it") from None


def inventory_text(spec: LabSpec, state: StateDir, host_keys: Sequence[str]) -> str:
    """Return the hosts file of a lab."""
    lines = ["version: 1", "hosts:"]
    for machine, host_key in zip(spec.machines, host_keys, strict=True):
        lines += [
            f"  {machine.name}:",
            "    address: 127.0.0.1",
            f"    port: {machine.ssh_port}",
            "    user: root",
            f"    identity_file: {_scalar(str(state.identity.resolve()))}",
            f"    host_key: {host_key}",
            "    python: /usr/bin/python3",
            *_devices(machine),
        ]
    lines += ["pairs:", f"  - [{', '.join(_together(spec.machines)[:MAX_HOSTS])}]"]
    lines += [f"  - [{', '.join(_endpoints(machine))}]" for machine in spec.machines if machine.devices > 1]
    return "\n".join(lines) + "\n"


def _devices(machine: MachineSpec) -> list[str]:
    """Return the lines of a machine's RoCE devices. GID 1 is RoCE v2."""
    if machine.devices == 1:
        return ["    device: rxe0", f"    data_address: {machine.data_address}", "    ib_port: 1", "    gid_index: 1"]
    entries = enumerate(machine.data_addresses)
    return ["    devices:", *(f"      rxe{n}: {{data_address: {address}, gid_index: 1}}" for n, address in entries)]


def _endpoints(machine: MachineSpec) -> list[str]:
    if machine.devices == 1:
        return [machine.name]
    return [endpoint_name(machine.name, f"rxe{number}") for number in range(machine.devices)]


def _together(machines: Sequence[MachineSpec]) -> list[str]:
    """Return the endpoints that measure together: one of each machine, or the rails of two."""
    rails = min(machine.devices for machine in machines) if len(machines) == 2 else 1
    return [_endpoints(machine)[rail] for rail in range(rails) for machine in machines]


def write_known_hosts(spec: LabSpec, state: StateDir, host_keys: Sequence[str]) -> None:
    """Write the host keys for OpenSSH."""
    pairs = zip(spec.machines, host_keys, strict=True)
    write_whole(state.known_hosts, (f"[127.0.0.1]:{machine.ssh_port} {host_key}\n" for machine, host_key in pairs))


def ssh_command(machine: MachineSpec, state: StateDir, command: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the ssh command for a machine. It trusts the pinned key only, and ignores the user's configuration."""
    return (
        "ssh",
        "-F",
        os.devnull,
        *("-o", "BatchMode=yes"),
        *("-o", "ConnectTimeout=10"),
        *("-o", "StrictHostKeyChecking=yes"),
        *("-o", f'UserKnownHostsFile="{state.known_hosts.resolve()}"'),
        *("-o", f"GlobalKnownHostsFile={os.devnull}"),
        *("-o", "IdentitiesOnly=yes"),
        *("-o", "LogLevel=ERROR"),
        *("-i", str(state.identity.resolve())),
        *("-p", str(machine.ssh_port)),
        "root@127.0.0.1",
        *command,
    )


@dataclass(frozen=True, slots=True)
class CommandResult:
    """Output and exit status of a command. The status is None when it did not end in time."""

    status: int | None
    output: str


def run_on_each(
    commands: Mapping[MachineSpec, str], state: StateDir, timeout_seconds: float
) -> dict[str, CommandResult]:
    """Run a shell command on each machine. Return the results by name. Late commands are ended."""
    answers: dict[str, CommandResult] = {}
    deadline = time.monotonic() + timeout_seconds
    with ExitStack() as stack:
        attempts: list[tuple[MachineSpec, subprocess.Popen[str]]] = []
        for one, command in commands.items():
            attempt = subprocess.Popen(
                ssh_command(one, state, (command,)),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            stack.enter_context(attempt)  # waits at the end, after the kill below
            stack.callback(attempt.kill)
            attempts.append((one, attempt))
        for one, attempt in attempts:
            try:
                output, _ = attempt.communicate(timeout=max(0.1, deadline - time.monotonic()))
                answers[one.name] = CommandResult(attempt.returncode, output)
            except subprocess.TimeoutExpired:
                answers[one.name] = CommandResult(None, "")
    return answers


def _scalar(text: str) -> str:
    plain = all(character.isalnum() or character in "/._-+" for character in text)
    return text if plain else "'" + text.replace("'", "''") + "'"
