"""When the loop in C posts a round that is due, on machines that oversleep: with a clock that the test moves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.fake_libraries import ROOT, compiled


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("libraries")
    return compiled("libibverbs", folder), compiled("sleeps", folder)


def paced(libraries: tuple[Path, Path], rate: int, oversleep: float) -> dict[str, Any]:
    """Return the latencies and sleeps of a loop that offers `rate` messages/s and oversleeps by so many seconds."""
    device, clock = libraries
    environment = os.environ | {"LD_PRELOAD": str(clock), "OVERSLEEP": str(int(oversleep * 1e9))}
    argv = [sys.executable, "-m", "tests.support.oversleeping", str(device), str(clock), str(rate)]
    done = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("oversleep", [0.0, 150e-6, 600e-6])
@pytest.mark.parametrize("rate", [20, 50, 250])
def test_a_lone_message_is_posted_on_time_by_a_loop_that_oversleeps(
    libraries: tuple[Path, Path], rate: int, oversleep: float
) -> None:
    found = paced(libraries, rate, oversleep)
    assert found["median_seconds"] < 5e-6
    assert found["asleep_ratio"] > 0.7


@pytest.mark.parametrize(("rate", "oversleep"), [(1000, 600e-6), (500, 5e-3), (2000, 150e-6)])
def test_a_loop_that_oversleeps_by_more_than_a_quarter_of_the_gap_still_sleeps(
    libraries: tuple[Path, Path], rate: int, oversleep: float
) -> None:
    """On a host of few CPUs, one that only polls would hold up the kernel's half of a software device."""
    assert paced(libraries, rate, oversleep)["asleep_ratio"] > 0.7
