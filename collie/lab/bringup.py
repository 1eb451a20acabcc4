"""Start the machines of a lab with the accelerator that works here, and wait until they answer.

The first boot of a machine tests KVM, once per boot of this computer. A KVM device that opens proves nothing: on some
virtual machines the guest hangs.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from collie.errors import LabError
from collie.files import read_bytes, write_whole
from collie.lab import machine
from collie.lab.host import MAX_BYTES, QEMU, Say, tail
from collie.lab.image import Image
from collie.lab.keys import run_on_each, write_known_hosts
from collie.lab.spec import LabSpec, MachineSpec, StateDir, save_spec

# These ports are below the kernel's range for outgoing connections, so a restarted machine finds its port free.
FIRST_SSH_PORT = 22022
LAST_SSH_PORT = 22999

KVM_DEVICE = Path("/dev/kvm")

POLL_SECONDS = 0.1


def start_and_wait(
    spec: LabSpec,
    asleep: frozenset[int],
    image: Image,
    state: StateDir,
    cache: Path,
    host_keys: Sequence[str],
    say: Say,
) -> LabSpec:
    """Start the machines with the indexes `asleep`, and wait until all machines of the lab answer.

    Return the specification in use. After a failure the started machines are stopped.
    """
    names = [spec.machines[index].name for index in sorted(asleep)]
    labels = tuple(state.label(name) for name in names)
    while True:
        if names:
            say(f"starting {', '.join(names)} under {spec.accelerator}")
        try:
            spec = _start(spec, asleep, image, state)
            write_known_hosts(spec, state, host_keys)
            deadlines = KVM_DEADLINES if spec.accelerator == "kvm" else TCG_DEADLINES
            wait_until_answering(spec, asleep, state, deadlines, say)
            break
        except machine.NeverBooted as error:
            machine.stop(labels)
            if spec.accelerator != "kvm":
                raise LabError(str(error)) from error
            say("the machines do not come up under KVM here; emulating the processor instead")
            spec = replace(spec, accelerator="tcg")
            save_spec(state, spec)
        except BaseException:
            machine.stop(labels)
            raise
    remember_accelerator(cache, spec.image, spec.accelerator)
    return spec


def _start(spec: LabSpec, asleep: frozenset[int], image: Image, state: StateDir) -> LabSpec:
    """Start machines. A new machine moves to another port if its port has been taken meanwhile."""
    for index in sorted(asleep):
        for _attempt in range(5):
            one = spec.machines[index]
            try:
                machine.start(spec, one, image, state)
                break
            except machine.PortTaken:
                if state.inventory.exists():
                    raise LabError(
                        f"port {one.ssh_port} of {one.name} is in use by another process; end that process, or give "
                        "the lab new ports with `collie lab down` and `collie lab up`"
                    ) from None
                (port,) = free_ports(1, tuple(other.ssh_port for other in spec.machines))
                moved = tuple(replace(other, ssh_port=port) if other is one else other for other in spec.machines)
                spec = replace(spec, machines=moved)
                save_spec(state, spec)
        else:
            raise LabError("no port for SSH stays free long enough; is another lab starting at the same moment?")
    return spec


def free_ports(count: int, taken: Sequence[int] = ()) -> tuple[int, ...]:
    """Return free loopback ports, none of them in `taken`."""
    free = (port for port in range(FIRST_SSH_PORT, LAST_SSH_PORT + 1) if port not in taken and _is_free(port))
    found = tuple(islice(free, count))
    if len(found) < count:
        raise LabError(f"no free port between {FIRST_SSH_PORT} and {LAST_SSH_PORT} on 127.0.0.1; take other labs down")
    return found


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def remembered_accelerator(cache: Path, image: str) -> str | None:
    """Return the accelerator that worked here for an image, if one was tried."""
    if not os.access(KVM_DEVICE, os.R_OK | os.W_OK):
        return "tcg"
    try:
        record = json.loads(read_bytes(_record(cache, image), MAX_BYTES).decode())
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or record.get("conditions") != _conditions():
        return None
    accelerator = record.get("accelerator")
    return accelerator if accelerator in ("kvm", "tcg") else None


def remember_accelerator(cache: Path, image: str, accelerator: str) -> None:
    """Remember the accelerator that worked."""
    record = {"accelerator": accelerator, "conditions": _conditions()}
    write_whole(_record(cache, image), [json.dumps(record, indent=2), "\n"])


def _record(cache: Path, image: str) -> Path:
    return cache / f"{image}.accelerator.json"


def _conditions() -> dict[str, str]:
    try:
        version = subprocess.run(
            [QEMU, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20, check=False
        )
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LabError(f"cannot ask {QEMU} for its version: {error}; install qemu-system-x86 again") from error
    return {"boot": boot, "qemu": version.stdout.partition("\n")[0]}


@dataclass(frozen=True, slots=True)
class BootDeadlines:
    """Deadlines for the first line on the console, for the end of the init script, then for SSH and RoCE devices."""

    first_line_seconds: float
    ready_seconds: float
    answer_seconds: float


# Emulated on two idle cores, two machines show a first line after 9 s and are ready after 13 s. Busy computers need
# more. KVM is faster, so a boot with KVM that takes longer than this hangs.
KVM_DEADLINES = BootDeadlines(first_line_seconds=20.0, ready_seconds=60.0, answer_seconds=60.0)
TCG_DEADLINES = BootDeadlines(first_line_seconds=120.0, ready_seconds=240.0, answer_seconds=120.0)


def banner(port: int, *, timeout_seconds: float = 5.0) -> bool:
    """Return whether an SSH server greets on a loopback port."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=timeout_seconds) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def wait_until_answering(lab: LabSpec, started: Set[int], state: StateDir, deadlines: BootDeadlines, say: Say) -> None:
    """Wait until every machine answers over SSH and its RoCE devices are active. `started` are indexes.

    Raises:
        NeverBooted: a machine died or hung before the end of its init script.
        LabError: a machine booted and failed after that.
    """
    begun = time.monotonic()
    waiting = {one.name for one in lab.machines if one.index in started}
    while waiting:
        elapsed = time.monotonic() - begun
        running = machine.find([state.label(name) for name in waiting])
        for name in sorted(waiting):
            console = tail(state.console(name), 200)
            if "collie-lab: failed" in console:
                raise LabError(_with_console(name, state, "booted and could not set itself up"))
            if "collie-lab: ready" in console:
                say(f"{name} has booted ({elapsed:.0f} s)")
                waiting.remove(name)
            elif state.label(name) not in running:
                raise machine.NeverBooted(_with_console(name, state, "ended while it booted"))
            elif elapsed > deadlines.ready_seconds:
                raise machine.NeverBooted(
                    _with_console(name, state, f"did not boot within {deadlines.ready_seconds:.0f} s")
                )
            elif not console and elapsed > deadlines.first_line_seconds:
                silent = f"showed nothing for {deadlines.first_line_seconds:.0f} s"
                raise machine.NeverBooted(_with_console(name, state, silent))
        time.sleep(POLL_SECONDS)
    _wait_for_ssh(lab, state, deadlines.answer_seconds)


