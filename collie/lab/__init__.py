"""Two or more Soft-RoCE machines under QEMU: real verbs on any Linux machine, without an RDMA NIC.

`up`, `status`, `restart`, `down` and `ssh_argv` are the whole interface. The machines share one cached root disk,
listen on the loopback interface only, and leave nothing but their keys and logs behind.
"""

from collie.lab.image import DEFAULT_RELEASE, RELEASES, Image, default_cache_dir, ensure_image
from collie.lab.lab import LabStatus, MachineStatus, default_state_dir, down, restart, ssh_argv, status, up

__all__ = [
    "DEFAULT_RELEASE",
    "RELEASES",
    "Image",
    "LabStatus",
    "MachineStatus",
    "default_cache_dir",
    "default_state_dir",
    "down",
    "ensure_image",
    "restart",
    "ssh_argv",
    "status",
    "up",
]
