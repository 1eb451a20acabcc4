"""One suite for every data path: the loops in C and in Python, over a libibverbs that delivers within the process."""

from __future__ import annotations

import ctypes
import errno
import itertools
import random
import time
from collections.abc import Callable
from ctypes import CDLL
from pathlib import Path
from typing import Any

import pytest

from collie.agent.faults import AgentFault
from collie.agent.objects import Buffers, CompletionQueue
from collie.agent.paths import DataPath, load_native
from collie.agent.pattern import GRH_BYTES
from collie.agent.resources import Resources
from collie.agent.totals import ATTENTION
from tests.support.data_paths import GID, TRAFFIC, Loopback, enough


@pytest.mark.parametrize("name", TRAFFIC)
def test_everything_that_is_sent_arrives_and_is_counted_at_both_ends(path: DataPath, fake: CDLL, name: str) -> None:
    loop = Loopback(path, **TRAFFIC[name])
    loop.serve(enough(loop))
    assert loop.traffic.drain(10.0)
    sent, got, health = loop.requester, loop.responder, loop.read.health()
    assert sent["posted_messages"] == sent["completed_messages"]
    assert sent["posted_messages"] == sent["delivered_messages"] + sent["returned_messages"]
    assert sent["posted_bytes"] == sent["delivered_bytes"] + sent["returned_bytes"]
    assert (sent["returned_messages"] > 0) == loop.resources.ends[0].workload.mixed
    workload = loop.resources.ends[0].workload
    if workload.receives and workload.qp_type == "RC":
        assert got["delivered_messages"] == sent["posted_messages"]
        assert got["delivered_bytes"] == sent["posted_bytes"]
        assert got["qp_messages"] == sent["qp_messages"]
    elif workload.receives:
        assert 0 < got["delivered_messages"] <= sent["posted_messages"]
    assert (sent["failed_qps"], got["failed_qps"]) == (0, 0)
    assert (health["errors"], health["flushed"], health["post_errors"]) == ({}, 0, 0)
    loop.close()


@pytest.mark.parametrize("name", ["RC WRITE", "RC SEND", "RC READ", "RC WRITE_WITH_IMM", "UC SEND", "UD SEND"])
def test_payload_arrives_unchanged_in_every_region(path: DataPath, fake: CDLL, name: str) -> None:
    content = random.Random(1).randbytes(1000)
    options = {
        "messages": [1000],
        "mrs_per_qp": 3,
        "sge_count": 4,
        "sge_split": [8],
        "wqe_batch": 4,
        "recv_wq_depth": 64,
    }
    loop = Loopback(path, content=content, **{**TRAFFIC[name], **options})
    loop.serve(enough(loop))
    assert loop.traffic.drain(10.0)
    header = GRH_BYTES if name.startswith("UD") else 0
    for address in loop.regions(loop.sink):
        assert ctypes.string_at(address + header, 1000) == content
    loop.close()


def test_queues_are_kept_full_and_say_how_full(path: DataPath, fake: CDLL) -> None:
    loop = Loopback(path, opcode="WRITE", qps=1, send_wq_depth=64)
    loop.serve(enough(loop))
    health = loop.read.health()
    # The device carries out 8 work requests a round, so 56 of 64 are outstanding whenever the queue is looked at.
    assert health["queue_outstanding"] / health["queue_limit"] == pytest.approx(56 / 64)
    assert health["queue_empty"] == 0
    assert 0 < health["posts"] == loop.requester["posted_messages"]
    loop.close()


def test_a_queue_of_one_chain_is_empty_each_time(path: DataPath, fake: CDLL) -> None:
    loop = Loopback(path, opcode="WRITE", qps=1, send_wq_depth=4, wqe_batch=4)
    loop.serve(enough(loop))
    health = loop.read.health()
    assert health["queue_outstanding"] == 0
    assert health["queue_empty"] == health["queue_limit"] > 0
    loop.close()


def test_what_is_outstanding_at_the_end_is_flushed(path: DataPath, fake: CDLL) -> None:
    loop = Loopback(path, opcode="SEND", qps=2, send_wq_depth=16, recv_wq_depth=32)
    loop.serve(enough(loop))
    assert loop.close() == 2 * (16 + 32)


