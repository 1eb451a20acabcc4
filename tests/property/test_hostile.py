"""Whatever strangers write, only our own errors come of it: the quick version of scripts/acceptance/fuzz.py."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.support.hostile import TARGETS
from tests.support.spoiling import spoiled

INPUTS = {"content": 60, "store": 60, "directory": 60, "inventory": 100, "bundle": 100}


@pytest.mark.parametrize("name", TARGETS)
def test_a_spoiled_input_is_read_or_refused(name: str, tmp_path: Path) -> None:
    target, rng = TARGETS[name](tmp_path / "work"), Random(1)
    seeds = target.seeds()
    assert all(target.read(seed) for seed in seeds)
    taken = [target.read(spoiled(rng.choice(seeds), rng)) for _ in range(INPUTS.get(name, 400))]
    assert not all(taken)
    assert {path.name for path in tmp_path.iterdir()} == {"work"}
