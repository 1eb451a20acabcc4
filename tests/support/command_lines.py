"""Command lines for tests."""

from __future__ import annotations

from typing import Any

SEARCH = ["search", "--subsystem", "F", "--seed", "14"]


def without_wall_time(result: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in result.items() if key not in {"wall_seconds", "campaign"}}