def _with_console(name: str, state: StateDir, fault: str) -> str:
    console = tail(state.console(name)) or "(nothing)"
    return f"{name} {fault}; end of its console:\n{console}\nthe whole of it: {state.console(name)}"


def _wait_for_ssh(lab: LabSpec, state: StateDir, timeout_seconds: float) -> None:
    deadline = time.monotonic() + timeout_seconds
    waiting = lab.machines
    while True:
        reasons = _try_all(waiting, state, max(1.0, deadline - time.monotonic()))
        if not reasons:
            return
        waiting = tuple(one for one in waiting if one.name in reasons)
        if time.monotonic() > deadline:
            name, reason = next(iter(reasons.items()))
            raise LabError(
                f"{name} booted and does not answer within {timeout_seconds:.0f} s: {reason}; "
                f"its console: {state.console(name)}"
            )
        time.sleep(0.5)


def _try_all(machines: tuple[MachineSpec, ...], state: StateDir, timeout_seconds: float) -> dict[str, str]:
    answers = run_on_each({one: _check(one) for one in machines}, state, timeout_seconds)
    return {
        name: "no answer in time"
        if answer.status is None
        else answer.output.strip() or f"the check ended with status {answer.status}"
        for name, answer in answers.items()
        if answer.status != 0
    }


def _check(one: MachineSpec) -> str:
    return (
        f"for device in {' '.join(f'rxe{number}' for number in range(one.devices))}; do "
        "grep -q ACTIVE /sys/class/infiniband/$device/ports/1/state || { echo $device is not active; exit 1; }; done"
    )
