"""The parts of the lab that need no QEMU: command lines, files, and which process is ours."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from collie.cli.lab import command as lab_commands
from collie.content.inventory import load_inventory
from collie.errors import LabError, TestbedError
from collie.inventory.hosts import Host
from collie.lab import bringup, host, image, keys, lab, links, machine, spec
from collie.lab.lab import LabReviver

KEYS = ("ssh-ed25519 AAAAfirst", "ssh-ed25519 AAAAsecond", "ssh-ed25519 AAAAthird", "ssh-ed25519 AAAAfourth")
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"


def make_spec(count: int = 2, accelerator: str = "tcg") -> spec.LabSpec:
    return spec.LabSpec(
        release="bookworm",
        image="bookworm-0123456789ab",
        accelerator=accelerator,
        memory_mib=768,
        vcpus=1,
        sockets="/run/net",
        machines=tuple(spec.MachineSpec(index, 22022 + index) for index in range(count)),
    )


def argv_of(lab_spec: spec.LabSpec, index: int, state: spec.StateDir) -> tuple[str, ...]:
    disk = image.Image("bookworm", Path("/cache/bookworm-0123456789ab"))
    return machine.arguments(lab_spec, lab_spec.machines[index], disk, state)


@pytest.fixture
def state(tmp_path: Path) -> spec.StateDir:
    return spec.StateDir(tmp_path)


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that is run in place of `ssh`; the test writes it."""
    program = tmp_path / "bin" / "ssh"
    program.parent.mkdir()
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return program


@pytest.fixture
def impostor() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start processes whose command line is given and that only sleep."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*argv: str) -> subprocess.Popen[bytes]:
        program = "import time; print('up', flush=True); time.sleep(60)"
        process = subprocess.Popen(
            [argv[0], "-c", program, *argv[1:]], executable=sys.executable, stdout=subprocess.PIPE
        )
        started.append(process)
        assert process.stdout is not None
        process.stdout.readline()
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


# --- command line ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 3, 5])
def test_a_machine_listens_on_loopback_and_on_files_only(state: spec.StateDir, count: int) -> None:
    for index in range(count):
        argv = argv_of(make_spec(count), index, state)
        netdevs = [value for option, value in itertools.pairwise(argv) if option == "-netdev"]
        forwards = [text for text in netdevs if text.startswith("user,")]
        assert forwards == [f"user,id=management,restrict=on,hostfwd=tcp:127.0.0.1:{22022 + index}-:22"]
        for text in set(netdevs) - set(forwards):
            assert text.startswith("hubport,") or ("local.type=unix" in text and "remote.type=unix" in text)
        assert not {"-vnc", "-spice", "-qmp", "-gdb", "-s", "-chardev"} & set(argv)
        assert argv[argv.index("-monitor") + 1] == "none"


def test_the_two_ends_of_each_link_name_each_other(state: spec.StateDir) -> None:
    lab_spec = make_spec(5)
    ends: set[tuple[str, str]] = set()
    for one in lab_spec.machines:
        text = " ".join(argv_of(lab_spec, one.index, state))
        ends.update(re.findall(r"local\.path=(\S+?),remote\.type=unix,remote\.path=(\S+?)(?=[ ,]|$)", text))
    assert len(ends) == 8  # 4 links join 5 machines in a tree
    assert ends == {(remote, local) for local, remote in ends}


@pytest.mark.parametrize("count", [2, 3, 4, 7, 16])
def test_links_form_one_tree_in_which_pairs_are_joined_directly(count: int) -> None:
    links = {frozenset((index, peer)) for index in range(count) for peer in spec.neighbours(index, count)}
    assert len(links) == count - 1
    reached = {0}
    for _ in range(count):
        reached |= {place for link in links if link & reached for place in link}
    assert reached == set(range(count))
    assert all(frozenset((index, index + 1)) in links for index in range(0, count - 1, 2))


def test_the_disk_is_shared_and_never_written(state: spec.StateDir) -> None:
    first, second = (argv_of(make_spec(), index, state) for index in (0, 1))
    drives = {argv[argv.index("-drive") + 1] for argv in (first, second)}
    assert drives == {"file=/cache/bookworm-0123456789ab/disk,format=raw,if=virtio,snapshot=on"}


