"""A victim beside the workload of another tenant, on the simulator."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, strategies as st

from collie.content.spaces import load_space
from collie.content.subsystems import load_subsystem
from collie.detect.measurement import Measurement
from collie.ports import Measured
from collie.simulator.capabilities import unsupported_reason
from collie.simulator.latency import latencies
from collie.simulator.model import evaluate
from collie.simulator.subsystem import SubsystemFile
from collie.simulator.tenants import kept_beside, victim_beside, victim_of
from collie.simulator.testbed import SimulatedTestbed
from collie.wiring import ADAPTERS
from collie.workloads.workload import Direction, Opcode, QpType, Workload

FILE = load_subsystem("F", SubsystemFile)
F = FILE.hardware
SPACE = load_space("offered-load")
LIGHT = Workload(qps=8, offered_bps=10 * 10**9)


@given(st.integers(0, 1 << 32))
def test_no_aggressor_helps_a_victim(seed: int) -> None:
    workload = SPACE.sample(Random(seed))
    if unsupported_reason(F, workload) is None:
        assert 0 < kept_beside(F, workload).bps <= kept_beside(F, None).bps * (1 + 1e-9)


def test_a_victim_keeps_what_a_light_tenant_leaves() -> None:
    alone, beside = kept_beside(F, None).bps, kept_beside(F, LIGHT).bps
    assert beside == pytest.approx(min(alone, F.wire.line_rate_bps - 10e9), rel=0.1)


@pytest.mark.parametrize(
    ("aggressor", "limit"),
    [
        (Workload(qps=512, messages=(1 << 20,)), "wire of host a"),
        (Workload(qps=512, opcode=Opcode.WRITE, messages=(64,), send_wq_depth=1), "context cache of host b"),
        (Workload(qps=1024, qp_type=QpType.UC, messages=(64,)), "doorbells of host a"),
        (
            Workload(qps=4, qp_type=QpType.UD, opcode=Opcode.SEND, wqe_batch=64, recv_wq_depth=512, messages=(512,)),
            "pause from host b",
        ),
    ],
)
def test_what_two_tenants_share_holds_up_a_victim(aggressor: Workload, limit: str) -> None:
    kept = kept_beside(F, aggressor)
    assert kept.limit == limit
    assert kept.bps < 0.5 * kept_beside(F, None).bps


def test_of_a_busy_wire_a_victim_gets_the_share_of_one_queue_pair() -> None:
    few, many = (kept_beside(F, Workload(qps=qps, messages=(1 << 20,))).bps for qps in (4, 512))
    assert few == pytest.approx(F.wire.line_rate_bps / 5, rel=0.1)
    assert many == pytest.approx(F.wire.line_rate_bps / 513, rel=0.1)


def test_a_read_loads_the_hosts_the_other_way_round() -> None:
    """Its payload leaves host b, so the victim's way from a to b stays free."""
    reads = Workload(opcode=Opcode.READ, qps=64, messages=(1 << 20,))
    assert kept_beside(F, reads).bps > 0.9 * kept_beside(F, None).bps
    assert kept_beside(F, reads.with_(direction=Direction.BIDIRECTIONAL)).bps < 0.1 * kept_beside(F, None).bps


LOAD = 10 * 10**9
STORM = Workload(qps=512, messages=(64,), send_wq_depth=1)


@given(st.integers(0, 1 << 32))
def test_no_aggressor_speeds_a_victim_up(seed: int) -> None:
    workload = SPACE.sample(Random(seed))
    if unsupported_reason(F, workload) is None:
        kept, beside = victim_beside(F, workload, None, LOAD)
        alone = latencies(F, evaluate(F, victim_of(F, LOAD))).forth
        assert alone is not None
        assert kept.bps <= LOAD
        assert list(beside) == sorted(beside)
        assert all(here >= 0.99 * there for here, there in zip(beside, alone.completion, strict=True))


def test_a_victim_waits_although_it_loses_nothing() -> None:
    late, usual = victim_beside(F, STORM, None, LOAD), victim_beside(F, LIGHT, None, LOAD)
    assert late[0].bps == usual[0].bps == LOAD
    assert late[1].median > 4 * usual[1].median
    assert late[1].p99 > usual[1].p99 + 100e-6


def test_the_latency_of_a_full_send_queue_follows_littles_law() -> None:
    kept, latency = victim_beside(F, STORM)
    plain = victim_of(F)
    assert latency.median == pytest.approx(plain.send_wq_depth * plain.messages[0] * 8 / kept.bps)


def measured(*, victim: bool, noise: float, run: int = 1, load: int = 0) -> Measurement:
    testbed = SimulatedTestbed(
        FILE, ADAPTERS.content.catalog("simulated"), seed=3, noise=noise, victim=victim, victim_bps=load
    )
    result = testbed.measure(LIGHT, run)
    assert isinstance(result, Measured)
    return result.measurement


def test_a_testbed_measures_the_victim_if_asked_to() -> None:
    found = measured(victim=True, noise=0).victim
    assert found is not None
    assert (found.alone_bps, found.beside_bps) == (kept_beside(F, None).bps, kept_beside(F, LIGHT).bps)
    assert measured(victim=False, noise=0).victim is None


def test_noise_takes_nothing_from_a_load_that_is_carried() -> None:
    runs = [measured(victim=True, noise=1, run=run, load=LOAD).victim for run in range(1, 6)]
    assert [victim.beside_bps for victim in runs if victim] == [LOAD] * 5
    assert len({victim.latency for victim in runs if victim}) == 5


def test_a_victim_changes_no_other_reading() -> None:
    assert measured(victim=True, noise=1).hosts == measured(victim=False, noise=1).hosts


def test_each_run_has_its_own_noise_on_the_victim() -> None:
    kept = {getattr(measured(victim=True, noise=1, run=run).victim, "beside_bps", None) for run in range(1, 6)}
    assert len(kept) == 5
