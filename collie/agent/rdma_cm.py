"""Connects queue pairs by RDMA-CM for both data paths. It calls librdmacm by ctypes.

librdmacm connects ids, which carry the numbers of queue pairs, and reports the path. The run owns the queue pairs. One
event channel serves all ids, because an engine may hold both ends of a flow. The listener exists from ``prepare`` until
all queue pairs have connected.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import socket
import struct
import time
from ctypes import c_char_p, c_int, c_uint8, c_uint16, c_uint32, c_void_p
from typing import Any, Callable, ClassVar, Dict, List, NamedTuple, Optional, Set, Tuple

from . import abi, cma_abi
from .abi import Enums as Verb
from .cma_abi import Enums
from .faults import AgentFault, from_errno
from .library import Functions, Library, VerbsError
from .objects import step

LIBRARY = "librdmacm.so.1"
HOW_TO_GET = "apt-get install librdmacm1 (Debian, Ubuntu), dnf install librdmacm (Fedora, RHEL)"
HOW_TO_LOAD = "the kernel's part is missing: modprobe rdma_ucm"

RESOLVE_MILLISECONDS = 4000
# Concurrent requests. A request that overflows the responder's management queue pair is lost, and repeated after 4 s.
MAX_DIALLING = 32
# Waiting requests of a listener, enough for two dozen requesters. The kernel's maximum is 1024.
BACKLOG = 1024


class CmLibrary(Library):
    """Functions of librdmacm without their prefix."""

    prefix = "rdma_"
    functions: ClassVar[Functions] = {
        "create_event_channel": (c_void_p, ()),
        "destroy_event_channel": (None, (c_void_p,)),
        "create_id": (c_int, (c_void_p, c_void_p, c_void_p, c_int)),
        "destroy_id": (c_int, (c_void_p,)),
        "bind_addr": (c_int, (c_void_p, c_void_p)),
        "listen": (c_int, (c_void_p, c_int)),
        "get_src_port": (c_uint16, (c_void_p,)),
        "resolve_addr": (c_int, (c_void_p, c_void_p, c_void_p, c_int)),
        "resolve_route": (c_int, (c_void_p, c_int)),
        "connect": (c_int, (c_void_p, c_void_p)),
        "accept": (c_int, (c_void_p, c_void_p)),
        "establish": (c_int, (c_void_p,)),
        "reject": (c_int, (c_void_p, c_void_p, c_uint8)),
        "disconnect": (c_int, (c_void_p,)),
        "init_qp_attr": (c_int, (c_void_p, c_void_p, c_void_p)),
        "get_cm_event": (c_int, (c_void_p, c_void_p)),
        "ack_cm_event": (c_int, (c_void_p,)),
        "event_str": (c_char_p, (c_uint32,)),
    }


class Address(NamedTuple):
    """The address inside a GID."""

    gid: str
    netdev: str

    def socket_address(self, port: int = 0) -> ctypes.Array[ctypes.c_char]:
        """Return a ``struct sockaddr``. The scope of a link-local address is the network device."""
        packed = socket.inet_pton(socket.AF_INET6, self.gid)
        if packed[:12] == b"\0" * 10 + b"\xff\xff":
            data = struct.pack("=H2s4s8x", socket.AF_INET, struct.pack("!H", port), packed[12:])
        else:
            local = packed[0] == 0xFE and packed[1] & 0xC0 == 0x80
            scope = socket.if_nametoindex(self.netdev) if local else 0
            data = struct.pack("=H2sI16sI", socket.AF_INET6, struct.pack("!H", port), 0, packed, scope)
        return ctypes.create_string_buffer(data, len(data))


class Agreed(NamedTuple):
    """The path and the peer's queue pair, on which both sides agreed."""

    gid: str
    lid: int
    sl: int
    pkey_index: int
    qp_num: int


class Half(NamedTuple):
    """The local side of a connection, and the function that brings its queue pair to RTS."""

    param: cma_abi.ConnParam
    bring_up: Callable[[Agreed], None]


class Event(NamedTuple):
    """A copy of an acknowledged event."""

    kind: int
    status: int
    id: int
    listener: int
    qp_num: int


def why_not() -> Optional[str]:
    """Return why this host cannot use RDMA-CM, None if it can."""
    try:
        library = CmLibrary(LIBRARY)
    except OSError as error:
        return f"{error}: {HOW_TO_GET}"
    try:
        library.destroy_event_channel(library.make("create_event_channel"))
    except VerbsError as error:
        return f"{error}: {HOW_TO_LOAD}"
    return None


