"""A mutator of inputs: of the structure of JSON where there is any, else of bytes."""

from __future__ import annotations

import json
from random import Random
from typing import Any

ODD: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 255, 1 << 31, 1 << 63, -(1 << 64), 10**400, 0.5, -0.0, 1e308, "", "a", "../../x"),
    *("; rm -rf /", "$(reboot)", "<script>alert(1)</script>", "\x1b[2J", "\ud800", "\u202e", "NaN", "even", "9" * 300),
    *([], {}, [[]], [{}], {"": None}, [0] * 40, {"a": {"b": {"c": []}}}, "x" * 3000, "%s%n", "RC", "WRITE", "in", ">="),
)
"""Values that readers forget."""


def spoiled(data: bytes, rng: Random) -> bytes:
    """Change an input: the structure of its JSON where it has any, else its bytes."""
    head, body = data[:1], data[1:]
    if rng.random() < 0.7:
        try:
            raw = json.loads(body)
            return head + json.dumps(_with_oddity(raw, rng)).encode()
        except (ValueError, RecursionError):
            pass
    changed = bytearray(body)
    for _ in range(rng.choice((1, 1, 2, 8))):
        at = rng.randrange(len(changed) + 1)
        match rng.randrange(4):
            case 0:
                changed[at : at + 1] = rng.randbytes(1)
            case 1:
                changed[at : at + rng.randrange(1, 20)] = b""
            case 2:
                changed[at:at] = rng.choice(
                    (b"{", b"[", b'"', b": ", b"- ", b"\n", b"&a ", b"*a", b"\x00", b"\xff", b"9" * 30)
                )
            case _:
                piece = changed[at : at + rng.randrange(1, 60)]
                changed[at:at] = piece * rng.choice((1, 3))
    return head + bytes(changed)


def _with_oddity(raw: Any, rng: Random) -> Any:
    """Return a value of which one part, anywhere, is gone, odd, or in another's place."""
    if not raw or not isinstance(raw, dict | list) or rng.random() < 0.15:
        return rng.choice(ODD)
    if isinstance(raw, list):
        at = rng.randrange(len(raw))
        choice = rng.randrange(8)
        if choice == 0:
            return raw[:at] + raw[at + 1 :]
        if choice == 1:
            return raw + [raw[at]] * rng.choice((1, 50))
        return [*raw[:at], _with_oddity(raw[at], rng), *raw[at + 1 :]]
    key = rng.choice(list(raw))
    rest = {name: value for name, value in raw.items() if name != key}
    match rng.randrange(10):
        case 0:
            return rest
        case 1:
            return {**raw, str(rng.choice(ODD))[:99]: raw[key]}
        case 2:
            return {**raw, key: raw[rng.choice(list(raw))]}
        case _:
            return {**raw, key: _with_oddity(raw[key], rng)}
