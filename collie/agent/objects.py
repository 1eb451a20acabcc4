"""Parts of a run that own memory or descriptors, and the limits of the device."""

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

# Optional transports and their driver. The device flags report XRC.
OPTIONAL_TRANSPORTS: Dict[str, Optional[str]] = {"XRC": None, "DC": "mlx5_core", "SRD": "efa"}


@contextmanager
def step(name: str) -> Iterator[None]:
    """Turn errors of the data path into an ``AgentFault`` that names the step."""
    try:
        yield
    except AgentFault:
        raise
    except MemoryError as error:
        raise from_errno(name, errno.ENOMEM, str(error)) from error
    except OSError as error:
        raise from_errno(name, error.errno or errno.EIO, str(error)) from error
    except Exception as error:  # pyverbs' exceptions, which may not be importable
        code = getattr(error, "error_code", None)
        if code is None:
            raise AgentFault("setup", name, f"{name}: {error}") from error
        raise from_errno(name, abs(code), str(error)) from error


class Limits:
    """Limits of a device."""

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
        """Refuse values above a limit, and transports and operations that the device lacks.

        Raises:
            AgentFault: ``unsupported``.
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
            AgentFault: ``unsupported``.
        """
        self._refuse([("queue pairs", qps, self.max_qp), ("memory regions", mrs, self.max_mr)])

    @staticmethod
    def _refuse(wishes: List[Tuple[str, int, int]]) -> None:
        for name, wish, limit in wishes:
            if wish > limit:
                raise AgentFault("unsupported", "limits", f"{name} {wish} is above the device's {limit}", errno.EINVAL)


def remote_access(v: Verbs, workload: Workload) -> int:
    """Return a peer's access flags. Devices without atomics refuse that flag, so it is set only if used."""
    access = v.e.IBV_ACCESS_REMOTE_WRITE | v.e.IBV_ACCESS_REMOTE_READ
    return int(access | v.e.IBV_ACCESS_REMOTE_ATOMIC if workload.opcodes & ATOMICS else access)


class Buffers:
    """The MRs of one end, ``per_qp`` for each queue pair, in one mapping."""

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
        """Register ``length`` bytes per MR on NUMA node ``numa_node``, in ``processes`` engines at the same time."""
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
        """Deregister the MRs."""
        for mr in self.mrs:
            mr.close()

    def local(self, qp: int, mr: int) -> Tuple[int, int]:
        """Return address and lkey of one MR."""
        number = qp * self.per_qp + mr
        return self.base + number * self.stride, self.lkeys[number]

    def write(self, qp: int, mr: int, data: bytes) -> None:
        """Write ``data`` to the end of one MR, after any header space."""
        last = (qp * self.per_qp + mr) * self.stride + self.length
        self._mapping[last - len(data) : last] = data

    def read(self, qp: int, mr: int, length: int) -> bytes:
        """Return the last ``length`` bytes of one MR."""
        last = (qp * self.per_qp + mr) * self.stride + self.length
        return self._mapping[last - length : last]

    def describe(self) -> Dict[str, Any]:
        """Return the addresses and keys for the peer."""
        return {
            "base": self.base,
            "stride": self.stride,
            "per_qp": self.per_qp,
            "rkeys": [mr.rkey for mr in self.mrs],
        }


class CompletionQueue:
    """A completion queue with a separate channel: pyverbs does not report which queue raised an event."""

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
