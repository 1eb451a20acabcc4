"""A timed round ends when the device completed it, where the device stamps completions, else when the loop polls it.

The fake device lets completions be polled late. What the loop then adds to a latency is far longer than what a busy
test machine adds, so either clock is recognised.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from ctypes import CDLL, c_int64
from pathlib import Path
from typing import Any

import pytest

from collie.agent.resources import End, Resources
from collie.agent.totals import NIC_CLOCK, RunTotals, Totals
from collie.agent.workload import parse_workload
from tests.support.data_paths import GID, STAMPING, Feature, Loopback, native_path, set_clock, set_late

LATE_SECONDS = 0.3
SLOW: dict[str, Any] = {
    "messages": [1000],
    "qps": 1,
    "offered_bps": 400_000,
    "send_wq_depth": 128,
    "recv_wq_depth": 128,
}
"""50 messages a second: each is timed, and the queue has room for all that are polled late."""
REQUESTER = "a-a/requester"


def times(loop: Loopback) -> dict[str, Any]:
    return loop.read.times(REQUESTER, time.monotonic_ns())


def count(loop: Loopback, at_least: float = 0.0) -> int:
    histogram: list[list[int]] = times(loop)["latencies"]
    return sum(number for shortest, number in histogram if shortest >= at_least * 1e9)


def enough(loop: Loopback, rounds: int = 20) -> Callable[[], bool]:
    return lambda: count(loop) >= rounds


def polled_late(path: Any, fake: CDLL, rounds: int = 20, **workload: Any) -> tuple[str, float]:
    """Return the clock that ended the latencies, and the share of these that have all of `LATE_SECONDS` in them."""
    set_late(fake, LATE_SECONDS)
    loop = Loopback(path, **{**SLOW, "opcode": "WRITE", **workload})
    loop.serve(enough(loop, rounds))
    found = times(loop)["latency_clock"], count(loop, at_least=0.9 * LATE_SECONDS) / count(loop)
    assert loop.traffic.drain(10.0)
    loop.close()
    return found


def test_a_round_ends_when_the_device_completed_it_however_late_it_is_polled(libibverbs: Path, fake: CDLL) -> None:
    with native_path(str(libibverbs), STAMPING) as path:
        clock, late = polled_late(path, fake)
        assert clock == "nic"
        assert late < 0.5
    with native_path(str(libibverbs)) as path:
        assert polled_late(path, fake) == ("host", 1.0)


def test_an_echo_ends_when_the_requesters_device_received_it(libibverbs: Path, fake: CDLL) -> None:
    """The responder's loop still has its part in it: it polls the message that it answers."""
    shares = {}
    for features in (STAMPING, 0):
        with native_path(str(libibverbs), features) as path:
            set_late(fake, LATE_SECONDS)
            loop = Loopback(path, opcode="SEND", qp_type="UC", **SLOW)
            loop.serve(enough(loop))
            assert count(loop, at_least=0.9 * LATE_SECONDS) == count(loop)
            shares[times(loop)["latency_clock"]] = count(loop, at_least=1.8 * LATE_SECONDS) / count(loop)
            assert loop.traffic.drain(10.0)
            loop.close()
    assert shares["nic"] < 0.5
    assert shares["host"] == 1.0


@pytest.mark.parametrize("bits", [30, 32, 48, 63, 64])
def test_a_clock_that_wraps_goes_on(libibverbs: Path, fake: CDLL, bits: int) -> None:
    """With 30 bits it wraps each second, so the readings that would measure its rate are too far apart."""
    mask = (1 << bits) - 1
    with native_path(str(libibverbs), STAMPING) as path:
        set_clock(fake, mask=mask, khz=1_000_000, first=mask - int(0.2e9))
        clock, late = polled_late(path, fake, rounds=70)
    assert clock == "nic"
    assert late < 0.5


def test_gaps_are_the_hosts(libibverbs: Path, fake: CDLL) -> None:
    """A stall is what a host sees, and its loop may be what stands still."""
    with native_path(str(libibverbs), STAMPING) as path:
        set_late(fake, LATE_SECONDS)
        loop = Loopback(path, opcode="WRITE", messages=[1000], qps=1, send_wq_depth=1)
        loop.serve(enough(loop, 3))
        assert max(shortest for shortest, _ in times(loop)["gaps"]) >= 0.9 * LATE_SECONDS * 1e9
        loop.close()


WITHOUT: dict[str, dict[str, Any]] = {
    "no extended verbs": {"features": 0},
    "another context": {"features": STAMPING | Feature.NOT_EXTENDED},
    "an earlier library": {"features": STAMPING | Feature.OLD},
    "no create_cq_ex": {"features": Feature.STAMPS | Feature.CLOCK},
    "no query_rt_values": {"features": Feature.STAMPS | Feature.EXTENDED_CQ},
    "no mask": {"features": Feature.CLOCK | Feature.EXTENDED_CQ},
    "a mask of no bits": {"features": STAMPING, "mask": 0},
    "a mask with holes": {"features": STAMPING, "mask": 0xFFFF0FFFFFFF},
    "no frequency": {"features": STAMPING, "khz": 0},
    "a clock that cannot be read": {"features": STAMPING | Feature.CLOCK_FAILS},
    "a clock in seconds": {"features": STAMPING | Feature.CLOCK_IN_SECONDS},
    "create_cq_ex fails": {"features": STAMPING | Feature.CQ_FAILS},
    "create_qp fails": {"features": STAMPING | Feature.QP_FAILS},
}


