"""Waiting until machines answer."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable

import pytest

from collie.errors import LabError
from collie.lab import boot, bringup, host, machine, spec
from tests.support.lab_specs import make_spec


def test_a_port_in_use_is_not_offered() -> None:
    with socket.socket() as taken:
        for port in range(bringup.FIRST_SSH_PORT, bringup.LAST_SSH_PORT):
            try:
                taken.bind(("127.0.0.1", port))
                break
            except OSError:
                continue
        taken.listen()
        own = taken.getsockname()[1]
        ports = bringup.free_ports(3)
        assert own not in ports
        assert len(set(ports)) == 3
        assert not set(bringup.free_ports(3, ports)) & set(ports)


def test_silence_is_no_greeting() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert not boot.banner(port, timeout_seconds=0.2)
    assert not boot.banner(port, timeout_seconds=0.2)


def test_a_machine_that_ends_while_it_boots_shows_its_console(state: spec.StateDir) -> None:
    (state.path / "lab-a").mkdir()
    state.console("lab-a").write_text("Kernel panic - not syncing: no init\n")
    with pytest.raises(machine.NeverBooted, match="Kernel panic"):
        boot.wait_until_answering(make_spec(), frozenset({0}), state, boot.TCG_DEADLINES, host.quiet)


def test_a_machine_that_cannot_set_itself_up_says_why(state: spec.StateDir) -> None:
    (state.path / "lab-a").mkdir()
    state.console("lab-a").write_text("collie-lab: init\ncollie-lab: failed: a network card is missing\n")
    with pytest.raises(LabError, match="a network card is missing"):
        boot.wait_until_answering(make_spec(), frozenset({0}), state, boot.TCG_DEADLINES, host.quiet)


def test_a_silent_machine_never_booted(state: spec.StateDir, impostor: Callable[..., subprocess.Popen[bytes]]) -> None:
    impostor("qemu-system-x86_64", "-name", state.label("lab-a"))
    hasty = boot.BootDeadlines(first_line_seconds=0.3, ready_seconds=60.0, answer_seconds=1.0)
    with pytest.raises(machine.NeverBooted, match="showed nothing"):
        boot.wait_until_answering(make_spec(), frozenset({0}), state, hasty, host.quiet)
