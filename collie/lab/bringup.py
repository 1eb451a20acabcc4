"""Start the machines of a lab with the accelerator that works here."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from collie.errors import LabError
from collie.lab import acceleration, machine
from collie.lab.boot import KVM_DEADLINES, TCG_DEADLINES, wait_until_answering
from collie.lab.host import Say
from collie.lab.image import Image
from collie.lab.keys import write_known_hosts
from collie.lab.spec import LabSpec, StateDir, save_spec

# Below the kernel's range for outgoing connections, so a restarted machine finds its port free.
FIRST_SSH_PORT = 22022
LAST_SSH_PORT = 22999


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
    acceleration.remember(cache, spec.image, spec.accelerator)
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
