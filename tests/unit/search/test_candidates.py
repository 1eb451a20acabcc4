"""Candidates for the next probe."""

from __future__ import annotations

from random import Random

from collie.content.spaces import load_space
from collie.search.candidates import Candidates
from collie.workloads.feature import Condition, Mfs, Op, feature_value
from collie.workloads.workload import EVEN, Direction, Memory, Workload
from tests.support.extractions import hypotheses

SPACE = load_space("nsdi22")


def test_candidates_are_valid_possible_and_new() -> None:
    rng = Random(3)
    forbidden = Mfs((Condition("loopback", Op.EQUAL, True),))
    finding = next(w for w in iter(lambda: SPACE.sample(rng), None) if not w.loopback)
    limits, left = hypotheses(finding, Mfs((Condition("qps", Op.AT_LEAST, 1),)), [])
    around = Candidates(SPACE, limits, rng, lambda workload: not forbidden.covers(workload)).around(finding, left)
    assert len(around) > 100
    assert len({candidate.workload for candidate in around}) == len(around)
    assert all(SPACE.allows(c.workload) and not c.workload.loopback and c.workload != finding for c in around)


def near(simplest: Workload, *dimensions: str) -> list[Workload]:
    """Return the candidates that differ from the simplest workload in all of these dimensions and in no other."""
    limits, left = hypotheses(simplest, Mfs((Condition("qps", Op.AT_LEAST, 1),)), [])
    around = Candidates(SPACE, limits, Random(1), lambda _workload: True).around(simplest, left)
    differing = {
        each.workload: {name for name in SPACE.dimensions if each.workload.get(name) != simplest.get(name)}
        for each in around
    }
    return [workload for workload, names in differing.items() if names == set(dimensions)]


def test_every_split_is_tried_with_entries_as_short_and_as_long_as_those_that_show_the_anomaly() -> None:
    """So that the sizes of the entries are told from the split."""
    simplest = SPACE.base.with_(sge_count=3, sge_split=(128,), messages=(128 + 2 * 4096,), mr_bytes=1 << 22)
    assert set(simplest.segments()[0]) == {128, 4096}
    others = near(simplest, "sge_split", "messages")
    for split in set(SPACE.dimensions["sge_split"].candidates()) - {simplest.sge_split}:
        messages = [message for each in others if each.sge_split == split for message in each.segments()]
        free = 0 if split == EVEN else len(split)  # the entries after those of the split
        assert {128, 4096} <= {size for message in messages for size in message[free:]}


def test_queue_pairs_are_traded_for_longer_queues_and_other_flows_without_loss() -> None:
    simplest = SPACE.base.with_(qps=24, mrs_per_qp=1024, loopback=True, direction=Direction.BIDIRECTIONAL)
    needed = feature_value(simplest, "nic_qps")
    for other in ("mrs_per_qp", "recv_wq_depth", "send_wq_depth"):
        product = simplest.qps * simplest.get(other)
        traded = near(simplest, "qps", other)
        assert any(each.qps < 24 and product <= each.qps * each.get(other) < 2 * product for each in traded), other
        assert any(each.qps > 24 and product <= each.qps * each.get(other) < 2 * product for each in traded), other
    for flows in (["loopback"], ["direction"], ["loopback", "direction"]):
        fewer = near(simplest, "qps", *flows)
        assert any(needed <= feature_value(each, "nic_qps") < 2 * needed for each in fewer), flows


def test_memory_of_one_host_is_tried_on_the_other() -> None:
    simplest = SPACE.base.with_(memory=Memory.GPU, numa_node=1)
    assert near(simplest, "memory", "peer_memory") == [SPACE.base.with_(peer_memory=Memory.GPU, numa_node=1)]
    assert near(simplest, "numa_node", "peer_numa_node") == [SPACE.base.with_(memory=Memory.GPU, peer_numa_node=1)]


def test_no_candidate_has_sizes_that_are_not_in_the_space() -> None:
    narrow = SPACE.narrowed({}, {}, {"messages": 98304})
    simplest = narrow.base.with_(messages=(98304, 1 << 20), sge_count=4, sge_split=(128,), mr_bytes=1 << 22)
    limits, left = hypotheses(simplest, Mfs((Condition("qps", Op.AT_LEAST, 1),)), [])
    around = Candidates(narrow, limits, Random(1), lambda _workload: True).around(simplest, left)
    assert min(size for each in around for size in each.workload.messages) == 98304
