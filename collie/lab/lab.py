"""Bring Soft-RoCE machines up, report their status, and take them down.

1. The specification is on disk before the first machine starts, the hosts file only after all have answered.
2. `up` restarts no machine that answers, except at a dead link. It never changes an existing machine's port, keys or
   addresses.
3. `up` stops the machines that it started if they do not all answer.
4. The process table alone shows which machines run.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path

from collie.errors import LabError, TestbedError
from collie.files import write_whole
from collie.inventory.hosts import Host
from collie.lab import links, machine
from collie.lab.bringup import banner, free_ports, remembered_accelerator, start_and_wait
from collie.lab.host import QEMU, Say, locked, private_directory, quiet, remove, require_programs, user_directory
from collie.lab.image import DEFAULT_RELEASE, Image, default_cache_dir, ensure_image
from collie.lab.keys import ensure_key, inventory_text, ssh_command
from collie.lab.links import DeadLink
from collie.lab.spec import (
    MAXIMUM_DEVICES,
    MAXIMUM_MACHINES,
    SOCKET_DIR_PREFIX,
    LabRequest,
    LabSpec,
    MachineSpec,
    StateDir,
    choose_socket_dir,
    load_spec,
    machine_name,
    save_spec,
)

DEFAULT_MACHINES = 2
MEMORY_MIB = 768
VCPUS = 1

LOCK_TIMEOUT_SECONDS = 300.0

# A busy emulated machine greets late. It is restarted only after this time.
SILENCE_SECONDS = 30.0

# A healthy QEMU ends at once. A hung one must be killed.
HUNG_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class MachineStatus:
    """Status of one machine: QEMU's process, and whether its SSH server greets."""

    name: str
    pid: int | None
    ssh_port: int
    data_addresses: tuple[str, ...]
    answering: bool

    @property
    def alive(self) -> bool:
        """Whether its QEMU runs."""
        return self.pid is not None


@dataclass(frozen=True, slots=True)
class LabStatus:
    """Status of a lab. It has no machines when no lab is up. `inventory` exists once all machines have answered."""

    state_dir: Path
    inventory: Path | None
    release: str | None
    accelerator: str | None
    machines: tuple[MachineStatus, ...]

    @property
    def answering(self) -> bool:
        """Whether there are machines, and all answer."""
        return bool(self.machines) and all(one.answering for one in self.machines)


def default_state_dir() -> Path:
    """Return `$XDG_STATE_HOME/collie/lab`, else the same under `~/.local/state`."""
    return user_directory("XDG_STATE_HOME", ".local/state")


def up(
    machines: int | None = None,
    release: str | None = None,
    *,
    mirror: str | None = None,
    devices: Mapping[str, int] | None = None,
    state_dir: Path | None = None,
    cache_dir: Path | None = None,
    say: Say = quiet,
) -> LabStatus:
    """Bring a lab up. Return when every machine answers and its RoCE devices are active.

    An argument of None keeps the present value, or takes the default when no lab is up. `devices` maps machines to
    their number of RoCE devices, 1 by default. A failure stops the machines that `up` started.
    """
    state, cache = _directories(state_dir, cache_dir)
    private_directory(state.path)
    with _locked(state, say):
        wanted = LabRequest(machines, release, devices)
        spec = load_spec(state)
        if spec is not None and (differing := wanted.differing(spec)):
            if _pids(spec, state):
                raise LabError(f"a lab with other {differing} is up; take it down with `collie lab down` first")
            _forget(state)
            spec = None
        new = spec is None
        if spec is None:
            spec = _new_spec(state, cache, wanted, mirror, say)
        try:
            _complete(spec, state, cache, mirror, say)
            return status(state.path)
        except BaseException:
            if new:
                _forget(state)
            raise


def restart(name: str, *, state_dir: Path | None = None, cache_dir: Path | None = None, say: Say = quiet) -> None:
    """End one machine, even if it hangs, start it unchanged, and wait for the lab."""
    state, cache = _directories(state_dir, cache_dir)
    _machine(name, _present(state))
    with _locked(state, say):
        spec = _present(state)  # read again, because the last holder of the lock may have taken the lab down
        _machine(name, spec)
        machine.stop([state.label(name)], patience_seconds=HUNG_SECONDS)
        _complete(spec, state, cache, None, say)


def mend(state_dir: Path | None = None) -> tuple[str, ...]:
    """Restart machines until all joined ones reach each other. Return their names."""
    state, cache = _directories(state_dir, None)
    _present(state)
    with _locked(state, quiet):
        return _complete(_present(state), state, cache, None, quiet)


