"""Extraction of single planted conjunctions."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle
from random import Random

import pytest

from collie.content.spaces import load_space
from collie.detect.noise import Noise
from collie.detect.signature import Signature
from collie.detect.symptom import Outcome, Symptom, Verdict, inconclusive
from collie.search.extract import Extracted, MfsExtraction, extract
from collie.search.fresh_runs import Surroundings
from collie.search.recipe import Extraction
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.setup import SetUp
from collie.workloads.workload import Direction, Memory, Opcode, QpType, Workload
from tests.support.extractions import NORMAL, SHOWS, SPACE, answered, never, planted, planted_at, run

SEEDS = range(1, 9)
OTHER = Verdict(Outcome.ANOMALOUS, "slow", Symptom.LOW_THROUGHPUT, 0.5, "b")


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


def test_message_thresholds_distinguish_the_smallest_from_the_largest() -> None:
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
    mfs = Mfs((Condition("nic_mrs", Op.AT_LEAST, 12288), Condition("max_message_bytes", Op.AT_MOST, 1024)))
    found, _ = run(SPACE.base.with_(qps=24, mrs_per_qp=1024, messages=(512,)), planted(mfs))
    total = next(condition for condition in found.mfs.conditions if condition.dimension == "nic_mrs")
    assert 12288 <= total.value <= 2 * 12288
    assert {condition.dimension for condition in found.mfs.conditions} == {"nic_mrs", "max_message_bytes"}


def test_flows_that_share_a_nic_count_together() -> None:
    mfs = Mfs((Condition("nic_qps", Op.AT_LEAST, 96), Condition("opcode", Op.EQUAL, Opcode.READ)))
    start = SPACE.base.with_(qps=32, opcode=Opcode.READ, direction=Direction.BIDIRECTIONAL, loopback=True)
    found, _ = run(start, planted(mfs))
    assert {condition.dimension for condition in found.mfs.conditions} == {"nic_qps", "opcode"}


@pytest.mark.parametrize(
    ("feature", "least"),
    [("post_bytes", 512 << 10), ("nic_offered_bps", 40 * 10**9), ("offered_messages_per_second", 2 * 10**6)],
)
def test_products_that_make_messages_late_are_explained_where_loads_vary(feature: str, least: int) -> None:
    loads = load_space("offered-load")
    late = loads.base.with_(
        messages=(1024,), wqe_batch=64, offered_bps=20 * 10**9, direction=Direction.BIDIRECTIONAL, loopback=True
    )
    if feature == "post_bytes":
        late = late.with_(messages=(65536,), mr_bytes=1 << 22)
    mfs = Mfs((Condition(feature, Op.AT_LEAST, least),))
    assert mfs.covers(late)
    found, _ = run(late, planted(mfs), space=loads)
    (condition,) = found.mfs.conditions
    assert condition.dimension == feature
    assert least <= condition.value <= 2 * least


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
    around = Surroundings(SPACE, Noise(), never)
    probes = extract(SPACE.base.with_(qps=512, loopback=True), Symptom.COMPLETION_ERRORS, Extraction(), around)
    probe = next(probes)
    try:
        while True:
            probe = probes.send(next(reproduced) if mfs.covers(probe) else NORMAL)
    except StopIteration as stop:
        found: Extracted = stop.value
    assert found.mfs == mfs


def test_an_inconclusive_probe_does_not_hide_the_threshold_behind_it() -> None:
    mfs = Mfs((Condition("qps", Op.AT_LEAST, 64),))

    def answer(workload: Workload) -> Verdict:
        return inconclusive("the generator was slow") if workload.qps <= 2 else planted(mfs)(workload)

    found, _ = run(SPACE.base.with_(qps=512), answer)
    assert found.mfs == mfs


def test_the_finding_does_not_move_into_a_known_anomaly() -> None:
    known = Mfs((Condition("qps", Op.AT_MOST, 8),))

    def answer(workload: Workload) -> Verdict:
        assert not known.covers(workload)
        return SHOWS

    found, _ = run(SPACE.base.with_(qps=64), answer, known=known.covers)
    assert found.workload.qps > 8


@pytest.mark.parametrize(("most", "complete"), [(20, False), (300, True)])
def test_a_set_that_covers_healthy_runs_is_incomplete_at_the_limit(most: int, complete: bool) -> None:
    """A quarter of the runs inside are healthy, as the policy expects."""
    rng = Random(5)
    mfs = Mfs((Condition("wqe_batch", Op.AT_LEAST, 32),))
    policy = Extraction(most_runs=most)
    start = SPACE.base.with_(wqe_batch=128)
    found, asked = run(start, lambda w: SHOWS if mfs.covers(w) and rng.random() < 0.75 else NORMAL, policy)
    assert (len(asked) >= most) is not complete
    assert found.mfs.conditions
    assert found.passed < found.trials
    assert found.confidence == (found.passed + 1) / (found.trials + 2)
    assert found.complete is complete


@pytest.mark.parametrize("needs", [16, 32, 64])
@pytest.mark.parametrize(("most", "is_too_wide"), [(6, True), (12, False)])
def test_at_the_limit_the_claim_begins_anew_without_what_refutes_it(needs: int, most: int, is_too_wide: bool) -> None:
    """After 12 runs the most probable set is the planted one. After 6 it is too wide, and a fresh run shows that."""
    mfs = Mfs((Condition("wqe_batch", Op.AT_LEAST, needs), Condition("qps", Op.AT_LEAST, needs)))
    found, asked = run(SPACE.base.with_(wqe_batch=128, qps=512), planted(mfs), Extraction(most_runs=most))
    late = asked[most:]
    shows = [mfs.covers(workload) for workload in late]
    assert (False in shows) is is_too_wide
    assert not any(found.mfs.covers(workload) for workload in late if not mfs.covers(workload))
    assert len(late) <= 3 * 9
    assert found.complete
    assert (found.fresh_shows, found.fresh_runs) == (9, 9)
    assert shows[-9:] == [True] * 9
    if not is_too_wide:
        assert set(found.mfs.conditions) == set(mfs.conditions)


def test_at_the_limit_no_set_is_claimed_that_fresh_runs_refute_to_the_end() -> None:
    mfs = Mfs((Condition("wqe_batch", Op.AT_LEAST, 32), Condition("qps", Op.AT_LEAST, 32)))
    start = SPACE.base.with_(wqe_batch=128, qps=512)
    asked: list[Workload] = []

    def only_before(workload: Workload) -> Verdict:
        asked.append(workload)
        return planted(mfs)(workload) if len(asked) <= 12 else NORMAL

    found, _ = run(start, only_before, Extraction(most_runs=12))
    assert not found.complete
    assert len(asked) <= 12 + 3 * 9 + 1


@pytest.mark.parametrize(("accepting", "margin", "runs"), [(1, 1.0, 2), (3, 1.0, 6), (3, 1.1, 3), (3, 2.0, 1)])
def test_the_simplest_workload_reproduces_clearly_or_often_enough(accepting: int, margin: float, runs: int) -> None:
    """A margin that noise can add counts half. Fresh draws can run the simplest workload once more."""
    mfs = Mfs((Condition("wqe_batch", Op.AT_LEAST, 32),))
    shows = replace(SHOWS, margin=margin)
    start = SPACE.base.with_(wqe_batch=128, qps=64)
    policy = Extraction(accepting=accepting, fresh_runs=1)
    found, asked = run(start, lambda w: shows if mfs.covers(w) else NORMAL, policy)
    assert found.workload != start
    assert runs <= asked.count(found.workload) <= runs + 1


def test_a_workload_that_does_not_reproduce_again_is_not_the_finding() -> None:
    """The plainest reproducing workload was a disturbance. Its other runs are healthy, and the next plainest counts."""
    mfs = Mfs((Condition("wqe_batch", Op.AT_LEAST, 32),))
    start = SPACE.base.with_(wqe_batch=128, qps=64)
    plainest, _ = run(start, planted(mfs), Extraction(accepting=1))
    seen: list[Workload] = []

    def answer(workload: Workload) -> Verdict:
        seen.append(workload)
        return NORMAL if workload == plainest.workload and seen.count(workload) > 1 else planted(mfs)(workload)

    found, asked = run(start, answer, Extraction(accepting=2))
    assert asked.count(plainest.workload) >= 2
    assert found.workload != plainest.workload
    assert found.passed < found.trials


def test_what_known_anomalies_cover_is_not_run_even_for_a_claim() -> None:
    start = SPACE.base.with_(wqe_batch=128)
    on_record = [(start, replace(SHOWS, margin=5.0))]
    found, asked = run(start, planted(Mfs(())), known=lambda workload: workload != start, measured=on_record)
    assert set(asked) == {start}
    assert not found.complete


def test_a_claim_counts_no_workload_twice_where_few_are_left() -> None:
    start = SPACE.base.with_(wqe_batch=128)
    mfs = Mfs((Condition("wqe_batch", Op.AT_LEAST, 32),))
    left = [start, *(SPACE.base.with_(wqe_batch=batch) for batch in (1, 2, 4, 8, 16, 32, 64))]
    found, asked = run(start, planted(mfs), known=lambda workload: workload not in left)
    inside = {workload for workload in asked if mfs.covers(workload)}
    assert str(found.mfs) == str(mfs)
    assert found.fresh_runs < len(inside)
    assert found.complete


def test_a_finding_without_a_run_is_run_first() -> None:
    start = SPACE.base.with_(wqe_batch=128)
    mfs = Mfs((Condition("wqe_batch", Op.AT_LEAST, 32),))
    found, asked = run(start, planted(mfs), measured=[(start, replace(SHOWS, margin=5.0))])
    assert found.mfs == mfs
    assert asked[0] != start
    found, asked = run(start, planted(mfs))
    assert asked[0] == start


def test_a_healthy_run_where_the_anomaly_was_expected_is_repeated() -> None:
    """A set of one condition. Its first fresh draw is disturbed, and the next run repeats it."""
    mfs = Mfs((Condition("wqe_batch", Op.AT_LEAST, 32),))
    shows = replace(SHOWS, margin=100.0)
    _, undisturbed = run(SPACE.base.with_(wqe_batch=128), lambda w: shows if mfs.covers(w) else NORMAL)
    first = undisturbed[-9]
    seen: list[Workload] = []

    def answer(workload: Workload) -> Verdict:
        seen.append(workload)
        disturbed = workload == first and seen.count(first) == 1
        return shows if mfs.covers(workload) and not disturbed else NORMAL

    found, asked = run(SPACE.base.with_(wqe_batch=128), answer)
    place = asked.index(first)
    assert asked[place + 1] == first
    assert found.mfs == mfs


def test_a_claim_counts_fresh_workloads_inside_the_finished_set() -> None:
    mfs = Mfs((Condition("wqe_batch", Op.AT_LEAST, 32), Condition("qps", Op.AT_MOST, 512)))
    shows = replace(SHOWS, margin=100.0)
    found, asked = run(SPACE.base.with_(wqe_batch=128), lambda w: shows if mfs.covers(w) else NORMAL)
    fresh = asked[-found.fresh_runs :]
    assert (found.fresh_shows, found.fresh_runs) == (9, 9)
    assert all(found.mfs.covers(workload) for workload in fresh)
    assert not set(fresh).intersection(asked[: -found.fresh_runs])
    plain = [sum(w.get(name) != SPACE.base.get(name) for name in SPACE.dimensions) <= 3 for w in fresh]
    assert 3 <= sum(plain) <= 6


def test_fresh_draws_that_fail_revise_the_set_and_the_claim_begins_anew() -> None:
    """Only runs with a rare second value are healthy, which the questions before the first claim do not touch."""
    first = Mfs((Condition("wqe_batch", Op.AT_LEAST, 32),))
    hidden = Condition("sge_count", Op.AT_MOST, 4)
    shows = replace(SHOWS, margin=100.0)
    start = SPACE.base.with_(wqe_batch=128)
    before, fresh = run(start, lambda w: shows if first.covers(w) else NORMAL)
    undecided = len(fresh) - before.fresh_runs
    asked: list[Workload] = []

    def answer(workload: Workload) -> Verdict:
        asked.append(workload)
        settled = len(asked) > undecided
        return shows if first.covers(workload) and (hidden.holds(workload) or not settled) else NORMAL

    found, _ = run(start, answer)
    assert before.mfs == first
    assert found.mfs != first
    assert "sge_count" in {condition.dimension for condition in found.mfs.conditions}
    after = asked[-found.fresh_runs :]
    assert found.fresh_runs >= 9
    assert all(found.mfs.covers(workload) for workload in after)
    assert found.fresh_shows == sum(hidden.holds(workload) for workload in after)


def test_every_other_fresh_draw_is_plain_where_the_set_names_nothing() -> None:
    mfs = Mfs((Condition("wqe_batch", Op.AT_LEAST, 32), Condition("mtu", Op.AT_MOST, 1024)))
    shows = replace(SHOWS, margin=100.0)
    found, asked = run(SPACE.base.with_(wqe_batch=128, mtu=512), lambda w: shows if mfs.covers(w) else NORMAL)
    assert set(found.mfs.conditions) == set(mfs.conditions)
    fresh = asked[-found.fresh_runs :]
    free = ("direction", "loopback", "memory", "peer_memory", "opcode", "qp_type", "qps", "mrs_per_qp")
    plain = [all(workload.get(name) == SPACE.base.get(name) for name in free) for workload in fresh]
    assert plain == [number % 2 == 0 for number in range(len(fresh))]


def test_the_claim_of_an_empty_set_draws_from_the_whole_space() -> None:
    shows = replace(SHOWS, margin=100.0)
    found, asked = run(SPACE.base, lambda _workload: shows)
    assert (found.mfs, found.fresh_shows, found.fresh_runs) == (Mfs(()), 9, 9)
    fresh = asked[-9:]
    assert all(SPACE.allows(workload) for workload in fresh)
    farthest = [sum(w.get(name) != SPACE.base.get(name) for name in SPACE.dimensions) for w in fresh]
    assert min(farthest) >= 6


def test_probes_that_need_a_sibling_are_asked_less_often() -> None:
    """A verdict on throughput also costs a run of the plain sibling, which only WRITE has here."""
    with_siblings, without = 0, 0
    for seed in range(6):
        mfs, workload = planted_at(seed)
        _, asked = run(workload, planted(mfs), cost=lambda w: 1.0 if has_sibling(w) else 1.5)
        _, unaware = run(workload, planted(mfs))
        with_siblings += sum(not has_sibling(probe) for probe in asked)
        without += sum(not has_sibling(probe) for probe in unaware)
    assert with_siblings <= 0.8 * without


def has_sibling(workload: Workload) -> bool:
    return workload.opcode is Opcode.WRITE


def test_probes_go_where_no_other_anomaly_hides_the_answer() -> None:
    """UC and UD raise other counters, so their runs give no evidence."""
    mfs = Mfs((Condition("wqe_batch", Op.AT_LEAST, 32), Condition("qps", Op.AT_LEAST, 64)))

    def answer(workload: Workload) -> Verdict:
        if workload.qp_type is QpType.RC:
            return replace(SHOWS, signature=Signature((("misses", 3.0),))) if mfs.covers(workload) else NORMAL
        return replace(SHOWS, signature=Signature((("stalls", 3.0),)))

    hidden = 0
    for seed in range(4):
        rng = Random(seed)
        start = SPACE.base.with_(qps=512, wqe_batch=128, sge_count=rng.choice((1, 2, 4)), mtu=rng.choice((1024, 4096)))
        _, asked = run(start, answer)
        hidden += sum(probe.qp_type is not QpType.RC for probe in asked)
    assert hidden <= 60


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


def test_short_entries_beside_long_ones_are_one_cause_by_split_and_by_messages() -> None:
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


def test_a_few_wrong_verdicts_do_not_change_the_set() -> None:
    rng = Random(3)
    mfs = Mfs((Condition("wqe_batch", Op.AT_LEAST, 32),))

    def answer(workload: Workload) -> Verdict:
        shows = mfs.covers(workload)
        return (NORMAL if shows else SHOWS) if rng.random() < 0.02 else (SHOWS if shows else NORMAL)

    found, _ = run(
        SPACE.base.with_(wqe_batch=128),
        answer,
        Extraction(repeats=3),
        noise=Noise(stray_rate=0.05, miss_rate=0.05),
    )
    assert found.mfs == mfs


def test_a_typical_explanation_takes_few_runs_and_gives_its_confidence() -> None:
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
    assert sorted(taken)[len(taken) // 2] <= 40


@pytest.mark.parametrize(("cost", "questions"), [(1.0, 4), (0.25, 13)])
def test_a_phase_counts_as_the_time_that_it_takes(cost: float, questions: int) -> None:
    """The finding takes a set-up of its own, and leaves three runs of the four."""
    mfs = Mfs((Condition("wqe_batch", Op.AT_LEAST, 32), Condition("qps", Op.AT_LEAST, 32)))
    start = SPACE.base.with_(wqe_batch=128, qps=512)
    around = Surroundings(SPACE, Noise(), never, list, cost=lambda _workload: cost)
    extraction = MfsExtraction(start, Symptom.PAUSE, Extraction(most_runs=4), around)
    assert len(answered(extraction.questions(), planted(mfs))) == questions


def test_what_a_device_refuses_takes_hardly_any_of_the_time() -> None:
    mfs = Mfs((Condition("wqe_batch", Op.AT_LEAST, 32), Condition("qps", Op.AT_LEAST, 32)))

    def answer(workload: Workload) -> Verdict | None:
        return None if workload.sge_count > 1 else planted(mfs)(workload)

    found, asked = run(SPACE.base.with_(wqe_batch=128, qps=512), answer, Extraction(most_runs=32, fresh_runs=5))
    assert sum(workload.sge_count > 1 for workload in asked) > 10
    assert found.complete


def test_a_region_that_is_no_box_is_cut_to_one_without_healthy_runs() -> None:
    """A trade-off that is no product of two: the set must not cover what it saw to be healthy."""

    def answer(workload: Workload) -> Verdict:
        shows = workload.mtu <= 1024 and workload.qps * workload.sge_count * workload.wqe_batch >= 64
        return SHOWS if shows else NORMAL

    found, asked = run(SPACE.base.with_(mtu=512, qps=128, sge_count=4), answer, Extraction(most_runs=300))
    assert len(asked) <= 40
    assert Condition("mtu", Op.AT_MOST, 1024) in found.mfs.conditions
    assert not any(found.mfs.covers(probe) for probe in asked if answer(probe).is_normal)


def test_a_healthy_run_of_the_campaign_is_evidence_and_is_not_repeated() -> None:
    mfs = Mfs((Condition("wqe_batch", Op.AT_MOST, 4), Condition("qps", Op.AT_LEAST, 320)))
    start = SPACE.base.with_(qps=1024)
    healthy = start.with_(wqe_batch=32, sge_count=4)
    probes = extract(
        start, Symptom.PAUSE, Extraction(), Surroundings(SPACE, Noise(), never, lambda: [(healthy, NORMAL)])
    )
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


def test_another_anomaly_with_the_same_symptom_does_not_count() -> None:
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


@pytest.mark.parametrize(("most", "complete"), [(2, False), (100, True)])
def test_that_any_workload_shows_it_is_concluded_from_several(most: int, complete: bool) -> None:
    found, _ = run(SPACE.base, lambda _workload: SHOWS, Extraction(most_runs=most))
    assert (found.mfs, found.complete) == (Mfs(()), complete)


@pytest.mark.parametrize("most_runs", [10, 300])
def test_the_simplest_workload_is_one_that_shows_it_on_a_set_up_of_its_own(most_runs: int) -> None:
    """A phase can show what the same workload does not show alone, also where the limit of time ends the questions."""
    mfs = Mfs((Condition("wqe_batch", Op.AT_LEAST, 32),))
    start = SPACE.base.with_(wqe_batch=128, qps=64, sge_count=4)
    around = Surroundings(SPACE, Noise(), never, lambda: [(start, SHOWS)] * 3, set_up=lambda: SetUp(SPACE.base))
    extraction = MfsExtraction(start, Symptom.PAUSE, Extraction(most_runs=most_runs), around)
    alone = Mfs((*mfs.conditions, Condition("qps", Op.AT_LEAST, 64)))
    while not extraction.is_over:
        answered(extraction.questions(), lambda workload: SHOWS if mfs.covers(workload) else NORMAL)
        answered(extraction.claims(), lambda workload: SHOWS if alone.covers(workload) else NORMAL)
    assert alone.covers(extraction.result().workload)


@pytest.mark.parametrize("measured", [False, True])
def test_the_questions_end_at_the_limit_of_runs(measured: bool) -> None:
    mfs, workload = planted_at(3)
    runs = [(workload, SHOWS)] if measured else []
    around = Surroundings(SPACE, Noise(), never, lambda: runs)
    extraction = MfsExtraction(workload, Symptom.PAUSE, Extraction(most_runs=6), around)
    assert len(answered(extraction.questions(), lambda each: SHOWS if mfs.covers(each) else NORMAL)) == 6
