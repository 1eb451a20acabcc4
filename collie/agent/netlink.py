"""Asks RDMA netlink for devices, hardware counters of a port, queue pairs and their owners.

The constants are those of ``include/uapi/rdma/rdma_netlink.h``. Attribute types are masked with 0x3fff, because some
kernels mark nesting in bit 15.
"""

from __future__ import annotations

import os
import socket
import struct
from contextlib import closing
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

from .kernel_files import read_text

NETLINK_RDMA = 20
NLDEV = 5 << 10
CMD_GET, CMD_RES_QP_GET, CMD_STAT_GET = 1, 10, 17
NLM_F_REQUEST, NLM_F_ACK, NLM_F_DUMP = 0x1, 0x4, 0x300
NLMSG_ERROR, NLMSG_DONE = 2, 3
HEADER, ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=HH")

DEV_INDEX, DEV_NAME, PORT_INDEX = 1, 2, 3
RES_QP, RES_LQPN, RES_TYPE, RES_STATE, RES_PID, RES_KERN_NAME = 19, 21, 26, 27, 28, 29
STAT_HWCOUNTERS, STAT_HWCOUNTER_NAME, STAT_HWCOUNTER_VALUE = 80, 82, 83

QP_TYPES = {0: "SMI", 1: "GSI", 2: "RC", 3: "UC", 4: "UD", 8: "RAW", 9: "XRC_INI", 10: "XRC_TGT"}
QP_STATES = ("RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR")


class QueuePair(NamedTuple):
    """A queue pair. If the kernel owns it, ``pid`` is missing and ``comm`` names the module."""

    qpn: int
    type: str
    state: str
    pid: Optional[int]
    comm: Optional[str]


def attributes(data: bytes) -> Iterator[Tuple[int, bytes]]:
    """Yield type and payload of each attribute."""
    return ((kind & 0x3FFF, payload) for (_, kind), payload in _records(data, ATTRIBUTE))


def _attribute_u32(kind: int, value: int) -> bytes:
    return struct.pack("=HHI", 8, kind, value)


def attribute_text(kind: int, text: str) -> bytes:
    """Return a text attribute."""
    data = text.encode() + b"\0"
    return struct.pack("=HH", 4 + len(data), kind) + data + b"\0" * (-len(data) % 4)


def messages(data: bytes, sequence: int) -> Iterator[Tuple[int, bytes]]:
    """Yield type and payload of each message that answers the request of this number."""
    # An answer that came too late is read with those of a later request.
    return ((kind, payload) for (_, kind, _, answered, _), payload in _records(data, HEADER) if answered == sequence)


def _records(data: bytes, header: struct.Struct) -> Iterator[Tuple[Tuple[int, ...], bytes]]:
    """Yield header and payload of each record. A header begins with the length of its record."""
    offset = 0
    while offset + header.size <= len(data):
        fields = header.unpack_from(data, offset)
        length = fields[0]
        if length < header.size or offset + length > len(data):
            return
        yield fields, data[offset + header.size : offset + length]
        offset += (length + 3) & ~3


def _u32(payload: bytes) -> int:
    return int(struct.unpack_from("=I", payload)[0])


def text_of(payload: bytes) -> str:
    """Return an attribute's text."""
    return payload.rstrip(b"\0").decode("utf-8", "replace")


def parse_device(payload: bytes) -> Tuple[Optional[str], Optional[int]]:
    """Return a device's name and index."""
    found = dict(attributes(payload))
    name, index = found.get(DEV_NAME), found.get(DEV_INDEX)
    return (text_of(name) if name else None, _u32(index) if index else None)


def parse_counters(payload: bytes) -> Dict[str, int]:
    """Return the counters in a reply."""
    return {
        text_of(fields[STAT_HWCOUNTER_NAME]): int(struct.unpack_from("=Q", fields[STAT_HWCOUNTER_VALUE])[0])
        for fields in _table(payload, STAT_HWCOUNTERS)
        if STAT_HWCOUNTER_NAME in fields and STAT_HWCOUNTER_VALUE in fields
    }


