"""When rates are stable enough to be measured."""

from __future__ import annotations

import pytest

from collie.readings.rate_stability import may_settle
from collie.readings.recording import Recording
from collie.readings.window import measurement
from collie.workloads.workload import Direction, Workload
from tests.support.recorded_runs import BEGAN, CATALOG, PERIOD, POLICY, Bytes, host, measure, steady, unidirectional


def test_traffic_that_swings_is_not_stable() -> None:
    def swing(t: float) -> float:
        return 1e6 * t + (1e5 if int(t / PERIOD) % 2 else 0.0)

    measured = measure(Workload(messages=(1024,)), *unidirectional(swing, None))
    assert not measured.stable
    assert measured.host("b").peak_bps == pytest.approx(8 * (1e6 + 1e5 / PERIOD), rel=0.01)
    assert measured.host("a").peak_bps is None


@pytest.mark.parametrize("swinging", ["a-b", "b-a"])
def test_traffic_that_swings_at_one_of_two_sinks_is_not_stable(swinging: str) -> None:
    def swing(t: float) -> float:
        return 1e6 * t + (1e5 if int(t / PERIOD) % 2 else 0.0)

    counted = {flow: swing if flow == swinging else steady(1e6) for flow in ("a-b", "b-a")}
    a = host(50.0, {"a-b/requester": counted["a-b"], "b-a/responder": None})
    b = host(9000.0, {"a-b/responder": None, "b-a/requester": counted["b-a"]})
    assert not measure(Workload(messages=(1024,), direction=Direction.BIDIRECTIONAL), a, b).stable


def recorded(swing: float, samples: int, drift: float = 0.0) -> Recording:
    """A write whose rate is by turns less and more by a share, and grows by a share in a second."""

    def delivered(t: float) -> float:
        return 1e6 * (t + swing * PERIOD * (round(t / PERIOD) % 2) + drift * t * t / 2)

    a = host(50.0, {"a-b/requester": delivered}, samples=samples)
    return Recording({"a": a, "b": host(9000.0, {"a-b/responder": None}, samples=samples)}, BEGAN)


def test_a_whole_run_that_swings_about_one_level_is_stable_once_it_is_long_enough() -> None:
    workload = Workload(messages=(1024,))
    short, long = (measurement(workload, recorded(0.25, samples), CATALOG, POLICY, whole=True) for samples in (12, 30))
    assert not short.stable
    assert long.stable
    assert long.window_seconds == pytest.approx(29 * PERIOD - POLICY.warm_up_seconds, abs=0.02)
    assert long.host("b").delivered_bps == pytest.approx(8e6, rel=0.05)
    assert not measurement(workload, recorded(0.25, 30), CATALOG, POLICY).stable
    assert not measurement(workload, recorded(0.25, 30, drift=0.1), CATALOG, POLICY, whole=True).stable


def test_what_swings_too_much_for_the_longest_run_is_hopeless() -> None:
    workload = Workload(messages=(1024,))
    assert may_settle(workload, recorded(0.25, 15), POLICY)
    assert not may_settle(workload, recorded(0.5, 15), POLICY)
    chain = Workload(messages=(65536,), wqe_batch=16, send_wq_depth=64)
    assert not may_settle(chain, recorded(0.0, 15), POLICY)


def test_fewer_than_four_samples_of_a_rate_are_not_stable() -> None:
    a, b = unidirectional(steady(1e6), None)
    measured = measure(Workload(), a[:7], b[:7])
    assert not measured.stable
    assert measured.problems == ()


def test_traffic_that_stands_still_is_a_stable_zero() -> None:
    measured = measure(Workload(), *unidirectional(lambda t: 0, None))
    assert measured.stable
    assert measured.host("b").delivered_bps == 0.0


def test_steps_of_a_chain_are_no_instability_but_must_be_fine_enough() -> None:
    workload = Workload(messages=(65536,), wqe_batch=16, send_wq_depth=64)
    step = 16 * 65536

    def stepped(rate: float) -> Bytes:
        return lambda t: int(rate * t / step) * step

    assert measure(workload, *unidirectional(stepped(40e6), None)).stable
    assert not measure(workload, *unidirectional(stepped(5e6), None)).stable
