"""Where buffers lie: huge pages, NUMA nodes, GPUs, and what a host without them says."""

from __future__ import annotations

import errno
import glob
import importlib
import mmap
from pathlib import Path

import pytest

from collie.agent import memory
from collie.agent.faults import AgentFault


def meminfo(monkeypatch: pytest.MonkeyPatch, **numbers: int) -> None:
    monkeypatch.setattr(memory, "meminfo_number", numbers.get)


def test_a_host_without_huge_pages_says_so_and_how_to_get_some(monkeypatch: pytest.MonkeyPatch) -> None:
    meminfo(monkeypatch, HugePages_Total=0, HugePages_Free=0, Hugepagesize=2048)
    for processes, pages in ((1, 3), (4, 12)):
        with pytest.raises(AgentFault, match=f"echo {pages} > /proc/sys/vm/nr_hugepages") as caught:
            memory.allocate((4 << 20) + 1, huge_pages=True, processes=processes)
        assert caught.value.kind == "unsupported"


@pytest.mark.parametrize(("processes", "needed"), [(1, "2 huge pages"), (4, "2 huge pages in each of 4 processes")])
def test_too_few_huge_pages_are_no_lack_of_the_device(
    monkeypatch: pytest.MonkeyPatch, processes: int, needed: str
) -> None:
    def full(*_arguments: int, **_flags: int) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    meminfo(monkeypatch, HugePages_Total=8, HugePages_Free=5, HugePages_Rsvd=4, Hugepagesize=2048)
    monkeypatch.setattr(mmap, "mmap", full)
    with pytest.raises(AgentFault, match=f"need {needed}, and this host has 1 free") as caught:
        memory.allocate(4 << 20, huge_pages=True, processes=processes)
    assert (caught.value.kind, caught.value.errno) == ("setup", 12)


def test_ordinary_buffers_must_fit_the_memory_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    meminfo(monkeypatch, MemAvailable=1024)
    with pytest.raises(AgentFault, match="do not fit"):
        memory.allocate(1 << 20, huge_pages=False)
    assert len(memory.allocate(4096, huge_pages=False)) == 4096


@pytest.mark.parametrize(
    ("text", "cpus"), [("0-3,8\n", {0, 1, 2, 3, 8}), ("5\n", {5}), ("\n", set()), ("0,2-3", {0, 2, 3})]
)
def test_the_cpus_of_a_node_are_read_from_its_list(tmp_path: Path, text: str, cpus: set[int]) -> None:
    (tmp_path / "node1").mkdir()
    (tmp_path / "node1" / "cpulist").write_text(text)
    assert memory.cpus_of(1, str(tmp_path)) == cpus
    assert memory.cpus_of(2, str(tmp_path)) == set()


def test_a_host_without_gpu_says_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glob, "glob", lambda pattern: [])
    assert "no GPU" in memory.why_no_gpu()
    monkeypatch.setattr(glob, "glob", lambda pattern: ["/dev/dri/renderD128"])
    monkeypatch.setattr(importlib, "import_module", lambda name: object())
    assert "cannot register a dmabuf" in memory.why_no_gpu()
