"""One QEMU process, found by the label in its command line.

Signals go through a process descriptor opened before the command line is read, so they reach the checked process only.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from collie.errors import LabError
from collie.files import write_whole
from collie.lab.host import QEMU, opened_log, tail
from collie.lab.image import Image
from collie.lab.spec import LabSpec, MachineSpec, StateDir, neighbours

DATA_MTU = 4200  # 4096 bytes of payload, the largest MTU of RoCE, and its headers

# QEMU's emulator omits memory barriers for a guest limited to one processor, yet its own threads need them: guest and
# device miss each other's notifications, and a virtio ring stalls for good (ADR 18).
MIN_MAXIMUM_VCPUS = 2

START_TIMEOUT_SECONDS = 30.0

# `panic=-1` with `-no-reboot` ends QEMU on a kernel panic, so a dead machine is a dead process. Mitigations cost an
# emulated processor much and protect nothing here.
KERNEL_ARGUMENTS = (
    "console=ttyS0 quiet root=/dev/vda rw init=/usr/local/sbin/collie-init mitigations=off net.ifnames=0 panic=-1"
    # A booting kernel counts timer interrupts for ten ticks, and panics when a starved emulator misses them. Under KVM
    # it omits this check.
    " no_timer_check"
    # Debian's kernel clears each page. Emulated, that is a loop over bytes: a fresh machine's first packets took
    # seconds, in which its agent was silent.
    " init_on_alloc=0"
)


class PortTaken(Exception):
    """Another process listens on a machine's SSH port."""


class NeverBooted(Exception):
    """A machine did not finish its init script."""


def arguments(lab: LabSpec, machine: MachineSpec, image: Image, state: StateDir) -> tuple[str, ...]:
    """Return the command line of a machine. It listens only on 127.0.0.1 and on files."""
    processor = {"kvm": ("-accel", "kvm", "-cpu", "host"), "tcg": ("-accel", "tcg,thread=multi", "-cpu", "max")}
    folder = state.machine(machine.name).resolve()
    cards = zip(machine.data_macs, machine.data_addresses, strict=True)
    facts = {
        "name": f"string={machine.name}",
        "management_mac": f"string={machine.management_mac}",
        "data": "string=" + " ".join(f"{mac}={address}/24" for mac, address in cards),
        "hosts": f"file={_escaped(folder / 'hosts')}",
        "authorized_key": f"file={_escaped(state.identity.resolve().with_suffix('.pub'))}",
        "host_key": f"file={_escaped(state.host_key(machine.name).resolve())}",
    }
    return (
        QEMU,
        *("-name", state.label(machine.name)),
        *("-nodefaults", "-no-user-config", "-no-reboot", "-daemonize"),
        *("-display", "none", "-monitor", "none"),
        *processor[lab.accelerator],
        *("-m", str(lab.memory_mib), "-smp", f"{lab.vcpus},maxcpus={max(lab.vcpus, MIN_MAXIMUM_VCPUS)}"),
        *("-kernel", str(image.directory / "kernel"), "-initrd", str(image.directory / "initrd")),
        *("-append", KERNEL_ARGUMENTS),
        *("-drive", f"file={_escaped(image.directory / 'disk')},format=raw,if=virtio,snapshot=on"),
        *("-serial", f"file:{_escaped(state.console(machine.name).resolve())}"),
        *("-device", "virtio-rng-pci"),
        *("-netdev", f"user,id=management,restrict=on,hostfwd=tcp:127.0.0.1:{machine.ssh_port}-:22"),
        *("-device", f"virtio-net-pci,netdev=management,mac={machine.management_mac}"),
        *_data_network(lab, machine),
        *(part for key, value in facts.items() for part in ("-fw_cfg", f"name=opt/collie/{key},{value}")),
    )


