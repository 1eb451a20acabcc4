"""Testbeds of hosts that only pretend."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.hosts_rig import GROUP, ONE_HOST, PAIR, Rig, rigged


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with rigged(tmp_path, PAIR) as rig:
        yield rig


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Rig]:
    with rigged(tmp_path, GROUP) as rig:
        yield rig


@pytest.fixture
def one_host(tmp_path: Path) -> Iterator[Rig]:
    with rigged(tmp_path, ONE_HOST) as rig:
        rig.behave("server", devices=["rxe0", "rxe1"])
        yield rig
