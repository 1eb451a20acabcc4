"""The search on testbeds with planted anomalies."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collie.campaign.budget import Budget
from collie.campaign.events import AnomalyConfirmed, AnomalyExplained, RunFinished, SuspicionDropped
from collie.campaign.phases import with_places
from collie.detect.bounds import Calibration
from collie.detect.measurement import Watch
from collie.detect.symptom import Symptom
from collie.detect.thresholds import Loss, Thresholds
from collie.errors import StoreError, TestbedError
from collie.ports import OUTAGE, HostLost, Measured, RunResult, SetupFailed
from collie.report.terminal.summary import render_summary
from collie.search.anomaly import chance_of_next
from collie.search.recipe import Extraction, Recipe, StrategyName
from collie.store.memory import MemoryStore
from collie.testing.fakes import FakeTestbed, ListSink, Planted
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.setup import SetUp
from collie.workloads.workload import QpType, Workload
from tests.support.planted import HEADER, LOOPBACK, MANY_SGES
from tests.support.searches import RANDOM, search


def test_planted_anomalies_are_found_confirmed_and_explained() -> None:
    sink = ListSink()
    planted = (Planted(LOOPBACK), Planted(MANY_SGES, Symptom.LOW_THROUGHPUT, 0.5))
    summary = search(FakeTestbed(planted), sink=sink, budget=Budget(runs=400))
    assert {anomaly.mfs.conditions for anomaly in summary.anomalies} >= {LOOPBACK.conditions}
    assert {anomaly.symptom for anomaly in summary.anomalies} == {Symptom.PAUSE, Symptom.LOW_THROUGHPUT}
    assert len(sink.of(AnomalyConfirmed)) == len(sink.of(AnomalyExplained)) == len(summary.anomalies)
    assert all(anomaly.complete for anomaly in summary.anomalies)
    assert summary.runs == len(sink.of(RunFinished)) == 400


def test_a_healthy_testbed_has_no_anomaly() -> None:
    assert search(FakeTestbed(noise=0.02)).anomalies == ()


def test_what_a_known_anomaly_covers_is_not_measured() -> None:
    testbed = FakeTestbed((Planted(LOOPBACK),))
    summary = search(testbed, known=(LOOPBACK,))
    assert summary.anomalies == ()
    assert summary.skipped > 50
    assert not any(workload.loopback for workload in testbed.measured)


def test_a_suspicion_that_does_not_reproduce_is_dropped() -> None:
    sink = ListSink()
    summary = search(FakeTestbed((Planted(LOOPBACK, shows=0.05),), seed=3), sink=sink)
    assert len(sink.of(SuspicionDropped)) >= 1
    assert summary.anomalies == ()


def test_a_suspicion_that_shows_too_rarely_says_how_often_it_showed() -> None:
    sink = ListSink()
    summary = search(FakeTestbed((Planted(LOOPBACK, shows=0.2),), seed=3), sink=sink)
    rare = [(each.run, each.shows, each.runs) for each in sink.of(SuspicionDropped) if each.shows]
    assert rare == [(each.run, each.shows, each.runs) for each in summary.unconfirmed]
    assert rare


def test_failed_set_ups_are_neither_normal_nor_anomalous() -> None:
    testbed = FakeTestbed((Planted(LOOPBACK),), setup_failure_ratio=0.2, seed=5)
    summary = search(testbed)
    assert summary.failed_runs["qp timeout"] > 20
    assert [anomaly.mfs for anomaly in summary.anomalies] == [LOOPBACK]


def test_what_a_device_cannot_run_gives_no_verdict_and_no_condition() -> None:
    def unsupported(workload: Workload) -> str | None:
        return "no UC" if workload.qp_type is QpType.UC else None

    summary = search(FakeTestbed((Planted(LOOPBACK),), unsupported=unsupported))
    assert summary.unsupported_runs > 0
    assert [anomaly.mfs for anomaly in summary.anomalies] == [LOOPBACK]


def test_when_everything_is_anomalous_it_is_said_once() -> None:
    everywhere = Mfs((Condition("qps", Op.AT_LEAST, 1),))
    summary = search(FakeTestbed((Planted(everywhere),)))
    (own,) = [anomaly for anomaly in summary.anomalies if anomaly.same_as is None]
    assert own.complete
    assert own.mfs.conditions == ()


def test_known_anomalies_that_cover_the_space_end_the_search() -> None:
    everywhere = Mfs((Condition("qps", Op.AT_LEAST, 1),))
    summary = search(FakeTestbed(), known=(everywhere,))
    assert (summary.runs, summary.ended_by) == (0, "coverage")


def test_the_budget_ends_an_extraction_and_the_anomaly_says_so() -> None:
    testbed = FakeTestbed((Planted(LOOPBACK),))
    full = search(testbed, budget=Budget(runs=60))
    first = full.anomalies[0].found_at_run
    cut = search(FakeTestbed((Planted(LOOPBACK),)), budget=Budget(runs=first + 4))
    assert cut.runs == first + 4
    assert not cut.anomalies[0].complete


class _NarrowerOnceExplained(FakeTestbed):
    """Needs batches, too, once its anomaly has been explained."""

    sink: ListSink

    def measure(self, workload: Workload, run: int, watch: Watch | None = None, on: SetUp | None = None) -> RunResult:
        if self.sink.of(AnomalyExplained):
            batches = Mfs((Condition("loopback", Op.EQUAL, True), Condition("wqe_batch", Op.AT_LEAST, 16)))
            self.planted = (Planted(batches),)
        return super().measure(workload, run, watch)


def test_an_explanation_that_a_later_run_contradicts_is_revised() -> None:
    store, testbed = MemoryStore(HEADER), _NarrowerOnceExplained((Planted(LOOPBACK),))
    testbed.sink = ListSink()
    recipe = replace(RANDOM, audits=20)
    summary = search(testbed, recipe=recipe, store=store, budget=Budget(runs=400), sink=testbed.sink)
    revised = next(anomaly for anomaly in summary.anomalies if anomaly.revised)
    audits = [run for run in store.runs() if run.purpose == "audit"]
    contradicting = [run.workload for run in audits if run.verdict is not None and run.verdict.is_normal]
    assert any(revised.revised[0].covers(workload) for workload in contradicting)
    assert revised.mfs not in revised.revised
    assert all(contradicting.count(workload) == 2 for workload in contradicting)  # one healthy run is no contradiction
    assert next(kept for kept in store.anomalies() if kept.id == revised.id) == revised


def test_audits_that_show_make_an_explanation_surer() -> None:
    store = MemoryStore(HEADER)
    audited = search(FakeTestbed((Planted(LOOPBACK),)), recipe=replace(RANDOM, audits=3), store=store).anomalies[0]
    trusted = search(FakeTestbed((Planted(LOOPBACK),))).anomalies[0]
    assert audited.mfs == trusted.mfs == LOOPBACK
    audits = sum(run.purpose == "audit" for run in store.runs())
    assert audits > 3  # one of ten later proposals is an audit, too
    assert (audited.trials, audited.passed) == (trusted.trials + audits, trusted.passed + audits)
    assert audited.confidence == chance_of_next(audited.passed, audited.trials) != trusted.confidence


def test_the_severity_and_the_reason_of_an_anomaly_are_of_one_run() -> None:
    slow = Planted(LOOPBACK, Symptom.LOW_THROUGHPUT, severity=0.25)  # no clear run, so two confirm it
    store = MemoryStore(HEADER)
    summary = search(FakeTestbed((slow,), noise=0.02), store=store)
    judged = {(run.verdict.severity, run.verdict.reason) for run in store.runs() if run.verdict is not None}
    assert summary.anomalies
    assert {(anomaly.severity, anomaly.reason) for anomaly in summary.anomalies} <= judged


class _SilentOnceExplained(FakeTestbed):
    """Loses its link in every run inside a set that has been explained."""

    sink: ListSink

    def measure(self, workload: Workload, run: int, watch: Watch | None = None, on: SetUp | None = None) -> RunResult:
        result = super().measure(workload, run, watch)
        explained = [event.anomaly.mfs for event in self.sink.of(AnomalyExplained)]
        if isinstance(result, Measured) and any(mfs.covers(workload) for mfs in explained):
            return replace(result, measurement=replace(result.measurement, problems=("the link went down",)))
        return result


def test_an_audit_that_tells_nothing_does_not_contradict() -> None:
    store, testbed = MemoryStore(HEADER), _SilentOnceExplained((Planted(LOOPBACK),))
    testbed.sink = ListSink()
    summary = search(testbed, recipe=replace(RANDOM, audits=3), store=store, sink=testbed.sink)
    audits = [run.verdict for run in store.runs() if run.purpose == "audit"]
    assert len(audits) >= 3
    assert all(verdict is not None and verdict.is_inconclusive for verdict in audits)
    assert [(anomaly.mfs, anomaly.revised) for anomaly in summary.anomalies] == [(LOOPBACK, ())]


def test_a_budget_in_time_is_testbed_time() -> None:
    summary = search(FakeTestbed(run_seconds=30.0), budget=Budget(seconds=300.0))
    assert (summary.runs, summary.elapsed_seconds) == (10, 300.0)


class _Mortal(FakeTestbed):
    """Is gone after some runs."""

    def __init__(self, planted: tuple[Planted, ...], runs: int) -> None:
        super().__init__(planted, setup_failure_ratio=0.05, noise=0.01)
        self._left = runs
        self.set_ups: list[SetUp | None] = []

    def measure(self, workload: Workload, run: int, watch: Watch | None = None, on: SetUp | None = None) -> RunResult:
        self._left -= 1
        if self._left < 0:
            raise TestbedError("host b is gone")
        self.set_ups.append(on)
        return super().measure(workload, run, watch, on)


class _Deadly(FakeTestbed):
    """Loses a host to every workload with loopback."""

    def measure(self, workload: Workload, run: int, watch: Watch | None = None, on: SetUp | None = None) -> RunResult:
        result = super().measure(workload, run, watch)
        return HostLost("host-b", "answers nobody", 60.0) if workload.loopback else result


def test_what_cost_a_host_is_recorded_and_not_run_again() -> None:
    store = MemoryStore(HEADER)
    testbed = _Deadly((Planted(MANY_SGES),))
    summary = search(testbed, store=store, budget=Budget(runs=100))
    lost = [record for record in store.runs() if isinstance(record.result, HostLost)]
    assert [(finding.run, finding.workload) for finding in summary.lost] == [(r.run, r.workload) for r in lost]
    assert lost
    assert len({record.workload for record in lost}) == len(lost)
    assert {finding.host for finding in summary.lost} == {"host-b"}
    assert summary.runs == 100
    assert not any(anomaly.workload.loopback for anomaly in summary.anomalies)


RECIPES = [Recipe(name, strategy=name) for name in StrategyName if name is not StrategyName.PLUGIN]


RECIPES.append(
    Recipe(
        "late", strategy=StrategyName.GUIDED, explain_after_sightings=2, audits=2, extraction=Extraction(most_runs=12)
    )
)


RECIPES.extend(replace(recipe, name=f"{recipe.name} with phases", phases=8) for recipe in tuple(RECIPES))


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_a_resumed_campaign_ends_as_if_it_had_never_stopped(recipe: Recipe) -> None:
    planted = (Planted(LOOPBACK), Planted(MANY_SGES, Symptom.LOW_THROUGHPUT, 0.5))
    budget = Budget(runs=150)
    unbroken = MemoryStore(HEADER)
    whole = search(_Mortal(planted, 1000), budget=budget, recipe=recipe, store=unbroken)
    store = MemoryStore(HEADER)
    done = 0
    for killed_after in (1, 7, 31, 60, 149):
        with pytest.raises(TestbedError):
            search(_Mortal(planted, killed_after - done), budget=budget, recipe=recipe, store=store)
        done = killed_after
        assert [run.workload for run in store.runs()] == [run.workload for run in unbroken.runs()][:done]
    testbed = _Mortal(planted, 1000)
    assert search(testbed, budget=budget, recipe=recipe, store=store) == whole
    assert testbed.runs == 150 - done
    assert list(store.runs()) == list(unbroken.runs())
    assert store.anomalies() == whole.anomalies


def test_a_campaign_that_is_killed_inside_a_set_up_goes_on_with_its_next_phase() -> None:
    planted, recipe, budget = (Planted(MANY_SGES),), replace(RANDOM, phases=5), Budget(runs=40)
    testbed, unbroken = _Mortal(planted, 1000), MemoryStore(HEADER)
    whole = search(testbed, budget=budget, recipe=recipe, store=unbroken)
    places = [place for _, place in with_places(unbroken.runs())]
    assert max(place.phase for place in places) >= 3
    assert whole.set_ups == sum(record.made_set_up for record in unbroken.runs()) < whole.runs
    assert [on.before for on in testbed.set_ups if on is not None and on.before], "phases follow on each other"
    for killed_after in range(2, 40, 4):
        killed, resumed, store = _Mortal(planted, killed_after), _Mortal(planted, 1000), MemoryStore(HEADER)
        with pytest.raises(TestbedError):
            search(killed, budget=budget, recipe=recipe, store=store)
        assert search(resumed, budget=budget, recipe=recipe, store=store) == whole
        assert list(store.runs()) == list(unbroken.runs())
        assert [*killed.set_ups, *resumed.set_ups] == testbed.set_ups, killed_after


def test_a_record_of_another_search_is_refused() -> None:
    store = MemoryStore(HEADER)
    search(FakeTestbed(), store=store, budget=Budget(runs=5))
    with pytest.raises(StoreError, match="another workload"):
        search(FakeTestbed(), store=store, budget=Budget(runs=10), recipe=RANDOM, calibration=None)


def test_every_run_is_on_record_with_its_verdict() -> None:
    store = MemoryStore(HEADER)
    search(FakeTestbed((Planted(LOOPBACK),)), store=store, budget=Budget(runs=50))
    records = list(store.runs())
    assert [record.run for record in records] == list(range(1, 51))
    judged = [record for record in records if record.purpose != "sibling"]
    assert all(record.verdict is not None for record in judged)


class _Interrupted(FakeTestbed):
    """Finds its data path dead in some runs."""

    outages = frozenset({20, 21, 25})

    def measure(self, workload: Workload, run: int, watch: Watch | None = None, on: SetUp | None = None) -> RunResult:
        if run in self.outages:
            return SetupFailed(f"{OUTAGE} dead", "data path a -> b: link: eth1 of b is down", 50.0)
        return super().measure(workload, run, watch)


class _Killed(FakeTestbed):
    """Its data path dies of the workload that is run first after the twentieth run, whenever it is run."""

    killer: Workload | None = None

    def measure(self, workload: Workload, run: int, watch: Watch | None = None, on: SetUp | None = None) -> RunResult:
        if run > 20 and self.killer is None:
            self.killer = workload
        if workload == self.killer:
            return SetupFailed(f"{OUTAGE} dead", "data path a -> b: link: eth1 of b is down", 50.0)
        return super().measure(workload, run, watch)


def test_a_proposal_that_kills_the_data_path_is_given_up_and_named() -> None:
    testbed = _Killed()
    summary = search(testbed, budget=Budget(runs=60))
    assert summary.failed_runs == {f"{OUTAGE} dead": 3}
    (last,) = summary.path_killers
    assert last.workload == testbed.killer
    assert "Every run of a workload ended in a dead data path" in render_summary(HEADER, summary, 1.0)


def test_a_proposal_that_ended_in_a_dead_data_path_is_run_again() -> None:
    """So an outage costs runs, and no proposal: a strategy would take it for one that cannot be set up."""
    store = MemoryStore(HEADER)
    search(_Interrupted(), store=store, budget=Budget(runs=40))
    runs = {record.run: record for record in store.runs() if record.purpose == "search"}
    lost = [record for record in runs.values() if isinstance(record.result, SetupFailed)]
    assert lost
    for record in lost:
        following = next(other for number, other in sorted(runs.items()) if number > record.run)
        assert following.workload == record.workload


def test_a_search_that_judges_a_victim_calibrates_nothing_and_compares_siblings_that_swing() -> None:
    class Swinging(FakeTestbed):
        def measure(
            self, workload: Workload, run: int, watch: Watch | None = None, on: SetUp | None = None
        ) -> RunResult:
            result = super().measure(workload, run, watch, on)
            assert isinstance(result, Measured)
            return replace(result, measurement=replace(result.measurement, stable=False))

    store = MemoryStore(HEADER)
    recipe = replace(RANDOM, thresholds=Thresholds(loss_of=Loss.OF_VICTIM))
    testbed = Swinging((Planted(MANY_SGES, Symptom.VICTIM_LOSS, 0.5),), victim=True)
    summary = search(testbed, store=store, recipe=recipe, calibration=None, budget=Budget(runs=200))
    assert store.calibration() == Calibration()
    assert {record.purpose for record in store.runs()} >= {"search", "sibling"}
    assert "calibrate" not in {record.purpose for record in store.runs()}
    assert {anomaly.symptom for anomaly in summary.anomalies} == {Symptom.VICTIM_LOSS}


def test_plain_traffic_that_others_outpace_has_a_victim_all_the_same() -> None:
    reads = Planted(Mfs((Condition("opcode", Op.EQUAL, "READ"),)), Symptom.LOW_THROUGHPUT, 0.5)
    many = Planted(Mfs((*reads.mfs.conditions, *MANY_SGES.conditions)), Symptom.VICTIM_LOSS, 0.5)
    recipe = replace(RANDOM, thresholds=Thresholds(loss_of=Loss.OF_VICTIM))
    store = MemoryStore(HEADER)
    found = search(FakeTestbed((many, reads), victim=True), store=store, recipe=recipe, budget=Budget(runs=400))
    assert {anomaly.symptom for anomaly in found.anomalies} == {Symptom.VICTIM_LOSS}
    verdicts = [record.verdict for record in store.runs() if record.verdict is not None]
    assert not any(verdict.is_inconclusive for verdict in verdicts)


def test_every_judged_run_of_the_search_counts_for_its_reliability() -> None:
    store = MemoryStore(HEADER)
    summary = search(FakeTestbed(), budget=Budget(runs=40), store=store)
    assert summary.trust is not None
    assert summary.trust.judged_runs == sum(record.purpose == "search" for record in store.runs()) > 20


def test_what_showed_on_a_set_up_that_was_made_anew_is_found_and_needs_no_earlier_phase() -> None:
    class Anew(FakeTestbed):
        def measure(
            self, workload: Workload, run: int, watch: Watch | None = None, on: SetUp | None = None
        ) -> RunResult:
            result = super().measure(workload, run, watch, on)
            return replace(result, anew=True) if isinstance(result, Measured) else result

    summary = search(Anew((Planted(LOOPBACK),)), budget=Budget(runs=60))
    assert [(anomaly.mfs, anomaly.history) for anomaly in summary.anomalies] == [(LOOPBACK, ())]