def _data_network(lab: LabSpec, machine: MachineSpec) -> tuple[str, ...]:
    """Return QEMU's options for a machine's RoCE cards and links. A hub inside QEMU joins them where needed."""
    joined = neighbours(machine.index, len(lab.machines))

    def link(identifier: str, peer: int) -> str:
        local = _escaped(Path(lab.sockets) / f"{machine.index}-{peer}")
        remote = _escaped(Path(lab.sockets) / f"{peer}-{machine.index}")
        return f"dgram,id={identifier},local.type=unix,local.path={local},remote.type=unix,remote.path={remote}"

    def card(identifier: str, mac: str) -> tuple[str, str]:
        return "-device", f"virtio-net-pci,netdev={identifier},mac={mac},host_mtu={DATA_MTU}"

    if len(joined) == machine.devices == 1:
        return ("-netdev", link("data", joined[0]), *card("data", *machine.data_macs))
    parts: list[str] = []
    for peer in joined:
        parts += ["-netdev", link(f"link{peer}", peer), "-netdev", f"hubport,id=port{peer},hubid=0,netdev=link{peer}"]
    for number, mac in enumerate(machine.data_macs):
        parts += ["-netdev", f"hubport,id=data{number},hubid=0", *card(f"data{number}", mac)]
    return tuple(parts)


def start(lab: LabSpec, machine: MachineSpec, image: Image, state: StateDir) -> None:
    """Start a machine. Return when QEMU has set up its devices, long before the guest is up.

    Raises:
        PortTaken: its SSH port is in use.
        NeverBooted: QEMU refused to start with KVM.
    """
    folder = state.machine(machine.name)
    write_whole(folder / "hosts", (f"{other.data_address} {other.name}\n" for other in lab.machines))
    console = state.console(machine.name)
    if console.exists():
        console.replace(console.with_suffix(".log.1"))
    log = folder / "qemu.log"
    with opened_log(log, os.O_TRUNC) as sink:
        try:
            done = subprocess.run(
                arguments(lab, machine, image, state),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                timeout=START_TIMEOUT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise LabError(
                f"QEMU did not start {machine.name} within {START_TIMEOUT_SECONDS:.0f} s; its output is in {log}; "
                "if this computer is very busy, try again"
            ) from error
    if done.returncode != 0:
        complaint = tail(log)
        if "host forwarding rule" in complaint:
            raise PortTaken
        reason = f"QEMU refused to start {machine.name}:\n{complaint}\nthe lab needs QEMU 7.2 or newer"
        if lab.accelerator == "kvm":
            raise NeverBooted(reason)
        raise LabError(reason)


def find(labels: Sequence[str]) -> dict[str, int]:
    """Return the process number of each running machine."""
    wanted = frozenset(labels)
    found: dict[str, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (label := label_of(int(entry))) in wanted:
            found[label] = int(entry)
    return found


def label_of(pid: int) -> str:
    """Return the label of a QEMU process. Empty for any other process or a zombie."""
    try:
        argv = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    if not os.path.basename(argv[0]).startswith(b"qemu-system") or b"-name" not in argv[:-1]:
        return ""
    return argv[argv.index(b"-name") + 1].decode("utf-8", errors="replace")


def stop(labels: Sequence[str], *, patience_seconds: float = 10.0) -> tuple[str, ...]:
    """End the machines with these labels. Return the labels of those that ran."""
    ended: list[str] = []
    for number in (signal.SIGTERM, signal.SIGKILL):
        waiting: list[int] = []
        try:
            for label, pid in find(labels).items():
                with suppress(ProcessLookupError):
                    waiting.append(os.pidfd_open(pid))
                    if label_of(pid) == label:
                        signal.pidfd_send_signal(waiting[-1], number)
                        ended.append(label)
            _wait_for_end(waiting, patience_seconds)
        finally:
            for descriptor in waiting:
                os.close(descriptor)
    if stubborn := find(labels):
        pids = ", ".join(str(pid) for pid in stubborn.values())
        raise LabError(f"QEMU does not end, not even by SIGKILL: process {pids}; see `dmesg` for why")
    return tuple(dict.fromkeys(ended))


def _wait_for_end(descriptors: Iterable[int], patience_seconds: float) -> None:
    deadline = time.monotonic() + patience_seconds
    left = set(descriptors)
    while left and (rest := deadline - time.monotonic()) > 0:
        ready, _, _ = select.select(list(left), [], [], rest)
        left -= set(ready)


def _escaped(path: Path) -> str:
    """Return a path for an option of QEMU, where a comma ends a value."""
    return str(path).replace(",", ",,")