def test_emulation_and_kvm_differ_in_the_processor_only(state: spec.StateDir) -> None:
    emulated = argv_of(make_spec(accelerator="tcg"), 0, state)
    accelerated = argv_of(make_spec(accelerator="kvm"), 0, state)
    assert set(emulated) ^ set(accelerated) == {"tcg,thread=multi", "max", "kvm", "host"}


@pytest.mark.parametrize(("vcpus", "most"), [(1, 2), (4, 4)])
def test_no_machine_is_bound_to_one_processor_for_ever(state: spec.StateDir, vcpus: int, most: int) -> None:
    """QEMU's emulator drops the guest's memory barriers otherwise (ADR 18)."""
    argv = argv_of(dataclasses.replace(make_spec(), vcpus=vcpus), 0, state)
    assert argv[argv.index("-smp") + 1] == f"{vcpus},maxcpus={most}"


def test_a_comma_in_a_path_does_not_end_an_option(tmp_path: Path) -> None:
    argv = argv_of(make_spec(), 0, spec.StateDir(tmp_path / "a,b"))
    assert f"file:{tmp_path}/a,,b/lab-a/console.log" in argv


# --- inventory ------------------------------------------------------------------------------------------------------


def test_the_hosts_file_pins_keys_and_separates_management_from_data(state: spec.StateDir) -> None:
    loaded = yaml.safe_load(keys.inventory_text(make_spec(), state, KEYS[:2]))
    assert loaded == {
        "version": 1,
        "hosts": {
            name: {
                "address": "127.0.0.1",
                "port": port,
                "user": "root",
                "identity_file": str(state.identity),
                "host_key": key,
                "data_address": data,
                "device": "rxe0",
                "ib_port": 1,
                "gid_index": 1,
                "python": "/usr/bin/python3",
            }
            for name, port, key, data in (
                ("lab-a", 22022, KEYS[0], "192.168.77.1"),
                ("lab-b", 22023, KEYS[1], "192.168.77.2"),
            )
        },
        "pairs": [["lab-a", "lab-b"]],
    }


def two_devices() -> spec.LabSpec:
    first, *others = make_spec().machines
    return dataclasses.replace(make_spec(), machines=(dataclasses.replace(first, devices=2), *others))


def test_a_machine_with_two_devices_has_a_card_for_each_in_the_one_network(state: spec.StateDir) -> None:
    argv = argv_of(two_devices(), 0, state)
    cards = [value for value in argv if value.startswith("virtio-net-pci,netdev=data")]
    ports = [value for value in argv if value.startswith("hubport,")]
    macs = [re.search(r"mac=([0-9a-f:]+)", card)[1] for card in cards]  # type: ignore[index]
    assert len(set(macs)) == 2
    assert [re.search(r"id=(\w+),hubid=0", port)[1] for port in ports] == ["port1", "data0", "data1"]  # type: ignore[index]
    reported = next(value for value in argv if "opt/collie/data," in value).partition("string=")[2]
    assert reported == f"{macs[0]}=192.168.77.1/24 {macs[1]}=192.168.77.17/24"
    assert not any(value.startswith("hubport") for value in argv_of(two_devices(), 1, state))


@pytest.mark.parametrize("word", ["lab-a", "=2", "lab-a=two", "lab-a=-1", "lab-a=100", "lab-a=\N{SUPERSCRIPT TWO}"])
def test_devices_are_given_as_name_and_number(word: str) -> None:
    done = CliRunner().invoke(lab_commands, ["up", "--devices", word])
    assert done.exit_code == 2
    assert "is not of the form NAME=N, such as lab-a=2" in done.output


def test_addresses_of_all_devices_of_the_largest_lab_differ() -> None:
    machines = [spec.MachineSpec(index, 0, spec.MAXIMUM_DEVICES) for index in range(spec.MAXIMUM_MACHINES)]
    assert len({address for one in machines for address in one.data_addresses}) == 64
    assert len({mac for one in machines for mac in one.data_macs}) == 64


