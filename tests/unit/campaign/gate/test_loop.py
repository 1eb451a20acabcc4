"""The gate on testbeds with planted anomalies."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from collie import ports
from collie.campaign.gate.cases import CaseOrigin, Record
from collie.campaign.gate.loop import PURPOSE
from collie.detect.bounds import Bounds, Calibration
from collie.detect.compare import Change, Side
from collie.detect.measurement import Watch
from collie.detect.noise import Noise
from collie.detect.reading import Sign
from collie.detect.symptom import Symptom
from collie.report.ci.junit import write_junit
from collie.report.ci.markdown import render_markdown
from collie.report.terminal.gate import answer_of, describe_effect, render_gate, render_gate_text
from collie.store.memory import MemoryStore
from collie.testing.fakes import FakeTestbed, Planted
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.setup import SetUp
from collie.workloads.workload import Workload
from tests.support.gates import A1, A2, BATCHES, BOTH, CONTEXT, RECIPE, case, changes, gate, measurer
from tests.support.planted import HEADER, LOOPBACK, MANY_SGES, SPACE


def test_unchanged_passes_and_its_anomalies_are_still_there() -> None:
    summary, store = gate(FakeTestbed(BOTH, seed=1), FakeTestbed(BOTH, seed=2))
    assert {"a1": Change.STILL, "a2": Change.STILL}.items() <= changes(summary).items()
    assert not summary.alarms
    assert summary.exit_code(inconclusive_fails=True) == 0
    assert {"a1", "a2"} <= {anomaly.id for anomaly in store.anomalies()}, "the next gate may have it as its baseline"


@dataclass
class Fragile(FakeTestbed):
    """A testbed that loses host b in some workloads."""

    deadly: Mfs = field(default_factory=lambda: Mfs(()))

    def measure(
        self, workload: Workload, run: int, watch: Watch | None = None, on: SetUp | None = None
    ) -> ports.RunResult:
        result = super().measure(workload, run, watch, on)
        return ports.HostLost("b", "no answer", 90.0) if self.deadly.covers(workload) else result


@pytest.mark.parametrize("side", Side)
def test_a_case_that_cost_a_host_is_not_run_again_and_undecided(side: Side) -> None:
    deadly = Fragile(BOTH, deadly=Mfs((*LOOPBACK.conditions, Condition("sge_count", Op.AT_MOST, 1))))
    sound = FakeTestbed(BOTH)
    pair = (deadly, sound) if side is Side.CANDIDATE else (sound, deadly)
    summary, _ = gate(*pair, budget=30)
    assert deadly.measured.count(A1.workload) == 1
    (case,) = [result for result in summary.results if result.case is A1]
    assert case.change is Change.INCONCLUSIVE
    assert case.comparison.reason.endswith(f"it cost host b of the {side}: no answer")
    assert summary.exit_code() == 4


def test_a_gate_whose_search_lost_hosts_does_not_pass(tmp_path: Path) -> None:
    """What it found is no answer for the workloads that were lost."""
    summary, _ = gate(Fragile(BOTH, deadly=BATCHES), FakeTestbed(BOTH), budget=60)
    assert changes(summary) == {"a1": Change.STILL, "a2": Change.STILL}
    assert not summary.of(Change.INCONCLUSIVE)
    assert summary.exit_code() == 4
    assert summary.exit_code(inconclusive_fails=False) == 0
    lost = len(summary.lost)
    assert lost > 5
    assert summary.answer() == f"inconclusive: 2 still there, {lost} runs cost a host"
    first = summary.lost[0][1]
    said = f"{lost} workloads cost a host and got no answer: run {first.run} host b of the candidate (no answer); run "
    text = render_gate_text(summary, CONTEXT)
    assert said in text
    assert f" and {lost - 5} more\n" in text
    assert said in render_markdown(summary, CONTEXT)
    shown = render_gate(summary, CONTEXT, 1.0)
    assert not shown["passed"]
    assert len(shown["lost_machines"]) == lost
    assert shown["lost_machines"][0].items() >= {"side": "candidate", "run": first.run, "host": "b"}.items()
    for fails, kind in ((True, "error"), (False, "skipped")):
        write_junit(tmp_path / "gate.xml", summary, replace(CONTEXT, inconclusive_fails=fails))
        assert f'<{kind} message="{said}' in (tmp_path / "gate.xml").read_text()


def test_fixed_and_worse_are_distinguished() -> None:
    summary, _ = gate(FakeTestbed((Planted(LOOPBACK, severity=0.6),)), FakeTestbed(BOTH))
    assert (changes(summary)["a1"], changes(summary)["a2"]) == (Change.WORSE, Change.FIXED)
    assert summary.exit_code(inconclusive_fails=True) == 1


def test_a_planted_regression_is_found_by_the_search_with_a_small_budget() -> None:
    recipe = replace(RECIPE, explain=True)
    summary, _ = gate(FakeTestbed((*BOTH, Planted(BATCHES))), FakeTestbed(BOTH), budget=100, recipe=recipe)
    new = [result for result in summary.of(Change.NEW) if result.case.kind is CaseOrigin.FOUND]
    assert [result.case.mfs for result in new] == [BATCHES]
    assert new[0].case.anomaly == "gates/1/a1"


def test_a_find_says_that_it_is_one_and_whether_it_is_new() -> None:
    """Its name is that of an anomaly of any search, so it can stand beside an `a1` of the baseline."""
    recipe = replace(RECIPE, explain=True)
    candidate = FakeTestbed((*BOTH, Planted(BATCHES)))
    summary, _ = gate(candidate, FakeTestbed(BOTH), (), budget=100, recipe=recipe)
    text = render_gate_text(summary, CONTEXT)
    assert "NEW  a2 (found by this gate): " in text
    assert "STILL THERE\n    a1 (found by this gate): " in text
    assert " found 3 beyond these: 1 new (a2), 2 not new, as the baseline is no better (a1, a3)\n" in text
    assert answer_of(summary, CONTEXT).cases[0].name == "a2 (found by this gate)"
    assert "| `a2 (found by this gate)` |" in render_markdown(summary, CONTEXT)


def test_what_the_search_finds_can_be_decided_however_small_the_budget_is() -> None:
    found = []
    for budget in range(20, 121, 5):
        summary, _ = gate(FakeTestbed((*BOTH, Planted(BATCHES))), FakeTestbed(BOTH), budget=budget)
        found += [result for result in summary.results if result.case.kind is CaseOrigin.FOUND][:1]
    assert len(found) > 5
    assert {result.change for result in found} == {Change.NEW}


def test_what_is_too_little_for_a_search_goes_to_the_neighbours() -> None:
    summary, _ = gate(FakeTestbed(BOTH), FakeTestbed(BOTH), budget=11)
    assert summary.search is None
    assert summary.untested == ()
    assert "nothing was searched" in render_gate_text(summary, CONTEXT)


def test_a_search_that_found_nothing_says_how_long_it_searched() -> None:
    candidate = FakeTestbed(BOTH)
    summary, store = gate(candidate, FakeTestbed(BOTH), budget=40)
    searched = [run for run in store.runs() if run.purpose not in (PURPOSE, "sibling")]
    assert (summary.search_runs, summary.search_seconds) == (len(searched), 30.0 * len(searched))
    assert "the search of 20 runs (10 min of testbed time) found nothing beyond these\n" in render_gate_text(
        summary, CONTEXT
    )
    document = render_gate(summary, CONTEXT, 1.0)
    assert (document["search_runs"], document["search_elapsed_seconds"]) == (20, 600.0)


def test_a_budget_that_is_too_small_names_one_that_is_not() -> None:
    """The named budget decides what this one left open, and searches."""
    small, _ = gate(FakeTestbed(BOTH), FakeTestbed(BOTH), budget=3)
    assert changes(small)["a2"] is Change.INCONCLUSIVE
    assert small.needed is not None
    assert f"; --budget {small.needed.as_option} would decide every anomaly" in render_gate_text(small, CONTEXT)
    assert render_gate(small, CONTEXT, 1.0)["needed_budget"] == small.needed.as_option
    assert small.needed.runs is not None
    enough, _ = gate(FakeTestbed(BOTH), FakeTestbed(BOTH), budget=small.needed.runs)
    assert changes(enough)["a2"] is Change.STILL
    assert enough.search is not None
    assert enough.needed is None
    assert "--budget" not in render_gate_text(enough, CONTEXT)


@pytest.mark.parametrize("known", [1, 2, 5])
def test_the_budget_that_is_named_is_larger_and_enough(known: int) -> None:
    cases = [case(f"a{sges}", MANY_SGES, sge_count=sges) for sges in range(8, 8 + known)]
    named = set()
    for budget in (5, 10, 20, 30):
        small, _ = gate(FakeTestbed(BOTH), FakeTestbed(BOTH), cases, budget=budget)
        if small.needed is not None:
            assert small.needed.runs is not None
            assert small.needed.runs > budget
            named.add(small.needed.runs)
    assert named
    for budget in named:
        enough, _ = gate(FakeTestbed(BOTH), FakeTestbed(BOTH), cases, budget=budget)
        assert enough.search is not None
        assert enough.needed is None


def test_a_find_that_the_budget_cut_names_no_budget() -> None:
    """A larger one searches longer, so it can find another one at its end."""
    summary, _ = gate(FakeTestbed(BOTH), FakeTestbed(BOTH), (A2,), budget=70)
    finds = [result for result in summary.results if result.case.kind is CaseOrigin.FOUND]
    assert finds[-1].change is Change.INCONCLUSIVE
    assert summary.needed is None


def test_a_neighbour_that_lost_its_health_is_new() -> None:
    anything = Planted(Mfs((Condition("sge_count", Op.AT_MOST, 7), Condition("loopback", Op.EQUAL, False))))
    summary, _ = gate(FakeTestbed((*BOTH, anything)), FakeTestbed(BOTH), budget=60)
    assert {r.case.kind for r in summary.alarms} >= {CaseOrigin.NEIGHBOUR}


def test_known_anomalies_that_show_are_not_searched_again() -> None:
    candidate = FakeTestbed(BOTH)
    summary, _ = gate(candidate, FakeTestbed(BOTH), budget=150)
    assert not [result for result in summary.results if result.case.kind is CaseOrigin.FOUND]
    searched = candidate.measured[-80:]
    assert candidate.runs > 100
    assert not any(LOOPBACK.covers(workload) or MANY_SGES.covers(workload) for workload in searched)


LARGE = A2.workload.with_(qps=64)
MANY_QPS = Mfs((Condition("qps", Op.AT_LEAST, 64),))
AFTER = Planted(MANY_SGES, after=MANY_QPS)
AFTER_CASE = replace(A2, on=SetUp(LARGE, (LARGE,)))


def test_an_anomaly_that_needs_phases_before_it_is_compared_after_them() -> None:
    summary, store = gate(FakeTestbed((AFTER,)), FakeTestbed((AFTER,)), (AFTER_CASE,), budget=40)
    assert changes(summary)["a2"] is Change.STILL
    (kept,) = (anomaly for anomaly in store.anomalies() if anomaly.id == "a2")
    assert (kept.set_up, kept.workload) == (AFTER_CASE.on, A2.workload)
    summary, _ = gate(FakeTestbed(), FakeTestbed((AFTER,)), (AFTER_CASE,), budget=40)
    assert changes(summary)["a2"] is Change.FIXED
    alone, _ = gate(FakeTestbed((AFTER,)), FakeTestbed((AFTER,)), (A2,), budget=40)
    assert changes(alone)["a2"] is Change.HEALTHY


def test_its_neighbours_follow_the_same_phases() -> None:
    candidate = FakeTestbed((AFTER, Planted(Mfs((Condition("sge_count", Op.AT_MOST, 7),)), after=MANY_QPS)))
    summary, _ = gate(candidate, FakeTestbed((AFTER,)), (AFTER_CASE,), budget=100)
    beside = [result for result in summary.results if result.case.kind is CaseOrigin.NEIGHBOUR]
    assert [result.case.mfs.conditions for result in beside] == [MANY_SGES.conditions[1:]], "its set-up has no loopback"
    assert [result.change for result in beside] == [Change.NEW]


def test_a_record_does_not_answer_for_runs_after_a_history() -> None:
    """Its readings of the workload alone would make the anomaly new."""
    store = MemoryStore(HEADER)
    measured = measurer(FakeTestbed((AFTER,)), store)
    for workload in (A2.workload, SPACE.base) * 9:
        measured.judged(workload, "search")
    record = Record(store.runs())
    summary, _ = gate(FakeTestbed((AFTER,)), None, (AFTER_CASE,), record=record, budget=40)
    assert changes(summary)["a2"] is Change.STILL
    assert all(result.case.kind is not CaseOrigin.NEIGHBOUR for result in summary.results)


def test_an_anomaly_that_needs_phases_before_it_explains_no_workload_alone() -> None:
    candidate = FakeTestbed((AFTER,))
    gate(candidate, FakeTestbed((AFTER,)), (AFTER_CASE,), budget=150)
    assert any(MANY_SGES.covers(workload) for workload in candidate.measured[-60:]), "it is searched"
    assert A2.explains(A2.workload)
    assert not AFTER_CASE.explains(A2.workload)


def test_what_is_not_explained_to_the_end_hides_nothing_and_stays_so() -> None:
    cut_short = replace(A1, complete=False)
    candidate = FakeTestbed(BOTH)
    summary, store = gate(candidate, FakeTestbed(BOTH), (cut_short,), budget=150)
    assert changes(summary)["a1"] is Change.STILL
    assert next(anomaly for anomaly in store.anomalies() if anomaly.id == "a1").complete is False
    assert any(LOOPBACK.covers(workload) for workload in candidate.measured[-60:]), "it is searched"
    unknown = case("k", LOOPBACK, CaseOrigin.KNOWN, loopback=True, qps=2)
    summary, _ = gate(FakeTestbed(BOTH), None, (unknown, cut_short), budget=20)
    assert changes(summary)["k"] is Change.INCONCLUSIVE, "what may be another anomaly is not called still there"


def test_the_budget_holds_for_both_sides_together() -> None:
    candidate, baseline = FakeTestbed(BOTH), FakeTestbed(BOTH)
    summary, _ = gate(candidate, baseline, budget=40)
    assert candidate.runs + baseline.runs == sum(summary.runs) <= 40


def test_what_the_budget_does_not_reach_is_inconclusive() -> None:
    summary, _ = gate(FakeTestbed(BOTH), FakeTestbed(BOTH), budget=3)
    assert changes(summary)["a2"] is Change.INCONCLUSIVE
    assert "budget" in summary.of(Change.INCONCLUSIVE)[0].comparison.reason
    assert (summary.exit_code(inconclusive_fails=True), summary.exit_code(inconclusive_fails=False)) == (4, 0)


def test_pairs_taken_before_the_budget_was_spent_are_reported() -> None:
    summary, _ = gate(FakeTestbed((Planted(MANY_SGES),)), FakeTestbed(()), (A2,), budget=3)
    [comparison] = [result.comparison for result in summary.of(Change.INCONCLUSIVE)]
    assert [pair.sign for pair in comparison.pairs] == [Sign.WORSE]
    assert "too few pairs" in comparison.reason


def test_a_workload_that_cannot_run_is_unsupported_and_no_run_is_reported() -> None:
    def no(workload: Workload) -> str | None:
        return "no loopback" if workload.loopback else None

    summary, _ = gate(FakeTestbed(BOTH, unsupported=no), FakeTestbed(BOTH, unsupported=no), budget=60)
    assert changes(summary)["a1"] is Change.UNSUPPORTED
    outside = replace(A1, workload=A1.workload.with_(loopback=True, qps=10**6))
    summary, _ = gate(FakeTestbed(BOTH), FakeTestbed(BOTH), (outside,), budget=0)
    assert summary.exit_code(inconclusive_fails=True) == 5


def test_a_gate_that_measured_nothing_does_not_pass() -> None:
    refusing = FakeTestbed(unsupported=lambda _workload: "no such opcode")
    summary, _ = gate(refusing, refusing, budget=20)
    assert summary.runs[0] > 0
    assert summary.exit_code(inconclusive_fails=True) == 4


def test_noisy_testbeds_take_more_pairs_and_still_decide() -> None:
    noisy = replace(
        RECIPE,
        noise=Noise(stray_rate=0.05, miss_rate=0.15),
    )
    baseline, candidate = (FakeTestbed((Planted(LOOPBACK, shows=0.85),), seed=3), FakeTestbed(seed=4))
    summary, _ = gate(candidate, baseline, (A1,), recipe=noisy, budget=80)
    assert changes(summary)["a1"] is Change.FIXED
    assert len(summary.results[0].comparison.pairs) >= 5


def test_a_long_comparison_runs_the_plain_sibling_a_few_times_and_not_before_every_run() -> None:
    doubtful = replace(
        RECIPE,
        confirmation=replace(RECIPE.confirmation, fresh_siblings=1),
        noise=Noise(stray_rate=0.05, miss_rate=0.15),
    )
    slow = replace(A1, symptom=Symptom.LOW_THROUGHPUT)
    flaky = Planted(LOOPBACK, Symptom.LOW_THROUGHPUT, severity=0.6, shows=0.85)
    summary, store = gate(FakeTestbed(seed=4), FakeTestbed((flaky,), seed=3), (slow,), recipe=doubtful, budget=80)
    assert changes(summary)["a1"] is Change.FIXED
    assert len(summary.results[0].comparison.pairs) >= 5
    assert sum(run.purpose == "sibling" for run in store.runs()) <= 4
    summary, store = gate(FakeTestbed((flaky,), seed=4), FakeTestbed(seed=3), (slow,), recipe=doubtful, budget=80)
    assert changes(summary)["a1"] is Change.NEW
    assert len(summary.results[0].comparison.pairs) >= 5
    assert 3 <= sum(run.purpose == "sibling" for run in store.runs()) <= 4  # the candidate's: one at first, three anew


def test_a_side_whose_plain_sibling_cannot_be_measured_is_held_against_the_other() -> None:
    symptom = Symptom.LOW_THROUGHPUT
    slow = replace(A2, symptom=symptom)
    planted = (Planted(MANY_SGES, symptom, severity=0.6),)
    candidate = FakeTestbed(planted)
    sibling = Bounds(candidate.specification, Calibration(), SPACE).sibling(slow.workload)
    assert sibling != slow.workload
    baseline = FakeTestbed(planted, unsupported=lambda ran: "no plain traffic" if ran == sibling else None)
    summary, _ = gate(candidate, baseline, (slow,), budget=40)
    assert changes(summary)["a2"] is Change.STILL
    effect = summary.results[0].comparison.effect
    assert effect is not None
    assert effect.severity is None
    assert effect.throughput_ratio == (1.0, 1.0, 1.0)
    assert "severity" not in describe_effect(effect)
