"""Soft-RoCE machines under QEMU: real verbs on any Linux machine, without an RDMA NIC.

The machines share one cached root disk, listen on the loopback interface only, and leave only keys and logs behind.
"""

from collie.lab.image import DEFAULT_RELEASE, RELEASES, Image, default_cache_dir, ensure_image
from collie.lab.lab import (
    LabStatus,
    MachineStatus,
    dead_links,
    default_state_dir,
    down,
    mend,
    restart,
    ssh_argv,
    status,
    up,
)
from collie.lab.links import DeadLink

__all__ = [
    "DEFAULT_RELEASE",
    "RELEASES",
    "DeadLink",
    "Image",
    "LabStatus",
    "MachineStatus",
    "dead_links",
    "default_cache_dir",
    "default_state_dir",
    "down",
    "ensure_image",
    "mend",
    "restart",
    "ssh_argv",
    "status",
    "up",
]
