"""Narrowing a space on the command line: `--fix DIM=VALUE`, `--limit DIM<=VALUE` and `--limit DIM>=VALUE`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from collie.errors import UsageError
from collie.suggest import did_you_mean
from collie.workloads.parse import parse_value
from collie.workloads.workload import FIELD_NAMES, Workload

_WHOLE = re.compile(r"-?[0-9]{1,100}")
"""A whole number. Every longer one is too large, and Python reads only some thousand digits."""


def parse_fixes(pairs: Iterable[str]) -> dict[str, Any]:
    """Parse `DIM=VALUE` words, with commas between the items of a list. Raises `UsageError`."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, text = _split(pair, "=", "--fix")
        if name in found:
            raise UsageError(f"--fix {pair!r}: {name} has another value already; a dimension is fixed to one")
        found[name] = _value(name, text, pair)
    return found


def parse_limits(pairs: Iterable[str]) -> tuple[dict[str, int], dict[str, int]]:
    """Parse `DIM<=VALUE` and `DIM>=VALUE` words. Return the upper limits, then the lower ones. Raises `UsageError`."""
    found: dict[str, dict[str, int]] = {"<=": {}, ">=": {}}
    for pair in pairs:
        sign = next((sign for sign in found if sign in pair), None)
        if sign is None:
            raise UsageError(f"--limit {pair!r} is neither DIM<=VALUE nor DIM>=VALUE")
        name, text = _split(pair, sign, "--limit")
        if name in found[sign]:
            tighter = "lower" if sign == "<=" else "higher"
            raise UsageError(f"--limit {pair!r}: {name} has another limit already; give the {tighter} one")
        if name in FIELD_NAMES and not _is_ordered(Workload().get(name)):
            raise UsageError(f"--limit {pair!r}: {name} is not an ordered dimension; --fix gives it a value")
        value = _value(name, text, pair)
        farthest = max if sign == "<=" else min
        found[sign][name] = farthest(value) if isinstance(value, tuple) else value
    return found["<="], found[">="]


def _split(pair: str, sign: str, option: str) -> tuple[str, str]:
    name, found, text = pair.partition(sign)
    if not found:
        raise UsageError(f"{option} {pair!r} is not DIM{sign}VALUE")
    return name.strip(), text.strip()


def _is_ordered(value: Any) -> bool:
    if isinstance(value, tuple):
        return bool(value) and all(isinstance(item, int) for item in value)
    return isinstance(value, int) and not isinstance(value, bool)


def _value(name: str, text: str, word: str) -> Any:
    if name not in FIELD_NAMES:
        hint = did_you_mean(name, FIELD_NAMES) or f"; one of {', '.join(FIELD_NAMES)}"
        raise UsageError(f"{word!r}: no dimension {name!r}{hint}")
    is_list = text.startswith("[") and text.endswith("]")  # as results print it
    items = [scalar(item) for item in (text[1:-1] if is_list else text).split(",")]
    raw: Any = items if is_list or len(items) > 1 else items[0]
    try:
        return parse_value(name, raw)
    except ValueError as error:
        raise UsageError(f"{word!r}: {error}") from None


def scalar(text: str) -> Any:
    """Return a word of the command line as YAML has it: a truth value, a whole number or the text itself."""
    text = text.strip()
    if text.lower() in {"true", "on", "yes"}:
        return True
    if text.lower() in {"false", "off", "no"}:
        return False
    return int(text) if _WHOLE.fullmatch(text) else text
