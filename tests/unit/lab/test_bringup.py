"""Machines boot, and their accelerator is remembered."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from collie.errors import LabError
from collie.lab import bringup, host, machine, spec
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
        assert not bringup.banner(port, timeout_seconds=0.2)
    assert not bringup.banner(port, timeout_seconds=0.2)


def test_a_machine_that_ends_while_it_boots_shows_its_console(state: spec.StateDir) -> None:
    (state.path / "lab-a").mkdir()
    state.console("lab-a").write_text("Kernel panic - not syncing: no init\n")
    with pytest.raises(machine.NeverBooted, match="Kernel panic"):
        bringup.wait_until_answering(make_spec(), frozenset({0}), state, bringup.TCG_DEADLINES, host.quiet)


def test_a_machine_that_cannot_set_itself_up_says_why(state: spec.StateDir) -> None:
    (state.path / "lab-a").mkdir()
    state.console("lab-a").write_text("collie-lab: init\ncollie-lab: failed: a network card is missing\n")
    with pytest.raises(LabError, match="a network card is missing"):
        bringup.wait_until_answering(make_spec(), frozenset({0}), state, bringup.TCG_DEADLINES, host.quiet)


def test_a_silent_machine_never_booted(state: spec.StateDir, impostor: Callable[..., subprocess.Popen[bytes]]) -> None:
    impostor("qemu-system-x86_64", "-name", state.label("lab-a"))
    hasty = bringup.BootDeadlines(first_line_seconds=0.3, ready_seconds=60.0, answer_seconds=1.0)
    with pytest.raises(machine.NeverBooted, match="showed nothing"):
        bringup.wait_until_answering(make_spec(), frozenset({0}), state, hasty, host.quiet)


@pytest.fixture
def usable_kvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A KVM device that opens, and a QEMU that tells its version."""
    device = tmp_path / "kvm"
    device.touch()
    monkeypatch.setattr(bringup, "KVM_DEVICE", device)
    monkeypatch.setattr(bringup, "QEMU", "true")


def test_without_a_kvm_device_the_processor_is_emulated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bringup, "KVM_DEVICE", tmp_path / "none")
    assert bringup.remembered_accelerator(tmp_path, "image") == "tcg"


@pytest.mark.usefixtures("usable_kvm")
def test_the_accelerator_that_worked_is_remembered_for_its_image(tmp_path: Path) -> None:
    assert bringup.remembered_accelerator(tmp_path, "one") is None
    bringup.remember_accelerator(tmp_path, "one", "tcg")
    assert bringup.remembered_accelerator(tmp_path, "one") == "tcg"
    assert bringup.remembered_accelerator(tmp_path, "two") is None
    bringup.remember_accelerator(tmp_path, "two", "kvm")
    assert bringup.remembered_accelerator(tmp_path, "one") == "tcg"


@pytest.mark.usefixtures("usable_kvm")
@pytest.mark.parametrize("text", ["", "[]", '{"accelerator": "tcg"}'])
def test_a_damaged_memory_is_no_memory(tmp_path: Path, text: str) -> None:
    (tmp_path / "one.accelerator.json").write_text(text)
    assert bringup.remembered_accelerator(tmp_path, "one") is None
