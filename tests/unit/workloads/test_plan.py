"""Who sends to whom: the flows of every topology, and what each receiver may expect of a port."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from collie.detect.bounds import Bound, Bounds, Calibration
from collie.detect.judge import judge
from collie.detect.measurement import HostMeasurement, Measurement
from collie.detect.plain import plain_sibling
from collie.detect.thresholds import Thresholds
from collie.workloads.constraint import VERBS
from collie.workloads.dimension import Choice, Ordered
from collie.workloads.plan import flows, hosts, is_peer, shares, sinks
from collie.workloads.space import Space
from collie.workloads.workload import Direction, Opcode, Workload
from tests.support.strategies import workloads

BOTH_WAYS = Direction.BIDIRECTIONAL
SPACE = Space(
    "several",
    {
        "requesters": Ordered("requesters", 1, 3, (1, 2, 3), 1),
        "responders": Ordered("responders", 1, 3, (1, 2, 3), 1),
        "remote": Choice("remote", (True, False), True),
        "loopback": Choice("loopback", (False, True), False),
        "qps": Ordered("qps", 1, 64, (1, 8, 64), 8),
    },
)


def names(workload: Workload) -> list[str]:
    return [flow.name for flow in flows(workload)]


@pytest.mark.parametrize(
    ("workload", "expected"),
    [
        (Workload(), ["a-b"]),
        (Workload(direction=BOTH_WAYS, loopback=True), ["a-b", "b-a", "b-b"]),
        (Workload(loopback=True, opcode=Opcode.READ), ["a-b", "a-a"]),
        (Workload(loopback=True, remote=False), ["a-a"]),
        (Workload(requesters=3), ["a-b", "c-b", "d-b"]),
        (Workload(responders=3), ["a-b", "a-c", "a-d"]),
        (Workload(requesters=2, direction=BOTH_WAYS, loopback=True), ["a-b", "c-b", "b-a", "b-c", "b-b"]),
        (Workload(rails=2), ["a-b", "c-d"]),
        (Workload(rails=3, direction=BOTH_WAYS), ["a-b", "c-d", "e-f", "b-a", "d-c", "f-e"]),
        (Workload(rails=2, loopback=True, opcode=Opcode.READ), ["a-b", "c-d", "a-a", "c-c"]),
    ],
)
def test_flows(workload: Workload, expected: list[str]) -> None:
    assert names(workload) == expected


@given(workloads())
def test_every_host_of_a_plan_has_a_part_and_no_other_host(workload: Workload) -> None:
    legal = all(constraint.check(workload) is None for constraint in VERBS[:2])
    if legal:
        assert {role for flow in flows(workload) for role in (flow.requester, flow.responder)} == set(hosts(workload))
        assert len(set(names(workload))) == len(flows(workload))
        assert set(shares(workload)) == set(sinks(workload)) <= set(hosts(workload))


def test_more_hosts_are_like_the_one_whose_side_they_are_on() -> None:
    assert [is_peer(Workload(requesters=3), role) for role in "abcd"] == [False, True, False, False]
    assert [is_peer(Workload(responders=3), role) for role in "abcd"] == [False, True, True, True]
    assert [is_peer(Workload(rails=2), role) for role in "abcd"] == [False, True, False, True]


@pytest.mark.parametrize(
    "workload",
    [
        Workload(requesters=2, responders=2),
        Workload(remote=False),
        Workload(remote=False, loopback=True, requesters=2),
        Workload(remote=False, loopback=True, direction=BOTH_WAYS),
        Workload(rails=2, requesters=2),
        Workload(rails=2, remote=False, loopback=True),
    ],
)
def test_what_no_plan_can_be(workload: Workload) -> None:
    assert SPACE.violations(workload)


def test_receivers_that_share_a_sender_share_its_port() -> None:
    assert shares(Workload(responders=4)) == dict.fromkeys("bcde", 0.25)
    assert shares(Workload(responders=2, direction=BOTH_WAYS)) == {"b": 0.5, "c": 0.5, "a": 1.0}
    assert shares(Workload(requesters=2, direction=BOTH_WAYS)) == {"b": 1.0, "a": 0.5, "c": 0.5}
    assert shares(Workload(requesters=2, opcode=Opcode.READ)) == {"a": 0.5, "c": 0.5}
    assert shares(Workload(direction=BOTH_WAYS, loopback=True)) == {"b": 1.0, "a": 1.0}
    assert shares(Workload(rails=2)) == {"b": 1.0, "d": 1.0}


def received(**gbps: float) -> Measurement:
    hosts = [HostMeasurement(role, value * 1e9, value * 1e9 / 8 / 4096, 0.0, 0.0) for role, value in gbps.items()]
    return Measurement((HostMeasurement("a", tx_pause_ratio=0.0), *hosts), 1.0)


def test_a_receiver_is_judged_by_its_share_of_what_the_sender_can() -> None:
    workload = Workload(responders=3)
    bounds = Bounds(lambda _: Bound(200e9, 200e6, "specification"), Calibration(), SPACE)
    bounds.learn(bounds.sibling(workload), {"b": Bound(90e9, 90e6, "plain sibling")})
    bound = bounds.tightest(workload)
    assert bound.bps == pytest.approx(90e9)
    fair = judge(workload, received(b=30, c=29, d=31), bound, Thresholds())
    starved = judge(workload, received(b=40, c=40, d=10), bound, Thresholds())
    assert fair.is_normal
    assert (starved.is_anomalous, starved.host) == (True, "d")
    assert starved.severity == pytest.approx(2 / 3)


def test_an_incast_that_collapses_is_judged_by_what_one_sender_gets_through_the_same_port() -> None:
    workload = Workload(requesters=3)
    bounds = Bounds(lambda _: Bound(200e9, 200e6, "specification"), Calibration(), SPACE)
    bounds.learn(bounds.sibling(workload), {"b": Bound(90e9, 90e6, "plain sibling")})
    collapsed = judge(workload, received(b=30), bounds.tightest(workload), Thresholds())
    assert (collapsed.is_anomalous, collapsed.host) == (True, "b")
    assert collapsed.severity == pytest.approx(2 / 3)
    assert judge(workload, received(b=85), bounds.tightest(workload), Thresholds()).is_normal


def test_each_rail_is_judged_by_what_one_alone_delivers() -> None:
    workload = Workload(rails=2)
    bounds = Bounds(lambda _: Bound(200e9, 200e6, "specification"), Calibration(), SPACE)
    assert bounds.sibling(workload).rails == 1
    bounds.learn(bounds.sibling(workload), {"b": Bound(90e9, 90e6, "plain sibling")})
    assert judge(workload, received(b=88, d=90), bounds.tightest(workload), Thresholds()).is_normal
    halved = judge(workload, received(b=90, d=45), bounds.tightest(workload), Thresholds())
    assert (halved.is_anomalous, halved.host) == (True, "d")


def test_a_sibling_has_one_pair_of_ports_with_the_load_of_the_busiest_host() -> None:
    incast = plain_sibling(Workload(requesters=3, qps=4, send_wq_depth=128, offered_bps=10**9), SPACE)
    assert (incast.requesters, incast.responders, incast.rails) == (1, 1, 1)
    assert incast.qps * incast.send_wq_depth == 3 * 4 * 128
    assert incast.offered_bps == 3 * 10**9
    assert not plain_sibling(Workload(loopback=True, remote=False), SPACE).remote


@given(st.randoms(use_true_random=False))
def test_a_space_with_several_hosts_can_be_drawn_from(rng: object) -> None:
    workload = SPACE.sample(rng)  # type: ignore[arg-type]
    assert SPACE.allows(workload)
    assert len(hosts(workload)) <= 4
