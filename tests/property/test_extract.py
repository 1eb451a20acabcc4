"""Extraction on planted conjunctions: it finds what is planted, covers the point, and stays within its bound."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import cycle
from random import Random

from hypothesis import assume, given, settings, strategies as st

from collie.content.spaces import load_space
from collie.detect.signature import Signature
from collie.detect.symptom import Outcome, Symptom, Verdict, inconclusive
from collie.search.extract import Extracted, extract
from collie.search.recipe import Extraction
from collie.workloads.dimension import Choice, Ordered
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.workload import Memory, Opcode, QpType, Workload

SPACE = load_space("nsdi22")
SHOWS = Verdict(Outcome.ANOMALOUS, "paused", Symptom.PAUSE, 0.2, "b")
OTHER = Verdict(Outcome.ANOMALOUS, "slow", Symptom.LOW_THROUGHPUT, 0.5, "b")
NORMAL = Verdict(Outcome.NORMAL, "fine")

ORDERED = [dimension for dimension in SPACE.dimensions.values() if isinstance(dimension, Ordered)]
CHOICES = [dimension for dimension in SPACE.dimensions.values() if isinstance(dimension, Choice)]


def never(_workload: Workload) -> bool:
    return False


def run(
    workload: Workload,
    answer: Callable[[Workload], Verdict | None],
    policy: Extraction | None = None,
    known: Callable[[Workload], bool] = never,
) -> tuple[Extracted, list[Workload]]:
    probes = extract(workload, Symptom.PAUSE, SPACE, policy or Extraction(), known)
    asked: list[Workload] = []
    try:
        probe = next(probes)
        while True:
            asked.append(probe)
            probe = probes.send(answer(probe))
    except StopIteration as stop:
        return stop.value, asked


def planted(mfs: Mfs) -> Callable[[Workload], Verdict]:
    return lambda workload: SHOWS if mfs.covers(workload) else NORMAL


@st.composite
def boxes_with_a_point(draw: st.DrawFn) -> tuple[Mfs, Workload]:
    """A conjunction over one to four dimensions, and a workload of the space that satisfies it."""
    workload = SPACE.sample(Random(draw(st.integers(0, 2**32))))
    conditions = []
    for dimension in draw(
        st.lists(st.sampled_from(ORDERED + CHOICES), min_size=1, max_size=4, unique_by=lambda d: d.name)
    ):
        value = workload.get(dimension.name)
        if isinstance(dimension, Choice):
            conditions.append(Condition(dimension.name, Op.EQUAL, value))
            continue
        op = draw(st.sampled_from([Op.AT_LEAST, Op.AT_MOST]))
        within = [step for step in dimension.ladder if (step <= value if op is Op.AT_LEAST else step >= value)]
        conditions.append(Condition(dimension.name, op, draw(st.sampled_from(within))))
    return Mfs(tuple(conditions)), workload


@given(boxes_with_a_point())
@settings(max_examples=40)
def test_extraction_covers_the_point_and_no_probe_that_did_not_show(box: tuple[Mfs, Workload]) -> None:
    mfs, workload = box
    found, asked = run(workload, planted(mfs), Extraction(accepting=1))
    assert found.complete
    assert mfs.covers(found.workload)
    assert all(condition.holds(found.workload) for condition in found.mfs.conditions)
    for probe in asked:
        if not mfs.covers(probe):
            assert not found.mfs.covers(probe), probe
    assert len(asked) == len(set(asked))
    assert len(asked) <= probes_at_most()


def probes_at_most() -> int:
    """The bound that the module states, generously: simplifying, delimiting, and one repair per condition and side."""
    simplify = 3 * len(SPACE.dimensions)
    delimit = len(ORDERED) * (2 + 2 * math.ceil(math.log2(24))) + sum(len(d.values) - 1 for d in CHOICES)
    messages = 4 + 4 * (1 + math.ceil(math.log2(24)))
    return simplify + delimit + messages


def test_thresholds_are_exact_to_one_step_of_the_ladder() -> None:
    mfs = Mfs((
        Condition("qp_type", Op.EQUAL, QpType.UD),
        Condition("wqe_batch", Op.AT_LEAST, 64),
        Condition("recv_wq_depth", Op.AT_LEAST, 256),
    ))  # fmt: skip
    start = SPACE.base.with_(
        qp_type=QpType.UD, opcode=Opcode.SEND, messages=(2048,), wqe_batch=128, recv_wq_depth=4096, qps=64, sge_count=4
    )
    found, _ = run(start, planted(mfs))
    assert set(found.mfs.conditions) == set(mfs.conditions)
    assert found.workload.qps == SPACE.base.qps
    assert found.workload.sge_count == SPACE.base.sge_count


def test_a_condition_that_plain_traffic_satisfies_is_found() -> None:
    mfs = Mfs((Condition("wqe_batch", Op.AT_MOST, 4), Condition("qps", Op.AT_LEAST, 320)))
    found, _ = run(SPACE.base.with_(qps=1024), planted(mfs))
    assert set(found.mfs.conditions) == set(mfs.conditions)


def test_message_thresholds_tell_the_smallest_from_the_largest() -> None:
    for feature, op, value, sizes in (
        ("min_message_bytes", Op.AT_MOST, 1024, (512, 65536)),
        ("max_message_bytes", Op.AT_MOST, 1024, (512, 64)),
        ("max_message_bytes", Op.AT_LEAST, 16384, (64, 262144)),
        ("min_message_bytes", Op.AT_LEAST, 16384, (16384, 262144)),
    ):
        condition = Condition(feature, op, value)
        found, _ = run(SPACE.base.with_(messages=sizes, mr_bytes=1 << 22), planted(Mfs((condition,))))
        assert found.mfs.conditions == (condition,), feature


def test_a_mix_of_short_and_long_messages_is_found() -> None:
    mfs = Mfs((Condition("min_message_bytes", Op.AT_MOST, 1024), Condition("max_message_bytes", Op.AT_LEAST, 65536)))
    start = SPACE.base.with_(messages=(128, 65536, 4096, 128), mr_bytes=1 << 22)
    found, _ = run(start, planted(mfs))
    assert set(found.mfs.conditions) == set(mfs.conditions)
    assert len(found.workload.messages) == 2


def test_two_thresholds_whose_product_matters_become_one() -> None:
    mfs = Mfs((Condition("total_mrs", Op.AT_LEAST, 12288), Condition("max_message_bytes", Op.AT_MOST, 1024)))
    found, _ = run(SPACE.base.with_(qps=24, mrs_per_qp=1024, messages=(512,)), planted(mfs))
    total = next(condition for condition in found.mfs.conditions if condition.dimension == "total_mrs")
    assert 12288 <= total.value <= 2 * 12288
    assert {condition.dimension for condition in found.mfs.conditions} == {"total_mrs", "max_message_bytes"}


def test_of_two_causes_the_one_that_survives_is_explained() -> None:
    first = Mfs((Condition("loopback", Op.EQUAL, True),))
    second = Mfs((Condition("wqe_batch", Op.AT_LEAST, 64),))

    def answer(workload: Workload) -> Verdict:
        return SHOWS if first.covers(workload) or second.covers(workload) else NORMAL

    found, _ = run(SPACE.base.with_(loopback=True, wqe_batch=64), answer)
    assert len(found.mfs.conditions) == 1


def test_another_symptom_is_not_this_anomaly() -> None:
    def answer(workload: Workload) -> Verdict:
        return SHOWS if workload.loopback else OTHER

    found, _ = run(SPACE.base.with_(loopback=True), answer)
    assert found.mfs.conditions == (Condition("loopback", Op.EQUAL, True),)


def test_one_cause_may_show_as_errors_in_one_run_and_as_low_throughput_in_the_next() -> None:
    errors = Verdict(Outcome.ANOMALOUS, "errors", Symptom.COMPLETION_ERRORS, 0.9, "b")
    mfs = Mfs((Condition("qps", Op.AT_LEAST, 64),))
    reproduced = cycle([errors, OTHER])
    probes = extract(SPACE.base.with_(qps=512, loopback=True), Symptom.COMPLETION_ERRORS, SPACE, Extraction(), never)
    probe = next(probes)
    try:
        while True:
            probe = probes.send(next(reproduced) if mfs.covers(probe) else NORMAL)
    except StopIteration as stop:
        found: Extracted = stop.value
    assert found.mfs == mfs


def test_a_probe_that_says_nothing_does_not_hide_the_threshold_behind_it() -> None:
    mfs = Mfs((Condition("qps", Op.AT_LEAST, 64),))

    def answer(workload: Workload) -> Verdict:
        return inconclusive("the generator was slow") if workload.qps <= 2 else planted(mfs)(workload)

    found, _ = run(SPACE.base.with_(qps=512), answer)
    assert found.mfs == mfs


def test_a_known_anomaly_is_not_drifted_into() -> None:
    known = Mfs((Condition("qps", Op.AT_MOST, 8),))

    def answer(workload: Workload) -> Verdict:
        assert not known.covers(workload)
        return SHOWS

    found, _ = run(SPACE.base.with_(qps=64), answer, known=known.covers)
    assert found.workload.qps > 8


@given(boxes_with_a_point(), st.sampled_from([SHOWS, NORMAL, inconclusive("noise"), None]))
@settings(max_examples=16)
def test_extraction_ends_whatever_it_is_told(box: tuple[Mfs, Workload], always: Verdict | None) -> None:
    found, asked = run(box[1], lambda _workload: always)
    assert len(asked) <= 3 * probes_at_most()
    if always is SHOWS:
        assert found.mfs.conditions == ()
    if always is None:
        assert found.mfs.conditions == ()  # what never ran refutes nothing


@given(boxes_with_a_point(), st.integers(1, 20))
@settings(max_examples=12)
def test_extraction_keeps_to_its_budget_and_says_so(box: tuple[Mfs, Workload], most: int) -> None:
    found, asked = run(box[1], planted(box[0]), Extraction(most_runs=most))
    assert len(asked) <= most
    assume(len(asked) == most)
    assert all(condition.holds(found.workload) for condition in found.mfs.conditions)


def test_one_disturbed_run_does_not_move_the_finding() -> None:
    mfs = Mfs((Condition("wqe_batch", Op.AT_LEAST, 32),))
    disturbed: list[Workload] = []

    def answer(workload: Workload) -> Verdict:
        if not mfs.covers(workload) and not disturbed:
            disturbed.append(workload)
            return SHOWS
        return SHOWS if mfs.covers(workload) else NORMAL

    found, _ = run(SPACE.base.with_(wqe_batch=128, qps=64), answer)
    assert disturbed
    assert mfs.covers(found.workload)


def test_short_entries_that_meet_long_ones_are_one_cause_however_they_come_about() -> None:
    mfs = Mfs((
        Condition("sge_count", Op.AT_LEAST, 3),
        Condition("min_segment_bytes", Op.AT_MOST, 1024),
        Condition("max_segment_bytes", Op.AT_LEAST, 65536),
    ))  # fmt: skip
    by_split = SPACE.base.with_(sge_count=3, sge_split=(128, 65536), messages=(66688,), mr_bytes=1 << 22)
    by_messages = SPACE.base.with_(sge_count=4, messages=(512, 1 << 20), mr_bytes=1 << 22)
    for start in (by_split, by_messages):
        found, _ = run(start, planted(mfs))
        assert set(found.mfs.conditions) == set(mfs.conditions), start


def test_verdicts_that_are_wrong_at_times_do_not_lead_astray() -> None:
    rng = Random(3)
    mfs = Mfs((Condition("wqe_batch", Op.AT_LEAST, 32),))

    def answer(workload: Workload) -> Verdict:
        shows = mfs.covers(workload)
        return (NORMAL if shows else SHOWS) if rng.random() < 0.02 else (SHOWS if shows else NORMAL)

    found, _ = run(
        SPACE.base.with_(wqe_batch=128),
        answer,
        Extraction(false_negative_rate=0.05, false_positive_rate=0.05, repeats=3),
    )
    assert found.mfs == mfs


def test_a_typical_explanation_takes_few_runs_and_says_how_sure_it_is() -> None:
    mfs = Mfs((Condition("wqe_batch", Op.AT_LEAST, 64), Condition("recv_wq_depth", Op.AT_LEAST, 256)))
    rng = Random(7)
    taken = []
    for _ in range(12):
        start = SPACE.sample(rng).with_(wqe_batch=128, send_wq_depth=1024, recv_wq_depth=1024)
        if not SPACE.allows(start):
            continue
        found, asked = run(start, planted(mfs))
        assert set(found.mfs.conditions) == set(mfs.conditions)
        assert found.runs == len(asked)
        assert found.trials == found.passed >= 4
        assert found.confidence == (found.passed + 1) / (found.trials + 2)
        taken.append(len(asked))
    assert sorted(taken)[len(taken) // 2] <= 30


def test_what_several_dimensions_make_healthy_together_is_cut_away() -> None:
    """A trade-off that is no product of two: the set must not cover what it saw to be healthy."""

    def answer(workload: Workload) -> Verdict:
        shows = workload.mtu <= 1024 and workload.qps * workload.sge_count * workload.wqe_batch >= 64
        return SHOWS if shows else NORMAL

    found, asked = run(SPACE.base.with_(mtu=512, qps=128, sge_count=4), answer)
    assert Condition("mtu", Op.AT_MOST, 1024) in found.mfs.conditions
    assert not any(found.mfs.covers(probe) for probe in asked if answer(probe).is_normal)


def test_a_healthy_run_of_the_campaign_is_evidence_and_is_not_repeated() -> None:
    mfs = Mfs((Condition("wqe_batch", Op.AT_MOST, 4), Condition("qps", Op.AT_LEAST, 320)))
    start = SPACE.base.with_(qps=1024)
    healthy = start.with_(wqe_batch=32, sge_count=4)
    probes = extract(start, Symptom.PAUSE, SPACE, Extraction(), never, lambda: [(healthy, NORMAL)])
    asked = [next(probes)]
    try:
        while True:
            asked.append(probes.send(planted(mfs)(asked[-1])))
    except StopIteration as stop:
        found: Extracted = stop.value
    assert healthy not in asked
    assert set(found.mfs.conditions) == set(mfs.conditions)


def test_either_host_is_one_condition() -> None:
    mfs = Mfs((Condition("gpu_hosts", Op.AT_LEAST, 1),))
    found, _ = run(SPACE.base.with_(memory=Memory.GPU), planted(mfs))
    assert found.mfs == mfs


def test_another_anomaly_with_the_same_symptom_does_not_show() -> None:
    """Two causes of pause that raise different counters; the second begins where the first is made plain."""
    first = Mfs((Condition("qps", Op.AT_LEAST, 64), Condition("opcode", Op.EQUAL, Opcode.WRITE)))
    second = Mfs((Condition("opcode", Op.EQUAL, Opcode.SEND), Condition("wqe_batch", Op.AT_MOST, 8)))

    def answer(workload: Workload) -> Verdict:
        for mfs, counter in ((first, "context_misses"), (second, "late_receives")):
            if mfs.covers(workload):
                return replace(SHOWS, signature=Signature(((counter, 3.0),)))
        return NORMAL

    found, _ = run(SPACE.base.with_(qps=512), answer)
    assert set(found.mfs.conditions) == set(first.conditions)
