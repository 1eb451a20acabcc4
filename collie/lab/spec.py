"""The specification of a lab: its machines, their places in the data network, and its files.

Machines 0 and 1, 2 and 3, ... are joined directly. Each even one is also joined to machine 0. A link is two Unix
datagram sockets in a private directory, which lose nothing and survive a restart. By measurement, a TCP stream cannot
be joined again after one end was killed, and UDP loses a third of large messages.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from collie.errors import LabError
from collie.files import read_bytes, write_whole
from collie.lab.host import MAX_BYTES

MAXIMUM_MACHINES = 16
MAXIMUM_DEVICES = 4  # per machine: each needs a network card, and a copy of every frame of the network
SOCKET_DIR_PREFIX = "collie-lab-"
SOCKET_PATH_BYTES = 100  # the kernel's 108, less the final zero and up to 6 for a socket's name


@dataclass(frozen=True, slots=True)
class MachineSpec:
    """One machine of a lab. Addresses and links follow from its `index`, devices are `rxe0`, `rxe1`, ..."""

    index: int
    ssh_port: int
    devices: int = 1

    @property
    def name(self) -> str:
        """`lab-a`, `lab-b`, ..."""
        return machine_name(self.index)

    @property
    def data_address(self) -> str:
        """Address of the first RoCE interface."""
        return self.data_addresses[0]

    @property
    def data_addresses(self) -> tuple[str, ...]:
        """Addresses of the RoCE interfaces."""
        return tuple(f"192.168.77.{place}" for place in self._places)

    @property
    def management_mac(self) -> str:
        """Ethernet address of the card for SSH."""
        return f"52:54:00:c0:11:{self.index + 1:02x}"

    @property
    def data_macs(self) -> tuple[str, ...]:
        """Ethernet addresses of the RoCE cards."""
        return tuple(f"52:54:00:da:7a:{place:02x}" for place in self._places)

    @property
    def _places(self) -> tuple[int, ...]:
        return tuple(number * MAXIMUM_MACHINES + self.index + 1 for number in range(self.devices))


@dataclass(frozen=True, slots=True)
class LabSpec:
    """Everything needed to start a lab again. `image` names a cache entry, `sockets` a directory."""

    release: str
    image: str
    accelerator: str
    memory_mib: int
    vcpus: int
    sockets: str
    machines: tuple[MachineSpec, ...]


@dataclass(frozen=True, slots=True)
class LabRequest:
    """The requested lab. None accepts any value. A machine missing in `devices` has one device."""

    machines: int | None = None
    release: str | None = None
    devices: Mapping[str, int] | None = None

    def differing(self, spec: LabSpec) -> str:
        """Return the differences between a lab and the request in words."""
        rows = (
            ("number of machines", self.machines, len(spec.machines)),
            ("release", self.release, spec.release),
            ("devices", self._devices(spec), [machine.devices for machine in spec.machines]),
        )
        return " and ".join(name for name, asked, present in rows if asked is not None and asked != present)

    def _devices(self, spec: LabSpec) -> list[int] | None:
        return None if self.devices is None else [self.devices.get(one.name, 1) for one in spec.machines]


class StateDir:
    """The files of one lab.

    Attributes:
        inventory: the hosts file of a lab that is up.
        known_hosts: the host keys, for OpenSSH.
        lock: held while machines start or stop.
        identity: the private key of the log-in.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.inventory = path / "hosts.yaml"
        self.known_hosts = path / "known_hosts"
        self.spec = path / "lab.json"
        self.lock = path / "lock"
        self.identity = path / "id_ed25519"

    def machine(self, name: str) -> Path:
        """A machine's directory."""
        return self.path / name

    def host_key(self, name: str) -> Path:
        """A machine's private host key."""
        return self.machine(name) / "host_key"

    def console(self, name: str) -> Path:
        """A machine's serial console."""
        return self.machine(name) / "console.log"

    def label(self, name: str) -> str:
        """The unique label of a machine's QEMU process."""
        digest = hashlib.sha256(str(self.path.resolve()).encode()).hexdigest()[:16]
        return f"collie-{digest}-{name}"


def machine_name(index: int) -> str:
    """Return the name of a machine."""
    return f"lab-{'abcdefghijklmnop'[index]}"


def neighbours(index: int, count: int) -> tuple[int, ...]:
    """Return the machines joined to a machine. The links form a tree."""

    def uplink(place: int) -> int | None:
        if place == 0:
            return None
        return place - 1 if place % 2 else 0

    up = uplink(index)
    return (*(() if up is None else (up,)), *(place for place in range(count) if uplink(place) == index))


def choose_socket_dir(state: StateDir) -> Path:
    """Return a directory for sockets, below the state directory unless that path is too long."""
    inside = state.path.resolve() / "net"
    if len(str(inside).encode()) <= SOCKET_PATH_BYTES:
        inside.mkdir(mode=0o700, exist_ok=True)
        return inside
    return Path(tempfile.mkdtemp(prefix=SOCKET_DIR_PREFIX))


def save_spec(state: StateDir, spec: LabSpec) -> None:
    """Write the specification."""
    write_whole(state.spec, [json.dumps(asdict(spec), indent=2), "\n"])


def load_spec(state: StateDir) -> LabSpec | None:
    """Read the specification of the lab that is up, or was."""
    try:
        fields = json.loads(read_bytes(state.spec, MAX_BYTES).decode())
        machines = tuple(MachineSpec(**machine) for machine in fields.pop("machines"))
        return LabSpec(**fields, machines=machines)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LabError(f"{state.spec} cannot be read: {error.strerror}; remove it") from None
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError) as error:
        words = f"{state.spec} is damaged; run `collie lab down`, which removes it, and then `collie lab up`"
        raise LabError(words) from error
