"""Flows that are offered less than they could carry."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings, strategies as st

from collie.content.catalogs import load_catalog
from collie.content.spaces import load_space
from collie.content.subsystems import load_subsystem
from collie.detect.bounds import Bounds, Calibration
from collie.detect.judge import judge
from collie.detect.thresholds import Thresholds
from collie.ports import Measured
from collie.simulator.hardware import Subsystem
from collie.simulator.model import SteadyState, evaluate, evaluate_many
from collie.simulator.specification import specification
from collie.simulator.subsystem import SubsystemFile
from collie.simulator.testbed import SimulatedTestbed
from collie.workloads.workload import Direction, Workload

FILE = load_subsystem("F", SubsystemFile)
HARDWARE = st.sampled_from([FILE.hardware, load_subsystem("H", SubsystemFile).hardware])
SPACE = load_space("nsdi22")
WORKLOADS = st.integers(0, 1 << 32).map(lambda seed: SPACE.sample(Random(seed)))
SHARES = st.floats(0.01, 0.99)


def delivered_bps(state: SteadyState) -> list[float]:
    """Payload bits/s of each flow."""
    return [flow.delivered * state.traffic.payload * 8 for flow in (state.forth, state.back, state.loop)]


@settings(max_examples=200)
@given(HARDWARE, WORKLOADS, SHARES)
def test_a_load_below_capacity_is_delivered(subsystem: Subsystem, workload: Workload, share: float) -> None:
    full = evaluate(subsystem, workload)
    capacity = delivered_bps(full)
    offered = max(1, int(share * min(rate for rate in capacity if rate)))
    state = evaluate(subsystem, workload.with_(offered_bps=offered))
    for rate, most in zip(delivered_bps(state), capacity, strict=True):
        assert rate == pytest.approx(offered) or not most  # starved loopback may get a part
        assert rate <= offered * (1 + 1e-6)
    assert state.pause_ratio() == (0.0, 0.0)


@settings(max_examples=200)
@given(HARDWARE, WORKLOADS)
def test_a_load_above_capacity_is_that_of_full_queues(subsystem: Subsystem, workload: Workload) -> None:
    full = evaluate(subsystem, workload)
    most = max(flow.limit for flow in (full.forth, full.back, full.loop)) * full.traffic.payload * 8
    state = evaluate(subsystem, workload.with_(offered_bps=int(most) + 1))
    assert delivered_bps(state) == pytest.approx(delivered_bps(full))


@settings(max_examples=50)
@given(HARDWARE, st.lists(WORKLOADS, min_size=2, max_size=8), st.integers(0, 10**11))
def test_many_loads_at_once_are_those_one_by_one(subsystem: Subsystem, workloads: list[Workload], bps: int) -> None:
    points = [*workloads, *(workload.with_(offered_bps=bps) for workload in workloads)]
    together = evaluate_many(subsystem, points)
    for index, workload in enumerate(points):
        alone = evaluate(subsystem, workload)
        assert [float(each[index]) for each in together.delivered_bps()] == pytest.approx(alone.delivered_bps())


@settings(max_examples=100)
@given(HARDWARE, WORKLOADS, st.integers(1, 10**12))
def test_no_bound_is_above_the_offered_load(subsystem: Subsystem, workload: Workload, bps: int) -> None:
    bound, full = specification(subsystem, workload.with_(offered_bps=bps)), specification(subsystem, workload)
    assert bound.bps == pytest.approx(min(bps, full.bps))
    assert bound.pps <= full.pps


def test_a_tenth_of_the_line_is_normal_where_a_tenth_is_offered() -> None:
    testbed = SimulatedTestbed(FILE, load_catalog("simulated"), noise=0.0)
    workload = Workload(direction=Direction.BIDIRECTIONAL, qps=8, mtu=1024, offered_bps=20 * 10**9)
    bounds = Bounds(testbed.specification, Calibration(), SPACE)
    result = testbed.measure(workload, 0)
    assert isinstance(result, Measured)
    verdict = judge(workload, result.measurement, bounds.ceiling(workload), Thresholds())
    assert verdict.is_normal
    assert "about 20 Gbit/s is expected by the specification" in verdict.reason
