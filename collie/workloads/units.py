"""Sizes, times and rates in human notation, and back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_BINARY = {"": 1, "B": 1, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40}
_DECIMAL = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_RATES = {f"{prefix}{unit}": factor for prefix, factor in _DECIMAL.items() for unit in ("bit", "b")}


def parse_bytes(text: int | str) -> int:
    """Parse a size: `4096`, `4KiB`, `2 MiB`. Raises `ValueError`."""
    if isinstance(text, int) and not isinstance(text, bool) and text >= 0:
        return text
    match = re.fullmatch(r"\s*(\d{1,18})\s*([A-Za-z]*)\s*", str(text))
    if not match or match[2].upper() not in _BINARY:
        raise ValueError(f"{text!r} is no size; write bytes as a number or as 4KiB, 2MiB, 1GiB")
    return int(match[1]) * _BINARY[match[2].upper()]


def parse_seconds(text: float | str) -> float:
    """Parse a time: `10s`, `250ms`, `45m`, `10h`. A bare number is seconds. Raises `ValueError`."""
    return _parse(text, r"(ns|us|ms|s|m|h|d)", _SECONDS, "time; write 250ms, 10s, 45m or 10h")


def parse_rate(text: float | str) -> float:
    """Parse a rate in bits/s: `200Gbit`, `100 Gbit/s`. A bare number is bits/s. Raises `ValueError`."""
    return _parse(text, r"(?:(?i:([kMGT]?bit)(?:/s|ps)?)|([kMGT]?b)ps)", _RATES, "rate; write 25Gbit or 200Gbit/s")


def _parse(text: float | str, unit: str, units: Mapping[str, float], fault: str) -> float:
    if isinstance(text, int | float) and not isinstance(text, bool):
        return float(text)
    match = re.fullmatch(rf"\s*(\d+(?:\.\d+)?)\s*{unit}\s*", str(text))
    if not match:
        raise ValueError(f"{text!r} is no {fault}")
    unit_name = next(filter(None, match.groups()[1:]))
    return float(match[1]) * units[unit_name.lower()]


def format_number(value: float, form: str) -> str:
    """Format a number. A rounded zero has no sign."""
    text = format(value, form)
    return text if text.strip("+-0.,% ") else text.replace("-", "").replace("+", "")


def format_ratio(ratio: float) -> str:
    """Format a ratio to a reference: `9.9%`, `64%`, `104%`."""
    return format_number(ratio, ".1%" if 0 < ratio < 0.1 else ".0%")


def format_share(share: float) -> str:
    """Format a part of a whole. `100%` is the whole, so a part that only rounds to it is `over 99%`."""
    text = format_ratio(share)
    return "over 99%" if text == "100%" and share < 1 else text


def format_count(count: int | str, noun: str) -> str:
    """Format a count: `0 runs`, `1 run`, `2 anomalies`, `1,926 processes`."""
    if str(count) == "1":
        return f"1 {noun}"
    if isinstance(count, int):
        count = f"{count:,}"
    if re.search(r"[^aeiou]y$", noun):
        return f"{count} {noun[:-1]}ies"
    return f"{count} {noun}{'es' if re.search(r'(s|x|ch)$', noun) else 's'}"


def format_size(log10_size: float) -> str:
    """Format the size of a space: `3 workloads`, `10^35.8 workloads`."""
    few = log10_size < 4
    return format_count(round(10**log10_size) if few else f"10^{log10_size:.1f}", "workload")


def format_bytes(size: float) -> str:
    """Format a size: `64 B`, `4 KiB`, `1.5 MiB`."""
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{value:g} {unit}" if value == int(value) else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError("unreachable")


def format_exact_bytes(size: int) -> str:
    """Format a size in the largest unit that needs no fraction, which `parse_bytes` takes: `4 KiB`, `1500 B`."""
    unit = next((unit for unit in ("GiB", "MiB", "KiB") if size and size % _BINARY[unit.upper()] == 0), "B")
    return f"{size // _BINARY[unit.upper()]} {unit}"


def format_rate(bits_per_second: float) -> str:
    """Format a rate: `187.3 Gbit/s`."""
    value = float(bits_per_second)
    for unit in ("bit/s", "kbit/s", "Mbit/s"):
        if value < 999.5:
            return f"{format_number(value, '.3g')} {unit}"
        value /= 1000
    return f"{format(value, '.4g' if value < 9999.5 else '.0f')} Gbit/s"


def format_seconds(seconds: float) -> str:
    """Format a time: `41.5 s`, `1.8 min`, `12 min`, `3.5 h`. No number rounds to 60, so equal times look equal."""
    if seconds < 59.95:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.2g} min" if seconds < 59.5 * 60 else f"{seconds / 3600:.1f} h"


def format_short_seconds(seconds: float) -> str:
    """Format a time that can be far below a second: `4.2 us`, `13 ms`, `1.5 s`."""
    for factor, unit in ((1e6, "us"), (1e3, "ms")):
        if seconds * factor < 999.5:
            return f"{format_number(seconds * factor, '.3g')} {unit}"
    return f"{format_number(seconds, '.3g')} s"


def format_value(value: object) -> str:
    """Format a value as files do: `true`, `64`, `[64, 4096]`."""
    if isinstance(value, bool):
        return str(value).lower()
    return format_list(value) if isinstance(value, tuple) else str(value)


def format_sizes(values: Iterable[object]) -> str:
    """Format a list for people: `[64 B, 4 KiB]`. Its numbers are sizes."""
    return format_list(format_exact_bytes(value) if isinstance(value, int) else value for value in values)


def format_field(name: str, value: object) -> str:
    """Format a value of a workload's field for people: `64 KiB`, `[64 B, READ]`, `10 Gbit/s`, `true`. Files take it."""
    if isinstance(value, bool) or not isinstance(value, int | tuple):
        return format_value(value)
    if isinstance(value, tuple):
        return format_sizes(value)
    if name.endswith("_bps"):
        text = format_rate(value)
        return text if parse_rate(text) == value else f"{value} bit/s"
    if name in {"messages", "mr_bytes"}:
        return format_exact_bytes(value)
    return format_bytes(value) if name.endswith("_bytes") else str(value)


def format_list(values: Iterable[object]) -> str:
    """Format a list as files do: `[64, 4096]`."""
    return f"[{', '.join(map(str, values))}]"