def test_the_hosts_file_names_both_devices_of_a_machine(state: spec.StateDir) -> None:
    state.inventory.write_text(keys.inventory_text(two_devices(), state, [KEY, KEY]))
    inventory = load_inventory(state.inventory)
    assert [(host.name, host.device, host.data_address, host.gid_index) for host in inventory.hosts] == [
        ("lab-a/rxe0", "rxe0", "192.168.77.1", 1),
        ("lab-a/rxe1", "rxe1", "192.168.77.17", 1),
        ("lab-b", "rxe0", "192.168.77.2", 1),
    ]
    assert [pair.name for pair in inventory.pairs] == ["lab-a/rxe0,lab-b", "lab-a/rxe0,lab-a/rxe1"]


@pytest.mark.parametrize(("count", "together"), [(2, 2), (3, 3), (4, 4), (16, 8)])
def test_all_machines_measure_together_up_to_the_most_of_a_hosts_file(
    state: spec.StateDir, count: int, together: int
) -> None:
    text = keys.inventory_text(make_spec(count), state, [KEYS[0]] * count)
    assert yaml.safe_load(text)["pairs"] == [[spec.machine_name(index) for index in range(together)]]


def test_a_path_that_yaml_would_misread_is_quoted(tmp_path: Path) -> None:
    odd = spec.StateDir(tmp_path / "it's: #1")
    loaded = yaml.safe_load(keys.inventory_text(make_spec(), odd, KEYS[:2]))
    assert loaded["hosts"]["lab-a"]["identity_file"] == str(odd.identity)


def test_ssh_trusts_the_pinned_key_only(state: spec.StateDir) -> None:
    argv = keys.ssh_command(make_spec().machines[1], state, ("uname",))
    assert argv[argv.index("-F") + 1] == os.devnull
    assert "StrictHostKeyChecking=yes" in argv
    assert argv[-2:] == ("root@127.0.0.1", "uname")
    keys.write_known_hosts(make_spec(), state, KEYS[:2])
    assert state.known_hosts.read_text().splitlines()[1] == f"[127.0.0.1]:22023 {KEYS[1]}"


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen (Debian package openssh-client)")
def test_a_key_is_made_once_and_private(tmp_path: Path) -> None:
    public = keys.ensure_key(tmp_path / "id", "test")
    assert public.startswith("ssh-ed25519 ")
    assert keys.ensure_key(tmp_path / "id", "test") == public
    assert (tmp_path / "id").stat().st_mode & 0o077 == 0


# --- processes ------------------------------------------------------------------------------------------------------


def test_only_a_qemu_with_our_label_is_ours(
    state: spec.StateDir, impostor: Callable[..., subprocess.Popen[bytes]]
) -> None:
    label = state.label("lab-a")
    ours = impostor("/usr/bin/qemu-system-x86_64", "-name", label)
    other_lab = impostor("/usr/bin/qemu-system-x86_64", "-name", "collie-0000-lab-a")
    editor = impostor("vi", "-name", label)
    assert machine.find([label]) == {label: ours.pid}

    assert machine.stop([label]) == (label,)
    assert ours.wait(10) == -signal.SIGTERM
    assert other_lab.poll() is None
    assert editor.poll() is None
    assert machine.stop([label]) == ()


def test_a_machine_that_ignores_sigterm_is_killed(state: spec.StateDir) -> None:
    label = state.label("lab-a")
    program = "import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(60)"
    argv = ["qemu-system-x86_64", "-c", program, "-name", label]
    with subprocess.Popen(argv, executable=sys.executable, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert machine.stop([label], patience_seconds=0.5) == (label,)
        assert process.wait(10) == -signal.SIGKILL


def test_a_process_that_has_ended_has_no_label() -> None:
    process = subprocess.Popen(["qemu-system-x86_64", "-c", "", "-name", "x"], executable=sys.executable)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert machine.label_of(process.pid) == ""  # a zombie
    process.wait()
    assert machine.label_of(process.pid) == ""


def test_labels_differ_between_state_directories(tmp_path: Path) -> None:
    assert spec.StateDir(tmp_path / "a").label("lab-a") != spec.StateDir(tmp_path / "b").label("lab-a")


# --- specification --------------------------------------------------------------------------------------------------


def test_a_specification_survives_the_disk(state: spec.StateDir) -> None:
    assert spec.load_spec(state) is None
    spec.save_spec(state, make_spec(3))
    assert spec.load_spec(state) == make_spec(3)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"machines": [{"index": 1}]}', '{"machines": 5}'])
