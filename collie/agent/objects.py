"""The parts of a run that own memory or descriptors: buffers, completion queues; and what the device can do at most."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, Optional, Tuple

from . import memory
from .facts import driver_of
from .faults import AgentFault, from_errno
from .verbs import Verbs
from .workload import ATOMICS, Workload

PAGE = mmap.PAGESIZE

# Transports that few devices offer, with the one driver that does; of XRC the device's flags tell.
OPTIONAL_TRANSPORTS: Dict[str, Optional[str]] = {"XRC": None, "DC": "mlx5_core", "SRD": "efa"}


@contextmanager
def step(name: str) -> Iterator[None]:
    """Turn what pyverbs raises inside into an ``AgentFault`` that names the step."""
    try:
        yield
    except AgentFault:
        raise
    except MemoryError as error:
        raise from_errno(name, errno.ENOMEM, str(error)) from error
    except OSError as error:
        raise from_errno(name, error.errno or errno.EIO, str(error)) from error
    except Exception as error:  # pyverbs' own tree, which cannot be named without importing it
        code = getattr(error, "error_code", None)
        if code is None:
            raise AgentFault("setup", name, f"{name}: {error}") from error
        raise from_errno(name, abs(code), str(error)) from error


class Limits:
    """What the device says it can do, as far as a run needs it."""

    def __init__(self, v: Verbs, device: str, attributes: Any) -> None:
        self._device, self._driver = device, driver_of(device)
        self.max_qp_wr: int = attributes.max_qp_wr
        self.max_sge: int = attributes.max_sge
        self.max_cqe: int = attributes.max_cqe
        self.max_srq_wr: int = attributes.max_srq_wr
        self.max_srq_sge: int = attributes.max_srq_sge
        self.max_qp: int = attributes.max_qp
        self.max_mr: int = attributes.max_mr
        self.max_rd_atomic: int = attributes.max_qp_init_rd_atom
        self.max_dest_rd_atomic: int = attributes.max_qp_rd_atom
        self.atomics = attributes.atomic_caps != v.e.IBV_ATOMIC_NONE
        self.xrc = bool(attributes.device_cap_flags & v.e.IBV_DEVICE_XRC)

    def check(self, workload: Workload) -> None:
        """Refuse what lies above a limit of the device, or is none of its transports and operations.

        Raises:
            AgentFault: ``unsupported``, with the wish and the limit.
        """
        self._check_transport(workload.qp_type)
        if workload.opcodes & ATOMICS and not self.atomics:
            raise AgentFault("unsupported", "limits", f"device {self._device} reports no atomics (atomic_cap NONE)")
        wishes = [
            ("send_wq_depth", workload.send_wq_depth, self.max_qp_wr),
            ("recv_wq_depth", workload.recv_wq_depth, self.max_srq_wr if workload.srq else self.max_qp_wr),
            ("sge_count", workload.sge_count, min(self.max_sge, self.max_srq_sge) if workload.srq else self.max_sge),
        ]
        if workload.qp_type == "RC":
            wishes.append(("max_rd_atomic", workload.max_rd_atomic, self.max_rd_atomic))
            wishes.append(("max_dest_rd_atomic", workload.max_dest_rd_atomic, self.max_dest_rd_atomic))
        self._refuse(wishes)

    def _check_transport(self, qp_type: str) -> None:
        if qp_type not in OPTIONAL_TRANSPORTS:
            return
        if qp_type == "XRC":
            offered, lack = self.xrc, f"device {self._device} reports no XRC (device_cap_flags lacks IBV_DEVICE_XRC)"
        else:
            offered = self._driver == OPTIONAL_TRANSPORTS[qp_type]
            lack = f"driver {self._driver} of device {self._device} has no {qp_type} transport"
        not_here = f"device {self._device} offers {qp_type}, which this agent does not drive yet"
        raise AgentFault("unsupported", "limits", not_here if offered else lack, errno.EOPNOTSUPP)

    def check_totals(self, qps: int, mrs: int) -> None:
        """Refuse more objects than the device has, over all workloads of a run.

        Raises:
            AgentFault: ``unsupported``, with the wish and the limit.
        """
        self._refuse([("queue pairs", qps, self.max_qp), ("memory regions", mrs, self.max_mr)])

    @staticmethod
    def _refuse(wishes: List[Tuple[str, int, int]]) -> None:
        for name, wish, limit in wishes:
            if wish > limit:
                raise AgentFault("unsupported", "limits", f"{name} {wish} is above the device's {limit}", errno.EINVAL)


def remote_access(v: Verbs, workload: Workload) -> int:
    """Return what a peer may do; atomics only where they are used, as a device without them refuses the flag."""
    access = v.e.IBV_ACCESS_REMOTE_WRITE | v.e.IBV_ACCESS_REMOTE_READ
    return int(access | v.e.IBV_ACCESS_REMOTE_ATOMIC if workload.opcodes & ATOMICS else access)


class Buffers:
    """The MRs of one end: ``per_qp`` for each queue pair, on pages of one mapping."""

    def __init__(
        self,
        v: Verbs,
        pd: Any,
        workload: Workload,
        qps: int,
        length: int,
        numa_node: Optional[int],
        processes: int = 1,
    ) -> None:
        """Register ``length`` bytes per MR on NUMA node ``numa_node``; ``processes`` engines do the like at once."""
        per_qp = workload.mrs_per_qp
        access = v.e.IBV_ACCESS_LOCAL_WRITE | remote_access(v, workload)
        self.per_qp = per_qp
        self.length = length
        self.stride = -(-length // PAGE) * PAGE
        total = self.stride * per_qp * qps
        with step("allocate"), memory.on_node(numa_node):
            self._mapping = memory.allocate(total, workload.huge_pages, processes)
            self.base = ctypes.addressof(ctypes.c_char.from_buffer(self._mapping))
            self.mrs: List[Any] = []
            try:
                with step("reg_mr"):
                    for number in range(qps * per_qp):
                        self.mrs.append(v.MR(pd, length, access, address=self.base + number * self.stride))
            except AgentFault:
                self.close()
                raise
        self.lkeys = [mr.lkey for mr in self.mrs]

    def close(self) -> None:
        """Deregister what is registered."""
        for mr in self.mrs:
            mr.close()

    def local(self, qp: int, mr: int) -> Tuple[int, int]:
        """Return the address and lkey of one MR."""
        number = qp * self.per_qp + mr
        return self.base + number * self.stride, self.lkeys[number]

    def write(self, qp: int, mr: int, data: bytes) -> None:
        """Put ``data`` at the end of one MR, after the room for a header."""
        last = (qp * self.per_qp + mr) * self.stride + self.length
        self._mapping[last - len(data) : last] = data

    def read(self, qp: int, mr: int, length: int) -> bytes:
        """Return the last ``length`` bytes of one MR."""
        last = (qp * self.per_qp + mr) * self.stride + self.length
        return self._mapping[last - length : last]

    def describe(self) -> Dict[str, Any]:
        """Return what the other end needs in order to name this memory."""
        return {
            "base": self.base,
            "stride": self.stride,
            "per_qp": self.per_qp,
            "rkeys": [mr.rkey for mr in self.mrs],
        }


class CompletionQueue:
    """A completion queue with a channel of its own, as pyverbs cannot tell which of several raised an event."""

    def __init__(self, v: Verbs, context: Any, entries: int) -> None:
        with step("create_comp_channel"):
            self.channel, self.fd = v.open_channel(context)
        os.set_blocking(self.fd, False)
        try:
            with step("create_cq"):
                self.cq = v.CQ(context, entries, None, self.channel, 0)
        except AgentFault:
            self.channel.close()
            raise

    def close(self) -> None:
        """Destroy queue and channel."""
        self.cq.close()
        self.channel.close()