def dead_links(state_dir: Path | None = None) -> tuple[DeadLink, ...]:
    """Return the dead links between answering machines. It takes about a second, longer with a dead link."""
    state = StateDir(state_dir or default_state_dir())
    spec = load_spec(state)
    if spec is None:
        return ()
    return links.dead_links(spec, state, {one.name for one in status(state.path).machines if one.answering})


def status(state_dir: Path | None = None) -> LabStatus:
    """Return the lab's status, without its links. It waits for no lock."""
    state = StateDir(state_dir or default_state_dir())
    spec = load_spec(state)
    if spec is None:
        return LabStatus(state.path, None, None, None, ())
    inventory = state.inventory if state.inventory.exists() else None
    pids = _pids(spec, state)
    rows = tuple(
        MachineStatus(
            name=one.name,
            pid=pids.get(one.name),
            ssh_port=one.ssh_port,
            data_addresses=one.data_addresses,
            answering=one.name in pids and banner(one.ssh_port),
        )
        for one in spec.machines
    )
    return LabStatus(state.path, inventory, spec.release, spec.accelerator, rows)


def down(state_dir: Path | None = None, *, say: Say = quiet) -> tuple[str, ...]:
    """Stop every machine and remove everything but keys and logs. Return the names of the machines that ran."""
    state = StateDir(state_dir or default_state_dir())
    if not state.path.is_dir():
        return ()
    with _locked(state, say):
        # All possible names are tried, so that machines of a killed `up` end, too.
        names = {state.label(name): name for name in map(machine_name, range(MAXIMUM_MACHINES))}
        ended = set(machine.stop(list(names)))
        stopped = tuple(name for label, name in names.items() if label in ended)
        _forget(state)
    say(f"stopped {', '.join(stopped)}" if stopped else "no machine was running")
    return stopped


def ssh_argv(name: str, *command: str, state_dir: Path | None = None) -> tuple[str, ...]:
    """Return the command for a session on a machine, or for a command there."""
    state = StateDir(state_dir or default_state_dir())
    return ssh_command(_machine(name, _present(state)), state, command)


def _directories(state_dir: Path | None, cache_dir: Path | None) -> tuple[StateDir, Path]:
    require_programs(QEMU, "ssh", "ssh-keygen")
    return StateDir(state_dir or default_state_dir()), private_directory(cache_dir or default_cache_dir())


def _locked(state: StateDir, say: Say) -> AbstractContextManager[int]:
    return locked(state.lock, timeout_seconds=LOCK_TIMEOUT_SECONDS, what="the lab", say=say)


def _present(state: StateDir) -> LabSpec:
    spec = load_spec(state)
    if spec is None:
        raise LabError("no lab is up; start one with `collie lab up`")
    return spec


def _machine(name: str, spec: LabSpec) -> MachineSpec:
    for one in spec.machines:
        if one.name == name:
            return one
    raise LabError(f"the lab has no machine {name!r}; it has {', '.join(one.name for one in spec.machines)}")


def _pids(spec: LabSpec, state: StateDir) -> dict[str, int]:
    running = machine.find([state.label(one.name) for one in spec.machines])
    return {one.name: running[label] for one in spec.machines if (label := state.label(one.name)) in running}


def _new_spec(state: StateDir, cache: Path, wanted: LabRequest, mirror: str | None, say: Say) -> LabSpec:
    count = DEFAULT_MACHINES if wanted.machines is None else wanted.machines
    if not 2 <= count <= MAXIMUM_MACHINES:
        raise LabError(f"a lab has 2 to {MAXIMUM_MACHINES} machines, not {count}")
    devices = _devices([machine_name(index) for index in range(count)], wanted.devices or {})
    image = ensure_image(wanted.release or DEFAULT_RELEASE, cache_dir=cache, mirror=mirror, say=say)
    # A lab with a lost specification may still run.
    machine.stop([state.label(machine_name(index)) for index in range(MAXIMUM_MACHINES)])
    spec = LabSpec(
        release=image.release,
        image=image.directory.name,
        accelerator=remembered_accelerator(cache, image.directory.name) or "kvm",
        memory_mib=MEMORY_MIB,
        vcpus=VCPUS,
        sockets=str(choose_socket_dir(state)),
        machines=tuple(MachineSpec(index, port, devices[index]) for index, port in enumerate(free_ports(count))),
    )
    save_spec(state, spec)
    return spec


