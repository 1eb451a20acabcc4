"""The loop in C offers a load and times rounds, over a libibverbs that delivers within the process.

No test asserts that something was fast. Loads and latencies have one safe side each: a loop that lags posts less than
is offered, and its rounds take longer.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from ctypes import CDLL
from pathlib import Path
from typing import Any

import pytest

from collie.agent.paths import DataPath
from collie.agent.resources import ECHOES
from tests.support.data_paths import STAMPING, Loopback, native_path

BYTES = 1000
"""Of a message. At 8 Mbit/s a flow posts one of them each millisecond."""


@pytest.fixture(params=[0, STAMPING], ids=["plain", "stamped"])
def path(request: pytest.FixtureRequest, libibverbs: Path) -> Iterator[DataPath]:
    with native_path(str(libibverbs), request.param) as native:
        yield native


def timed(loop: Loopback) -> list[list[int]]:
    """Return the histogram of the requester's latencies."""
    found: list[list[int]] = loop.read.times("a-a/requester", time.monotonic_ns())["latencies"]
    return found


def count(histogram: list[list[int]], at_least: float = 0.0) -> int:
    return sum(number for shortest, number in histogram if shortest >= at_least * 1e9)


@pytest.mark.parametrize(
    "workload",
    [
        {"opcode": "WRITE", "messages": [BYTES]},
        {"opcode": "READ", "messages": [BYTES], "max_rd_atomic": 4, "max_dest_rd_atomic": 4},
        {"opcode": "SEND", "messages": [BYTES, 10], "qp_type": "UD"},
        {"opcode": "WRITE", "messages": [64, BYTES, 2000], "wqe_batch": 4, "signal_every": 2},
        {"opcode": "WRITE", "messages": [64, BYTES], "qps": 7, "mrs_per_qp": 3, "sq_sig_all": True},
    ],
)
def test_a_load_is_offered_evenly_and_no_faster(path: DataPath, fake: CDLL, workload: dict[str, Any]) -> None:
    bps = 8_000_000
    began = time.monotonic()
    loop = Loopback(path, offered_bps=bps, **workload)
    loop.serve(lambda: loop.requester["posted_messages"] >= 150)
    elapsed, sent, parts = time.monotonic() - began, loop.requester, loop.resources.ends[0].workload
    requests = parts.wqe_batch * parts.signal_every
    largest_round = requests * parts.largest_message
    # Each queue pair has posted its first round at most one period before its bytes were due.
    assert sent["posted_bytes"] <= bps / 8 * elapsed + parts.qps * largest_round
    assert loop.traffic.drain(10.0)
    sent = loop.requester
    assert sent["posted_messages"] == sent["completed_messages"]
    assert sent["qp_messages"]["max"] - sent["qp_messages"]["min"] <= requests
    loop.close()


def test_a_round_that_is_due_in_centuries_is_not_posted_at_once(path: DataPath, fake: CDLL) -> None:
    """At 1 bit/s, 64 MiB of each of 32 queue pairs take 545 years. 64 bits of nanoseconds hold 292."""
    loop = Loopback(path, opcode="WRITE", messages=[1 << 20], qps=32, send_wq_depth=128, wqe_batch=64, offered_bps=1)
    loop.serve(lambda: loop.requester["completed_messages"] >= 64)
    begin = time.monotonic()
    loop.serve(lambda: time.monotonic() > begin + 0.1)
    assert loop.requester["posted_messages"] == 64, "the first queue pair posts its first round, and none follows"
    loop.close()


def test_queue_pairs_take_turns(path: DataPath, fake: CDLL) -> None:
    """Queue pairs that post at the same moment would offer bursts."""
    loop = Loopback(path, opcode="WRITE", messages=[BYTES], qps=8, offered_bps=800_000)
    seen: set[int] = set()

    def until() -> bool:
        posted: int = loop.requester["posted_messages"]
        seen.add(posted)
        return posted >= 24

    loop.serve(until)
    assert len(seen) > 3, "the first look may come late, but not each of the others"
    loop.close()


