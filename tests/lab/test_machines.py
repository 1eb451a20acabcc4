"""Real machines: what `collie lab` promises to whoever measures on it."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from collie.lab import lab
from tests.lab.conftest import RunningLab

pytestmark = [pytest.mark.lab, pytest.mark.slow]

NAMES = ("lab-a", "lab-b")


def pingpong(running: RunningLab, server: str, client: str) -> str:
    """Send RC messages of 4 KiB from one machine to the other and back; returns what the client printed."""
    options = "-d rxe0 -g 1 -m 4096 -s 4096 -n 200"
    waiting = subprocess.Popen(
        lab.ssh_argv(server, f"timeout 60 ibv_rc_pingpong {options}", state_dir=running.state_dir),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        # 18515 is the port on which ibv_rc_pingpong waits for its client.
        running.run(
            server, "for i in $(seq 300); do ss -Htln sport = 18515 | grep -q . && exit 0; sleep 0.1; done; exit 1"
        )
        address = next(one.data_addresses[0] for one in lab.status(running.state_dir).machines if one.name == server)
        return running.run(client, f"timeout 60 ibv_rc_pingpong {options} {address}")
    finally:
        waiting.kill()
        waiting.communicate()


def listeners(pid: int) -> set[str]:
    """Return the local addresses, `hexadecimal address:port`, on which a process waits for TCP or has UDP open."""
    held = {os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir() if entry.is_symlink()}
    found: set[str] = set()
    for protocol in ("tcp", "tcp6", "udp", "udp6"):
        for line in Path(f"/proc/net/{protocol}").read_text(encoding="ascii").splitlines()[1:]:
            fields = line.split()
            waits = protocol.startswith("udp") or fields[3] == "0A"
            if waits and f"socket:[{fields[9]}]" in held:
                found.add(fields[1])
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_machine_runs_a_command_in_bash(running_lab: RunningLab, name: str) -> None:
    assert running_lab.run(name, 'echo "$(hostname) ${BASH_VERSION:+bash} $(id -u)"').split() == [name, "bash", "0"]


@pytest.mark.parametrize("name", NAMES)
def test_the_roce_device_is_active_with_the_largest_mtu(running_lab: RunningLab, name: str) -> None:
    displayed = running_lab.run(name, "ibv_devinfo -d rxe0")
    assert "PORT_ACTIVE" in displayed
    assert re.search(r"active_mtu:\s+4096", displayed)


@pytest.mark.parametrize(("name", "gid"), [("lab-a", "c0a8:4d01"), ("lab-b", "c0a8:4d02")])
def test_gid_index_1_is_the_data_address_over_roce_v2(running_lab: RunningLab, name: str, gid: str) -> None:
    port = "/sys/class/infiniband/rxe0/ports/1"
    assert running_lab.run(name, f"cat {port}/gids/1").strip().endswith(gid)
    assert running_lab.run(name, f"cat {port}/gid_attrs/types/1").strip() == "RoCE v2"


@pytest.mark.parametrize("name", NAMES)
def test_pyverbs_opens_the_device(running_lab: RunningLab, name: str) -> None:
    program = "import pyverbs.device as d; print(d.Context(name='rxe0').query_device().max_qp)"
    assert int(running_lab.run(name, f'/usr/bin/python3 -c "{program}"')) > 1000


@pytest.mark.parametrize("name", NAMES)
def test_limits_allow_thousands_of_queue_pairs(running_lab: RunningLab, name: str) -> None:
    locked, descriptors = running_lab.run(name, "ulimit -l; ulimit -n").split()
    assert locked == "unlimited"
    assert int(descriptors) >= 100_000


def test_messages_pass_in_both_directions(running_lab: RunningLab) -> None:
    assert "bytes in" in pingpong(running_lab, "lab-a", "lab-b")
    assert "bytes in" in pingpong(running_lab, "lab-b", "lab-a")


def test_everything_listens_on_loopback_only(running_lab: RunningLab) -> None:
    for one in lab.status(running_lab.state_dir).machines:
        assert one.pid is not None
        assert listeners(one.pid) == {f"0100007F:{one.ssh_port:04X}"}


def test_up_leaves_a_lab_alone_that_is_up(
    running_lab: RunningLab, said: tuple[list[str], Callable[[str], None]]
) -> None:
    before = lab.status(running_lab.state_dir)
    lines, say = said
    assert lab.up(state_dir=running_lab.state_dir, say=say) == before
    assert any("already" in line for line in lines)


@pytest.mark.acceptance
def test_a_dead_link_is_named_and_mended(running_lab: RunningLab) -> None:
    assert lab.dead_links(running_lab.state_dir) == ()
    interface = running_lab.run("lab-b", "ip -o -4 address show to 192.168.77.0/24").split()[1]
    running_lab.run("lab-b", f"tc qdisc replace dev {interface} root netem loss 100%")
    dead = lab.dead_links(running_lab.state_dir)
    assert {(one.source, one.target) for one in dead} == {("lab-a", "lab-b"), ("lab-b", "lab-a")}
    assert "lab-b" in lab.mend(state_dir=running_lab.state_dir)
    assert lab.dead_links(running_lab.state_dir) == ()
    assert lab.mend(state_dir=running_lab.state_dir) == ()
