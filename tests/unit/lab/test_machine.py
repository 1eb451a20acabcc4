"""Command lines of machines, and the processes that belong to a lab."""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from collie.lab import image, machine, spec
from tests.support.lab_specs import make_spec, two_devices


def argv_of(lab_spec: spec.LabSpec, index: int, state: spec.StateDir) -> tuple[str, ...]:
    disk = image.Image("bookworm", Path("/cache/bookworm-0123456789ab"))
    return machine.arguments(lab_spec, lab_spec.machines[index], disk, state)


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
