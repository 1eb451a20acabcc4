"""Phases of one set-up on every data path: each counts what it sent, whatever was before it."""

from __future__ import annotations

import time
from collections.abc import Callable
from ctypes import CDLL
from random import Random
from typing import Any

import pytest

from collie.agent.faults import AgentFault
from collie.agent.paths import NATIVE, DataPath
from collie.agent.queues import GENERATION_SHIFT, build_queues
from collie.agent.resources import End, Resources
from collie.agent.totals import Totals
from collie.agent.used_end import UsedEnd
from collie.agent.workload import parse_workload
from tests.support.data_paths import GID, PATIENCE_SECONDS
from tests.support.forked import Forked

MADE: dict[str, Any] = {
    "opcode": "WRITE",
    "qps": 5,
    "mrs_per_qp": 3,
    "mr_bytes": 4096,
    "sge_count": 4,
    "send_wq_depth": 32,
    "recv_wq_depth": 64,
    "max_rd_atomic": 4,
    "max_dest_rd_atomic": 4,
    "max_inline_data": 128,
}
OPCODES = {
    "RC": ("SEND", "SEND_WITH_IMM", "WRITE", "WRITE_WITH_IMM", "READ"),
    "UC": ("SEND", "SEND_WITH_IMM", "WRITE_WITH_IMM"),
    "UD": ("SEND", "SEND_WITH_IMM"),
}


def some_phase(rng: Random, qp_type: str) -> dict[str, Any]:
    """Return random traffic on the set-up ``MADE``."""
    batch = rng.choice((1, 2, 4))
    split = rng.choice(("even", [8]))
    return {
        "opcode": rng.choice(OPCODES[qp_type]),
        "more_opcodes": rng.choice(([], [], ["READ"])) if qp_type == "RC" else [],
        "messages": rng.choice(([64], [100, 2000], [4096], [1, 64, 700])),
        "qps": rng.choice((1, 2, 3, 5)),
        "mrs_per_qp": rng.choice((1, 2, 3)),
        "wqe_batch": batch,
        "signal_every": rng.choice((1, 2)),
        "sge_count": rng.choice((1, 2, 4)),
        "sge_split": split,
        "send_wq_depth": rng.choice((8, 16, 32)),
        "recv_wq_depth": rng.choice((32, 64)),
        "fence": rng.choice((False, True)),
        **({"traffic_class": rng.choice((0, 32))} if qp_type == "UD" else {}),
    }


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("qp_type", OPCODES)
def test_each_phase_counts_what_it_sent_and_its_payload_is_right(
    fork: Callable[..., Forked], qp_type: str, processes: int
) -> None:
    rng = Random(f"{qp_type}/{processes}")
    run = fork(processes, **{**MADE, "opcode": "SEND", "qp_type": qp_type})
    for number in range(20):
        traffic = some_phase(rng, qp_type)
        sent, received = run.phase(**traffic)
        context = f"phase {number}: {traffic}, {sent}, {received}"
        assert sent["posted_messages"] == sent["completed_messages"] > 0, context
        assert sent["delivered_messages"] + sent["returned_messages"] == sent["posted_messages"], context
        assert sent["posted_bytes"] == sent["delivered_bytes"] + sent["returned_bytes"], context
        if qp_type == "RC" and set(traffic["more_opcodes"]) == set() and "WRITE" != traffic["opcode"] != "READ":
            assert received["delivered_messages"] == sent["posted_messages"], context
            assert received["delivered_bytes"] == sent["posted_bytes"], context
        completed = {"a-a/responder": sent["qp_messages"]["min"]}
        found = [end for end in run.ask("verify", completed=completed)["flows"].values() if end is not None]
        assert all(end["wrong_bytes"] == 0 for end in found), f"{context}, {found}"
        assert sent["qp_messages"]["min"] >= 100, context
        assert run.engines.totals.health()["errors"] == {}, context
        assert run.engines.totals.health()["post_errors"] == 0, context
        timed = run.engines.totals.times("a-a/requester", time.monotonic_ns())["latencies"]
        assert bool(timed) == (run.prepared["data_path"] == NATIVE), context
    run.close()


def test_messages_land_where_the_receives_of_a_queue_that_goes_on_are(fork: Callable[..., Forked]) -> None:
    """If the position of the queue were lost, bytes beyond the shorter message would count as not arrived."""
    run = fork(1, **{**MADE, "opcode": "SEND", "qps": 1})
    positions: set[int] = set()
    lists = ([64, 4096], [4096, 64, 700], [4096], [64, 700, 4096, 1])
    for number, messages in enumerate(lists * 5):
        if number >= len(lists) and positions - {0}:
            break  # how much a phase posts is chance, so four of them can all end where they began
        sent, _ = run.phase(qps=1, messages=messages, mrs_per_qp=3)
        positions.add(sent["posted_messages"] % 3)
        [found] = run.ask("verify", completed={"a-a/responder": sent["qp_messages"]["min"]})["flows"].values()
        assert found["wrong_bytes"] == 0, found
        assert found["checked_bytes"] > 0
    assert positions - {0}, "all phases began at the first receive; vary them"
    run.close()


