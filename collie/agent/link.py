"""State of a port's link."""

from __future__ import annotations

import os
from typing import Any, Dict, Optional

from .facts import INFINIBAND, NET
from .kernel_files import read_int, read_text


def link(device: str, port: int, netdev: Optional[str]) -> Dict[str, Any]:
    """Return the ``link`` object of a sample."""
    path = os.path.join(INFINIBAND, device)
    port_path = os.path.join(path, "ports", str(port))
    net_path = os.path.join(NET, netdev or "")
    return {
        "state": read_text(port_path, "state"),
        "rate": read_text(port_path, "rate"),
        "netdev_state": read_text(net_path, "operstate"),
        "netdev_speed_mbps": read_int(net_path, "speed"),
        # Changes even if the link is up again.
        "carrier_changes": read_int(net_path, "carrier_changes"),
        "pci_speed": read_text(path, "device", "current_link_speed"),
        "pci_width": read_text(path, "device", "current_link_width"),
    }