def _devices(names: Sequence[str], wanted: Mapping[str, int]) -> list[int]:
    for name, number in wanted.items():
        if name not in names:
            raise LabError(f"the lab has no machine {name!r} to give devices to; it has {', '.join(names)}")
        if not 1 <= number <= MAXIMUM_DEVICES:
            raise LabError(f"a machine has 1 to {MAXIMUM_DEVICES} RoCE devices, not {number}")
    return [wanted.get(name, 1) for name in names]


def _complete(spec: LabSpec, state: StateDir, cache: Path, mirror: str | None, say: Say) -> tuple[str, ...]:
    """Start or restart machines that do not run, do not answer or do not reach their neighbours. Return their names."""
    began = time.monotonic()
    pids = _pids(spec, state)
    asleep = {one.name for one in spec.machines if one.name not in pids}
    for one in spec.machines:
        if one.name in pids and not banner(one.ssh_port, timeout_seconds=SILENCE_SECONDS):
            say(f"{one.name} runs and does not answer; starting it again")
            asleep.add(one.name)
    started: set[str] = set()
    try:
        if asleep or not state.inventory.exists():
            spec = _start(spec, asleep, state, cache, mirror, say)
            started |= asleep
        while dead := links.dead_links(spec, state, pids.keys() | started, fresh=bool(started)):
            say("; ".join(map(str, dead)))
            hung = links.suspect(dead, started)
            if hung is None:
                raise LabError(f"{dead[0]}, though both were started again; see {state.console(dead[0].source)}")
            spec = _start(spec, {hung}, state, cache, mirror, say)
            started.add(hung)
    except BaseException:
        machine.stop([state.label(name) for name in started])
        raise
    if started:
        say(
            f"{len(spec.machines)} machines answer after {time.monotonic() - began:.0f} s; hosts file {state.inventory}"
        )
    else:
        say(f"the lab is up already: {', '.join(pids)}")
    return tuple(sorted(started))


def _start(
    spec: LabSpec, names: Collection[str], state: StateDir, cache: Path, mirror: str | None, say: Say
) -> LabSpec:
    machine.stop([state.label(name) for name in names], patience_seconds=HUNG_SECONDS)
    private_directory(Path(spec.sockets))
    image = _image_of(spec, cache, mirror, say)
    ensure_key(state.identity, "collie-lab")
    host_keys = []
    for one in spec.machines:
        private_directory(state.machine(one.name))
        host_keys.append(ensure_key(state.host_key(one.name), one.name))
    asleep = frozenset(one.index for one in spec.machines if one.name in names)
    spec = start_and_wait(spec, asleep, image, state, cache, host_keys, say)
    write_whole(state.inventory, [inventory_text(spec, state, host_keys)])
    return spec


def _image_of(spec: LabSpec, cache: Path, mirror: str | None, say: Say) -> Image:
    directory = cache / spec.image
    if directory.is_dir():
        return Image(spec.release, directory)
    return ensure_image(spec.release, cache_dir=cache, mirror=mirror, say=say)


def _forget(state: StateDir) -> None:
    """Remove the files of a lab, except keys and logs."""
    shutil.rmtree(state.path / "net", ignore_errors=True)
    with suppress(LabError):
        spec = load_spec(state)
        # The name comes from a file, so only the lab's directories are removed.
        if spec is not None and Path(spec.sockets).name.startswith(SOCKET_DIR_PREFIX):
            shutil.rmtree(spec.sockets, ignore_errors=True)
    for path in (state.inventory, state.known_hosts, state.spec):
        remove(path)


class LabReviver:
    """A `ports.Reviver` for one lab."""

    def __init__(self, state_dir: Path | None = None) -> None:
        self._state_dir = state_dir

    def revive(self, host: Host) -> None:
        """Restart the machine's QEMU."""
        try:
            restart(host.machine, state_dir=self._state_dir)
        except LabError as error:
            raise TestbedError(f"host {host.machine} does not answer and cannot be restarted: {error}") from error

    def mend(self, hosts: Sequence[Host]) -> tuple[str, ...]:
        """Restart machines until all joined machines reach each other."""
        try:
            return mend(self._state_dir)
        except LabError as error:
            names = " and ".join(dict.fromkeys(host.machine for host in hosts))
            raise TestbedError(f"hosts {names} do not reach each other, and no restart helps: {error}") from error
