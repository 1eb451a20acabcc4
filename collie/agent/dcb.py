"""Reads Data Center Bridging of a network device by rtnetlink: PFC, ETS, trust, buffers.

The constants are those of ``include/uapi/linux/dcbnl.h``. A driver without DCB answers EOPNOTSUPP.
"""

from __future__ import annotations

import socket
import struct
from contextlib import closing
from typing import Any, Dict, Optional

from .netlink import NLM_F_ACK, NetlinkSocket, attribute_text, attributes

RTM_GETDCB, CMD_IEEE_GET = 78, 21
ATTR_IFNAME, ATTR_IEEE = 1, 13
ETS, PFC, APP_TABLE, BUFFER, TRUST_TABLE = 1, 2, 3, 10, 11
PRIORITIES = 8
APP = struct.Struct("=BBH")
SELECTORS = {1: "ethertype", 2: "stream", 3: "dgram", 4: "any", 5: "dscp", 24: "pcp"}
SELECTOR_DSCP = 5
TSA = {0: "strict", 1: "cbs", 2: "ets", 255: "vendor"}
SETTINGS = (
    *("pfc_priorities", "pfc_delay", "ets_bandwidth", "ets_tsa", "priority_to_tc"),
    *("trust", "dscp_to_priority", "buffer_bytes", "priority_to_buffer"),
)


def ask(netdev: str) -> Optional[bytes]:
    """Return the kernel's answer, None without DCB."""
    body = struct.pack("=BBH", socket.AF_UNSPEC, CMD_IEEE_GET, 0) + attribute_text(ATTR_IFNAME, netdev)
    try:
        with closing(NetlinkSocket(socket.NETLINK_ROUTE)) as route:
            return next(iter(route.ask(RTM_GETDCB, NLM_F_ACK, body)), None)
    except OSError:
        return None


def parse(payload: Optional[bytes]) -> Dict[str, Any]:
    """Return the settings in an answer. None means unknown."""
    result: Dict[str, Any] = dict.fromkeys(SETTINGS)
    top = dict(attributes(payload[4:])) if payload else {}
    ieee = dict(attributes(top.get(ATTR_IEEE, b"")))
    pfc, ets, buffers = ieee.get(PFC, b""), ieee.get(ETS, b""), ieee.get(BUFFER, b"")
    if len(pfc) >= 6:
        result["pfc_priorities"] = [priority for priority in range(PRIORITIES) if pfc[1] & 1 << priority]
        result["pfc_delay"] = int(struct.unpack_from("=H", pfc, 4)[0])
    if len(ets) >= 3 + 4 * PRIORITIES:
        result["ets_bandwidth"] = list(ets[3:11])
        result["ets_tsa"] = [TSA.get(value, str(value)) for value in ets[19:27]]
        result["priority_to_tc"] = list(ets[27:35])
    if len(buffers) >= PRIORITIES + 4 * PRIORITIES:
        result["priority_to_buffer"] = list(buffers[:PRIORITIES])
        result["buffer_bytes"] = list(struct.unpack_from(f"={PRIORITIES}I", buffers, PRIORITIES))
    if ieee:
        _trust(result, ieee)
    return result


def _trust(result: Dict[str, Any], ieee: Dict[int, bytes]) -> None:
    """Add the reported trust mode. Without one, a DSCP map means ``dscp``: mlx5 has the map only in that mode."""
    entries = [APP.unpack_from(value) for _, value in attributes(ieee.get(APP_TABLE, b"")) if len(value) >= APP.size]
    dscp = sorted((protocol, priority) for selector, priority, protocol in entries if selector == SELECTOR_DSCP)
    result["dscp_to_priority"] = [f"{protocol}:{priority}" for protocol, priority in dscp]
    reported = [SELECTORS.get(value[0], str(value[0])) for _, value in attributes(ieee.get(TRUST_TABLE, b""))]
    result["trust"] = " ".join(reported) or ("dscp" if dscp else None)
