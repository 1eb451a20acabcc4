"""Driver statistics and settings of a network device, by the ioctl SIOCETHTOOL. Needs no privilege."""

from __future__ import annotations

import array
import fcntl
import socket
import struct
from typing import Dict, List, Optional

SIOCETHTOOL = 0x8946
GDRVINFO, GSTRINGS, GSTATS, GSSET_INFO = 0x03, 0x1B, 0x1D, 0x37
GPAUSEPARAM, GFLAGS = 0x12, 0x25
FEATURES = {"rx_checksum": 0x14, "tx_checksum": 0x16, "tso": 0x1E, "gso": 0x23, "gro": 0x2B}
FLAG_LRO = 1 << 15
STATS_SET = 1
NAME_BYTES = 32
DRVINFO_BYTES = 196
# The kernel writes all current entries of a set, whatever the buffer's size (net/ethtool/ioctl.c). A set can grow
# between two calls, with PFC or more channels, and must not overrun the buffer.
SPARE_ENTRIES = 1 << 13


def _ioctl(netdev: str, buffer: array.array[int]) -> None:
    address, _ = buffer.buffer_info()
    request = struct.pack("16sP16x", netdev.encode()[:15], address)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock.fileno(), SIOCETHTOOL, request)


def _buffer(head: bytes, size: int) -> array.array[int]:
    return array.array("B", head + b"\0" * (size - len(head)))


def driver(netdev: str) -> Optional[str]:
    """Return the name of the driver, or None."""
    buffer = _buffer(struct.pack("=I", GDRVINFO), DRVINFO_BYTES)
    try:
        _ioctl(netdev, buffer)
    except OSError:
        return None
    return buffer.tobytes()[4:36].split(b"\0", 1)[0].decode("ascii", "replace") or None


def names(netdev: str) -> List[str]:
    """Return the names of the driver's statistics in order."""
    try:
        buffer = _buffer(struct.pack("=IIQ", GSSET_INFO, 0, 1 << STATS_SET), 20)
        _ioctl(netdev, buffer)
        data = buffer.tobytes()
        if not struct.unpack_from("=Q", data, 8)[0]:
            return []
        count = struct.unpack_from("=I", data, 16)[0]
        buffer = _buffer(struct.pack("=III", GSTRINGS, STATS_SET, count), 12 + (count + SPARE_ENTRIES) * NAME_BYTES)
        _ioctl(netdev, buffer)
    except OSError:
        return []
    data = buffer.tobytes()
    return split_names(data[12:], struct.unpack_from("=I", data, 8)[0])


def split_names(data: bytes, count: int) -> List[str]:
    """Return ``count`` names. Some drivers repeat names, which get the suffix ``#2``, ``#3``."""
    result: List[str] = []
    seen: Dict[str, int] = {}
    for index in range(count):
        name = data[index * NAME_BYTES : (index + 1) * NAME_BYTES].split(b"\0", 1)[0].decode("ascii", "replace").strip()
        seen[name] = seen.get(name, 0) + 1
        result.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return result


def statistics(netdev: str, known: List[str]) -> Optional[Dict[str, int]]:
    """Return the statistics by ``known`` names, None if their number has changed."""
    buffer = _buffer(struct.pack("=II", GSTATS, len(known)), 8 + 8 * (len(known) + SPARE_ENTRIES))
    try:
        _ioctl(netdev, buffer)
    except OSError:
        return None
    data = buffer.tobytes()
    if struct.unpack_from("=I", data, 4)[0] != len(known):
        return None
    values = struct.unpack_from(f"={len(known)}Q", data, 8)
    return {name: values[index] for index, name in enumerate(known)}


def _value(netdev: str, command: int) -> Optional[int]:
    buffer = _buffer(struct.pack("=II", command, 0), 8)
    try:
        _ioctl(netdev, buffer)
    except OSError:
        return None
    return int(struct.unpack_from("=I", buffer.tobytes(), 4)[0])


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
    buffer = _buffer(struct.pack("=I", GPAUSEPARAM), 16)
    try:
        _ioctl(netdev, buffer)
    except OSError:
        return None
    _, _, receive, send = struct.unpack("=IIII", buffer.tobytes())
    return [name for name, value in (("rx", receive), ("tx", send)) if value]
