"""Reads health reporters of devlink by generic netlink. Needs root.

The constants are those of ``include/uapi/linux/devlink.h`` and ``genetlink.h``. A diagnosis is a flat list of
attributes: names and values between marks of objects, pairs and arrays.
"""

from __future__ import annotations

import struct
from typing import Dict, Optional, Tuple

from .kernel_files import link_target
from .netlink import NLM_F_ACK, NetlinkSocket, attribute_text, attributes, text_of

NETLINK_GENERIC = 16
GENL_ID_CTRL, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_ID, CTRL_ATTR_FAMILY_NAME = 16, 3, 1, 2
GENERIC_HEADER = struct.Struct("=BBH")
CMD_HEALTH_REPORTER_DIAGNOSE = 55
BUS_NAME, DEV_NAME, HEALTH_REPORTER_NAME = 1, 2, 115
FMSG, FMSG_OBJ_NAME, FMSG_OBJ_VALUE_TYPE, FMSG_OBJ_VALUE_DATA = 106, 111, 112, 113
UNSIGNED = {1: "=B", 2: "=H", 3: "=I", 4: "=Q"}


def parse_diagnosis(payload: bytes) -> Dict[str, int]:
    """Return the numbers in an answer, by name."""
    numbers: Dict[str, int] = {}
    for kind, items in attributes(payload[GENERIC_HEADER.size :]):
        if kind != FMSG:
            continue
        name, form = "", None
        for item, value in attributes(items):
            if item == FMSG_OBJ_NAME:
                name = text_of(value)
            elif item == FMSG_OBJ_VALUE_TYPE:
                form = UNSIGNED.get(value[0])
            elif item == FMSG_OBJ_VALUE_DATA and form and name:
                numbers[name] = int(struct.unpack_from(form, value)[0])
                name = ""
    return numbers


def devlink_handle(device_path: str) -> Optional[Tuple[str, str]]:
    """Return a device's bus and its name there."""
    bus, name = link_target(device_path, "device", "subsystem"), link_target(device_path, "device")
    return (bus, name) if bus and name else None


class ReporterCounters:
    """Numbers of a health reporter."""

    def __init__(self, bus: str, device: str, reporter: str) -> None:
        """Read once. Raises OSError without devlink, device, reporter or permission."""
        self._netlink = NetlinkSocket(NETLINK_GENERIC)
        try:
            self._family = self._find_family()
            self._body = GENERIC_HEADER.pack(CMD_HEALTH_REPORTER_DIAGNOSE, 1, 0)
            self._body += attribute_text(BUS_NAME, bus) + attribute_text(DEV_NAME, device)
            self._body += attribute_text(HEALTH_REPORTER_NAME, reporter)
            self._diagnose()
        except OSError:
            self._netlink.close()
            raise

    def read(self) -> Dict[str, Optional[int]]:
        """Return every number by name, empty without an answer."""
        try:
            return dict(self._diagnose())
        except OSError:
            return {}

    def close(self) -> None:
        """Close the socket."""
        self._netlink.close()

    def _diagnose(self) -> Dict[str, int]:
        numbers: Dict[str, int] = {}
        for payload in self._netlink.ask(self._family, 0, self._body):
            numbers.update(parse_diagnosis(payload))
        return numbers

    def _find_family(self) -> int:
        body = GENERIC_HEADER.pack(CTRL_CMD_GETFAMILY, 1, 0) + attribute_text(CTRL_ATTR_FAMILY_NAME, "devlink")
        for payload in self._netlink.ask(GENL_ID_CTRL, NLM_F_ACK, body):
            for kind, value in attributes(payload[GENERIC_HEADER.size :]):
                if kind == CTRL_ATTR_FAMILY_ID:
                    return int(struct.unpack_from("=H", value)[0])
        raise OSError("no generic netlink family devlink")
