"""Memory, completion queues and limits of a device."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from contextlib import contextmanager, suppress
from typing import Any, Dict, Iterator, List, Optional, Tuple

from . import memory
from .facts import driver_of
from .faults import AgentFault, from_errno
from .verbs import Verbs
from .workload import ATOMICS, Workload

PAGE = mmap.PAGESIZE

# Transports that only one driver has.
DRIVERS = {"DC": "mlx5_core", "SRD": "efa"}


@contextmanager
def step(name: str) -> Iterator[None]:
    """Turn an error in the block into an ``AgentFault`` that names the step."""
    try:
        yield
    except AgentFault:
        raise
    except MemoryError as error:
        raise from_errno(name, errno.ENOMEM, str(error)) from error
    except OSError as error:
        raise from_errno(name, error.errno or errno.EIO, str(error)) from error
    except Exception as error:  # pyverbs' exceptions may not be importable
        code = getattr(error, "error_code", None)
        if code is None:
            raise AgentFault("setup", name, f"{name}: {error}") from error
        raise from_errno(name, abs(code), str(error)) from error


@contextmanager
def closed_on_failure(made: Any) -> Iterator[None]:
    """Close ``made`` if the block fails. An error in closing it does not replace the error of the block."""
    try:
        yield
    except BaseException:
        with suppress(Exception):  # the end of the process frees what stays
            made.close()
        raise


class Limits:
    """Limits of a device."""

    def __init__(self, v: Verbs, device: str, attributes: Any) -> None:
        self._device, self._driver, self._attributes = device, driver_of(device), attributes
        self.max_cqe: int = attributes.max_cqe
        self._atomics = attributes.atomic_caps != v.e.IBV_ATOMIC_NONE
        self._xrc = bool(attributes.device_cap_flags & v.e.IBV_DEVICE_XRC)

    def check(self, workload: Workload) -> None:
        """Raise ``unsupported`` for values above a limit, and for missing transports and operations."""
        self._check_transport(workload.qp_type)
        if workload.opcodes & ATOMICS and not self._atomics:
            raise AgentFault("unsupported", "limits", f"device {self._device} reports no atomics (atomic_cap NONE)")
        has = self._attributes
        wishes = [
            ("send_wq_depth", workload.send_wq_depth, has.max_qp_wr),
            ("recv_wq_depth", workload.recv_wq_depth, has.max_srq_wr if workload.srq else has.max_qp_wr),
            ("sge_count", workload.sge_count, min(has.max_sge, has.max_srq_sge) if workload.srq else has.max_sge),
        ]
        if workload.qp_type == "RC":
            wishes.append(("max_rd_atomic", workload.max_rd_atomic, has.max_qp_init_rd_atom))
            wishes.append(("max_dest_rd_atomic", workload.max_dest_rd_atomic, has.max_qp_rd_atom))
        self._refuse(wishes)

    def _check_transport(self, qp_type: str) -> None:
        if qp_type == "XRC":
            offered, lack = self._xrc, f"device {self._device} reports no XRC (device_cap_flags lacks IBV_DEVICE_XRC)"
        elif qp_type in DRIVERS:
            offered = self._driver == DRIVERS[qp_type]
            lack = f"driver {self._driver} of device {self._device} has no {qp_type} transport"
        else:
            return
        not_here = f"device {self._device} offers {qp_type}, which this agent does not drive yet"
        raise AgentFault("unsupported", "limits", not_here if offered else lack, errno.EOPNOTSUPP)

    def check_totals(self, qps: int, mrs: int) -> None:
        """Raise ``unsupported`` for more objects than the device supports."""
        has = self._attributes
        self._refuse([("queue pairs", qps, has.max_qp), ("memory regions", mrs, has.max_mr)])

    @staticmethod
    def _refuse(wishes: List[Tuple[str, int, int]]) -> None:
        for name, wish, limit in wishes:
            if wish > limit:
                raise AgentFault("unsupported", "limits", f"{name} {wish} is above the device's {limit}", errno.EINVAL)


def remote_access(v: Verbs, workload: Workload) -> int:
    """Return the access flags for a peer. Devices without atomics refuse the flag for atomics."""
    access = v.e.IBV_ACCESS_REMOTE_WRITE | v.e.IBV_ACCESS_REMOTE_READ
    return int(access | v.e.IBV_ACCESS_REMOTE_ATOMIC if workload.opcodes & ATOMICS else access)


class Buffers:
    """The MRs of an end in one memory mapping, ``per_qp`` for each queue pair."""

    def __init__(
        self,
        v: Verbs,
        pd: Any,
        workload: Workload,
        qps: int,
        header: int,
        numa_node: Optional[int],
        processes: int = 1,
    ) -> None:
        """Register MRs with ``header`` bytes before the payload. ``processes`` engines do this at the same time."""
        per_qp = workload.mrs_per_qp
        access = v.e.IBV_ACCESS_LOCAL_WRITE | remote_access(v, workload)
        length = header + workload.buffer_bytes
        self.per_qp = per_qp
        self.header = header
        self.stride = -(-length // PAGE) * PAGE
        total = self.stride * per_qp * qps
        with step("allocate"), memory.on_node(numa_node):
            self._mapping = memory.allocate(total, workload.huge_pages, processes)
            self.base = ctypes.addressof(ctypes.c_char.from_buffer(self._mapping))
            self.mrs: List[Any] = []
            with closed_on_failure(self), step("reg_mr"):
                for number in range(qps * per_qp):
                    self.mrs.append(v.MR(pd, length, access, address=self.base + number * self.stride))
        self.lkeys = [mr.lkey for mr in self.mrs]

    def close(self) -> None:
        """Deregister the MRs."""
        for mr in self.mrs:
            mr.close()

    def local(self, qp: int, mr: int) -> Tuple[int, int]:
        """Return an MR's address and lkey."""
        number = qp * self.per_qp + mr
        return self.base + number * self.stride, self.lkeys[number]

    def write(self, qp: int, mr: int, data: bytes) -> None:
        """Write ``data`` to an MR, after the header."""
        first = self._payload(qp, mr)
        self._mapping[first : first + len(data)] = data

    def read(self, qp: int, mr: int, length: int) -> bytes:
        """Return the first ``length`` bytes of an MR after the header."""
        first = self._payload(qp, mr)
        return self._mapping[first : first + length]

    def _payload(self, qp: int, mr: int) -> int:
        return (qp * self.per_qp + mr) * self.stride + self.header

    def describe(self) -> Dict[str, Any]:
        """Return addresses and keys for the peer."""
        return {
            "base": self.base,
            "stride": self.stride,
            "per_qp": self.per_qp,
            "rkeys": [mr.rkey for mr in self.mrs],
        }


class CompletionQueue:
    """A completion queue with its own channel: pyverbs does not report which queue raised an event.

    Completions carry the time of ``clock``, the device's, unless that is None.
    """

    def __init__(self, v: Verbs, context: Any, entries: int, clock: Any = None) -> None:
        self.clock = clock
        with step("create_comp_channel"):
            self.channel, self.fd = v.open_channel(context)
        os.set_blocking(self.fd, False)
        with closed_on_failure(self.channel), step("create_cq"):
            if clock is None:
                self.cq = v.CQ(context, entries, None, self.channel, 0)
            else:
                self.cq = v.stamped_cq(context, entries, self.channel)

    def close(self) -> None:
        """Destroy queue and channel."""
        self.cq.close()
        self.channel.close()