def test_latency_counts_from_when_a_round_was_due(path: DataPath, fake: CDLL) -> None:
    """A device that stands still delays all rounds that are due meanwhile, not only those that the queue holds."""
    depth = 4
    loop = Loopback(path, opcode="WRITE", messages=[BYTES], qps=1, send_wq_depth=depth, offered_bps=8_000_000)
    loop.serve(lambda: count(timed(loop)) > 0)
    fake.fake_hold(1)
    begin = time.monotonic()
    loop.serve(lambda: time.monotonic() > begin + 0.2)
    assert loop.requester["posted_messages"] <= loop.requester["completed_messages"] + depth
    fake.fake_hold(0)
    before = loop.requester["posted_messages"]
    loop.serve(lambda: loop.requester["posted_messages"] >= before + 200)
    assert loop.traffic.drain(10.0)
    # In the first 100 ms of 200 ms, 100 rounds were due, and at most `every` of them is one not timed.
    assert count(timed(loop), at_least=0.09) >= 90
    loop.close()


def test_without_a_load_latency_counts_from_the_post(path: DataPath, fake: CDLL) -> None:
    depth = 4
    loop = Loopback(path, opcode="WRITE", messages=[BYTES], qps=1, send_wq_depth=depth)
    loop.serve(lambda: count(timed(loop)) > 0)
    fake.fake_hold(1)
    begin = time.monotonic()
    loop.serve(lambda: time.monotonic() > begin + 0.2)
    fake.fake_hold(0)
    before = loop.requester["posted_messages"]
    loop.serve(lambda: loop.requester["posted_messages"] >= before + 1000)
    assert 0 <= count(timed(loop), at_least=0.19) <= depth
    loop.close()


def test_every_round_of_a_slow_flow_is_timed(path: DataPath, fake: CDLL) -> None:
    loop = Loopback(path, opcode="WRITE", messages=[BYTES], qps=3, offered_bps=8_000_000)
    loop.serve(lambda: loop.requester["posted_messages"] >= 300)
    assert loop.traffic.drain(10.0)
    # A queue pair begins with a later round than its neighbour.
    assert loop.requester["posted_messages"] - 6 <= count(timed(loop)) <= loop.requester["posted_messages"]
    loop.close()


def test_few_rounds_of_a_fast_flow_are_timed(path: DataPath, fake: CDLL) -> None:
    loop = Loopback(path, opcode="WRITE", messages=[64, 64, 64, 64, BYTES], qps=2, send_wq_depth=64)
    begin = time.monotonic()
    loop.serve(lambda: time.monotonic() > begin + 0.3)
    first, before = count(timed(loop)), loop.requester["posted_messages"]
    loop.serve(lambda: time.monotonic() > begin + 0.8)
    assert loop.traffic.drain(10.0)
    rounds = loop.requester["posted_messages"] - before
    assert 0 < count(timed(loop)) - first <= rounds
    elapsed = time.monotonic() - begin - 0.3
    if rounds > 50_000:  # a device that is fast enough for it
        assert count(timed(loop)) - first < max(rounds / 30, 3 * 4096 * elapsed)
    loop.close()


ECHOED: dict[str, dict[str, Any]] = {
    "UC SEND": {"qp_type": "UC", "opcode": "SEND"},
    "UC WRITE_WITH_IMM in chains": {"qp_type": "UC", "opcode": "WRITE_WITH_IMM", "wqe_batch": 4, "signal_every": 2},
    "UD SEND": {"qp_type": "UD", "opcode": "SEND", "messages": [BYTES, 10]},
    "UD SEND_WITH_IMM": {"qp_type": "UD", "opcode": "SEND_WITH_IMM", "sq_sig_all": True},
    "UD SEND, one receive queue for all": {"qp_type": "UD", "opcode": "SEND", "srq": True},
}


