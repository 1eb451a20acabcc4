"""Bounds, plain siblings and calibrations."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from collie.content.spaces import load_space
from collie.detect.bounds import (
    UNBOUNDED,
    Bound,
    Bounds,
    Calibration,
    CalibrationPoint,
    at_own_mtu,
    at_sink,
)
from collie.detect.judge import judge
from collie.detect.measurement import HostMeasurement, Latency, Measurement
from collie.detect.plain import plain_sibling
from collie.detect.symptom import Symptom
from collie.detect.thresholds import Thresholds
from collie.workloads.workload import Direction, Opcode, QpType, Workload
from tests.support.measurements import LINE, ONE_WAY, measurement, verdict

SPACE = load_space("nsdi22")
TWO_WAYS = Direction.BIDIRECTIONAL


@given(st.integers(0, 2**32))
def test_a_sibling_keeps_what_it_must_and_is_plain_otherwise(seed: int) -> None:
    from random import Random

    workload = SPACE.sample(Random(seed))
    sibling = plain_sibling(workload, SPACE)
    assert (sibling.qp_type, sibling.opcode, sibling.messages) == (workload.qp_type, workload.opcode, workload.messages)
    assert sibling.qps <= 16
    assert SPACE.allows(sibling)
    assert plain_sibling(sibling, SPACE) == sibling
    for name in ("loopback", "numa_node", "mrs_per_qp", "sge_count", "sge_split"):
        assert sibling.get(name) == SPACE.base.get(name)


def test_a_sibling_has_the_same_bytes_outstanding() -> None:
    workload = Workload(qps=480, send_wq_depth=16, messages=(512,))
    sibling = plain_sibling(workload, SPACE)
    assert (sibling.qps, sibling.send_wq_depth) == (16, 480)
    assert sibling.bytes_outstanding == workload.bytes_outstanding


def test_a_sibling_is_offered_the_same_load() -> None:
    assert plain_sibling(Workload(qps=480, offered_bps=10**10), SPACE).offered_bps == 10**10


def test_a_sibling_posts_as_many_messages_at_once_only_at_an_offered_load() -> None:
    assert plain_sibling(Workload(wqe_batch=32, offered_bps=10**10), SPACE).wqe_batch == 32
    assert plain_sibling(Workload(wqe_batch=32), SPACE).wqe_batch == 1


def test_plain_batches_bound_the_throughput_at_an_offered_load_and_not_the_latency() -> None:
    bounds = Bounds(lambda _workload: LINE, Calibration(), SPACE)
    workload = Workload(messages=(64,), sge_count=16, wqe_batch=2, offered_bps=20 * 10**9)
    single = bounds.unbatched(workload)
    assert single == workload.with_(wqe_batch=1)
    assert bounds.unbatched(single) is None
    assert bounds.unbatched(workload.with_(offered_bps=0)) is None
    bounds.learn(bounds.sibling(workload), {"b": Bound(19.9e9, 39e6, "plain sibling", latency=Latency(2e-6, 5e-6))})
    assert bounds.tightest(workload).bps == pytest.approx(19.9e9)
    bounds.learn(bounds.sibling(single), {"b": Bound(3e9, 6e6, "plain sibling")})
    assert bounds.tightest(workload).bps == pytest.approx(3e9)
    assert bounds.tightest(workload).latency == Latency(2e-6, 5e-6)
    bounds.distrust(bounds.sibling(single))
    assert bounds.tightest(workload).bps == pytest.approx(19.9e9)


def test_imitated_control_verbs_bound_what_real_ones_do_not_do_to_the_nic() -> None:
    bounds = Bounds(lambda _workload: LINE, Calibration(), SPACE)
    making = Workload(qps=480, offered_bps=10**10, new_mrs_per_second=1000)
    imitating = bounds.imitating(making)
    assert imitating == making.with_(control_verbs_imitated=True)
    assert bounds.imitating(imitating) is None
    assert bounds.imitating(Workload()) is None
    plain, sibling = bounds.sibling(making), bounds.sibling(imitating)
    assert sibling == plain.with_(new_mrs_per_second=1000, control_verbs_imitated=True)
    assert bounds.sibling(sibling) == sibling
    early, late = Latency(2e-6, 5e-6), Latency(3e-6, 9e-6)
    bounds.learn(plain, {"b": Bound(10e9, 2e6, "plain sibling", latency=early, victim_bps=8e9)})
    assert (bounds.tightest(making).bps, bounds.tightest(making).victim_bps) == (10e9, 8e9)
    bounds.learn(sibling, {"b": Bound(9.9e9, 2e6, "plain sibling", latency=late, victim_bps=5e9)})
    bound = bounds.tightest(making)
    assert (bound.bps, bound.victim_bps, bound.latency) == (9.9e9, 5e9, late)
    assert bounds.tightest(plain).victim_bps == 8e9, "it makes none"
    bounds.distrust(sibling)
    assert bounds.tightest(making).victim_bps == 8e9


@pytest.mark.parametrize(
    ("own", "imitated", "bound"),
    [
        (Latency(2e-6, 5e-6, 9e-6), Latency(3e-6, 4e-6, 8e-6), Latency(3e-6, 5e-6, 9e-6)),
        (Latency(2e-6, None), Latency(3e-6, 4e-6), Latency(3e-6, 4e-6)),
        (Latency(2e-6, None), Latency(1e-6, None), Latency(2e-6, None)),
        (Latency(2e-6, 5e-6), None, None),
        (None, Latency(3e-6, 4e-6), None),
    ],
)
def test_the_longest_of_each_quantile_bounds_latency_if_both_siblings_have_one(
    own: Latency | None, imitated: Latency | None, bound: Latency | None
) -> None:
    bounds = Bounds(lambda _workload: LINE, Calibration(), SPACE)
    making = Workload(offered_bps=10**10, new_mrs_per_second=1000)
    imitating = making.with_(control_verbs_imitated=True)
    bounds.learn(bounds.sibling(making), {"b": Bound(10e9, 2e6, "", latency=own)})
    bounds.learn(bounds.sibling(imitating), {"b": Bound(10e9, 2e6, "", latency=imitated)})
    assert bounds.tightest(making).latency == bound


def test_no_latency_is_wrong_where_imitated_verbs_keep_plain_traffic_from_its_load() -> None:
    bounds = Bounds(lambda _workload: LINE, Calibration(), SPACE)
    making = Workload(offered_bps=10**10, new_mrs_per_second=1000)
    late = Latency(3e-3, 9e-3)
    bounds.learn(bounds.sibling(making), {"b": Bound(10e9, 2e6, "", latency=Latency(2e-6, 5e-6))})
    imitating = making.with_(control_verbs_imitated=True)
    bounds.learn(bounds.sibling(imitating), {"b": Bound(5e9, 1e6, "", latency=late)})
    assert bounds.tightest(making).latency is None
    assert bounds.tightest(making).name == "plain sibling (with imitated control verbs)"


def test_like_traffic_bounds_latency_only_up_to_that_beside_imitated_verbs() -> None:
    bounds = Bounds(lambda _workload: LINE, Calibration(), SPACE)
    making = Workload(offered_bps=10**10, new_mrs_per_second=1000)
    more = Workload(offered_bps=2 * 10**10)
    bounds.learn(bounds.sibling(more), {"b": Bound(20e9, 4e6, "", latency=Latency(2e-6, 5e-6))})
    _, high = bounds.latency_bracket(making)
    assert high is not None
    assert high.latency == Latency(2e-6, 5e-6)
    imitating = making.with_(control_verbs_imitated=True)
    bounds.learn(bounds.sibling(imitating), {"b": Bound(10e9, 2e6, "", latency=Latency(3e-6, 9e-6))})
    _, high = bounds.latency_bracket(making)
    assert high is not None
    assert high.latency == Latency(3e-6, 9e-6)


def test_the_sibling_that_holds_up_a_victim_more_decides() -> None:
    bounds = Bounds(lambda _workload: LINE, Calibration(), SPACE)
    making = Workload(offered_bps=10**10, new_mrs_per_second=1000)
    imitating = making.with_(control_verbs_imitated=True)
    bounds.learn(bounds.sibling(making), {"b": Bound(10e9, 2e6, "", latency=Latency(3e-6, 9e-6), victim_bps=5e9)})
    bounds.learn(bounds.sibling(imitating), {"b": Bound(10e9, 2e6, "", latency=Latency(2e-6, 5e-6), victim_bps=8e9)})
    assert bounds.tightest(making).victim_bps == 5e9
    assert bounds.tightest(making).latency == Latency(3e-6, 9e-6)


def test_no_port_delivers_more_than_it_is_offered() -> None:
    bounds = Bounds(lambda _workload: LINE, Calibration(), SPACE)
    assert bounds.ceiling(Workload(offered_bps=10**10)).name == "offered load"
    assert bounds.ceiling(Workload(offered_bps=10**10, requesters=3)).bps == 3e10
    assert bounds.ceiling(Workload(offered_bps=10**12)) == LINE
    assert bounds.ceiling(Workload()) == LINE


def test_a_sibling_that_carries_its_load_says_how_long_messages_take() -> None:
    workload = Workload(qps=480, offered_bps=10**10)

    def known(*runs: tuple[float, float]) -> Latency | None:
        bounds = Bounds(lambda _workload: LINE, Calibration(), SPACE)
        for bps, p99 in runs:
            run = Bound(bps, 1e6, "plain sibling", latency=Latency(1e-6, p99))
            bounds.learn(bounds.sibling(workload), {"b": run})
        return bounds.tightest(workload).latency

    assert known((1e10, 3e-6), (1e10, 9e-6), (1e10, 5e-6)) == Latency(1e-6, 5e-6)
    assert known((0.9e10, 3e-6)) is None
    assert known() is None


def test_a_sibling_with_several_partners_carries_its_load_if_the_load_of_each_arrives() -> None:
    """A space can keep the partners in its siblings."""
    incast = Workload(offered_bps=10**10, requesters=3)
    for bps, carries in ((3e10, True), (2e10, False)):
        bounds = Bounds(lambda _workload: LINE, Calibration(), lambda workload: workload)
        bounds.learn(incast, {"b": Bound(bps, 1e6, "plain sibling", latency=Latency(1e-6, 3e-6))})
        assert (bounds.tightest(incast).latency is not None) is carries


def test_latency_lies_between_that_of_less_and_of_more_traffic() -> None:
    bounds = Bounds(lambda _workload: LINE, Calibration(), SPACE)
    workload = Workload(messages=(4096,), offered_bps=10**10)
    for size, load, p99 in ((1024, 1, 2e-6), (4096, 5, 4e-6), (16384, 40, 9e-6), (65536, 160, 30e-6)):
        plain = workload.with_(messages=(size,), offered_bps=load * 10**9)
        run = Bound(load * 1e9, 1e6, "plain sibling", latency=Latency(p99 / 2, p99))
        bounds.learn(bounds.sibling(plain), {"b": run})
    low, high = bounds.latency_bracket(workload)
    assert low is not None
    assert high is not None
    assert (low.latency, high.latency) == (Latency(2e-6, 4e-6), Latency(4.5e-6, 9e-6))
    assert low.bps == high.bps == 1e10
    assert bounds.latency_bracket(workload.with_(wqe_batch=8))[1] is None  # others posted one at a time


def test_full_send_queues_do_not_bracket_the_latency_of_a_load() -> None:
    bounds = Bounds(lambda _workload: LINE, Calibration(), SPACE)
    workload = Workload(messages=(65536,), offered_bps=10**10)
    full = bounds.sibling(workload.with_(messages=(4096,), offered_bps=0))
    bounds.learn(full, {"b": Bound(5e9, 1e6, "plain sibling", latency=Latency(1e-3, 2e-3))})
    assert bounds.latency_bracket(workload) == (None, None)


def test_traffic_with_another_batch_or_load_does_not_bracket_throughput_at_an_offered_load() -> None:
    """A batch takes fewer doorbells, so it can be faster with less in flight."""
    bounds = Bounds(lambda _workload: LINE, Calibration(), SPACE)
    workload = Workload(messages=(128,), offered_bps=40 * 10**9)
    for changes in ({"wqe_batch": 8}, {"offered_bps": 30 * 10**9}):
        sibling = bounds.sibling(workload.with_(messages=(64,), send_wq_depth=16, **changes))
        bounds.learn(sibling, {"b": Bound(35e9, 70e6, "plain sibling")})
    assert bounds.bracket(workload) == (None, None)
    bounds.learn(bounds.sibling(workload.with_(messages=(64,))), {"b": Bound(8e9, 16e6, "plain sibling")})
    assert bounds.bracket(workload)[0] is not None


def test_a_sibling_keeps_what_its_space_says() -> None:
    space = load_space("soft-roce")
    workload = space.base.with_(direction=Direction.BIDIRECTIONAL, loopback=True, sge_count=4)
    sibling = plain_sibling(workload, space)
    assert (sibling.direction, sibling.loopback, sibling.sge_count) == (Direction.BIDIRECTIONAL, True, 1)


def test_bounds_tighten_when_siblings_are_known() -> None:
    bounds = Bounds(lambda _workload: LINE, Calibration(), SPACE)
    workload = Workload(send_wq_depth=1, messages=(64,))
    assert bounds.tightest(workload) == LINE
    for bps in (1e9, 3e9, 2e9):
        bounds.learn(bounds.sibling(workload), {"b": Bound(bps, 1e6, "plain sibling")})
    assert bounds.known(workload)
    assert bounds.tightest(workload).bps == 2e9


def test_relatives_bracket_a_bound_as_tightly_as_they_can() -> None:
    """Fewer bytes in flight bound from below, so the fastest counts. More bound from above, so the slowest does."""
    bounds = Bounds(lambda _workload: LINE, Calibration(), SPACE)
    workload = Workload(qps=8, send_wq_depth=16, messages=(4096,))
    for depth, bps in ((2, 10e9), (4, 30e9), (8, 20e9), (32, 60e9), (64, 50e9), (128, 80e9)):
        bounds.learn(bounds.sibling(replace(workload, send_wq_depth=depth)), {"b": Bound(bps, 1e6, "plain sibling")})
    fewer, more = bounds.bracket(workload)
    assert fewer is not None
    assert more is not None
    assert (fewer.bps, more.bps) == (30e9, 50e9)


@pytest.mark.parametrize(("size", "below", "above"), [(1024, 20e9, 80e9), (65536, None, 20e9)])
def test_shorter_messages_bound_from_both_sides_and_longer_ones_from_above(
    size: int, below: float | None, above: float
) -> None:
    """A message four times as long carries no less, and takes no less time: at most four times as much."""
    bounds = Bounds(lambda _workload: LINE, Calibration(), SPACE)
    workload = Workload(qps=8, send_wq_depth=16, messages=(4096,))
    for depth in (1, 512):  # fewer and more bytes in flight than the workload
        other = Workload(qps=8, send_wq_depth=depth, messages=(size,))
        bounds.learn(bounds.sibling(other), {"b": Bound(20e9, 1e6, "plain sibling")})
    fewer, more = bounds.bracket(workload)
    assert (fewer and fewer.bps, more and more.bps) == (below, above)


def test_a_sibling_never_raises_the_bound_above_the_specification() -> None:
    bounds = Bounds(lambda _workload: LINE, Calibration(), SPACE)
    bounds.learn(bounds.sibling(ONE_WAY), {"b": Bound(120e9, 20e6, "plain sibling")})
    assert bounds.tightest(ONE_WAY).bps == LINE.bps


def test_calibration_adds_the_costs_of_a_mix() -> None:
    def point(size: int, seconds: float) -> CalibrationPoint:
        return CalibrationPoint(QpType.RC, Opcode.WRITE, size, size * 8 / seconds)

    calibration = Calibration((point(1000, 1e-3), point(11000, 2e-3)))
    bound = calibration.bound(Workload(messages=(1000, 6000), mr_bytes=65536))
    assert bound is not None
    assert bound.bps == pytest.approx(7000 * 8 / 2.5e-3)
    assert bound.source == "calibration"
    beyond = calibration.bound(Workload(messages=(21000,)))
    assert beyond is not None
    assert beyond.bps == pytest.approx(21000 * 8 / 3e-3)
    below = calibration.bound(Workload(messages=(10,)))
    assert below is not None
    assert below.bps == pytest.approx(10 * 8 / 1e-3)
    assert calibration.bound(Workload(qp_type=QpType.UC)) is None


def test_the_cost_of_the_longest_messages_grows_with_the_slope_between_the_two_largest_sizes() -> None:
    costs = ((1000, 1e-3), (2000, 1e-3), (3000, 3e-3))
    points = (CalibrationPoint(QpType.RC, Opcode.WRITE, size, size * 8 / seconds) for size, seconds in costs)
    bound = Calibration(tuple(points)).bound(Workload(messages=(4000,)))
    assert bound is not None
    assert bound.bps == pytest.approx(4000 * 8 / 5e-3)


def test_a_calibration_is_as_repeatable_as_the_worst_of_its_points() -> None:
    """That of another opcode says nothing."""
    spreads = ((Opcode.WRITE, 1024, 0.02), (Opcode.WRITE, 65536, 0.07), (Opcode.READ, 1024, 0.3))
    points = (CalibrationPoint(QpType.RC, opcode, size, 90e9, spread) for opcode, size, spread in spreads)
    bound = Calibration(tuple(points)).bound(ONE_WAY)
    assert bound is not None
    assert bound.name == "calibration (repeats within 7%)"


def test_a_verdict_says_which_bound_decided() -> None:
    point = CalibrationPoint(QpType.RC, Opcode.WRITE, 65536, 90e9, spread=0.07)
    bounds = Bounds(lambda _workload: LINE, Calibration((point,), "2026-11-21"), SPACE)
    assert (
        "the calibration (2026-11-21, repeats within 7%) gives 90 Gbit/s"
        in verdict(measurement(), bounds.tightest(ONE_WAY)).reason
    )
    slower = Bounds(lambda _workload: Bound(50e9, 10e6, "specification"), Calibration((point,)), SPACE)
    assert "is expected by the specification" in verdict(measurement(), slower.tightest(ONE_WAY)).reason


def test_without_any_ceiling_everything_has_to_be_compared_with_its_sibling() -> None:
    assert verdict(measurement(), UNBOUNDED).symptom is Symptom.LOW_THROUGHPUT


def test_a_mix_of_opcodes_costs_the_sum_of_its_messages() -> None:
    write = CalibrationPoint(QpType.RC, Opcode.WRITE, 1000, 8e6)  # 1 ms
    read = CalibrationPoint(QpType.RC, Opcode.READ, 1000, 2e6)  # 4 ms
    mix = Workload(opcode=Opcode.WRITE, more_opcodes=(Opcode.READ,), messages=(1000,))
    bound = Calibration((write, read)).bound(mix)
    assert bound is not None
    assert bound.bps == pytest.approx(8 * 1000 / 0.005)  # each way
    assert Calibration((write,)).bound(mix) is None


def test_a_host_that_receives_less_by_plan_is_judged_by_its_share() -> None:
    mix = Workload(opcode=Opcode.WRITE, more_opcodes=(Opcode.READ,), messages=(3000, 1000), mtu=1024)
    bound = Bound(90e6, 1e9, "plain sibling")
    assert at_sink(mix, "b", bound).bps == 90e6
    answered = Workload(opcode=Opcode.WRITE, more_opcodes=(Opcode.READ,), messages=(1000, 3000), direction=TWO_WAYS)
    assert at_sink(answered, "a", bound).bps == at_sink(answered, "b", bound).bps == 90e6  # the larger stream of each
    assert at_sink(mix, "a", bound) == Bound(30e6, 30e6 / 8 / 1000, "plain sibling")
    hosts = (HostMeasurement("a", 28e6, 3500.0, 0.0, 0.0), HostMeasurement("b", 88e6, 11000.0, 0.0, 0.0))
    assert judge(mix, Measurement(hosts, 4.0), bound, Thresholds()).is_normal


def test_a_plain_sibling_keeps_the_mix_of_opcodes() -> None:
    mix = Workload(opcode=Opcode.SEND, more_opcodes=(Opcode.READ,), qps=64, signal_every=4)
    sibling = plain_sibling(mix, load_space("soft-roce"))
    assert (sibling.opcodes, sibling.signal_every) == (mix.opcodes, 1)


READ = SPACE.base.with_(opcode=Opcode.READ)


def reading(bps: float, host: str = "b") -> dict[str, Bound]:
    return {host: Bound(bps, bps / 8 / 4096, "plain sibling")}


def lined() -> Bounds:
    return Bounds(lambda _workload: LINE, Calibration(), SPACE)


def test_a_distrusted_sibling_bounds_nothing() -> None:
    bounds = lined()
    short = SPACE.base.with_(messages=(1024,))
    bounds.distrust(short)
    bounds.learn(short, reading(20e9))  # a sound run in between proves nothing
    assert not bounds.known(short)
    assert bounds.settled(short)
    assert bounds.bracket(short) == (None, None)
    assert not bounds.settled(SPACE.base)


def test_relatives_bound_in_place_of_a_distrusted_sibling() -> None:
    bounds = lined()
    middle = SPACE.base.with_(messages=(1024,))
    bounds.distrust(middle)
    bounds.learn(SPACE.base.with_(messages=(512,)), reading(20e9))
    bounds.learn(SPACE.base.with_(messages=(2048,)), reading(60e9))
    fewer, more = bounds.bracket(middle)
    assert fewer is not None
    assert math.isclose(fewer.bps, 36e9)  # as long as 512 B and 2 KiB on average
    assert more is not None
    assert math.isclose(more.bps, 40e9)  # no less time than 512 B


def test_only_plain_traffic_below_the_specification_is_compared() -> None:
    bounds = lined()
    bounds.learn(READ, reading(0.79 * LINE.bps, "a"))
    bounds.learn(READ.with_(messages=(1024,)), reading(0.1 * LINE.bps, "a"))
    others = bounds.relatives(READ, 0.2)
    assert set(others) == {
        SPACE.base,
        SPACE.base.with_(opcode=Opcode.SEND),
        SPACE.base.with_(qp_type=QpType.UC),
        SPACE.base.with_(qp_type=QpType.UC, opcode=Opcode.SEND),
    }
    assert bounds.relatives(READ, 0.22) == ()
    assert bounds.relatives(READ.with_(messages=(1024,)), 0.2) == ()  # short messages may cost more than their bytes
    unbounded = Bounds(lambda _workload: UNBOUNDED, Calibration(), SPACE)
    unbounded.learn(READ, reading(1e9, "a"))
    assert unbounded.relatives(READ, 0.2) == ()
    no_space = Bounds(lambda _workload: LINE, Calibration(), bounds.sibling)
    no_space.learn(READ, reading(1e9, "a"))
    assert no_space.relatives(READ, 0.2) == ()


def test_a_plain_workload_reaches_what_is_specified_less_the_deficit() -> None:
    bounds = lined()
    assert not bounds.reaches(SPACE.base, 0.2)  # not measured
    bounds.learn(SPACE.base, reading(0.81 * LINE.bps))
    assert bounds.reaches(SPACE.base, 0.2)
    assert not bounds.reaches(SPACE.base, 0.18)
    exactly = lined()
    exactly.learn(SPACE.base, reading(0.5 * LINE.bps))
    assert exactly.reaches(SPACE.base, 0.5), "it lacks no more than the deficit"


@pytest.mark.parametrize(
    ("workload", "deep"),
    [
        (READ, True),
        (READ.with_(sge_count=4, qps=64), True),
        (READ.with_(messages=(1 << 20,), mr_bytes=1 << 20), True),
        (READ.with_(qps=4), False),
        (READ.with_(send_wq_depth=64), False),
        (READ.with_(messages=(32768, 1 << 20), mr_bytes=1 << 20), False),
    ],
)
def test_outpaced_traffic_is_bounded_by_the_specification_only_where_it_must_reach_it(
    workload: Workload, deep: bool
) -> None:
    bounds = lined()
    bounds.learn(READ, reading(50e9, "a"))
    bounds.outpace(READ, SPACE.base)
    assert bounds.is_outpaced(workload)
    assert bounds.known(workload) is deep
    assert bounds.tightest(workload).bps == LINE.bps
    if deep:
        assert bounds.tightest(workload).name == "specification (plain RC WRITE reaches it)"
    assert not bounds.is_outpaced(SPACE.base)


def test_an_outpaced_sibling_bounds_from_below_only() -> None:
    bounds = lined()
    bounds.learn(READ, reading(50e9, "a"))
    bounds.outpace(READ, SPACE.base)
    assert bounds.bracket(READ.with_(send_wq_depth=64)) == (None, None)
    fewer, more = bounds.bracket(READ.with_(send_wq_depth=256))
    assert fewer is not None
    assert fewer.bps == 50e9
    assert more is None


def test_plain_traffic_is_not_its_own_calibration() -> None:
    calibration = Calibration(tuple(CalibrationPoint(QpType.RC, Opcode.READ, size, 50e9) for size in (4096, 65536)))
    bounds = Bounds(lambda _workload: LINE, calibration, SPACE)
    short = READ.with_(messages=(4096,))
    assert bounds.ceiling(READ).source == "specification"
    assert bounds.ceiling(short).bps == 50e9
    bounds.outpace(READ, SPACE.base)
    assert bounds.ceiling(short).source == "specification"
    unbounded = Bounds(lambda _workload: UNBOUNDED, calibration, SPACE)
    assert unbounded.ceiling(READ).bps == 50e9


def test_a_sibling_of_more_queue_pairs_says_nothing_of_one_queue_pair() -> None:
    """A queue pair has a rate of its own, however many bytes it has in flight."""
    one = SPACE.base.with_(qps=1, send_wq_depth=4096, messages=(1024,))
    many = one.with_(qps=16, send_wq_depth=16)
    bounds = Bounds(lambda _workload: Bound(200e9, 1e9, "specification"), Calibration(), SPACE)
    bounds.learn(bounds.sibling(many), {"b": at_own_mtu(many, 135e9, "plain sibling")})
    assert bounds.sibling(many).bytes_outstanding < bounds.sibling(one).bytes_outstanding
    assert bounds.bracket(one) == (None, None)
    deeper = many.with_(send_wq_depth=64)
    below, above = bounds.bracket(deeper)
    assert below is not None
    assert math.isclose(below.bps, 135e9)
    assert above is None