def parse_queue_pairs(payload: bytes) -> List[QueuePair]:
    """Return the queue pairs in a reply."""
    return [_queue_pair(fields) for fields in _table(payload, RES_QP) if RES_LQPN in fields]


def _queue_pair(fields: Dict[int, bytes]) -> QueuePair:
    state = fields.get(RES_STATE, b"\xff")[0]
    number = fields.get(RES_TYPE, b"\xff")[0]
    pid = _u32(fields[RES_PID]) if RES_PID in fields else None
    return QueuePair(
        _u32(fields[RES_LQPN]),
        QP_TYPES.get(number, str(number)),
        QP_STATES[state] if state < len(QP_STATES) else str(state),
        pid,
        text_of(fields[RES_KERN_NAME]) if RES_KERN_NAME in fields else read_text(f"/proc/{pid}/comm"),
    )


def _table(payload: bytes, kind: int) -> Iterator[Dict[int, bytes]]:
    """Yield the attributes of each entry of a nested table."""
    for found, table in attributes(payload):
        if found == kind:
            for _, entry in attributes(table):
                yield dict(attributes(entry))


class NetlinkSocket:
    """A socket of a netlink protocol."""

    def __init__(self, protocol: int) -> None:
        """Open the socket. Raises OSError if the kernel lacks the protocol."""
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
        self._socket.settimeout(1.0)
        self._sequence = 0

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def ask(self, kind: int, flags: int, body: bytes = b"") -> List[bytes]:
        """Send a request and return the payloads of its answers.

        ``flags`` must contain NLM_F_ACK unless NLMSG_DONE ends the answers.

        Raises:
            OSError: the kernel refuses, or does not answer within a second.
        """
        self._sequence += 1
        header = HEADER.pack(HEADER.size + len(body), kind, NLM_F_REQUEST | flags, self._sequence, 0)
        self._socket.send(header + body)
        answers: List[bytes] = []
        while True:
            for answer, payload in messages(self._socket.recv(1 << 17), self._sequence):
                if answer == NLMSG_DONE:
                    return answers
                if answer == NLMSG_ERROR:
                    code = -int(struct.unpack_from("=i", payload)[0])
                    if code:
                        raise OSError(code, os.strerror(code))
                    return answers
                answers.append(payload)


class RdmaNetlink(NetlinkSocket):
    """Requests to RDMA netlink."""

    def __init__(self) -> None:
        super().__init__(NETLINK_RDMA)

    def device_index(self, device: str) -> Optional[int]:
        """Return the kernel's index of a device."""
        return dict(map(parse_device, self.ask(NLDEV | CMD_GET, NLM_F_DUMP))).get(device)

    def counters(self, index: int, port: int) -> Dict[str, int]:
        """Return a port's hardware counters."""
        body = _attribute_u32(DEV_INDEX, index) + _attribute_u32(PORT_INDEX, port)
        counters: Dict[str, int] = {}
        for payload in self.ask(NLDEV | CMD_STAT_GET, NLM_F_ACK, body):
            counters.update(parse_counters(payload))
        return counters

    def queue_pairs(self, index: int) -> List[QueuePair]:
        """Return a device's queue pairs."""
        pairs: List[QueuePair] = []
        for payload in self.ask(NLDEV | CMD_RES_QP_GET, NLM_F_DUMP, _attribute_u32(DEV_INDEX, index)):
            pairs += parse_queue_pairs(payload)
        return pairs


def list_queue_pairs(device: str) -> Optional[List[QueuePair]]:
    """Return a device's queue pairs, None if unknown."""
    try:
        with closing(RdmaNetlink()) as netlink:
            index = netlink.device_index(device)
            return netlink.queue_pairs(index) if index is not None else None
    except OSError:
        return None