@pytest.mark.parametrize(
    ("kind", "method", "step"),
    [
        ("QP", "to_init", "modify_qp INIT"),
        ("QP", "to_rts", "modify_qp RTS"),
        ("CQ", "__init__", "create_cq"),
        ("MR", "__init__", "reg_mr"),
    ],
)
def test_an_error_in_closing_does_not_hide_the_error_before_it(
    path: DataPath, fake: CDLL, monkeypatch: pytest.MonkeyPatch, kind: str, method: str, step: str
) -> None:
    loop = Loopback(path, opcode="WRITE", qps=1)
    made, v = loop.resources, path.verbs
    make: dict[str, Callable[[], object]] = {
        "QP": lambda: made.pair_to_itself(made.ends[0].workload, made.cqs[0].cq),
        "CQ": lambda: CompletionQueue(v, made.context, 16),
        "MR": lambda: Buffers(v, made.pd, made.ends[0].workload, 2, 0, None),
    }

    def spoil(kind: str, method: str, number: int, sound: int = 0, *, done: bool = False) -> None:
        """Have a method raise after `sound` calls, with `done` after its work."""
        real, calls = getattr(getattr(v, kind), method), itertools.count()

        def fails(self: Any, *arguments: Any, **fields: Any) -> None:
            is_sound = next(calls) < sound
            if is_sound or done:
                real(self, *arguments, **fields)
            if not is_sound:
                raise OSError(number, "spoiled")

        monkeypatch.setattr(getattr(v, kind), method, fails)

    spoil(kind, method, errno.EAGAIN, sound=1 if kind == "MR" else 0)
    for each in ("QP", "CompChannel", "MR"):
        spoil(each, "close", errno.EBUSY, done=True)
    with pytest.raises(AgentFault) as caught:
        make[kind]()
    assert (caught.value.step, caught.value.errno) == (step, errno.EAGAIN)
    monkeypatch.undo()
    loop.close()


def test_a_queue_pair_that_fails_ends_alone(path: DataPath, fake: CDLL) -> None:
    """Without a receive and without patience the receiver is not ready: each queue pair fails at its first send."""
    loop = Loopback(path, opcode="SEND", qps=2, recv_wq_depth=1, rnr_retry=0, send_wq_depth=8)
    loop.serve(lambda: loop.requester["failed_qps"] == 2)
    health = loop.read.health()
    assert health["errors"] == {"RNR retry exceeded": 2}
    assert health["flushed"] == 2 * (8 - 1 - 1)  # one arrived, one failed
    assert loop.traffic.drain(10.0)
    loop.close()


def test_a_shared_receive_queue_outlives_one_of_its_queue_pairs(path: DataPath, fake: CDLL) -> None:
    loop = Loopback(path, opcode="SEND", qps=2, srq=True)
    v = loop.resources.v
    loop.resources.ends[0].pairs[0].modify(v.QPAttr(qp_state=v.e.IBV_QPS_ERR), v.e.IBV_QP_STATE)
    loop.serve(lambda: loop.responder["qp_messages"]["max"] >= 200)
    assert loop.requester["failed_qps"] == 1
    assert loop.responder["failed_qps"] == 0
    loop.close()


def test_queue_pairs_that_fail_on_a_shared_receive_queue_are_counted_once_each(path: DataPath, fake: CDLL) -> None:
    loop = Loopback(path, opcode="SEND", qps=2, srq=True, recv_wq_depth=8, mrs_per_qp=4)
    buffers = loop.resources.ends[1].buffers
    assert buffers is not None
    for region in buffers.mrs[:2]:  # the receives into these fail, whichever queue pair takes them
        region.close()
    loop.serve(lambda: loop.requester["failed_qps"] == 2)
    assert 1 <= loop.responder["failed_qps"] <= 2
    errors = loop.read.health()["errors"]
    assert set(errors) == {"local protection error"}
    assert errors["local protection error"] >= 2 + loop.responder["failed_qps"]
    loop.close()


def test_a_post_that_the_device_refuses_ends_the_queue_pair(
    path: DataPath, fake: CDLL, capfd: pytest.CaptureFixture[str]
) -> None:
    loop = Loopback(path, opcode="WRITE", qps=2)
    loop.serve(enough(loop))
    pair = loop.resources.ends[0].pairs[0]
    fake.fake_shrink(pair.qp_num)
    loop.serve(lambda: loop.requester["failed_qps"] == 1)
    assert loop.read.health()["post_errors"] == 1
    assert "first failed post: " in capfd.readouterr().err
    before = loop.requester["qp_messages"]["max"]
    loop.serve(lambda: loop.requester["qp_messages"]["max"] > before + 100)
    loop.close()


def test_a_command_that_waits_interrupts_traffic(path: DataPath, fake: CDLL) -> None:
    loop = Loopback(path, opcode="WRITE")
    loop.totals.words[ATTENTION] = 1
    loop.traffic.serve()
    assert loop.read.health()["iterations"] == 0
    loop.close()


