"""What a run of the battery is said to have read, from the series of its hosts."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from collie.detect.measurement import HostMeasurement, Measurement, Sample
from collie.fleet.battery import BATTERY, Stage
from collie.fleet.reading import PATH_MTU, HostReading, readings_of

STREAM = BATTERY[0]
PERIOD, WINDOW = 0.25, 5.0


def _read(values: Callable[[str, float], Mapping[str, float | None]], **ends: float) -> dict[str, HostReading]:
    """Return the readings, by host, of a run whose roles' samples end at different times."""
    series = tuple(
        Sample(number * PERIOD, role, values(role, number * PERIOD))
        for role, end in ends.items()
        for number in range(1, round(end / PERIOD) + 1)
    )
    hosts = tuple(HostMeasurement(role) for role in ends)
    measured = Measurement(hosts, WINDOW, stable=True, series=series)
    return {each.host: each for each in readings_of(measured, STREAM.workload, ("h1", "h2"), STREAM, 7)}


def test_each_second_is_the_mean_of_its_samples() -> None:
    read = _read(lambda role, at: {"x": (at if role == "a" else 100.0)}, a=6.0, b=6.0)
    assert read["h1"].samples["x"] == (1.625, 2.625, 3.625, 4.625, 5.625)
    assert read["h2"].samples["x"] == (100.0,) * 5
    assert read["h1"].samples[PATH_MTU] == (4096.0,) * 5
    assert (read["h1"].partners, read["h1"].run) == (("h2",), 7)


def test_the_window_ends_where_the_samples_of_a_host_do() -> None:
    """A host whose samples stop early does not make a window of its last moments."""
    read = _read(lambda _role, _at: {"x": 1.0}, a=5.5, b=9.0)
    assert len(read["h1"].samples["x"]) == len(read["h2"].samples["x"]) == 5


def test_the_window_ends_with_the_samples_however_long_these_began_before() -> None:
    read = _read(lambda _role, at: {"x": at}, a=13.0, b=13.0)
    assert read["h1"].samples["x"] == (8.625, 9.625, 10.625, 11.625, 12.625)


def test_what_is_known_late_counts_from_then_on() -> None:
    """So it is with what a driver refreshes once a second."""
    read = _read(lambda _role, at: {"x": None if at < 2.0 else 3.0}, a=5.5, b=5.5)
    assert read["h1"].samples["x"] == (3.0,) * 4


def test_what_is_unknown_in_between_is_left_out() -> None:
    read = _read(lambda _role, at: {"x": None if 2.0 < at < 4.0 else 3.0, "y": 1.0}, a=5.5, b=5.5)
    assert "x" not in read["h1"].samples
    assert "y" in read["h1"].samples


def test_a_host_without_samples_has_read_nothing() -> None:
    measured = Measurement((HostMeasurement("a"), HostMeasurement("b")), WINDOW, stable=False)
    assert list(readings_of(measured, STREAM.workload, ("h1", "h2"), STREAM, 1)) == []


def test_a_host_that_is_silent_does_not_hide_its_partner() -> None:
    assert list(_read(lambda _role, _at: {"x": 1.0}, b=6.0)) == ["h2"]


def test_only_the_host_to_which_traffic_loops_or_crowds_is_under_test() -> None:
    series = tuple(Sample(number * PERIOD, role, {"x": 2.0}) for role in "abc" for number in range(1, 21))
    measured = Measurement(tuple(map(HostMeasurement, "abc")), WINDOW, stable=True, series=series)
    for probe in BATTERY:
        read = readings_of(measured, probe.workload, ("h1", "h2", "h3"), probe, 1)
        assert [each.host for each in read] == (["h1", "h2"] if probe.stage is Stage.RING else ["h2"])


def test_a_stopped_run_has_read_nothing() -> None:
    series = tuple(Sample(number * PERIOD, role, {"x": 2.0}) for role in "ab" for number in range(1, 21))
    measured = Measurement(tuple(map(HostMeasurement, "ab")), WINDOW, stable=True, series=series, stopped="pause")
    assert list(readings_of(measured, STREAM.workload, ("h1", "h2"), STREAM, 1)) == []


@pytest.mark.parametrize("window", [1.0, 0.4])
def test_a_window_of_one_second_or_less_has_one_value(window: float) -> None:
    series = tuple(Sample(number * PERIOD, role, {"x": 2.0}) for role in "ab" for number in range(1, 5))
    measured = Measurement((HostMeasurement("a"), HostMeasurement("b")), window, stable=True, series=series)
    read = list(readings_of(measured, STREAM.workload, ("h1", "h2"), STREAM, 1))
    assert [each.samples["x"] for each in read] == [(2.0,), (2.0,)]