def test_the_spread_over_queue_pairs_is_that_of_the_phase(fork: Callable[..., Forked]) -> None:
    """A lead from the phase before would hide a queue pair that starves."""
    run = fork(2, **MADE)
    first, _ = run.phase()
    few, _ = run.phase(qps=3)
    assert few["qp_messages"]["mean"] == pytest.approx(few["completed_messages"] / 3, abs=0.001)
    assert few["completed_messages"] < first["completed_messages"] + few["qp_messages"]["max"] * 3
    one, _ = run.phase(qps=1)
    assert one["qp_messages"]["min"] == one["qp_messages"]["max"] == one["completed_messages"]
    every, _ = run.phase()
    assert every["qp_messages"]["mean"] == pytest.approx(every["completed_messages"] / 5, abs=0.001)
    run.close()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"qps": 6}, "qps is 6, and the set-up has 5"),
        ({"send_wq_depth": 64}, "send_wq_depth is 64, and the set-up has 32"),
        ({"sge_count": 5}, "sge_count is 5, and the set-up has 4"),
        ({"mr_bytes": 8192}, "buffer_bytes is 8192, and the set-up has 4096"),
        ({"messages": [5000], "mr_bytes": 0}, "buffer_bytes is 5000"),
        ({"timeout": 9}, "timeout 9 needs another set-up"),
        ({"traffic_class": 32}, "traffic_class 32 needs another set-up"),
        ({"opcode": "FETCH_ADD", "messages": [8]}, "atomics need a set-up with their access rights"),
    ],
)
def test_what_does_not_fit_the_set_up_is_refused_and_costs_nothing(
    fork: Callable[..., Forked], change: dict[str, Any], reason: str
) -> None:
    run = fork(1, **MADE)
    run.phase()
    ends = [{**end, "workload": {**end["workload"], **change}} for end in run.ends]
    refused = run.ask("phase", ends=[{**end, "qps": end["workload"]["qps"]} for end in ends], verify=False)
    assert refused["error"]["kind"] == "bad_request"
    assert reason in refused["error"]["message"]
    sent, _ = run.phase(opcode="READ")
    assert sent["posted_messages"] == sent["delivered_messages"]
    run.close()


@pytest.mark.parametrize("processes", [1, 2])
def test_each_phase_has_its_own_load_which_its_engines_share(
    fork: Callable[..., Forked], path: DataPath, processes: int
) -> None:
    run = fork(processes, **MADE)
    run.phase()
    if not path.paces:
        ends = [{**end, "workload": {**end["workload"], "offered_bps": 8_000_000}} for end in run.ends]
        refused = run.ask("phase", ends=ends, verify=False)
        assert refused["error"]["kind"] == "unsupported"
        assert "only data path native can offer a flow less (offered_bps)" in refused["error"]["message"]
        run.phase()
        run.close()
        return
    for bps, qps in ((8_000_000, 5), (1_600_000, 2), (16_000_000, 3)):
        began = time.monotonic()
        run.start(messages=[1000], offered_bps=bps, qps=qps)
        run.wait(lambda: run.requester["posted_messages"] >= 60)
        sent, elapsed = run.requester["posted_bytes"], time.monotonic() - began
        assert sent <= bps / 8 * elapsed + 1000 * qps
        assert run.ask("stop", drain_seconds=PATIENCE_SECONDS)["drained"]
        timed = run.engines.totals.times("a-a/requester", time.monotonic_ns())["latencies"]
        assert sum(count for _, count in timed) > 0
    sent, _ = run.phase()
    assert sent["posted_messages"] == sent["completed_messages"]
    run.close()


@pytest.mark.parametrize("fields", [{"offered_bps": 8_000_000}, {"new_mrs_per_second": 1}, {"qp_errors_per_second": 1}])
def test_a_set_up_is_not_made_for_what_its_data_path_cannot_do(
    fork: Callable[..., Forked], path: DataPath, fields: dict[str, int]
) -> None:
    prepared = fork(1, **{**MADE, **fields}).prepared
    assert prepared["ok"] == path.paces
    assert path.paces or prepared["error"]["kind"] == "unsupported"