@pytest.mark.parametrize("workload", ECHOED.values(), ids=ECHOED)
def test_echoes_time_what_no_completion_proves(path: DataPath, fake: CDLL, workload: dict[str, Any]) -> None:
    loop = Loopback(path, offered_bps=800_000, **{"messages": [BYTES], **workload})
    rounds = loop.resources.ends[0].workload
    loop.serve(lambda: count(timed(loop)) >= 20)
    assert loop.traffic.drain(10.0)
    sent, got, health = loop.requester, loop.responder, loop.read.health()
    in_round = rounds.wqe_batch * rounds.signal_every
    assert count(timed(loop)) <= sent["posted_messages"] / in_round
    assert sent["posted_messages"] == sent["completed_messages"] == got["delivered_messages"], "echoes count nowhere"
    assert sent["posted_bytes"] == got["delivered_bytes"]
    assert (health["errors"], health["flushed"], health["post_errors"]) == ({}, 0, 0)
    loop.close()


@pytest.mark.parametrize("workload", ECHOED.values(), ids=ECHOED)
def test_an_echo_counts_from_when_its_round_was_due(path: DataPath, fake: CDLL, workload: dict[str, Any]) -> None:
    in_round = workload.get("wqe_batch", 1) * workload.get("signal_every", 1)
    loop = Loopback(path, offered_bps=800_000 * in_round, qps=1, **{"messages": [BYTES], **workload})
    loop.serve(lambda: count(timed(loop)) > 0)
    fake.fake_hold(1)
    begin = time.monotonic()
    loop.serve(lambda: time.monotonic() > begin + 0.3)
    assert count(timed(loop), at_least=0.05) == 0
    fake.fake_hold(0)
    loop.serve(lambda: count(timed(loop), at_least=0.05) > 0)
    loop.close()


def test_only_rounds_that_are_timed_ask_for_an_echo(path: DataPath, fake: CDLL) -> None:
    before = fake.fake_numbered()
    loop = Loopback(path, opcode="SEND", qp_type="UC", qps=2, messages=[BYTES, 10], offered_bps=4_000_000)
    loop.serve(lambda: loop.requester["posted_messages"] >= 500)
    assert loop.traffic.drain(10.0)
    assert fake.fake_numbered() - before == 2 * count(timed(loop)), "each asks once, and has one echo"
    assert count(timed(loop)) < loop.requester["posted_messages"]
    loop.close()


def test_a_fast_flow_asks_for_few_echoes_before_its_rate_is_known(path: DataPath, fake: CDLL) -> None:
    before, begin = fake.fake_numbered(), time.monotonic()
    loop = Loopback(path, opcode="SEND", qp_type="UC", qps=1, messages=[64], send_wq_depth=4, recv_wq_depth=64)
    loop.serve(lambda: loop.requester["posted_messages"] >= 8 * ECHOES)
    earned = loop.requester["posted_messages"] / 1024 + 128 * (time.monotonic() - begin)
    assert 0 < fake.fake_numbered() - before <= 2 * (ECHOES + earned)
    loop.close()


def test_a_round_takes_the_place_of_the_oldest_that_has_no_echo(path: DataPath, fake: CDLL) -> None:
    options: dict[str, Any] = {"messages": [BYTES], "send_wq_depth": 4 * ECHOES, "recv_wq_depth": 4 * ECHOES}
    loop = Loopback(path, opcode="SEND", qp_type="UD", qps=1, offered_bps=800_000, **options)
    loop.serve(lambda: count(timed(loop)) > 0)
    fake.fake_hold(1)
    before = loop.requester["posted_messages"]
    loop.serve(lambda: loop.requester["posted_messages"] >= before + 3 * ECHOES)
    timed_before = count(timed(loop))
    fake.fake_hold(0)
    assert loop.traffic.drain(10.0)
    assert count(timed(loop)) == timed_before + ECHOES
    loop.close()


