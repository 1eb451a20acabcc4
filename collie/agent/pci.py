"""Reads PCIe and ACS settings of a device and of the bridges above it from PCI configuration space.

Offsets are those of the PCI Express Base Specification 5.0, sections 7.5.3 and 7.7.8. Without root the kernel shows 64
bytes, which hold no capability.
"""

from __future__ import annotations

import struct
from typing import Any, Dict, List, Optional

STATUS, STATUS_HAS_CAPABILITIES, FIRST_CAPABILITY = 0x06, 0x10, 0x34
HEADER_BYTES, CONVENTIONAL_BYTES = 64, 256
PCIE, ACS = 0x10, 0x000D
DEVICE_CONTROL, LINK_CONTROL = 0x08, 0x10
ACS_CONTROL = 0x06
ACS_BITS = ("SrcValid", "TransBlk", "ReqRedir", "CmpltRedir", "UpstreamFwd", "EgressCtrl", "DirectTrans")
ASPM = ("off", "L0s", "L1", "L0s L1")


def _u16(config: bytes, offset: int) -> int:
    return int(struct.unpack_from("<H", config, offset)[0])


def capability(config: bytes, wanted: int) -> Optional[int]:
    """Return a capability's offset, None if absent or hidden."""
    if len(config) <= HEADER_BYTES or not _u16(config, STATUS) & STATUS_HAS_CAPABILITIES:
        return None
    offset = config[FIRST_CAPABILITY] & 0xFC
    for _ in range(48):  # no list has more entries. The limit ends the search in a damaged list
        if offset < HEADER_BYTES or offset + 2 > min(len(config), CONVENTIONAL_BYTES):
            return None
        if config[offset] == wanted:
            return offset
        offset = config[offset + 1] & 0xFC
    return None


def extended_capability(config: bytes, wanted: int) -> Optional[int]:
    """Return an extended capability's offset, None if absent or hidden."""
    offset = CONVENTIONAL_BYTES
    for _ in range(960):
        if offset < CONVENTIONAL_BYTES or offset + 4 > len(config):
            return None
        header = int(struct.unpack_from("<I", config, offset)[0])
        if header & 0xFFFF == wanted:
            return offset
        offset = header >> 20 & 0xFFC
    return None


def settings(config: bytes) -> Dict[str, Any]:
    """Return a device's PCIe settings. None means unknown."""
    unknown = ("max_payload_bytes", "max_read_request_bytes", "relaxed_ordering", "extended_tags", "aspm")
    offset = capability(config, PCIE)
    if offset is None or offset + LINK_CONTROL + 2 > len(config):
        return dict.fromkeys(unknown)
    device, link = _u16(config, offset + DEVICE_CONTROL), _u16(config, offset + LINK_CONTROL)
    return {
        "max_payload_bytes": 128 << (device >> 5 & 7),
        "max_read_request_bytes": 128 << (device >> 12 & 7),
        "relaxed_ordering": bool(device & 1 << 4),
        "extended_tags": bool(device & 1 << 8),
        "aspm": ASPM[link & 3],
    }


def access_control(bridges: List[bytes]) -> Optional[List[str]]:
    """Return the ACS settings of each bridge, ``none`` for one without ACS. None if a bridge hides them."""
    if not all(len(config) > CONVENTIONAL_BYTES for config in bridges):
        return None
    found = []
    for config in bridges:
        offset = extended_capability(config, ACS)
        control = 0 if offset is None else _u16(config, offset + ACS_CONTROL)
        names = [name for bit, name in enumerate(ACS_BITS) if control & 1 << bit]
        found.append("none" if offset is None else " ".join(names) or "off")
    return found
