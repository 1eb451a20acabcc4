"""Machines of a lab, behind Collie's back: what runs on them, and what is done to them.

Whatever is done to a machine undoes itself: a process on the machine, which no connection holds, does it and takes it
back after so many seconds. So a network that is cut heals, whoever has died meanwhile.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from collie.lab import lab
from collie.lab.machine import label_of
from tests.support.faults.flatness import Value
from tests.support.faults.trial import CannotStrike

MANAGEMENT_ADDRESS = "10.0.2.15"
"""Of every machine, towards the controller (collie/lab/init.sh)."""
_AGENT = ".cache/collie/"
_COMMAND_SECONDS = 30.0


class Unanswered(Exception):
    """A machine did not run a command."""


@dataclass(frozen=True)
class Process:
    """A process on a machine.

    Attributes:
        arguments: its command line.
    """

    pid: int
    parent: int
    arguments: str


@dataclass(frozen=True)
class LabHosts:
    """A lab that is up.

    Args:
        state_dir: of the lab; None for the default one.
    """

    state_dir: Path | None = None

    @property
    def inventory(self) -> Path:
        """The hosts file.

        Raises:
            CannotStrike: no lab is up.
        """
        inventory = lab.status(self.state_dir).inventory
        if inventory is None:
            raise CannotStrike("no lab is up; start one with `collie lab up`")
        return inventory

    @property
    def names(self) -> tuple[str, ...]:
        """Of the first two machines, which measure."""
        return tuple(one.name for one in lab.status(self.state_dir).machines)[:2]

    @property
    def answering(self) -> bool:
        """Whether every machine runs and greets."""
        return lab.status(self.state_dir).answering

    def run(self, name: str, command: str, timeout_seconds: float = _COMMAND_SECONDS) -> str:
        """Run a command on a machine, and return what it printed.

        Raises:
            Unanswered: it failed, or not in time.
        """
        argv = lab.ssh_argv(name, command, state_dir=self.state_dir)
        try:
            done = subprocess.run(
                argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_seconds
            )
        except subprocess.TimeoutExpired:
            raise Unanswered(f"{name}: {command}: no answer within {timeout_seconds:g} s") from None
        if done.returncode != 0:
            raise Unanswered(f"{name}: {command}: {done.stderr.strip()}")
        return done.stdout

    def briefly(self, name: str, do: str, undo: str, seconds: float) -> None:
        """Do something to a machine, and have the machine take it back after so many seconds.

        Raises:
            Unanswered: the machine did not take the order.
        """
        script = f"sleep 0.3; {do}; sleep {seconds:.1f}; {undo}"
        self.run(name, f"setsid -f sh -c {shlex.quote(script)} </dev/null >/dev/null 2>&1")

    def interface(self, name: str, *, management: bool) -> str:
        """Return the network interface towards the controller, or towards the other machines."""
        for one in json.loads(self.run(name, "ip -j -4 address")):
            addresses = [address["local"] for address in one["addr_info"]]
            if one["ifname"] != "lo" and (MANAGEMENT_ADDRESS in addresses) == management:
                return str(one["ifname"])
        raise Unanswered(f"{name} has no such interface")

    def shape(self, name: str, netem: str, seconds: float, *, management: bool) -> None:
        """Let an interface lose or delay packets for so many seconds; `netem` as `tc` takes it."""
        interface = self.interface(name, management=management)
        self.briefly(
            name, f"tc qdisc replace dev {interface} root netem {netem}", f"tc qdisc del dev {interface} root", seconds
        )

    def processes(self, name: str) -> list[Process]:
        """Return all processes of a machine."""
        lines = (line.split(None, 2) for line in self.run(name, "ps -eo pid=,ppid=,args=").splitlines())
        return [Process(int(pid), int(parent), arguments) for pid, parent, arguments in lines]

    def agents(self, name: str) -> list[Process]:
        """Return the processes of Collie's agents on a machine, those that agents started included."""
        return [each for each in self.processes(name) if _AGENT in each.arguments and "ps -eo" not in each.arguments]

    def first_agents(self, name: str) -> list[Process]:
        """Return the agents that were started by sessions, without those that they started themselves."""
        agents = self.agents(name)
        pids = {each.pid for each in agents}
        return [each for each in agents if each.parent not in pids]

    def wait_until_childless(self, name: str, pid: int, seconds: float) -> list[Process]:
        """Wait until no child of a process of a machine runs; return those that do when time is up."""
        deadline = time.monotonic() + seconds
        while (left := self._children(name, pid)) and time.monotonic() < deadline:
            time.sleep(0.5)
        return left

    def _children(self, name: str, pid: int) -> list[Process]:
        # One that has ended is listed until its parent asks for it, and keeps nothing open.
        return [each for each in self.processes(name) if each.parent == pid and "<defunct>" not in each.arguments]

    def sessions(self, name: str) -> list[Process]:
        """Return the processes of SSH servers under which agents run."""
        by_pid = {each.pid: each for each in self.processes(name)}
        found = {}
        for agent in self.first_agents(name):
            above = by_pid.get(agent.parent)
            while above is not None and "sshd" not in above.arguments:
                above = by_pid.get(above.parent)
            if above is not None and "listener" not in above.arguments:
                found[above.pid] = above
        return list(found.values())

    def queue_pairs(self, name: str) -> int:
        """Return how many queue pairs belong to processes."""
        displayed = json.loads(self.run(name, "rdma -j resource show qp") or "[]")
        return sum(bool(each.get("pid")) for each in displayed)

    def footprint(self, name: str) -> dict[str, Value]:
        """Read what a machine and the agent on it take: MiB of memory, descriptors.

        Raises:
            Unanswered: it did not tell.
        """
        agent = next((each.pid for each in self.first_agents(name)), 0)
        said = self.run(
            name,
            "cat /proc/sys/kernel/random/boot_id /proc/sys/fs/file-nr; "
            "grep -E '^Mem(Total|Available)' /proc/meminfo | tr -s ' ' | cut -d' ' -f2; "
            f"{{ grep VmRSS /proc/{agent}/status && ls /proc/{agent}/fd | wc -l; }} 2>/dev/null || true",
        ).splitlines()
        boot, files, total, available = said[0], said[1].split()[0], int(said[2]), int(said[3])
        found = {
            f"{name}, open files": Value(float(files), boot),
            f"{name}, MiB in use": Value((total - available) / 1024, boot),
        }
        if len(said) == 6:
            life = (boot, agent)
            found |= {
                f"agent on {name}, MiB resident": Value(int(said[4].split()[1]) / 1024, life),
                f"agent on {name}, descriptors": Value(float(said[5]), life),
            }
        return found

    def left(self) -> list[str]:
        """Say what of Collie is on the machines: agents and queue pairs."""
        said = []
        for name in self.names:
            agents, pairs = self.agents(name), self.queue_pairs(name)
            said += [f"{name}: agent {each.pid}" for each in agents] + (
                [f"{name}: {pairs} queue pairs"] if pairs else []
            )
        return said

    def wait_until_nothing_is_left(self, seconds: float) -> list[str]:
        """Wait until nothing of Collie is on the machines; return what still is when time is up."""
        deadline = time.monotonic() + seconds
        while (left := self._left_or_silent()) and time.monotonic() < deadline:
            time.sleep(0.5)
        return left

    def _left_or_silent(self) -> list[str]:
        try:
            return self.left()
        except Unanswered as silent:
            return [str(silent)]

    def signal_machine(self, name: str, number: signal.Signals) -> None:
        """Send a signal to the QEMU of a machine, and to nothing else.

        Raises:
            Unanswered: it does not run.
        """
        pid = {one.name: one.pid for one in lab.status(self.state_dir).machines}[name]
        if pid is None or not label_of(pid).endswith(name):
            raise Unanswered(f"{name} does not run")
        os.kill(pid, number)

    def bring_back(self) -> None:
        """Start machines that died, as they were."""
        lab.up(state_dir=self.state_dir)

    def wait_until_healed(self, seconds: float) -> bool:
        """Wait until every machine answers, reaches its neighbour and has no shaped interface."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                if self.answering and all(self._is_sound(name) for name in self.names):
                    return True
            except Unanswered:
                pass
            time.sleep(0.5)
        return False

    def _is_sound(self, name: str) -> bool:
        shaped = "netem" in self.run(name, "tc qdisc show", 10.0)
        return not shaped and "ACTIVE" in self.run(name, "cat /sys/class/infiniband/rxe0/ports/1/state", 10.0)

    def kill(self, name: str, pids: Sequence[int], number: signal.Signals) -> bool:
        """Send a signal to processes of a machine; return whether any of them still was there."""
        each = "; ".join(f"kill -{number.value} {int(pid)} && echo hit" for pid in pids)
        return "hit" in self.run(name, f"{{ {each}; }} 2>/dev/null || true")
