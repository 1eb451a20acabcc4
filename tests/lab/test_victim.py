"""A plain flow beside the workload, on two Soft-RoCE machines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from collie.content.catalogs import load_catalog
from collie.content.inventory import load_inventory
from collie.detect.measurement import Measurement, Victim
from collie.hosts.testbed import HostsTestbed
from collie.ports import Measured
from collie.ssh.remote import SshRemote
from collie.workloads.workload import Opcode, QpType, Workload

pytestmark = [pytest.mark.lab, pytest.mark.acceptance]

# What is under way is a thousand packets, a quarter of a second of an emulated machine, and the timeout is one second:
# more is repeated into a storm, in which rdma_rxe completes with errors.
MANY = Workload(qps=32, messages=(16384,), mtu=1024, send_wq_depth=2, timeout=18)
TINY = Workload(messages=(64,), mtu=1024, send_wq_depth=1)


@pytest.fixture(scope="module")
def testbed(lab_inventory: Path) -> Iterator[HostsTestbed]:
    made = HostsTestbed(load_inventory(lab_inventory).pairs[0], SshRemote, load_catalog, victim=True)
    yield made
    made.close()


def measured(testbed: HostsTestbed, workload: Workload) -> Measurement:
    result = testbed.measure(workload, 1)
    assert isinstance(result, Measured), result
    assert result.measurement.problems == ()
    assert result.measurement.health.completion_errors == {}
    return result.measurement


def victim_of(measurement: Measurement) -> Victim:
    assert measurement.victim is not None
    return measurement.victim


def test_many_queue_pairs_take_more_from_a_plain_flow_than_a_tiny_workload(testbed: HostsTestbed) -> None:
    beside_many, beside_tiny = (victim_of(measured(testbed, workload)) for workload in (MANY, TINY))
    assert beside_many.lost_ratio is not None
    assert beside_tiny.lost_ratio is not None
    assert beside_tiny.lost_ratio < 0.5 < beside_many.lost_ratio
    assert beside_many.alone_bps == beside_tiny.alone_bps, "measured alone once"


def test_a_flow_within_one_host_has_its_victim_there(testbed: HostsTestbed) -> None:
    workload = Workload(remote=False, loopback=True, opcode=Opcode.SEND, qps=16, mtu=1024, messages=(16384,))
    lost = victim_of(measured(testbed, workload)).lost_ratio
    assert lost is not None
    assert lost > 0


def test_uc_write_is_counted_as_it_is_without_a_victim(testbed: HostsTestbed) -> None:
    measurement = measured(testbed, Workload(qp_type=QpType.UC, mtu=1024))
    assert measurement.victim is None
    assert measurement.host("b").delivered_bps
