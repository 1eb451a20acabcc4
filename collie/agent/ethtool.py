"""Reads driver statistics and settings of a network device by the ioctl SIOCETHTOOL."""

from __future__ import annotations

import array
import fcntl
import socket
import struct
from collections import Counter
from functools import lru_cache
from typing import Dict, List, Optional, Sequence

SIOCETHTOOL = 0x8946
GDRVINFO, GSTRINGS, GSTATS, GSSET_INFO = 0x03, 0x1B, 0x1D, 0x37
GPAUSEPARAM, GFLAGS = 0x12, 0x25
FEATURES = {"rx_checksum": 0x14, "tx_checksum": 0x16, "tso": 0x1E, "gso": 0x23, "gro": 0x2B}
FLAG_LRO = 1 << 15
STATS_SET = 1
NAME_BYTES = 32
DRVINFO_BYTES = 196
# The kernel writes all current entries of a set, whatever the buffer's size (net/ethtool/ioctl.c). PFC or more channels
# can enlarge a set between two calls, and it must still fit into the buffer.
SPARE_ENTRIES = 1 << 13


class _Replies:
    """Memory for large replies. New pages of 300 KiB for each sample took an emulated CPU 10 ms of it."""

    def __init__(self) -> None:
        self._kept = array.array("B")

    def room(self, head: bytes, size: int) -> array.array[int]:
        """Return at least ``size`` bytes that begin with ``head``. The next call writes over them."""
        if len(self._kept) < size:
            self._kept = array.array("B", bytes(size))
        self._kept[: len(head)] = array.array("B", head)
        return self._kept


_replies = _Replies()


def _ioctl(netdev: str, buffer: array.array[int]) -> None:
    address, _ = buffer.buffer_info()
    request = struct.pack("16sP16x", netdev.encode()[:15], address)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock.fileno(), SIOCETHTOOL, request)


def _ask(netdev: str, head: bytes, size: int) -> Optional[memoryview]:
    """Return the reply, valid until the next question."""
    buffer = _replies.room(head, size)
    try:
        _ioctl(netdev, buffer)
    except OSError:
        return None
    return memoryview(buffer)[:size]


def _text(data: bytes) -> str:
    return data.split(b"\0", 1)[0].decode("ascii", "replace")


def driver(netdev: str) -> Optional[str]:
    """Return the driver's name."""
    data = _ask(netdev, struct.pack("=I", GDRVINFO), DRVINFO_BYTES)
    return _text(bytes(data[4:36])) or None if data else None


def names(netdev: str) -> Sequence[str]:
    """Return the names of the statistics in order."""
    data = _ask(netdev, struct.pack("=IIQ", GSSET_INFO, 0, 1 << STATS_SET), 20)
    if data is None or not struct.unpack_from("=Q", data, 8)[0]:
        return []
    count = struct.unpack_from("=I", data, 16)[0]
    size = 12 + (count + SPARE_ENTRIES) * NAME_BYTES
    data = _ask(netdev, struct.pack("=III", GSTRINGS, STATS_SET, count), size)
    if data is None:
        return []
    count = struct.unpack_from("=I", data, 8)[0]
    return split_names(bytes(data[12 : 12 + count * NAME_BYTES]), count)


@lru_cache(maxsize=8)  # a thousand names of mlx5, which seldom change, take longer than their values
def split_names(data: bytes, count: int) -> Sequence[str]:
    """Return ``count`` names. Repeated ones get a suffix ``#2``, ``#3``."""
    result: List[str] = []
    seen: Counter[str] = Counter()
    for index in range(count):
        name = _text(data[index * NAME_BYTES : (index + 1) * NAME_BYTES]).strip()
        seen[name] += 1
        result.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return tuple(result)


def statistics(netdev: str, known: Sequence[str]) -> Optional[Dict[str, int]]:
    """Return the statistics by their ``known`` names, None if the number of statistics has changed."""
    data = _ask(netdev, struct.pack("=II", GSTATS, len(known)), 8 + 8 * (len(known) + SPARE_ENTRIES))
    if data is None or struct.unpack_from("=I", data, 4)[0] != len(known):
        return None
    values = struct.unpack_from(f"={len(known)}Q", data, 8)
    return {name: values[index] for index, name in enumerate(known)}


def _value(netdev: str, command: int) -> Optional[int]:
    data = _ask(netdev, struct.pack("=II", command, 0), 8)
    return int(struct.unpack_from("=I", data, 4)[0]) if data else None


def features(netdev: str) -> Optional[List[str]]:
    """Return the enabled offloads, None if unknown."""
    flags = _value(netdev, GFLAGS)
    values = {name: _value(netdev, command) for name, command in FEATURES.items()}
    if flags is None and all(value is None for value in values.values()):
        return None
    on = [name for name, value in values.items() if value]
    return sorted([*on, "lro"] if (flags or 0) & FLAG_LRO else on)


def pause(netdev: str) -> Optional[List[str]]:
    """Return the enabled directions of 802.3x pause, None if unknown."""
    data = _ask(netdev, struct.pack("=I", GPAUSEPARAM), 16)
    if data is None:
        return None
    _, _, receive, send = struct.unpack("=IIII", data)
    return [name for name, value in (("rx", receive), ("tx", send)) if value]
