"""JSON as a strict parser reads it."""

from __future__ import annotations

import json
from typing import Any


def through_json(value: Any) -> Any:
    """Return a value after a round trip. NaN and infinity are refused."""
    return json.loads(json.dumps(value, allow_nan=False))
