"""libibverbs by ctypes under pyverbs' names, for hosts without pyverbs.

The arguments are those of pyverbs, so both data paths share all other code. The traffic loop in C posts and polls.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
from ctypes import c_uint8, c_uint64, c_void_p
from functools import partial, partialmethod
from typing import Any, Dict, List, Optional, Tuple

from . import abi
from .abi import Enums
from .library import Library, VerbsError
from .nic_clock import ClockFunctions, ClockStruct
from .verbs import Verbs
from .work_requests import SGE, RecvWR, SendWR, post

INIT = Enums.IBV_QP_STATE | Enums.IBV_QP_PKEY_INDEX | Enums.IBV_QP_PORT
PATH = Enums.IBV_QP_STATE | Enums.IBV_QP_AV | Enums.IBV_QP_PATH_MTU | Enums.IBV_QP_DEST_QPN | Enums.IBV_QP_RQ_PSN
SEND = Enums.IBV_QP_STATE | Enums.IBV_QP_SQ_PSN
RELIABLE = Enums.IBV_QP_TIMEOUT | Enums.IBV_QP_RETRY_CNT | Enums.IBV_QP_RNR_RETRY | Enums.IBV_QP_MAX_QP_RD_ATOMIC

# Attribute masks of each step to RTS, by type of queue pair.
STEPS: Dict[int, Dict[int, int]] = {
    Enums.IBV_QPT_RC: {
        Enums.IBV_QPS_INIT: INIT | Enums.IBV_QP_ACCESS_FLAGS,
        Enums.IBV_QPS_RTR: PATH | Enums.IBV_QP_MAX_DEST_RD_ATOMIC | Enums.IBV_QP_MIN_RNR_TIMER,
        Enums.IBV_QPS_RTS: SEND | RELIABLE,
    },
    Enums.IBV_QPT_UC: {
        Enums.IBV_QPS_INIT: INIT | Enums.IBV_QP_ACCESS_FLAGS,
        Enums.IBV_QPS_RTR: PATH,
        Enums.IBV_QPS_RTS: SEND,
    },
    Enums.IBV_QPT_UD: {
        Enums.IBV_QPS_INIT: INIT | Enums.IBV_QP_QKEY,
        Enums.IBV_QPS_RTR: Enums.IBV_QP_STATE,
        Enums.IBV_QPS_RTS: SEND,
    },
}


class Object:
    """An object of the library. The verb ``ends_with`` destroys it."""

    ends_with = ""

    def __init__(self, library: Library, address: int) -> None:
        self.library, self.address = library, address

    def close(self) -> None:
        """Destroy the object. A second call does nothing."""
        if self.address:
            self.library.do(self.ends_with, self.address)
            self.address = 0


class Context(Object):
    """An open device."""

    ends_with = "close_device"

    def __init__(self, library: Library, name: str) -> None:
        devices = library.make("get_device_list", None)
        try:
            device = self._find(library, devices, name)
            super().__init__(library, library.make("open_device", device))
        finally:
            library.free_device_list(devices)
        self.ops = abi.Context.from_address(self.address).ops

    @staticmethod
    def _find(library: Library, devices: int, name: str) -> int:
        for position in range(1 << 16):
            device = c_void_p.from_address(devices + 8 * position).value
            if not device:
                break
            if library.get_device_name(device).decode() == name:
                return device
        raise VerbsError(19, f"{name}: libibverbs knows no such device")  # ENODEV

    def query_device(self) -> abi.DeviceAttr:
        """Return the device's limits."""
        attributes = abi.DeviceAttr()
        self.library.do("query_device", self.address, ctypes.byref(attributes))
        return attributes

    def query_port(self, port: int) -> abi.PortAttr:
        """Return LID and MTUs of a port."""
        attributes = abi.PortAttr()
        self.library.do("query_port", self.address, port, ctypes.byref(attributes))
        return attributes


class PD(Object):
    """A protection domain."""

    ends_with = "dealloc_pd"

    def __init__(self, context: Context) -> None:
        super().__init__(context.library, context.library.make("alloc_pd", context.address))
        self.context = context


class MR(Object):
    """A memory region."""

    ends_with = "dereg_mr"

    def __init__(self, pd: PD, length: int, access: int, address: int) -> None:
        super().__init__(pd.library, pd.library.make("reg_mr", pd.address, address, length, access))
        region = abi.Mr.from_address(self.address)
        self.lkey: int = region.lkey
        self.rkey: int = region.rkey


class CompChannel(Object):
    """A completion channel."""

    ends_with = "destroy_comp_channel"

    def __init__(self, context: Context) -> None:
        super().__init__(context.library, context.library.make("create_comp_channel", context.address))
        self.fd: int = abi.CompChannel.from_address(self.address).fd

    def get_cq_event(self, _cq: CQ) -> None:
        """Take one event. The descriptor must be readable."""
        queue, context = c_void_p(), c_void_p()
        self.library.do("get_cq_event", self.address, ctypes.byref(queue), ctypes.byref(context))


class CQ(Object):
    """A completion queue."""

    ends_with = "destroy_cq"

    def __init__(self, context: Context, cqe: int, _user: None, channel: CompChannel, vector: int) -> None:
        address = context.library.make("create_cq", context.address, cqe, None, channel.address, vector)
        super().__init__(context.library, address)
        self.ops = context.ops

    def poll(self, count: int) -> Tuple[int, List[abi.Wc]]:
        """Return at most ``count`` completions."""
        completions = (abi.Wc * count)()
        found = self.ops.poll_cq(self.address, count, ctypes.addressof(completions))
        if found < 0:
            raise VerbsError(-found, f"poll_cq: {os.strerror(-found)}")
        return found, completions[:found]

    def req_notify(self) -> None:
        """Request an event for the next completion."""
        self.ops.req_notify_cq(self.address, 0)

    def ack_events(self, count: int) -> None:
        """Acknowledge events."""
        self.library.ack_cq_events(self.address, count)


