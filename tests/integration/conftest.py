"""Testbeds of hosts that only pretend."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from collie.hosts import HostsTestbed
from tests.integration.hosts_rig import ARCHIVE, CATALOG, GROUP, ONE_HOST, PAIR, QUICK, Rig, local


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    for host in (PAIR.a, PAIR.b):
        (tmp_path / host.name).mkdir()
    testbed = HostsTestbed(PAIR, local(tmp_path), lambda driver: CATALOG, policy=QUICK, archive=ARCHIVE)
    yield Rig(tmp_path, testbed)
    testbed.close()


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Rig]:
    for host in GROUP.hosts:
        (tmp_path / host.name).mkdir()
    testbed = HostsTestbed(GROUP, local(tmp_path), lambda driver: CATALOG, policy=QUICK, archive=ARCHIVE)
    yield Rig(tmp_path, testbed)
    testbed.close()


@pytest.fixture
def one_host(tmp_path: Path) -> Iterator[Rig]:
    (tmp_path / "server").mkdir()
    testbed = HostsTestbed(ONE_HOST, local(tmp_path), lambda driver: CATALOG, policy=QUICK, archive=ARCHIVE)
    rig = Rig(tmp_path, testbed)
    rig.behave("server", devices=["rxe0", "rxe1"])
    yield rig
    testbed.close()
