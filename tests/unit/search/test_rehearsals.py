"""Workloads drawn inside a settled set that run on the set-up that stands, before the claim takes another one."""

from __future__ import annotations

from dataclasses import replace

from collie.detect.noise import Noise
from collie.detect.symptom import Symptom, Verdict
from collie.search.extract import MfsExtraction
from collie.search.fresh_runs import Surroundings
from collie.search.phases import answers
from collie.search.recipe import Extraction
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.setup import SetUp
from collie.workloads.workload import Workload
from tests.support.extractions import NORMAL, SHOWS, SPACE, answered, never

PLANTED = Mfs((Condition("wqe_batch", Op.AT_LEAST, 32),))
START = SPACE.base.with_(wqe_batch=128, qps=64)
CLEAR = replace(SHOWS, margin=100.0)


def answer(workload: Workload) -> Verdict:
    return CLEAR if PLANTED.covers(workload) else NORMAL


def test_a_settled_set_is_rehearsed_three_times_on_each_set_up() -> None:
    stands: list[SetUp | None] = [None]
    around = Surroundings(SPACE, Noise(), never, lambda: [(START, CLEAR)], set_up=lambda: stands[-1])
    extraction = MfsExtraction(START, Symptom.PAUSE, Extraction(most_runs=300), around)
    answered(extraction.questions(), answer)
    assert extraction.mfs == PLANTED
    for mtu in (1024, 2048):
        on = SetUp(START.with_(mtu=mtu))
        stands.append(on)
        answered(extraction.claims(), answer)
        rehearsed = answered(extraction.questions(), answer)
        assert len(rehearsed) == 3
        assert all(PLANTED.covers(workload) and answers(SPACE, workload, on) for workload in rehearsed)
