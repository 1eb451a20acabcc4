"""Data paths on a fake libibverbs."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import CDLL, c_double, c_int64, c_uint64
from enum import IntFlag
from functools import partial
from typing import Any

from collie.agent.echoes import Echoes
from collie.agent.library import Library, VerbsError
from collie.agent.native import NativeVerbs
from collie.agent.native_traffic import NativeTraffic
from collie.agent.paths import DataPath, load_native
from collie.agent.queues import build_queues
from collie.agent.resources import End, Resources
from collie.agent.totals import ATTENTION, RunTotals, Totals
from collie.agent.traffic import Traffic
from collie.agent.used_end import UsedEnd
from collie.agent.workload import parse_workload

GID = "0000:0000:0000:0000:0000:ffff:c000:0201"
PATIENCE_SECONDS = 30.0
TRAFFIC: dict[str, dict[str, Any]] = {
    "RC WRITE": {"opcode": "WRITE"},
    "RC WRITE in chains": {"opcode": "WRITE", "wqe_batch": 8, "mrs_per_qp": 3, "messages": [64, 100, 2000]},
    "RC WRITE_WITH_IMM": {"opcode": "WRITE_WITH_IMM"},
    "RC SEND": {"opcode": "SEND", "messages": [4096, 100]},
    "RC SEND, one receive queue for all": {"opcode": "SEND", "srq": True, "wqe_batch": 4},
    "RC READ": {"opcode": "READ", "max_rd_atomic": 16, "max_dest_rd_atomic": 16},
    "RC SEND, every option": {
        "opcode": "SEND_WITH_IMM",
        "messages": [64, 100, 2000],
        "wqe_batch": 8,
        "sge_count": 4,
        "sge_split": [8],
        "mrs_per_qp": 5,
        "max_inline_data": 128,
        "sq_sig_all": True,
        "fence": True,
    },
    "RC FETCH_ADD": {"opcode": "FETCH_ADD", "messages": [8]},
    "RC CMP_SWP": {"opcode": "CMP_SWP", "messages": [8]},
    "RC WRITE, a signal every 4 chains": {"opcode": "WRITE", "wqe_batch": 2, "signal_every": 4},
    "RC READ and WRITE in turn": {
        "opcode": "READ",
        "more_opcodes": ["WRITE"],
        "messages": [64, 100, 2000],
        "wqe_batch": 4,
    },
    "UC WRITE": {"qp_type": "UC", "opcode": "WRITE"},
    "UC SEND": {"qp_type": "UC", "opcode": "SEND"},
    "UD SEND": {"qp_type": "UD", "opcode": "SEND", "messages": [1024, 64]},
    "UD SEND, one receive queue for all": {"qp_type": "UD", "opcode": "SEND", "srq": True},
}


def python_path(library: str) -> DataPath:
    """The reference loop, over the same library: pyverbs itself has no place for a fake one."""
    return DataPath("python", NativeVerbs(Library(library)), partial(Traffic, VerbsError), "")


class Feature(IntFlag):
    """`enum feature` of the fake device."""

    STAMPS = 1
    CLOCK = 2
    EXTENDED_CQ = 4
    CLOCK_FAILS = 8
    CLOCK_IN_SECONDS = 16
    CQ_FAILS = 32
    QP_FAILS = 64
    OLD = 128
    OTHER_STAMPS = 256
    OLD_STAMPS = 512
    NOT_EXTENDED = 1024


STAMPING = Feature.STAMPS | Feature.CLOCK | Feature.EXTENDED_CQ
"""A device whose completions carry its time."""


def set_clock(library: CDLL, mask: int = (1 << 64) - 1, khz: int = 156_250, ppm_off: float = 0, first: int = 0) -> None:
    """Set the fake device's clock, whose true frequency is `ppm_off` above the stated one, to `first`."""
    library.fake_clock(c_uint64(mask), c_uint64(khz), c_double(ppm_off), c_uint64(first))


def set_late(library: CDLL, seconds: float) -> None:
    """Let the fake device's completions be polled only some time after they are there."""
    library.fake_late(c_int64(int(seconds * 1e9)))


