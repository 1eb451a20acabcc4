"""Fingerprints for tests."""

from __future__ import annotations

from typing import Any

from collie.inventory.fingerprint import Fingerprint


def host(**changes: Any) -> Fingerprint:
    values: dict[str, dict[str, Any]] = {
        "software": {"kernel": "6.1"},
        "nic": {"firmware": "22.36", "psid": "MT_1"},
        "pcie": {"address": "0000:3b:00.0", "acs": None, "width": 16},
    }
    for name, value in changes.items():
        category, _, field = name.partition("__")
        values.setdefault(category, {})[field] = value
    return Fingerprint(values)
