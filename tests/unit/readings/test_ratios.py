"""Loss, pause, RNR and repetition as ratios."""

from __future__ import annotations

import pytest

from collie.counters.catalog import Catalog, Counter, CounterKind, Role, Unit
from collie.readings.recording import Recording
from collie.readings.window import measurement
from collie.workloads.workload import Opcode, QpType, Workload
from tests.support.recorded_runs import BEGAN, POLICY, Bytes, at, b_with, believed, host, measure, steady


def test_pause_is_the_largest_share_of_time_over_the_priorities() -> None:
    measured = b_with({"ethtool": {"pause_0": steady(1000), "pause_3": steady(20_000)}})
    assert measured.host("b").tx_pause_ratio == pytest.approx(0.02, rel=0.01)
    assert measured.host("a").tx_pause_ratio is None


def test_loss_is_a_share_of_the_packets_received() -> None:
    measured = b_with({"hw_counters": {"rx": steady(1000), "lost": steady(10)}})
    assert measured.host("b").loss_ratio == pytest.approx(0.01, rel=0.1)


def test_messages_turned_away_are_a_share_of_those_that_arrive() -> None:
    naks: dict[str, dict[str, Bytes | None]] = {"hw_counters": {"naks": steady(500), "rx": steady(2000)}}
    a = host(50.0, {"a-b/requester": None})
    b = host(9000.0, {"a-b/responder": steady(1000 * 64)}, counters=naks)
    sends = Workload(opcode=Opcode.SEND, messages=(64,))
    assert measure(sends, a, b).host("b").rnr_ratio == pytest.approx(1 / 3, rel=0.01)
    assert measure(sends, a, b).host("a").rnr_ratio is None
    for needs_no_receive in (sends.with_(opcode=Opcode.WRITE), sends.with_(qp_type=QpType.UC)):
        assert measure(needs_no_receive, a, b).host("b").rnr_ratio is None


def test_where_nothing_arrives_nothing_is_turned_away() -> None:
    a = host(50.0, {"a-b/requester": None})
    b = host(9000.0, {"a-b/responder": steady(0)}, counters={"hw_counters": {"naks": steady(0)}})
    assert measure(Workload(opcode=Opcode.SEND), a, b).host("b").rnr_ratio == 0.0


def test_packets_that_come_again_are_a_share_of_those_received() -> None:
    measured = b_with({"hw_counters": {"rx": steady(1000), "again": steady(40)}})
    assert measured.host("b").repeat_ratio == pytest.approx(0.04, rel=0.05)
    assert measured.host("a").repeat_ratio is None


def test_receives_that_ran_out_excuse_what_came_out_of_sequence_but_no_drops() -> None:
    hardware: dict[str, Bytes | None] = {"rx": steady(1000), "lost": steady(50), "rnr": steady(60)}
    measured = believed({}, {"hw_counters": hardware, "ethtool": {"dropped": steady(30)}})
    assert measured.host("b").loss_ratio == pytest.approx(0.03, rel=0.01)


def test_loss_is_unknown_while_a_counter_that_is_there_cannot_be_read() -> None:
    hardware: dict[str, Bytes | None] = {"rx": steady(1000), "lost": steady(50)}
    assert believed({}, {"hw_counters": hardware, "ethtool": {"dropped": None}}).host("b").loss_ratio is None
    assert believed({}, {"hw_counters": hardware}).host("b").loss_ratio == pytest.approx(0.05, rel=0.01)


def test_pause_frames_are_reported_where_pause_has_no_duration() -> None:
    measured = believed({}, {"ethtool": {"xoff": steady(40)}})
    assert measured.host("b").tx_pause_ratio is None
    assert measured.host("b").tx_pause_frames == pytest.approx(40, rel=0.05)
    assert measured.host("a").tx_pause_frames is None


def test_no_host_pauses_for_more_than_all_the_time() -> None:
    assert believed({}, {"ethtool": {"pause_3": steady(1.2e6)}}).host("b").tx_pause_ratio == 1.0


WAIT = Counter(
    "wait", "counters", Unit.BYTES, CounterKind.PAUSE, "credits", scale=8, role=Role.XMIT_WAIT, link_layer="InfiniBand"
)


def test_a_sender_that_waits_for_credits_is_paused_by_its_receiver() -> None:
    catalog = Catalog("ib", (WAIT,)).on_link("InfiniBand", 8e9)  # 1 GB/s: a tick of 8 bytes is 8 ns
    measured = believed({"counters": {"wait": steady(25e6)}}, {"counters": {"wait": at(0)}}, catalog)
    assert measured.host("b").tx_pause_ratio == pytest.approx(0.2, rel=0.01)
    assert measured.host("a").rx_pause_ratio == pytest.approx(0.2, rel=0.01)
    assert measured.host("a").tx_pause_ratio is None  # nobody sends to it
    assert measured.host("b").rx_pause_ratio == 0.0


@pytest.mark.parametrize(("of_a", "of_c"), [(25e6, 5e6), (5e6, 25e6)])
def test_a_receiver_pauses_for_as_long_as_the_sender_that_waits_most(of_a: float, of_c: float) -> None:
    samples = {
        "a": host(50.0, {"a-b/requester": steady(1e6)}, counters={"counters": {"wait": steady(of_a)}}),
        "b": host(9000.0, {"a-b/responder": None, "c-b/responder": None}, counters={"counters": {"wait": at(0)}}),
        "c": host(70.0, {"c-b/requester": steady(1e6)}, counters={"counters": {"wait": steady(of_c)}}),
    }
    catalog = Catalog("ib", (WAIT,)).on_link("InfiniBand", 8e9)
    measured = measurement(Workload(requesters=2), Recording(samples, BEGAN), catalog, POLICY)
    assert measured.host("b").tx_pause_ratio == pytest.approx(0.2, rel=0.01)


def test_ethernet_has_no_credits() -> None:
    catalog = Catalog("ib", (WAIT,)).on_link("Ethernet", 8e9)
    measured = believed({"counters": {"wait": steady(25e6)}}, {}, catalog)
    assert measured.host("b").tx_pause_ratio is None
    assert measured.host("a").rx_pause_ratio is None
