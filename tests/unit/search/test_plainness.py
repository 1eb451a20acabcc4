"""Distances from plain traffic."""

from __future__ import annotations

import numpy as np

from collie.content.spaces import load_space
from collie.search.plainness import Plainness

SPACE = load_space("nsdi22")


def test_complexity_and_distance() -> None:
    base, plainness = SPACE.plainest(), Plainness(SPACE)
    assert plainness.complexity(base) == 0.0
    assert 1.0 < plainness.complexity(base.with_(qps=16)) < plainness.complexity(base.with_(qps=512)) < 2.0
    assert plainness.complexity(base.with_(qps=16, mtu=1024)) > 2.0
    assert np.abs(plainness.place(base) - plainness.place(base.with_(loopback=True))).sum() == 1.0
    assert np.abs(plainness.place(base.with_(qps=1)) - plainness.place(base.with_(qps=20_000))).sum() == 1.0
