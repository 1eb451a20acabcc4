"""Sizes, times and rates."""

from __future__ import annotations

import pytest

from collie.workloads.parse import parse_value
from collie.workloads.units import (
    format_bytes,
    format_exact_bytes,
    format_field,
    format_rate,
    format_seconds,
    format_size,
    parse_bytes,
    parse_rate,
    parse_seconds,
)


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


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("mr_bytes", 4 << 20, "4 MiB"),
        ("mr_bytes", 1536 << 10, "1536 KiB"),
        ("messages", (64, 1500, 64 << 10), "[64 B, 1500 B, 64 KiB]"),
        ("offered_bps", 160 * 10**9, "160 Gbit/s"),
        ("offered_bps", 1_234_567_891, "1234567891 bit/s"),
        ("offered_bps", 0, "0 bit/s"),
        ("qps", 65536, "65536"),
        ("loopback", True, "true"),
    ],
)
def test_a_value_with_its_unit_is_read_back_exactly(name: str, value: object, text: str) -> None:
    assert format_field(name, value) == text
    items = text.strip("[]").split(", ")
    read = items if isinstance(value, tuple) else {"true": True}.get(text, int(text) if text.isdigit() else text)
    assert parse_value(name, read) == value


@pytest.mark.parametrize("size", [0, 1, 1023, 1024, 1025, 1 << 20, 3 << 29, 1 << 40])
def test_an_exact_size_is_read_back(size: int) -> None:
    assert parse_bytes(format_exact_bytes(size)) == size


def test_a_small_space_has_a_number() -> None:
    assert [format_size(size) for size in (0.0, 0.4771, 3.9999, 4.0)] == [
        "1 workload",
        "3 workloads",
        "9,998 workloads",
        "10^4.0 workloads",
    ]


@pytest.mark.parametrize(
    ("rate", "text"),
    [
        (999_400, "999 kbit/s"),
        (999_900, "1 Mbit/s"),
        (999_900_000, "0.9999 Gbit/s"),
        (187_300_000_000, "187.3 Gbit/s"),
        (10**13, "10000 Gbit/s"),
    ],
)
def test_no_rate_has_an_exponent_and_what_is_rounded_is_written_whole_in_files(rate: int, text: str) -> None:
    assert format_rate(rate) == text
    assert parse_rate(format_field("offered_bps", rate)) == rate