@pytest.mark.parametrize("device", WITHOUT.values(), ids=WITHOUT)
def test_a_device_that_cannot_stamp_or_be_understood_has_plain_completion_queues(
    libibverbs: Path, fake: CDLL, device: dict[str, Any]
) -> None:
    with native_path(str(libibverbs), device["features"]) as path:
        set_clock(fake, **{name: value for name, value in device.items() if name != "features"})
        loop = Loopback(path, opcode="WRITE", **SLOW)
        assert [cq.clock for cq in loop.resources.cqs] == [None]
        loop.serve(enough(loop, 3))
        assert times(loop)["latency_clock"] == "host"
        loop.close()


@pytest.mark.parametrize("feature", [Feature.OTHER_STAMPS, Feature.OLD_STAMPS])
def test_stamps_that_cannot_be_are_not_used(libibverbs: Path, fake: CDLL, feature: Feature) -> None:
    with native_path(str(libibverbs), STAMPING | feature) as path:
        assert polled_late(path, fake) == ("host", 1.0)


def test_the_rate_of_the_clock_is_measured(libibverbs: Path, fake: CDLL) -> None:
    with native_path(str(libibverbs), STAMPING) as path:
        set_clock(fake, ppm_off=300)
        loop = Loopback(path, opcode="WRITE", **SLOW)
        clock = loop.resources.cqs[0].clock
        loop.serve(lambda: clock.rate != clock.stated)
        assert clock.rate / clock.stated == pytest.approx(1 / (1 + 300e-6), abs=50e-6)
        assert times(loop)["latency_clock"] == "nic"
        loop.close()


@pytest.mark.parametrize("timed", [True, False])
@pytest.mark.parametrize("ppm_off", [-5000, 5000])
def test_a_clock_of_another_rate_than_the_device_says_is_not_used(
    libibverbs: Path, fake: CDLL, ppm_off: float, timed: bool
) -> None:
    """Stamps of timed rounds show it, and readings do so alone: rounds that take long have room for a wrong stamp."""
    with native_path(str(libibverbs), STAMPING) as path:
        set_clock(fake, ppm_off=ppm_off)
        loop = Loopback(path, opcode="WRITE", timed=timed, **SLOW)
        loop.serve(lambda: times(loop)["latency_clock"] == "host")
        reads, posted = fake.fake_clock_reads(), loop.requester["posted_messages"]
        loop.serve(lambda: loop.requester["posted_messages"] >= posted + 10)
        assert fake.fake_clock_reads() == reads, "what is not used is not read"
        loop.close()


def test_a_reading_during_which_the_host_was_busy_is_not_taken(libibverbs: Path, fake: CDLL) -> None:
    with native_path(str(libibverbs), STAMPING) as path:
        loop = Loopback(path, opcode="WRITE", **SLOW)
        clock = loop.resources.cqs[0].clock
        fake.fake_slow_clock(c_int64(20_000_000))
        reads = fake.fake_clock_reads()
        loop.serve(lambda: fake.fake_clock_reads() >= reads + 5)
        assert clock.latest.took < 20_000_000
        assert times(loop)["latency_clock"] == "nic"
        loop.close()


def test_only_where_rounds_begin_are_completions_stamped(libibverbs: Path, fake: CDLL) -> None:
    workload = parse_workload({"qp_type": "RC", "opcode": "WRITE", "messages": [64], "mtu": 1024})
    with native_path(str(libibverbs), STAMPING) as path:
        for role, is_stamped in (("requester", True), ("responder", False)):
            resources = Resources(path.verbs, "fake0", 1, 0, GID)
            resources.create([End(f"a-b/{role}", role, 1, workload)])
            assert [cq.clock is not None for cq in resources.cqs] == [is_stamped]
            resources.quiesce(1.0)
            resources.destroy()


@pytest.mark.parametrize(("words", "clock"), [((1, 1), "nic"), ((1, 0), "host"), ((0, 0), "host")])
def test_the_devices_of_all_processes_must_end_the_rounds_of_a_flow(words: tuple[int, ...], clock: str) -> None:
    parts = [Totals({REQUESTER: 1}) for _ in words]
    for part, word in zip(parts, words, strict=True):
        part.words[NIC_CLOCK] = word
    assert RunTotals(parts).times(REQUESTER, 0)["latency_clock"] == clock


def test_a_phase_begins_with_the_clock_trusted_again(libibverbs: Path, fake: CDLL) -> None:
    with native_path(str(libibverbs), STAMPING) as path:
        loop = Loopback(path, opcode="WRITE", **SLOW)
        loop.serve(enough(loop, 2))
        set_clock(fake, first=1 << 40)  # it is set: what it shows now is no later than what it showed
        loop.serve(lambda: times(loop)["latency_clock"] == "host")
        assert loop.traffic.drain(10.0)
        loop.begin_phase()
        before = count(loop)
        loop.serve(enough(loop, before + 5))
        assert times(loop)["latency_clock"] == "nic"
        loop.close()
