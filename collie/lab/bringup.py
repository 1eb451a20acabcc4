"""Start the machines of a lab with the accelerator that works here.

The first boot of a machine tests KVM, once per boot of this computer. A KVM device that opens proves nothing: on some
virtual machines the guest hangs.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from collie.errors import LabError
from collie.files import read_bytes, write_whole
from collie.lab import machine
from collie.lab.boot import KVM_DEADLINES, TCG_DEADLINES, wait_until_answering
from collie.lab.host import MAX_BYTES, QEMU, Say
from collie.lab.image import Image
from collie.lab.keys import write_known_hosts
from collie.lab.spec import LabSpec, StateDir, save_spec

# Below the kernel's range for outgoing connections, so a restarted machine finds its port free.
FIRST_SSH_PORT = 22022
LAST_SSH_PORT = 22999

KVM_DEVICE = Path("/dev/kvm")


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

    Returns the specification in use. After a failure the started machines are stopped.
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
    """Start machines. A new one moves to another port when its port was taken meanwhile."""
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
