"""Machines are started so that their memory barriers hold against QEMU's own threads (ADR 18)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from collie.lab import lab, machine
from collie.lab.image import Image
from collie.lab.spec import LabSpec, MachineSpec, StateDir
from tests.lab.conftest import RunningLab

pytestmark = [pytest.mark.lab, pytest.mark.slow]

ROUNDS = 200_000
PROGRAM = Path(__file__).with_name("barrier.py")
FIND_MEMORY = (
    "for device in /sys/bus/pci/devices/*; do "
    "grep -q 0x1110 $device/device && echo 1 >$device/enable && echo $device/resource2; done; true"
)


@pytest.fixture
def sharing_lab(
    lab_programs: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[RunningLab, Path]]:
    """A lab whose first machine shares a file's memory with this computer, as it shares its rings with QEMU."""
    memory = tmp_path / "memory"
    plain = machine.arguments

    def arguments(spec: LabSpec, one: MachineSpec, image: Image, state: StateDir) -> tuple[str, ...]:
        backend = f"memory-backend-file,id=shared,size=1M,share=on,mem-path={memory}"
        more = ("-object", backend, "-device", "ivshmem-plain,memdev=shared")
        return plain(spec, one, image, state) + (more if one.index == 0 else ())

    monkeypatch.setattr(machine, "arguments", arguments)
    try:
        status = lab.up(release=os.environ.get("COLLIE_LAB_RELEASE"), state_dir=tmp_path / "lab")
        assert status.inventory is not None
        yield RunningLab(tmp_path / "lab", status.inventory), memory
    finally:
        lab.down(tmp_path / "lab")


def test_no_store_is_missed_across_barriers_of_machine_and_host(sharing_lab: tuple[RunningLab, Path]) -> None:
    running, memory = sharing_lab
    (device,) = running.run("lab-a", FIND_MEMORY).split()
    there = lab.ssh_argv("lab-a", f"timeout 60 python3 - {device} 0 {ROUNDS}", state_dir=running.state_dir)
    here = ("timeout", "60", sys.executable, str(PROGRAM), str(memory), "1", str(ROUNDS))
    with (
        PROGRAM.open("rb") as source,
        subprocess.Popen(there, stdin=source, stdout=subprocess.PIPE, text=True) as guest,
        subprocess.Popen(here, stdout=subprocess.PIPE, text=True) as host,
    ):
        found = [[int(word) for word in side.communicate()[0].split()] for side in (guest, host)]
    assert [len(side) for side in found] == [ROUNDS, ROUNDS]
    missed = [step for step, seen in enumerate(zip(*found, strict=True), start=1) if max(seen) < step]
    assert not missed, f"in {len(missed)} of {ROUNDS} rounds neither side saw what the other one had written"