def test_a_damaged_specification_says_how_to_go_on(state: spec.StateDir, text: str) -> None:
    state.spec.write_text(text)
    with pytest.raises(LabError, match="collie lab down"):
        lab.status(state.path)
    lab.down(state.path)
    assert lab.status(state.path).machines == ()


def test_wanted_names_what_differs() -> None:
    assert spec.LabRequest().differing(make_spec()) == ""
    assert spec.LabRequest(2, "bookworm").differing(make_spec()) == ""
    assert spec.LabRequest(3, "trixie").differing(make_spec()) == "number of machines and release"
    assert spec.LabRequest(devices={"lab-a": 2}).differing(make_spec()) == "devices"
    assert spec.LabRequest(devices={"lab-b": 1}).differing(make_spec()) == ""


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
    monkeypatch.setattr(image, "NEEDED_BYTES", 1 << 62)  # whatever goes wrong, this test builds no lab
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


def test_sockets_move_when_their_path_would_be_too_long(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 120)
    deep.mkdir()
    chosen = spec.choose_socket_dir(spec.StateDir(deep))
    assert len(str(chosen)) <= spec.SOCKET_PATH_BYTES
    assert chosen.stat().st_mode & 0o077 == 0
    chosen.rmdir()


def test_default_directories_follow_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLLIE_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/c")
    monkeypatch.setenv("XDG_STATE_HOME", "/s")
    assert image.default_cache_dir() == Path("/c/collie/lab")
    assert lab.default_state_dir() == Path("/s/collie/lab")
    monkeypatch.setenv("COLLIE_CACHE_DIR", "/own")
    assert image.default_cache_dir() == Path("/own")


# --- image ----------------------------------------------------------------------------------------------------------


def test_the_key_of_an_image_follows_its_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    before = image.image_key("bookworm")
    assert before.startswith("bookworm-")
    assert image.image_key("trixie").partition("-")[2] != before.partition("-")[2]
    monkeypatch.setattr(image, "PACKAGES", (*image.PACKAGES, "tcpdump"))
    assert image.image_key("bookworm") != before


def test_a_mirror_is_passed_on_and_not_part_of_the_key() -> None:
    assert image.bootstrap_argv("bookworm", None)[-2:] == ("bookworm", "tree.tar")
    assert image.bootstrap_argv("bookworm", "https://mirror.example/debian")[-1] == "https://mirror.example/debian"


def test_an_unknown_release_is_refused_with_those_known(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="bookworm and trixie"):
        image.ensure_image("sid", cache_dir=tmp_path)


def test_a_mirror_that_is_no_address_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="--mirror"):
        image.ensure_image("bookworm", cache_dir=tmp_path, mirror="--version")


def test_a_cached_image_is_used_without_any_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "find_program", lambda name: None)
    (tmp_path / image.image_key("trixie")).mkdir()
    assert image.ensure_image("trixie", cache_dir=tmp_path).directory.name == image.image_key("trixie")


def test_missing_programs_are_named_with_their_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "find_program", lambda name: None)
    with pytest.raises(LabError, match=r"apt-get install e2fsprogs .*mmdebstrap"):
        image.ensure_image("bookworm", cache_dir=tmp_path)
    with pytest.raises(LabError, match=r"qemu-system-x86_64.*apt-get install openssh-client qemu-system-x86"):
        lab.up(state_dir=tmp_path / "state", cache_dir=tmp_path)


def test_too_little_disk_is_said_before_anything_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "find_program", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(image, "NEEDED_BYTES", 1 << 62)
    with pytest.raises(LabError, match="COLLIE_CACHE_DIR"):
        image.ensure_image("bookworm", cache_dir=tmp_path)
    assert [path.suffix for path in tmp_path.iterdir()] == [".lock"]


