"""Work requests, and their chains in the memory layout of the device."""

from __future__ import annotations

import ctypes
import os
import struct
from ctypes import c_void_p
from typing import Any, List, Optional, Sequence, Union

from .library import VerbsError

# Packing by struct is three times as fast as assigning by ctypes.
SGE = struct.Struct("=QII").pack  # address, length, lkey
_SEND = struct.Struct("=QQQiIII32s56x").pack_into
_RECEIVE = struct.Struct("=QQQi4x").pack_into
_RDMA = struct.Struct("=QI20x").pack
_ATOMIC = struct.Struct("=QQQI4x").pack
_UD = struct.Struct("=QII16x").pack


class SendWR:
    """A send work request."""

    __slots__ = ("address", "flags", "imm_data", "memory", "next_wr", "num_sge", "opcode", "remote", "sg", "wr_id")
    size = 128

    def __init__(
        self,
        wr_id: int,
        opcode: int,
        num_sge: int,
        imm_data: int,
        sg: Sequence[bytes],
        send_flags: int,
        next_wr: Optional[SendWR],
    ) -> None:
        self.wr_id, self.opcode, self.num_sge, self.imm_data, self.sg = wr_id, opcode, num_sge, imm_data, sg
        self.flags, self.next_wr = send_flags, next_wr
        self.remote = b""
        self.address = 0
        self.memory: Any = None

    def set_wr_rdma(self, rkey: int, addr: int) -> None:
        """Set the remote memory."""
        self.remote = _RDMA(addr, rkey)

    def set_wr_atomic(self, rkey: int, addr: int, compare_add: int, swap: int = 0) -> None:
        """Set the remote word and the operands."""
        self.remote = _ATOMIC(addr, compare_add, swap, rkey)

    def set_wr_ud(self, ah: Any, rqpn: int, rqkey: int) -> None:
        """Set the receiver of a datagram."""
        self.remote = _UD(ah.address, rqpn, rqkey)

    def pack(self, buffer: Any, offset: int, following: int, sg_list: int) -> None:
        """Write the request as ``struct ibv_send_wr``."""
        _SEND(
            buffer, offset, self.wr_id, following, sg_list, self.num_sge, self.opcode, self.flags, self.imm_data,
            self.remote,
        )  # fmt: skip


class RecvWR:
    """A receive work request."""

    __slots__ = ("address", "memory", "next_wr", "num_sge", "sg", "wr_id")
    size = 32

    def __init__(self, wr_id: int, num_sge: int, sg: Sequence[bytes], next_wr: Optional[RecvWR]) -> None:
        self.wr_id, self.num_sge, self.sg, self.next_wr = wr_id, num_sge, sg, next_wr
        self.address = 0
        self.memory: Any = None

    def pack(self, buffer: Any, offset: int, following: int, sg_list: int) -> None:
        """Write the request as ``struct ibv_recv_wr``."""
        _RECEIVE(buffer, offset, self.wr_id, following, sg_list, self.num_sge)


WorkRequest = Union[SendWR, RecvWR]


def lay_out(heads: Sequence[WorkRequest]) -> None:
    """Write chains into one memory block: work requests in posting order, then scatter lists.

    Each request receives its address and keeps the block alive.
    """
    requests: List[WorkRequest] = []
    for head in heads:
        wr: Optional[WorkRequest] = head
        while wr is not None:
            requests.append(wr)
            wr = wr.next_wr
    size = requests[0].size
    lists = b"".join(b"".join(request.sg) for request in requests)
    memory = ctypes.create_string_buffer(size * len(requests) + len(lists))
    base = ctypes.addressof(memory)
    sges = base + size * len(requests)
    ctypes.memmove(sges, lists, len(lists))
    for number, request in enumerate(requests):
        offset = number * size
        following = base + offset + size if request.next_wr is not None else 0
        request.pack(memory, offset, following, sges)
        request.address, request.memory = base + offset, memory
        sges += 16 * len(request.sg)


def post(function: Any, target: int, chain: WorkRequest) -> None:
    """Post a chain, or raise VerbsError."""
    if not chain.address:
        lay_out([chain])
    bad = c_void_p()
    code = function(target, chain.address, ctypes.addressof(bad))
    if code:
        raise VerbsError(code, f"post: {os.strerror(code)}")