def test_an_idle_loop_polls_for_a_moment_before_it_sleeps(path: DataPath, fake: CDLL) -> None:
    """Asleep, a loop polls twice in 50 ms: 3000 polls would take longer than the test waits."""
    loop = Loopback(path, opcode="WRITE", qps=1, spin_seconds=1000.0)
    loop.serve(enough(loop))
    fake.fake_hold(1)
    begin = loop.read.health()["idle_polls"]
    loop.serve(lambda: loop.read.health()["idle_polls"] >= begin + 3000)
    fake.fake_hold(0)
    loop.close()


def test_a_loop_that_need_not_poll_sleeps(path: DataPath, fake: CDLL) -> None:
    loop = Loopback(path, opcode="WRITE", qps=1)
    loop.serve(enough(loop))
    fake.fake_hold(1)
    begin, polls = time.monotonic(), loop.read.health()["idle_polls"]
    loop.serve(lambda: time.monotonic() > begin + 0.3)
    assert loop.read.health()["idle_polls"] - polls < 1000, "of a CPU that polls only, they would be 100,000"
    fake.fake_hold(0)
    loop.close()


def polls_while_held(loop: Loopback, fake: CDLL, times: int) -> int:
    """Return the polls without a completion while the device holds all of them back, the most of several times."""
    most = 0
    for _ in range(times):
        before = loop.requester["completed_messages"]
        loop.serve(lambda: loop.requester["completed_messages"] > before)  # noqa: B023 - it is called at once
        fake.fake_hold(1)
        begin, polls = time.monotonic(), loop.read.health()["idle_polls"]
        loop.serve(lambda: time.monotonic() > begin + 0.02)  # noqa: B023
        most = max(most, loop.read.health()["idle_polls"] - polls)
        fake.fake_hold(0)
    return most


def test_a_round_that_is_out_alone_is_polled_for(libibverbs: Path, fake: CDLL) -> None:
    """Only the loop in C times rounds. It polls for a millisecond, so a busy machine has several chances to show it."""
    path = load_native(str(libibverbs))
    for qps, depth, is_alone in ((1, 1, True), (1, 2, False), (2, 1, False)):
        loop = Loopback(path, opcode="WRITE", qps=qps, send_wq_depth=depth)
        polls = polls_while_held(loop, fake, 20 if is_alone else 5)
        assert (polls > 100) is is_alone
        loop.close()


def test_the_round_that_is_left_when_a_queue_pair_has_failed_is_polled_for(libibverbs: Path, fake: CDLL) -> None:
    loop = Loopback(load_native(str(libibverbs)), opcode="WRITE", qps=2, send_wq_depth=1)
    v = loop.resources.v
    loop.resources.ends[0].pairs[0].modify(v.QPAttr(qp_state=v.e.IBV_QPS_ERR), v.e.IBV_QP_STATE)
    loop.serve(lambda: loop.requester["failed_qps"] == 1)
    assert polls_while_held(loop, fake, 20) > 100
    loop.close()


def test_draining_gives_up_at_its_limit(path: DataPath, fake: CDLL) -> None:
    """Nobody answers an RC requester whose responder has failed: its sends stay outstanding."""
    loop = Loopback(path, opcode="WRITE", qps=1)
    v = loop.resources.v
    loop.resources.ends[1].pairs[0].modify(v.QPAttr(qp_state=v.e.IBV_QPS_ERR), v.e.IBV_QP_STATE)
    assert not loop.traffic.drain(0.01)
    loop.close()


def test_a_verb_that_fails_is_named_and_leaves_nothing(path: DataPath, fake: CDLL) -> None:
    with pytest.raises(AgentFault, match="sge_count 40 is above the device's 16") as caught:
        Loopback(path, opcode="WRITE", sge_count=40)
    assert caught.value.kind == "unsupported"
    with pytest.raises(AgentFault, match=r"refuses a queue pair with .*, max_inline_data 400") as caught:
        Loopback(path, opcode="WRITE", max_inline_data=400)
    assert (caught.value.step, caught.value.kind) == ("create_qp", "unsupported")
    with pytest.raises(AgentFault, match="Cannot allocate memory") as caught:
        Loopback(path, opcode="WRITE", qps=30, mrs_per_qp=70)
    assert (caught.value.step, caught.value.kind) == ("reg_mr", "setup")
    with pytest.raises(AgentFault, match="knows no such device"):
        Resources(path.verbs, "fake1", 1, 0, GID)
