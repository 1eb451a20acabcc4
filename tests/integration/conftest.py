"""Testbeds of hosts that only pretend."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from collie.hosts import HostsTestbed
from collie.inventory.hosts import Pair
from tests.integration.hosts_rig import ARCHIVE, CATALOG, GROUP, ONE_HOST, PAIR, QUICK, Rig, local


@contextmanager
def rigged(directory: Path, pair: Pair) -> Iterator[Rig]:
    """Hosts of which each is a directory that exists, and their testbed, which is closed in the end."""
    for host in pair.hosts:
        (directory / host.machine).mkdir(exist_ok=True)
    testbed = HostsTestbed(pair, local(directory), lambda driver: CATALOG, policy=QUICK, archive=ARCHIVE)
    yield Rig(directory, testbed)
    testbed.close()


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