def test_lost_messages_do_not_end_the_timing(path: DataPath, fake: CDLL) -> None:
    loop = Loopback(path, opcode="SEND", qp_type="UD", qps=2, recv_wq_depth=2)
    loop.serve(lambda: loop.requester["posted_messages"] >= 20_000)
    before = count(timed(loop))
    assert loop.responder["delivered_messages"] < loop.requester["posted_messages"]
    loop.serve(lambda: count(timed(loop)) > before)
    loop.close()


def test_few_rounds_of_a_fast_flow_are_echoed(path: DataPath, fake: CDLL) -> None:
    loop = Loopback(path, opcode="SEND", qp_type="UC", qps=1, messages=[64], send_wq_depth=64, recv_wq_depth=256)
    begin = time.monotonic()
    loop.serve(lambda: time.monotonic() > begin + 0.3)
    first, before = count(timed(loop)), loop.requester["posted_messages"]
    loop.serve(lambda: time.monotonic() > begin + 0.8)
    echoed, posted, elapsed = count(timed(loop)) - first, loop.requester["posted_messages"] - before, 0.5
    assert 0 < echoed <= max(posted / 500, 4 * 128 * elapsed)
    loop.close()


@pytest.mark.parametrize(("workload", "echoes"), [({"opcode": "WRITE"}, True), ({"opcode": "SEND"}, False)])
def test_without_echoes_nothing_of_uc_is_timed(
    path: DataPath, fake: CDLL, workload: dict[str, Any], echoes: bool
) -> None:
    """A WRITE takes no receive, so its responder does not notice it. A peer with another data path sends no echoes."""
    loop = Loopback(path, qp_type="UC", echoes=echoes, **workload)
    loop.serve(lambda: loop.requester["posted_messages"] >= 1000)
    times = loop.read.times("a-a/requester", time.monotonic_ns())
    assert (times["latencies"], times["gaps"]) == ([], [])
    loop.close()


def test_a_device_that_stands_still_leaves_a_gap(path: DataPath, fake: CDLL) -> None:
    loop = Loopback(path, opcode="WRITE")
    loop.serve(lambda: loop.requester["completed_messages"] >= 100)
    fake.fake_hold(1)
    begin = time.monotonic()
    loop.serve(lambda: time.monotonic() > begin + 0.15)
    times = loop.read.times("a-a/requester", time.monotonic_ns())
    assert times["open_gap"] >= 0.15e9
    assert count(times["gaps"], at_least=0.14) == 0
    fake.fake_hold(0)
    before = loop.requester["completed_messages"]
    loop.serve(lambda: loop.requester["completed_messages"] > before + 100)
    gaps = loop.read.times("a-a/requester", time.monotonic_ns())["gaps"]
    assert count(gaps, at_least=0.14) >= 1
    assert loop.traffic.drain(10.0)
    assert loop.read.times("a-a/requester", time.monotonic_ns())["open_gap"] == 0
    loop.close()


def test_time_without_requests_is_no_gap(path: DataPath, fake: CDLL) -> None:
    loop = Loopback(path, opcode="WRITE", messages=[BYTES], qps=1, offered_bps=8 * BYTES * 5)  # one each 200 ms
    loop.serve(lambda: loop.requester["completed_messages"] >= 3)
    gaps = loop.read.times("a-a/requester", time.monotonic_ns())["gaps"]
    assert count(gaps) - count(gaps, at_least=0.19) >= 1, "completions came sooner than the next round"
    loop.close()


def test_a_queue_pair_that_fails_leaves_no_open_gap(path: DataPath, fake: CDLL) -> None:
    loop = Loopback(path, opcode="SEND", qps=2, recv_wq_depth=1, rnr_retry=0, send_wq_depth=8)
    loop.serve(lambda: loop.requester["failed_qps"] == 2)
    assert loop.read.times("a-a/requester", time.monotonic_ns())["open_gap"] == 0
    loop.close()
