"""The lab without QEMU: up, down, status and restart."""

from __future__ import annotations

import dataclasses
import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from collie.cli.lab import command as lab_commands
from collie.errors import LabError, TestbedError
from collie.inventory.hosts import Host
from collie.lab import host, image, lab, links, spec
from collie.lab.lab import LabReviver
from tests.support.lab_specs import make_spec


@pytest.mark.parametrize("word", ["lab-a", "=2", "lab-a=two", "lab-a=-1", "lab-a=100", "lab-a=\N{SUPERSCRIPT TWO}"])
def test_devices_are_given_as_name_and_number(word: str) -> None:
    done = CliRunner().invoke(lab_commands, ["up", "--devices", word])
    assert done.exit_code == 2
    assert "is not of the form NAME=N, such as lab-a=2" in done.output


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"machines": [{"index": 1}]}', '{"machines": 5}'])
def test_a_damaged_specification_says_how_to_go_on(state: spec.StateDir, text: str) -> None:
    state.spec.write_text(text)
    with pytest.raises(LabError, match="collie lab down"):
        lab.status(state.path)
    lab.down(state.path)
    assert lab.status(state.path).machines == ()


def test_down_removes_a_socket_directory_only_if_the_lab_made_it(state: spec.StateDir, tmp_path: Path) -> None:
    precious, own = tmp_path / "precious", tmp_path / f"{spec.SOCKET_DIR_PREFIX}x"
    for directory in (precious, own):
        directory.mkdir()
        spec.save_spec(state, dataclasses.replace(make_spec(), sockets=str(directory)))
        lab.down(state.path)
    assert precious.exists()
    assert not own.exists()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"machines": 1}, "2 to 16 machines, not 1"),
        ({"machines": 0}, "2 to 16 machines, not 0"),
        ({"devices": {"lab-c": 2}}, "no machine 'lab-c' to give devices to; it has lab-a, lab-b"),
        ({"devices": {"lab-a": 5}}, "1 to 4 RoCE devices, not 5"),
    ],
)
def test_a_lab_that_cannot_be_is_refused_before_anything_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any], complaint: str
) -> None:
    monkeypatch.setattr(host, "find_program", lambda name: f"/usr/bin/{name}")
    with pytest.raises(LabError, match=complaint):
        lab.up(**arguments, state_dir=tmp_path / "state", cache_dir=tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_lab_that_died_is_shown_as_dead(state: spec.StateDir) -> None:
    spec.save_spec(state, make_spec())
    status = lab.status(state.path)
    assert [one.alive for one in status.machines] == [False, False]
    assert not status.answering
    assert status.inventory is None


def test_ssh_to_a_machine_that_is_not_there_names_those_that_are(state: spec.StateDir) -> None:
    with pytest.raises(LabError, match="collie lab up"):
        lab.ssh_argv("lab-a", state_dir=state.path)
    spec.save_spec(state, make_spec())
    with pytest.raises(LabError, match="lab-a, lab-b"):
        lab.ssh_argv("lab-z", state_dir=state.path)


def test_a_machine_is_not_started_again_in_a_lab_that_was_taken_down_meanwhile(
    state: spec.StateDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "find_program", lambda name: f"/usr/bin/{name}")
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))  # a failing test builds no lab
    spec.save_spec(state, make_spec())
    said: list[str] = []
    with ExitStack() as down:
        down.enter_context(host.locked(state.lock, timeout_seconds=1.0, what="the lab", say=host.quiet))

        def taken_down(line: str) -> None:
            said.append(line)
            state.spec.unlink()
            down.close()

        with pytest.raises(LabError, match="no lab is up"):
            lab.restart("lab-a", state_dir=state.path, cache_dir=tmp_path / "cache", say=taken_down)
    assert said == ["waiting for another process that uses the lab"]


def test_default_directories_follow_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLLIE_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/c")
    monkeypatch.setenv("XDG_STATE_HOME", "/s")
    assert image.default_cache_dir() == Path("/c/collie/lab")
    assert lab.default_state_dir() == Path("/s/collie/lab")
    monkeypatch.setenv("COLLIE_CACHE_DIR", "/own")
    assert image.default_cache_dir() == Path("/own")


def test_a_dead_link_is_reported_with_its_remedy_and_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = tuple(lab.MachineStatus(one.name, 1, one.ssh_port, one.data_addresses, True) for one in make_spec().machines)
    found = lab.LabStatus(Path("lab"), None, "bookworm", "tcg", rows)
    dead: list[links.DeadLink] = []
    monkeypatch.setattr(lab, "status", lambda: found)
    monkeypatch.setattr(lab, "dead_links", lambda: tuple(dead))
    assert CliRunner().invoke(lab_commands, ["status"], standalone_mode=False).return_value == 0
    dead.append(links.DeadLink("lab-a", "lab-b", "192.168.77.2"))
    reported = CliRunner().invoke(lab_commands, ["status"], standalone_mode=False)
    assert "lab-a does not reach lab-b at 192.168.77.2; `collie lab up` repairs it" in reported.output
    assert reported.return_value == 3
    answer = CliRunner().invoke(lab_commands, ["status", "--format", "json"], standalone_mode=False)
    assert json.loads(answer.output)["dead_links"] == [
        {"source": "lab-a", "target": "lab-b", "address": "192.168.77.2"}
    ]


def test_hosts_that_no_lab_can_mend_are_named(state: spec.StateDir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "require_programs", lambda *_names: None)
    pair = [Host(name, "127.0.0.1", "192.168.77.1", "rxe0") for name in ("lab-a", "lab-b")]
    with pytest.raises(TestbedError, match=r"hosts lab-a and lab-b do not reach each other.*no lab is up"):
        LabReviver(state.path).mend(pair)
