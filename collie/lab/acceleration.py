"""Whether QEMU can use KVM here: the first boot of a machine is the test, once per boot of this computer.

A KVM device that opens proves nothing. On some virtual machines the guest hangs.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from collie.errors import LabError
from collie.files import read_bytes
from collie.lab.host import MAX_BYTES, QEMU, write_atomically

KVM_DEVICE = Path("/dev/kvm")


def remembered(cache: Path, image: str) -> str | None:
    """Return the accelerator that worked here for an image, if one was tried."""
    if not os.access(KVM_DEVICE, os.R_OK | os.W_OK):
        return "tcg"
    try:
        record = json.loads(read_bytes(_record(cache, image), MAX_BYTES).decode())
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or record.get("conditions") != _conditions():
        return None
    accelerator = record.get("accelerator")
    return accelerator if accelerator in ("kvm", "tcg") else None


def remember(cache: Path, image: str, accelerator: str) -> None:
    """Remember the accelerator that worked."""
    record = {"accelerator": accelerator, "conditions": _conditions()}
    write_atomically(_record(cache, image), json.dumps(record, indent=2) + "\n")


def _record(cache: Path, image: str) -> Path:
    return cache / f"{image}.accelerator.json"


def _conditions() -> dict[str, str]:
    try:
        version = subprocess.run(
            [QEMU, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20, check=False
        )
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LabError(f"cannot ask {QEMU} for its version: {error}; install qemu-system-x86 again") from error
    return {"boot": boot, "qemu": version.stdout.partition("\n")[0]}
