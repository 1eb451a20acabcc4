"""The samples of a run on the controller's clock."""

from __future__ import annotations

import math

import pytest

from collie.readings.recording import Recording
from tests.support.recorded_runs import BEGAN, PERIOD, host


def test_a_recording_ends_with_the_host_whose_samples_end_first() -> None:
    recording = Recording({"a": host(50.0, {}, samples=9), "b": host(9000.0, {}, samples=5)}, BEGAN)
    assert recording.end == pytest.approx(4 * PERIOD + 0.01)


def test_a_recording_without_samples_of_a_host_covers_no_moment() -> None:
    recording = Recording({"a": host(50.0, {}), "b": []}, BEGAN)
    assert recording.end == -math.inf