class StampedCQ(CQ):
    """A completion queue whose completions carry the device's time. It is polled in another way."""

    def __init__(self, functions: ClockFunctions, context: Context, cqe: int, channel: CompChannel) -> None:
        address = functions.create_cq(context.address, cqe, channel.address)
        if not address:
            raise VerbsError(errno.EOPNOTSUPP, "create_cq_ex: no completion queue with time stamps")
        Object.__init__(self, context.library, address)
        self.ops, self._functions = context.ops, functions

    def poll(self, count: int) -> Tuple[int, List[abi.Wc]]:
        """Return at most ``count`` completions."""
        completions, stamps = (abi.Wc * count)(), (c_uint64 * count)()
        found = self._functions.poll(self.address, count, ctypes.addressof(completions), ctypes.addressof(stamps))
        if found < 0:
            raise VerbsError(-found, f"start_poll: {os.strerror(-found)}")
        return found, completions[:found]


class SRQ(Object):
    """A shared receive queue."""

    ends_with = "destroy_srq"

    def __init__(self, pd: PD, attributes: abi.SrqInitAttr) -> None:
        super().__init__(pd.library, pd.library.make("create_srq", pd.address, ctypes.byref(attributes)))
        self.post_recv = partial(post, pd.context.ops.post_srq_recv, self.address)


class QP(Object):
    """A queue pair."""

    ends_with = "destroy_qp"

    def __init__(self, pd: PD, attributes: abi.QPInitAttr) -> None:
        super().__init__(pd.library, pd.library.make("create_qp", pd.address, ctypes.byref(attributes)))
        self.qp_num: int = abi.Qp.from_address(self.address).qp_num
        self.post_send = partial(post, pd.context.ops.post_send, self.address)
        self.post_recv = partial(post, pd.context.ops.post_recv, self.address)
        self._steps = STEPS[attributes.qp_type]

    def modify(self, attributes: abi.QPAttr, mask: int) -> None:
        """Change the attributes in ``mask``."""
        self.library.do("modify_qp", self.address, ctypes.byref(attributes), mask)

    def _step(self, state: int, attributes: abi.QPAttr) -> None:
        attributes.qp_state = state
        self.modify(attributes, self._steps[state])

    to_init = partialmethod(_step, Enums.IBV_QPS_INIT)
    to_rtr = partialmethod(_step, Enums.IBV_QPS_RTR)
    to_rts = partialmethod(_step, Enums.IBV_QPS_RTS)


class AH(Object):
    """An address handle."""

    ends_with = "destroy_ah"

    def __init__(self, pd: PD, attr: abi.AHAttr) -> None:
        super().__init__(pd.library, pd.library.make("create_ah", pd.address, ctypes.byref(attr)))


def gid(text: str) -> abi.Gid:
    """Return a GID from sysfs' notation."""
    return abi.Gid(raw=(c_uint8 * 16)(*socket.inet_pton(socket.AF_INET6, text)))


def ah_attr(gr: abi.GlobalRoute, **fields: int) -> abi.AHAttr:
    """Return the attributes of a path."""
    return abi.AHAttr(grh=gr, **fields)


def _qp_init_attr(
    qp_type: int, scq: CQ, rcq: CQ, srq: Optional[SRQ], cap: abi.QPCap, sq_sig_all: int
) -> abi.QPInitAttr:
    shared = srq.address if srq is not None else None
    return abi.QPInitAttr(None, scq.address, rcq.address, shared, cap, qp_type, sq_sig_all)


def _srq_init_attr(attributes: abi.SrqAttr) -> abi.SrqInitAttr:
    return abi.SrqInitAttr(None, attributes)


class NativeVerbs(Verbs):
    """Verbs without pyverbs. Completions have time stamps only if ``clocks`` is given."""

    e = Enums
    PyverbsError = VerbsError
    PD, MR, CQ, CompChannel, SRQ, QP, AH = PD, MR, CQ, CompChannel, SRQ, QP, AH
    QPAttr, QPCap, QPInitAttr = abi.QPAttr, abi.QPCap, staticmethod(_qp_init_attr)
    SrqAttr, SrqInitAttr = abi.SrqAttr, staticmethod(_srq_init_attr)
    GID, GlobalRoute, AHAttr = staticmethod(gid), abi.GlobalRoute, staticmethod(ah_attr)
    SGE, SendWR, RecvWR = staticmethod(SGE), SendWR, RecvWR

    def __init__(self, library: Library, clocks: Optional[ClockFunctions] = None) -> None:
        self.library, self._clocks = library, clocks

    def clock(self, context: Any) -> Optional[ClockStruct]:
        """Return the clock with which a device stamps completions of ``stamped_cq``, None if there is none."""
        return self._clocks.open(context.address) if self._clocks is not None else None

    def Context(self, name: str) -> Context:  # noqa: N802 - pyverbs' name
        """Open a device."""
        return Context(self.library, name)

    def stamped_cq(self, context: Any, cqe: int, channel: Any) -> StampedCQ:
        """Make a completion queue whose completions carry the time of ``clock``."""
        assert self._clocks is not None, "they found the clock"
        return StampedCQ(self._clocks, context, cqe, channel)

    def open_channel(self, context: Any) -> Tuple[Any, int]:
        """Return a completion channel and its descriptor."""
        channel = CompChannel(context)
        return channel, channel.fd
