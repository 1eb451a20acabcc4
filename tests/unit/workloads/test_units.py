"""Sizes, times and rates."""

from __future__ import annotations

import pytest

from collie.workloads.units import format_bytes, format_seconds, parse_bytes, parse_rate, parse_seconds


@pytest.mark.parametrize(("text", "size"), [("64", 64), ("4KiB", 4096), ("2 MiB", 2 << 20), (7, 7)])
def test_sizes(text: int | str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["4KB", "10 furlongs", "", "-1", True, "1.5KiB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no size"):
        parse_bytes(text)


def test_times_and_rates() -> None:
    assert parse_seconds("45m") == 2700
    assert parse_seconds("250ms") == 0.25
    assert parse_rate("200Gbit/s") == 200e9
    assert format_bytes(65536) == "64 KiB"


@pytest.mark.parametrize(("reader", "text"), [(parse_seconds, "soon"), (parse_rate, "fast"), (parse_rate, "25")])
def test_what_is_no_time_or_rate_is_refused(reader: object, text: str) -> None:
    with pytest.raises(ValueError, match="is no"):
        reader(text)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.5, "0.5 s"),
        (27.64, "27.6 s"),
        (59.9, "59.9 s"),
        (60, "1 min"),
        (108, "1.8 min"),
        (840, "14 min"),
        (3569, "59 min"),
        (3590, "1.0 h"),
        (7080, "2.0 h"),
        (36000, "10.0 h"),
    ],
)
def test_a_time_has_one_unit_for_its_size(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text
