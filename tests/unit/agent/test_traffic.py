"""The traffic loop over fake completion queues: accounting, re-posting, errors."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from collie.agent import totals as t
from collie.agent.pattern import Proof
from collie.agent.queues import BYTES_SHIFT, QUEUE_SHIFT, RECEIVE, SEND_END, Queue
from collie.agent.totals import RunTotals, Totals
from collie.agent.traffic import Traffic


@dataclass
class Completion:
    wr_id: int
    status: int = 0
    byte_len: int = 0
    qp_num: int = 0


class PostFailed(Exception):
    pass


class FakeCq:
    """Gives completions that a test has put in, and a descriptor that is never ready."""

    def __init__(self) -> None:
        self.completions: list[Completion] = []
        self.fd, self._write = os.pipe()
        self.cq = self
        self.channel = self
        self.when_taken: Callable[[], None] = lambda: None

    def poll(self, count: int) -> tuple[int, list[Completion]]:
        taken, self.completions = self.completions[:count], self.completions[count:]
        if not self.completions:
            self.when_taken()
        return len(taken), taken

    def req_notify(self) -> None:
        pass


class FakeTarget:
    """A queue pair that takes every chain."""

    def __init__(self) -> None:
        self.posted: list[str] = []
        self.post_send = self.post_recv = self.posted.append


class AgentPair:
    """One queue under a traffic loop."""

    def __init__(self, *, sends: bool, limit: int = 2, batch: int = 1, shared: bool = False) -> None:
        self.totals = Totals({"a-b/requester": 2})
        self.read = RunTotals([self.totals])
        self.layout = self.totals.ends[0]
        target = FakeTarget()
        self.posted = target.posted
        self.queue = Queue(sends, self.layout.base, self.layout.first_qp, target)
        self.queue.generation = 0
        self.queue.limit, self.queue.batch, self.queue.shared = limit, batch, shared
        self.queue.messages_per_signal = batch if sends else 1
        self.queue.chains, self.queue.chain_bytes = ["one", "two", "three"], [100, 200, 300]
        self.cq = FakeCq()
        pair_words = {11: self.layout.first_qp, 12: self.layout.first_qp + 1}
        control, _ = os.pipe()
        cqs: Any = [self.cq]
        self.traffic = Traffic(PostFailed, 1, cqs, self.totals.words, pair_words, control)
        if sends:
            self.traffic.admit({0: self.queue})

    def interrupt(self) -> None:
        self.totals.words[t.ATTENTION] = 1

    def complete(self, *completions: Completion) -> dict[str, Any]:
        self.cq.completions += completions
        self.totals.words[t.ATTENTION] = 0
        self.cq.when_taken = self.interrupt
        self.traffic.serve()
        return self.read.end(self.layout.key)


def sent(bytes_proved: int, status: int = 0) -> Completion:
    return Completion(bytes_proved << BYTES_SHIFT | 0 << QUEUE_SHIFT | SEND_END, status)


def received(byte_len: int, status: int = 0, qp_num: int = 11) -> Completion:
    return Completion(0 << QUEUE_SHIFT | RECEIVE, status, byte_len, qp_num)


def test_chains_are_posted_in_turn_as_they_complete() -> None:
    bench = AgentPair(sends=True)
    bench.traffic.begin()
    assert bench.posted == ["one", "two"]
    end = bench.complete(sent(100))
    assert bench.posted == ["one", "two", "three"]
    assert (end["posted_bytes"], end["completed_messages"], end["delivered_bytes"]) == (600, 1, 100)
    bench.complete(sent(200))
    assert bench.posted[-1] == "one"


def test_a_chain_counts_all_its_messages() -> None:
    bench = AgentPair(sends=True, batch=16)
    bench.traffic.begin()
    assert bench.complete(sent(1600))["completed_messages"] == 16


def test_a_queue_that_ran_empty_is_noticed() -> None:
    bench = AgentPair(sends=True)
    bench.traffic.begin()
    bench.complete(sent(100))
    assert bench.read.health()["queue_empty"] == 0
    bench.complete(sent(100), sent(100))
    assert bench.read.health()["queue_empty"] == 1


def test_nothing_is_posted_after_sending_has_stopped() -> None:
    bench = AgentPair(sends=True)
    bench.traffic.begin()
    bench.traffic.sending = False
    bench.complete(sent(100), sent(200))
    assert bench.posted == ["one", "two"]
    assert bench.traffic.outstanding() == 0


def test_an_error_ends_the_queue_pair_and_is_named_once() -> None:
    bench = AgentPair(sends=True)
    bench.traffic.begin()
    end = bench.complete(sent(100, status=13), sent(200, status=5))
    assert bench.read.health()["errors"] == {"RNR retry exceeded": 1}
    assert bench.read.health()["flushed"] == 1
    assert end["failed_qps"] == 1
    assert end["completed_messages"] == 0
    assert bench.traffic.outstanding() == 0


def test_a_post_that_fails_ends_the_queue_pair(capsys: pytest.CaptureFixture[str]) -> None:
    bench = AgentPair(sends=True)

    def refuse(chain: str) -> None:
        raise PostFailed("no room")

    bench.queue.post = refuse
    bench.traffic.begin()
    assert bench.read.health()["post_errors"] == 1
    assert bench.read.end(bench.layout.key)["failed_qps"] == 1
    assert "no room" in capsys.readouterr().err


def test_receives_are_posted_again_by_whole_chains() -> None:
    bench = AgentPair(sends=False, limit=2, batch=2)
    bench.queue.overhead = 40
    bench.traffic.admit({0: bench.queue})
    assert bench.posted == ["one", "two"]
    end = bench.complete(received(140), received(140), received(140))
    assert bench.posted == ["one", "two", "three"]
    assert (end["delivered_messages"], end["delivered_bytes"]) == (3, 300)


def test_a_shared_receive_queue_outlives_one_of_its_queue_pairs() -> None:
    bench = AgentPair(sends=False, shared=True)
    bench.traffic.admit({0: bench.queue})
    end = bench.complete(received(0, status=5, qp_num=12), received(0, status=5, qp_num=12), received(64, qp_num=11))
    assert end["failed_qps"] == 1
    assert end["delivered_messages"] == 1
    assert end["qp_messages"] == {"min": 0, "mean": 0.5, "max": 1}
    assert len(bench.posted) == 3


def test_a_waiting_command_interrupts_traffic() -> None:
    bench = AgentPair(sends=True)
    bench.totals.words[t.ATTENTION] = 1
    bench.traffic.serve()
    assert bench.read.health()["iterations"] == 0


def test_a_round_of_several_posts_frees_its_slots_together() -> None:
    bench = AgentPair(sends=True, limit=1)
    bench.queue.posts = bench.queue.messages_per_signal = 3
    bench.traffic.begin()
    assert bench.posted == ["one", "two", "three"]
    end = bench.complete(sent(600))
    assert bench.posted == ["one", "two", "three"] * 2
    assert (end["posted_messages"], end["completed_messages"], end["delivered_bytes"]) == (6, 3, 600)


def test_payload_both_ways_is_counted_apart_in_the_order_of_posting() -> None:
    bench = AgentPair(sends=True, batch=3, limit=3)
    bench.queue.returns = [Proof(1, 8), Proof(2, 4096)]
    bench.traffic.begin()
    end = bench.complete(sent(100), sent(50), sent(100))
    assert (end["delivered_messages"], end["delivered_bytes"]) == (2 + 1 + 2, 250)
    assert (end["returned_messages"], end["returned_bytes"]) == (1 + 2 + 1, 8 + 4096 + 8)
    assert end["completed_messages"] == 9
