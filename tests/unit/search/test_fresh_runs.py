"""The claim of a set: fresh workloads inside it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from collie.detect.noise import Noise
from collie.detect.symptom import Verdict, inconclusive
from collie.search.fresh_runs import Surroundings, claim, suffices
from collie.search.recipe import Extraction
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.workload import Workload
from tests.support.extractions import NORMAL, SHOWS, SPACE, never

MFS = Mfs((Condition("wqe_batch", Op.AT_LEAST, 32), Condition("mtu", Op.AT_MOST, 1024)))
START = SPACE.base.with_(wqe_batch=128, mtu=512)
POLICY = Extraction(fresh_runs=6, most_runs=20)


def claimed(
    answer: Callable[[int], Verdict | None], known: Callable[[Workload], bool] = never, mfs: Mfs = MFS
) -> tuple[tuple[int, int], list[Workload]]:
    """Answer the runs of a claim by their number. Return the claim and the runs."""
    probes, asked = claim(mfs, START, POLICY, Surroundings(SPACE, Noise(), known)), list[Workload]()
    try:
        asked.append(next(probes))
        while True:
            asked.append(probes.send(answer(len(asked))))
    except StopIteration as stop:
        return stop.value, asked


def test_each_run_is_new_and_inside_the_set_and_every_other_one_plain_where_the_set_names_nothing() -> None:
    shown, asked = claimed(lambda _number: SHOWS)
    assert shown == (6, 6)
    assert len({START, *asked}) == 7
    assert all(MFS.covers(workload) and SPACE.allows(workload) for workload in asked)
    free = ("direction", "loopback", "memory", "peer_memory", "opcode", "qp_type", "qps", "mrs_per_qp")
    plain = [all(workload.get(name) == SPACE.base.get(name) for name in free) for workload in asked]
    assert plain == [True, False] * 3


def test_no_run_lies_in_a_known_anomaly() -> None:
    _, asked = claimed(lambda _number: SHOWS, lambda workload: workload.qps >= 32 or workload.wqe_batch == 64)
    assert all(workload.qps < 32 and workload.wqe_batch != 64 for workload in asked)


def test_what_has_run_is_no_fresh_run_where_only_one_workload_is_plain_otherwise() -> None:
    shown, asked = claimed(lambda _number: SHOWS, mfs=Mfs((Condition("wqe_batch", Op.EQUAL, 128),)))
    assert shown == (6, 6)
    assert len({START, *asked}) == 7


def test_a_claim_ends_when_all_workloads_outside_the_known_anomalies_have_run() -> None:
    left = [SPACE.base.with_(wqe_batch=batch, mtu=512) for batch in (32, 64)]
    mfs = Mfs((Condition("wqe_batch", Op.AT_LEAST, 32), Condition("mtu", Op.EQUAL, 512)))
    shown, asked = claimed(lambda _number: SHOWS, known=lambda workload: workload not in left, mfs=mfs)
    assert sorted(asked, key=left.index) == left
    assert shown == (2, 2)


@pytest.mark.parametrize("silent", [None, inconclusive("noise")])
def test_runs_that_say_nothing_do_not_count_and_end_at_the_limit(silent: Verdict | None) -> None:
    assert claimed(lambda number: silent if number % 2 else SHOWS)[0] == (6, 6)
    shown, asked = claimed(lambda _number: silent)
    assert (shown, len(asked)) == ((0, 0), 20)


def test_a_claim_that_is_mixed_takes_more_runs() -> None:
    """Three of six leave the show rate open from 0.19 to 0.81."""
    shown, _ = claimed(lambda number: SHOWS if number % 2 else NORMAL)
    assert 6 < shown[1] < 20
    assert not suffices([True, False] * 3, POLICY)
    assert suffices([True] * 6, POLICY)
    assert not suffices([True] * 5, POLICY)
