"""When rates are stable enough to be measured."""

from __future__ import annotations

import math

import pytest

from collie.readings.policy import WindowPolicy
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
    # In the longest window of 9 s, 15 % may be a swing of 15 % x sqrt(9 / 1.5) = 37 %.
    assert may_settle(workload, recorded(0.36, 16), POLICY)
    assert not may_settle(workload, recorded(0.375, 16), POLICY)
    chain = Workload(messages=(65536,), wqe_batch=16, send_wq_depth=64)
    assert not may_settle(chain, recorded(0.0, 15), POLICY)


CHAIN = Workload(messages=(65536,), wqe_batch=16, send_wq_depth=64)


@pytest.mark.parametrize(("workload", "chains"), [(CHAIN, 1.0), (CHAIN.with_(qps=4), 2.0), (CHAIN.with_(qps=9), 3.0)])
def test_a_step_of_the_accounting_is_at_most_a_twentieth_of_the_window(workload: Workload, chains: float) -> None:
    """Chains of several queue pairs end at different times, so the step grows with the root of their number."""
    least = chains * 16 * 65536 / (POLICY.resolution * 1.5)
    assert measure(workload, *unidirectional(steady(1.02 * least), None)).stable
    assert not measure(workload, *unidirectional(steady(0.98 * least), None)).stable


def test_steps_of_all_flows_to_a_sink_count() -> None:
    workload = CHAIN.with_(loopback=True)
    least = math.sqrt(2.0) * 16 * 65536 / (POLICY.resolution * 1.5)
    for share, stable in ((0.51, True), (0.49, False)):
        a = host(50.0, {"a-b/requester": steady(share * least)})
        b = host(9000.0, {"a-b/responder": None, "b-b/requester": steady(share * least), "b-b/responder": None})
        assert measure(workload, a, b).stable == stable


@pytest.mark.parametrize(
    ("message", "swing", "stable"),
    [(1024, 0.14, True), (1024, 0.16, False), (65536, 0.18, True), (65536, 0.19, False)],
)
def test_a_rate_may_vary_by_15_percent_and_by_the_steps_of_its_accounting(
    message: int, swing: float, stable: bool
) -> None:
    """At 1 MB/s, 64 KiB take 66 ms, 26 % of the time between two samples: hypot(15 %, 26 % / sqrt(6)) = 18.5 %."""
    measured = measurement(Workload(messages=(message,)), recorded(swing, 12), CATALOG, POLICY)
    assert measured.stable == stable


def test_two_samples_of_a_host_make_a_rate() -> None:
    policy = WindowPolicy(warm_up_seconds=0.0)
    a, b = unidirectional(steady(1e6), None)
    measured = measure(Workload(), a[:2], b[:2], policy)
    assert (measured.problems, measured.stable) == ((), False)
    assert measured.host("b").delivered_bps == pytest.approx(8e6)
    single = "sent 1 sample in the window"
    assert measure(Workload(), a[:1], b[:1], policy).problems == (f"host a {single}", f"host b {single}")


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