# --- waiting --------------------------------------------------------------------------------------------------------


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


def test_a_lock_waits_and_then_says_who_to_look_for(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    said: list[str] = []
    with (
        host.locked(lock, timeout_seconds=1, what="the lab", say=said.append),
        pytest.raises(LabError, match="busy in another process"),
        host.locked(lock, timeout_seconds=0.3, what="the lab", say=said.append),
    ):
        pass
    assert len(said) == 1
    with host.locked(lock, timeout_seconds=0.3, what="the lab", say=said.append):
        pass
    assert len(said) == 1


def test_a_command_that_takes_too_long_is_ended_with_its_children(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with pytest.raises(LabError, match="did not end within"):
        host.run_logged(("sh", "-c", "sleep 60 & echo $!; wait"), log=log, directory=tmp_path, timeout_seconds=2)
    child = int(log.read_text())
    deadline = time.monotonic() + 10
    while runs(child) and time.monotonic() < deadline:  # the kernel takes a moment to end what was killed
        time.sleep(0.05)
    assert not runs(child)


def runs(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() != b""
    except OSError:
        return False


def test_lines_of_a_command_are_reported(tmp_path: Path) -> None:
    lines: list[str] = []
    status = host.run_logged(
        ("sh", "-c", "echo one; echo two >&2; sleep 0.3; exit 3"),
        log=tmp_path / "log",
        directory=tmp_path,
        timeout_seconds=20,
        on_line=lines.append,
    )
    assert status == 3
    assert lines == ["one", "two"]


# --- acceleration ---------------------------------------------------------------------------------------------------


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


# --- Links ------------------------------------------------------------------------------------------------------------


def test_each_dead_link_is_named_from_the_end_that_asked(state: spec.StateDir, ssh: Path) -> None:
    ssh.write_text("#!/bin/sh\necho dead 192.168.77.1\n", encoding="ascii")
    names = {"lab-a", "lab-b", "lab-c"}
    found = links.dead_links(make_spec(3), state, names)
    assert {(one.source, one.target, one.address) for one in found} == {
        ("lab-b", "lab-a", "192.168.77.1"),
        ("lab-c", "lab-a", "192.168.77.1"),
    }
    assert "lab-b does not reach lab-a at 192.168.77.1" in map(str, found)


def test_a_machine_that_does_not_answer_is_neither_asked_nor_a_dead_link(state: spec.StateDir, ssh: Path) -> None:
    ssh.write_text("#!/bin/sh\necho dead 192.168.77.1; echo dead 192.168.77.2\n", encoding="ascii")
    assert links.dead_links(make_spec(2), state, {"lab-a"}) == ()


def test_a_machine_that_cannot_be_asked_names_no_dead_link(state: spec.StateDir, ssh: Path) -> None:
    ssh.write_text("#!/bin/sh\necho Connection refused; exit 255\n", encoding="ascii")
    assert links.dead_links(make_spec(2), state, {"lab-a", "lab-b"}) == ()


@pytest.mark.parametrize(("reached", "said"), [("127.0.0.1", ""), ("192.0.2.1", "dead 192.0.2.1\n")])
def test_the_probe_prints_the_addresses_that_do_not_answer(tmp_path: Path, reached: str, said: str) -> None:
    (tmp_path / "ping").write_text('#!/bin/sh\nfor last; do :; done; test "$last" = 127.0.0.1\n', encoding="ascii")
    (tmp_path / "ping").chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["sh", "-c", links.probe([reached], 1)], env=environment, capture_output=True, check=True)
    assert done.stdout.decode() == said


def test_machines_on_most_dead_links_are_suspected_first_and_once() -> None:
    dead = [links.DeadLink(one, other, "x") for one, other in (("lab-b", "lab-a"), ("lab-c", "lab-a"))]
    assert links.suspect(dead, ()) == "lab-a"
    assert links.suspect(dead, {"lab-a"}) == "lab-b"
    assert links.suspect(dead, {"lab-a", "lab-b", "lab-c"}) is None
    assert links.suspect([], ()) is None


def test_a_dead_link_is_told_with_its_remedy_and_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
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