@contextmanager
def native_path(library: str, features: int = 0) -> Iterator[DataPath]:
    """The loop in C, on a fake device with some features of `Feature`."""
    loaded = CDLL(library)
    loaded.fake_features(int(features))
    set_clock(loaded)
    try:
        yield load_native(library)
    finally:
        loaded.fake_features(0)
        set_late(loaded, 0)
        loaded.fake_slow_clock(c_int64(0))


class Loopback:
    """A flow from the device to itself, both ends in this process.

    Nothing is timed if `timed` is False, and neither end believes that its peer echoes if `echoes` is.
    """

    def __init__(
        self,
        path: DataPath,
        *,
        content: bytes = b"",
        timed: bool = True,
        echoes: bool = True,
        spin_seconds: float = 0.0,
        **workload: Any,
    ) -> None:
        fields = {"qp_type": "RC", "messages": [1024], "qps": 3, "send_wq_depth": 32, "mtu": 4096, **workload}
        parsed = parse_workload(fields)
        self.totals = Totals({"a-a/requester": parsed.qps, "a-a/responder": parsed.qps})
        self.read = RunTotals([self.totals])
        self.resources = Resources(path.verbs, "fake0", 1, 0, GID)
        try:
            ends = [End(f"a-a/{role}", role, parsed.qps, parsed) for role in ("requester", "responder")]
            self.resources.create(ends)
            for end, peer in (ends, ends[::-1]):
                self.resources.connect(end, {**self.resources.endpoint(peer), "echoes": path.paces and echoes})
            self.source, self.sink = ends[::-1] if "READ" in parsed.opcodes else ends
            for address in self.regions(self.source):
                ctypes.memmove(address, content, len(content))
        except BaseException:
            self.resources.destroy()
            raise
        self.control, self.command = os.pipe()
        slots = sum(end.queues for end in ends)
        pair_words = {
            pair.qp_num: layout.first_qp + number
            for end, layout in zip(ends, self.totals.ends, strict=True)
            for number, pair in enumerate(end.pairs)
        }
        self.traffic = path.traffic(
            slots, self.resources.cqs, self.totals.words, pair_words, self.control, spin_seconds
        )
        self.echoes = Echoes(path.verbs, self.resources.pd)
        self._timed = timed
        self.begin_phase()

    def begin_phase(self) -> None:
        """Begin with new queues. No receives may be posted."""
        for end, layout in zip(self.resources.ends, self.totals.ends, strict=True):
            part = UsedEnd(end, end.workload, end.qps)
            queues = build_queues(self.resources.v, part, layout, 0)
            for queue in queues.values():
                queue.timed = queue.timed and self._timed
            self.traffic.admit(queues)
            if isinstance(self.traffic, NativeTraffic):
                self.traffic.admit_echoes(self.echoes.build(part))
        self.traffic.begin()

    def serve(self, until: Callable[[], bool]) -> None:
        """Drive traffic until the totals, which another thread reads as the resident agent does, fulfil something."""
        fulfilled = []

        def watch() -> None:
            end = time.monotonic() + PATIENCE_SECONDS
            while not (observed := until()) and time.monotonic() < end:
                time.sleep(0.001)
            fulfilled.append(observed)
            self.totals.words[ATTENTION] = 1
            os.write(self.command, b"\n")

        watcher = threading.Thread(target=watch)
        watcher.start()
        self.traffic.serve()
        watcher.join()
        os.read(self.control, 1)
        self.totals.words[ATTENTION] = 0
        assert fulfilled == [True], f"{self.requester}, {self.read.health()}"

    @staticmethod
    def regions(end: End) -> list[int]:
        """Addresses of all memory regions of an end."""
        assert end.buffers is not None
        return [end.buffers.local(pair, mr)[0] for pair in range(end.qps) for mr in range(end.workload.mrs_per_qp)]

    @property
    def requester(self) -> dict[str, Any]:
        return self.read.end("a-a/requester")

    @property
    def responder(self) -> dict[str, Any]:
        return self.read.end("a-a/responder")

    def close(self) -> int:
        for descriptor in (self.control, self.command):
            os.close(descriptor)
        flushed = self.resources.quiesce(1.0)
        self.echoes.close()
        self.resources.destroy()
        return flushed


def enough(loop: Loopback) -> Callable[[], bool]:
    return lambda: loop.requester["qp_messages"]["min"] >= 200