class ConnectionManager:
    """The ids of one run."""

    def __init__(self, address: Address) -> None:
        """Open an event channel. Raises ``unsupported`` without librdmacm or its kernel module."""
        lack = why_not()
        if lack is not None:
            raise AgentFault("unsupported", "rdma_cm", lack)
        self._address, self._library = address, CmLibrary(LIBRARY)
        with step("rdma_create_event_channel"):
            self._channel = self._library.make("create_event_channel")
        self._fd: int = cma_abi.EventChannel.from_address(self._channel).fd
        os.set_blocking(self._fd, False)
        self._listeners: List[int] = []
        self._connections: List[int] = []
        self._to_dial: List[Tuple[ctypes.Array[ctypes.c_char], Half]] = []
        self._dialling: Dict[int, Half] = {}
        self._awaited: Dict[Tuple[int, int], Half] = {}
        self._accepted: Set[int] = set()

    def listen(self) -> Tuple[int, int]:
        """Listen on a free port. Return listener and port."""
        listener = self._new_id()
        self._listeners.append(listener)
        self._call("bind_addr", listener, self._address.socket_address())
        self._call("listen", listener, BACKLOG)
        return listener, socket.ntohs(self._library.get_src_port(listener))

    def dial(self, gid: str, port: int, half: Half) -> None:
        """Queue a connection request for ``connect_all``."""
        self._to_dial.append((Address(gid, self._address.netdev).socket_address(port), half))

    def expect(self, listener: int, qp_num: int, half: Half) -> None:
        """Have ``connect_all`` wait for the request of the peer's queue pair."""
        self._awaited[listener, qp_num] = half

    def connect_all(self, seconds: float) -> None:
        """Connect all that ``dial`` and ``expect`` have named, then stop listening.

        Raises:
            AgentFault: ``setup`` if a step failed or the peer or network refused, or ``timeout``.
        """
        ends_at = time.monotonic() + seconds
        total = self._open()
        while self._open():
            while self._to_dial and len(self._dialling) < MAX_DIALLING:
                self._dial(*self._to_dial.pop())
            event = self._next_event(ends_at - time.monotonic())
            if event is not None:
                self._hear(event)
            elif time.monotonic() >= ends_at:
                message = f"{self._open()} of {total} queue pairs were not connected by RDMA-CM within {seconds:.0f} s"
                raise AgentFault("timeout", "rdma_cm", message)
        while self._listeners:
            self._call("destroy_id", self._listeners.pop())

    def close(self) -> None:
        """Disconnect and destroy everything."""
        for connection in self._connections:
            # This fails without harm if the peer has disconnected first.
            self._library.disconnect(connection)
        for identifier in (*self._connections, *self._listeners):
            self._call("destroy_id", identifier)
        self._connections, self._listeners = [], []
        self._library.destroy_event_channel(self._channel)

    def _open(self) -> int:
        return len(self._to_dial) + len(self._dialling) + len(self._awaited) + len(self._accepted)

    def _call(self, name: str, *arguments: Any) -> None:
        with step(f"rdma_{name}"):
            self._library.do(name, *arguments)

    def _new_id(self) -> int:
        made = c_void_p()
        self._call("create_id", self._channel, ctypes.byref(made), None, Enums.RDMA_PS_TCP)
        assert made.value is not None, "a call that succeeded has made one"
        return made.value

    def _dial(self, peer: ctypes.Array[ctypes.c_char], half: Half) -> None:
        connection = self._new_id()
        self._connections.append(connection)
        self._dialling[connection] = half
        self._call("resolve_addr", connection, self._address.socket_address(), peer, RESOLVE_MILLISECONDS)

    def _next_event(self, seconds: float) -> Optional[Event]:
        poller = select.poll()
        poller.register(self._fd, select.POLLIN)
        if not poller.poll(max(0.0, seconds) * 1000):
            return None
        found = c_void_p()
        try:
            self._library.do("get_cm_event", self._channel, ctypes.byref(found))
        except VerbsError as error:
            if error.errno == errno.EAGAIN:  # an internal event of librdmacm
                return None
            raise from_errno("rdma_get_cm_event", error.errno or errno.EIO, str(error)) from error
        assert found.value is not None, "a call that succeeded has found one"
        raw = cma_abi.Event.from_address(found.value)
        event = Event(raw.event, raw.status, raw.id, raw.listen_id or 0, raw.param.conn.qp_num)
        # An id cannot be destroyed before its events are acknowledged.
        self._library.ack_cm_event(found)
        return event

    def _hear(self, event: Event) -> None:
        if event.kind == Enums.RDMA_CM_EVENT_ADDR_RESOLVED:
            self._call("resolve_route", event.id, RESOLVE_MILLISECONDS)
        elif event.kind == Enums.RDMA_CM_EVENT_ROUTE_RESOLVED:
            self._call("connect", event.id, ctypes.byref(self._dialling[event.id].param))
        elif event.kind == Enums.RDMA_CM_EVENT_CONNECT_RESPONSE:
            self._dialling[event.id].bring_up(self._agreed(event.id))
            self._call("establish", event.id)
            del self._dialling[event.id]
        elif event.kind == Enums.RDMA_CM_EVENT_CONNECT_REQUEST:
            self._accept(event)
        elif event.kind == Enums.RDMA_CM_EVENT_ESTABLISHED:
            self._accepted.discard(event.id)
        else:
            self._refuse(event)

    def _accept(self, event: Event) -> None:
        half = self._awaited.pop((event.listener, event.qp_num), None)
        if half is None:  # a request from another run
            self._library.reject(event.id, None, 0)
            self._call("destroy_id", event.id)
            return
        self._connections.append(event.id)
        self._accepted.add(event.id)
        half.bring_up(self._agreed(event.id))
        self._call("accept", event.id, ctypes.byref(half.param))

    def _agreed(self, connection: int) -> Agreed:
        init = self._attributes(connection, Verb.IBV_QPS_INIT)
        path = self._attributes(connection, Verb.IBV_QPS_RTR)
        gid = bytes(path.ah_attr.grh.dgid.raw).hex(":", 2)  # pyverbs parses only the notation of sysfs
        return Agreed(gid, path.ah_attr.dlid, path.ah_attr.sl, init.pkey_index, path.dest_qp_num)

    def _attributes(self, connection: int, state: int) -> abi.QPAttr:
        attributes, mask = abi.QPAttr(qp_state=state), c_int()
        self._call("init_qp_attr", connection, ctypes.byref(attributes), ctypes.byref(mask))
        return attributes

    def _refuse(self, event: Event) -> None:
        name = self._library.event_str(event.kind).decode()
        reason = os.strerror(-event.status) if event.status < 0 else f"status {event.status}"
        message = f"{name} ({reason}); queue pairs not yet connected: {self._open()}"
        raise AgentFault("setup", "rdma_cm", message, -event.status if event.status < 0 else None)