def test_a_shared_receive_queue_keeps_its_receives(fork: Callable[..., Forked]) -> None:
    run = fork(1, **{**MADE, "opcode": "SEND", "srq": True, "qps": 2})
    for opcode in ("SEND", "SEND_WITH_IMM", "SEND"):
        sent, received = run.phase(opcode=opcode)
        assert received["delivered_messages"] == sent["posted_messages"]
    ends = [{**end, "workload": {**end["workload"], "wqe_batch": 2}} for end in run.ends]
    refused = run.ask("phase", ends=ends, verify=False)
    assert "receives of another shape" in refused["error"]["message"]
    run.close()


class OneEngine:
    """A flow within this process, whose queue pairs a test can look at."""

    def __init__(self, path: DataPath, **made_for: Any) -> None:
        self._workload = {"qp_type": "RC", "messages": [1024], "mtu": 4096, **MADE, "qps": 2, **made_for}
        parsed = parse_workload(self._workload)
        self.resources = Resources(path.verbs, "fake0", 1, 0, GID)
        self.ends = [End(f"a-a/{role}", role, parsed.qps, parsed) for role in ("requester", "responder")]
        self.resources.create(self.ends)
        for end, peer in (self.ends, self.ends[::-1]):
            self.resources.connect(end, self.resources.endpoint(peer))

    def parts(self, **changes: Any) -> list[UsedEnd]:
        workload = parse_workload({**self._workload, **changes})
        return [UsedEnd(end, workload, workload.qps) for end in self.ends]

    def post(self, parts: list[UsedEnd]) -> None:
        for part in parts:
            for pair in part.unfilled:
                part.end.posted[pair] = part.receives


@pytest.mark.parametrize(
    ("change", "reset"),
    [
        ({"opcode": "SEND_WITH_IMM"}, []),
        ({"opcode": "WRITE"}, []),
        ({"messages": [1024, 64]}, []),
        ({"messages": [2048]}, [0, 1]),
        ({"wqe_batch": 2}, [0, 1]),
        ({"recv_wq_depth": 32}, [0, 1]),
        ({"mrs_per_qp": 2}, [0, 1]),
        ({"sge_count": 2}, [0, 1]),
        ({"messages": [2048], "qps": 1}, [0]),
    ],
)
def test_both_ends_reset_the_queue_pairs_whose_receives_change_and_no_others(
    path: DataPath, fake: CDLL, change: dict[str, Any], reset: list[int]
) -> None:
    flow = OneEngine(path, opcode="SEND")
    flow.post(flow.parts())
    assert [part.outdated for part in flow.parts(**change)] == [reset, reset]
    flow.resources.destroy()


def test_receives_of_an_earlier_phase_stay_through_one_that_takes_none(path: DataPath, fake: CDLL) -> None:
    flow = OneEngine(path, opcode="SEND")
    flow.post(flow.parts(qps=1))
    flow.post(flow.parts(opcode="WRITE"))
    again = flow.parts()
    assert [part.outdated for part in again] == [[], []]
    assert [part.unfilled for part in again] == [[1], [1]]
    flow.resources.destroy()


def test_a_completion_of_an_earlier_phase_is_a_straggler_and_counts_as_nothing_else(path: DataPath, fake: CDLL) -> None:
    flow = OneEngine(path)
    totals = Totals({"a-a/requester": 2, "a-a/responder": 2})
    slots = sum(end.queues for end in flow.ends)
    pair_words = {pair.qp_num: 0 for end in flow.ends for pair in end.pairs}
    traffic = path.traffic(slots, flow.resources.cqs, totals.words, pair_words, 0)
    [part, _] = flow.parts()
    old, new = (build_queues(path.verbs, part, totals.ends[0], generation) for generation in (3, 4))
    traffic.admit(old)
    traffic.begin()
    traffic.admit(new)
    totals.restart()
    assert traffic.drain(PATIENCE_SECONDS)
    counted = memoryview(totals.words)
    assert counted[9] == 2 * 32  # stragglers: all that both queue pairs had posted
    assert sum(counted[totals.ends[0].base :]) == 0
    assert GENERATION_SHIFT == 2
    flow.resources.quiesce(1.0)
    flow.resources.destroy()


def test_more_bytes_than_an_id_can_prove_are_refused(path: DataPath, fake: CDLL) -> None:
    flow = OneEngine(path, send_wq_depth=1024, mr_bytes=0, messages=[4096])
    [part, _] = flow.parts(wqe_batch=1024, messages=[4096])
    layout = Totals({"a-a/requester": 2}).ends[0]
    build_queues(path.verbs, part, layout, 0)
    part.workload = parse_workload(
        {"qp_type": "RC", "opcode": "WRITE", "messages": [1 << 30], "wqe_batch": 1024, "send_wq_depth": 1024}
    )
    with pytest.raises(AgentFault, match="a completion would prove"):
        build_queues(path.verbs, part, layout, 0)
    flow.resources.destroy()
