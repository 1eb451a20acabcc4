"""The gate on testbeds whose anomalies are stated beforehand, and what a CI reads of it."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from collie.app.baselines import Baseline, cases_of
from collie.campaign.budget import Budget
from collie.campaign.choice import SearchChoice
from collie.campaign.gate.cases import CaseOrigin, GateCase, Record
from collie.campaign.gate.loop import Gate
from collie.campaign.gate.summary import GateSummary
from collie.campaign.loop import SearchLoop
from collie.campaign.measure import Measurer
from collie.campaign.run import strategy_generator
from collie.content.spaces import load_space
from collie.detect.bounds import Bounds, Calibration
from collie.detect.compare import Change
from collie.detect.measurement import Watch
from collie.detect.reading import Sign
from collie.detect.symptom import Symptom
from collie.errors import UsageError
from collie.inventory.fingerprint import Difference, Fingerprint, difference
from collie.inventory.under_test import beyond
from collie.ports import CampaignHeader, RunResult, SetupFailed
from collie.report.ci.junit import write_failed_junit, write_junit
from collie.report.ci.markdown import render_markdown, write_markdown
from collie.report.terminal.gate import GateContext, describe_effect, render_gate, render_gate_text
from collie.search.anomaly import Anomaly, KnownAnomalies, anomaly_id, require_id
from collie.search.recipe import Extraction, Recipe, StrategyName
from collie.search.strategies import build
from collie.store.memory import MemoryStore
from collie.testing.fakes import FakeTestbed, ListSink, Planted
from collie.wiring import ADAPTERS
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.workload import Workload

SPACE = load_space("nsdi22")
LOOPBACK = Mfs((Condition("loopback", Op.EQUAL, True),))
MANY_SGES = Mfs((Condition("sge_count", Op.AT_LEAST, 8), Condition("loopback", Op.EQUAL, False)))
BATCHES = Mfs((Condition("wqe_batch", Op.AT_LEAST, 32),))
RECIPE = Recipe("test", strategy=StrategyName.RANDOM, explain=False)
HEADER = CampaignHeader("test", {}, "nsdi22", "test", {}, 1, "2026-01-01T00:00:00Z")
CONTEXT = GateContext("base", "--subsystem F", ("--subsystem", "F"), ("firmware",), (), "gates/1", HEADER.started, 0)


def trigger(**values: object) -> Workload:
    workload = SPACE.base.with_(**values)
    assert SPACE.allows(workload)
    return workload


def case(name: str, mfs: Mfs, kind: CaseOrigin = CaseOrigin.BASELINE, **values: object) -> GateCase:
    workload = trigger(**values)
    assert mfs.covers(workload)
    return GateCase(name, kind, f"case {name}", workload, mfs, f"base/{name}", Symptom.PAUSE)


A1 = case("a1", LOOPBACK, loopback=True)
A2 = case("a2", MANY_SGES, sge_count=8)


def measurer(testbed: FakeTestbed, store: MemoryStore) -> Measurer:
    bounds = Bounds(testbed.specification, Calibration(), SPACE)
    return Measurer(testbed, store, bounds, RECIPE.thresholds, Budget(), ListSink())


def gate(
    candidate: FakeTestbed,
    baseline: FakeTestbed | None,
    cases: Sequence[GateCase] = (A1, A2),
    *,
    record: Record | None = None,
    budget: int = 300,
    recipe: Recipe = RECIPE,
) -> tuple[GateSummary, MemoryStore]:
    store = MemoryStore(HEADER)
    measured = measurer(candidate, store)

    def engine(known: Sequence[Mfs]) -> SearchLoop:
        strategy = build(recipe, SPACE, candidate.info.catalog, strategy_generator(1))
        return SearchLoop(measured, store, strategy, SPACE, recipe, ListSink(), KnownAnomalies(known))

    gate = Gate(
        candidate=measured,
        baseline=measurer(baseline, MemoryStore(HEADER)) if baseline else None,
        record=record or Record(),
        store=store,
        cases=cases,
        space=SPACE,
        recipe=recipe,
        budget=Budget(runs=budget),
        false_alarm=0.01,
        engine=engine,
        name_found=lambda identifier: f"gates/1/{identifier}",
    )
    return gate.run(), store


def changes(summary: GateSummary) -> dict[str, Change]:
    return {
        result.case.name: result.change for result in summary.results if result.case.kind is not CaseOrigin.NEIGHBOUR
    }


BOTH = (Planted(LOOPBACK), Planted(MANY_SGES))


def test_unchanged_passes_and_its_anomalies_are_still_there() -> None:
    summary, store = gate(FakeTestbed(BOTH, seed=1), FakeTestbed(BOTH, seed=2))
    assert {"a1": Change.STILL, "a2": Change.STILL}.items() <= changes(summary).items()
    assert not summary.alarms
    assert summary.exit_code(inconclusive_fails=True) == 0
    assert {"a1", "a2"} <= {anomaly.id for anomaly in store.anomalies()}, "the next gate may have it as its baseline"


def test_fixed_and_worse_are_told_apart() -> None:
    summary, _ = gate(FakeTestbed((Planted(LOOPBACK, severity=0.6),)), FakeTestbed(BOTH))
    assert (changes(summary)["a1"], changes(summary)["a2"]) == (Change.WORSE, Change.FIXED)
    assert summary.exit_code(inconclusive_fails=True) == 1


def test_a_planted_regression_is_found_by_the_search_with_a_small_budget() -> None:
    recipe = replace(RECIPE, explain=True)
    summary, _ = gate(FakeTestbed((*BOTH, Planted(BATCHES))), FakeTestbed(BOTH), budget=100, recipe=recipe)
    new = [result for result in summary.of(Change.NEW) if result.case.kind is CaseOrigin.FOUND]
    assert [result.case.mfs for result in new] == [BATCHES]
    assert new[0].case.anomaly == "gates/1/a1"


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
    assert summary.untested == 0
    assert "nothing was searched" in render_gate_text(summary, CONTEXT)


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


def test_pairs_taken_before_the_budget_was_spent_are_told() -> None:
    summary, _ = gate(FakeTestbed((Planted(MANY_SGES),)), FakeTestbed(()), (A2,), budget=3)
    [comparison] = [result.comparison for result in summary.of(Change.INCONCLUSIVE)]
    assert [pair.sign for pair in comparison.pairs] == [Sign.WORSE]
    assert "too few pairs" in comparison.reason


def test_what_cannot_run_is_unsupported_and_nothing_run_is_told() -> None:
    def no(workload: Workload) -> str | None:
        return "no loopback" if workload.loopback else None

    summary, _ = gate(FakeTestbed(BOTH, unsupported=no), FakeTestbed(BOTH, unsupported=no), budget=60)
    assert changes(summary)["a1"] is Change.UNSUPPORTED
    outside = replace(A1, workload=A1.workload.with_(loopback=True, qps=10**6))
    summary, _ = gate(FakeTestbed(BOTH), FakeTestbed(BOTH), (outside,), budget=0)
    assert summary.exit_code(inconclusive_fails=True) == 5


def found(identifier: str) -> Anomaly:
    workload = trigger(loopback=True)
    return Anomaly(
        identifier, Symptom.PAUSE, 0.2, workload, workload, LOOPBACK, "pause", "a", 1, 30.0, 0, complete=True
    )


def test_every_case_of_a_gate_has_a_name_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "record").mkdir()
    monkeypatch.chdir(tmp_path / "record")
    anomalies = tuple(map(found, ("nsdi22-01", "record-a1", "a1", "a2")))
    for path in (Path(), Path("record"), tmp_path / "record"):
        baseline = Baseline(path, SearchChoice(), anomalies, Record(), Calibration(), {})
        names = [each.name for each in cases_of(ADAPTERS, baseline)]
        assert len(set(names)) == len(names) == 18 + 3
        assert names[-3:] == ["record-a1", "record-record-a1", "record-a2"]


# --- A baseline that only its record knows ---------------------------------------------------------------------------


def recorded(testbed: FakeTestbed, workloads: Sequence[Workload], times: int = 1) -> Record:
    store = MemoryStore(HEADER)
    measured = measurer(testbed, store)
    for workload in workloads:
        for _ in range(times):
            measured.judged(workload, "search")
    return Record(store.runs())


def test_a_record_answers_for_the_baseline() -> None:
    record = recorded(FakeTestbed(BOTH), [A1.workload, A2.workload], 3)
    summary, _ = gate(FakeTestbed((Planted(LOOPBACK, severity=0.6),)), None, record=record, budget=30)
    assert (changes(summary)["a1"], changes(summary)["a2"]) == (Change.WORSE, Change.FIXED)
    assert (summary.paired, summary.runs[1]) == (False, 0)


@pytest.mark.parametrize(("times", "change"), [(1, Change.INCONCLUSIVE), (3, Change.NEW)])
def test_new_needs_as_many_healthy_runs_on_record_as_the_chance_asks_for(times: int, change: Change) -> None:
    record = recorded(FakeTestbed(), [A1.workload], times)
    candidate = FakeTestbed((Planted(LOOPBACK),))
    summary, _ = gate(candidate, None, (replace(A1, kind=CaseOrigin.KNOWN),), record=record, budget=8)
    assert changes(summary)["a1"] is change


@pytest.mark.parametrize(("times", "change"), [(1, Change.INCONCLUSIVE), (3, Change.WORSE)])
def test_worse_needs_a_reading_on_record_that_no_single_disturbance_made(times: int, change: Change) -> None:
    record = recorded(FakeTestbed(BOTH), [A1.workload], times)
    summary, _ = gate(FakeTestbed((Planted(LOOPBACK, severity=0.6),)), None, (A1,), record=record, budget=8)
    assert changes(summary)["a1"] is change


def test_what_the_baseline_never_measured_is_inconclusive_and_not_new() -> None:
    summary, _ = gate(FakeTestbed(BOTH), None, (replace(A1, kind=CaseOrigin.KNOWN),), budget=20)
    assert changes(summary)["a1"] is Change.INCONCLUSIVE
    summary, _ = gate(FakeTestbed(), None, (replace(A1, kind=CaseOrigin.KNOWN),), budget=20)
    assert changes(summary)["a1"] is Change.HEALTHY


def test_what_could_not_be_confirmed_is_not_healthy() -> None:
    class Once(FakeTestbed):
        """Shows an anomaly once; after that its traffic fails to set up."""

        def measure(self, workload: Workload, run: int, watch: Watch | None = None) -> RunResult:
            if workload in self.measured:
                self.measured.append(workload)
                return SetupFailed("qp timeout", "no connection", 3.0)
            return super().measure(workload, run, watch)

    summary, _ = gate(Once(BOTH), None, (replace(A1, kind=CaseOrigin.KNOWN),), budget=20)
    assert changes(summary)["a1"] is Change.INCONCLUSIVE


def test_a_gate_that_measured_nothing_does_not_pass() -> None:
    refusing = FakeTestbed(unsupported=lambda _workload: "no such opcode")
    summary, _ = gate(refusing, refusing, budget=20)
    assert summary.runs[0] > 0
    assert summary.exit_code(inconclusive_fails=True) == 4


@pytest.mark.parametrize("name", ["fw=22.36-a1", "prod baseline-a1", "_a", "x" * 70, "a/b/c", "\u00e9"])
def test_every_name_of_a_case_makes_an_id(name: str) -> None:
    assert require_id(anomaly_id(name))
    assert anomaly_id(name) != anomaly_id(name + "2")
    assert anomaly_id("prod-a1.without-qps-min") == "prod-a1.without-qps-min"


def test_noisy_testbeds_take_more_pairs_and_still_decide() -> None:
    noisy = replace(
        RECIPE,
        confirmation=replace(RECIPE.confirmation, healthy_false_positive_rate=0.05),
        extraction=Extraction(false_negative_rate=0.15),
    )
    baseline, candidate = (FakeTestbed((Planted(LOOPBACK, shows=0.85),), seed=3), FakeTestbed(seed=4))
    summary, _ = gate(candidate, baseline, (A1,), recipe=noisy, budget=80)
    assert changes(summary)["a1"] is Change.FIXED
    assert len(summary.results[0].comparison.pairs) >= 5


def test_a_long_comparison_runs_the_plain_sibling_a_few_times_and_not_before_every_run() -> None:
    doubtful = replace(
        RECIPE,
        confirmation=replace(RECIPE.confirmation, healthy_false_positive_rate=0.05, fresh_siblings=1),
        extraction=Extraction(false_negative_rate=0.15),
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


# --- What may differ --------------------------------------------------------------------------------------------------

THEN = Fingerprint(
    {"nic": {"firmware": "1", "driver": "mlx5"}, "software": {"kernel": "6.1"}, "pcie": {"address": "0"}}
)
NOW = Fingerprint(
    {"nic": {"firmware": "2", "driver": "mlx5"}, "software": {"kernel": "6.12"}, "pcie": {"address": "1"}}
)


@pytest.mark.parametrize(
    ("under_test", "left"),
    [
        ((), ["nic.firmware", "software.kernel"]),
        (("firmware",), ["software.kernel"]),
        (("firmware", "kernel"), []),
        (("nic", "software.kernel"), []),
        (("everything",), []),
        (("settings",), ["nic.firmware", "software.kernel"]),
    ],
)
def test_only_what_is_under_test_may_differ(under_test: tuple[str, ...], left: list[str]) -> None:
    assert [each.field for each in beyond(difference(THEN, NOW), under_test)] == left


def test_of_a_baseline_of_several_pairs_only_the_hosts_of_the_gate_are_compared() -> None:
    four = dict.fromkeys("abcd", THEN)
    baseline = Baseline(Path(), SearchChoice(), (), Record(), Calibration(), four)
    assert set(baseline.fingerprints_of({"a": THEN, "b": THEN})) == {"a", "b"}
    assert baseline.fingerprints_of({"a": THEN, "x": THEN}) == four, "who is unknown is compared with nobody"


def test_settings_do_not_excuse_another_subsystem() -> None:
    found: list[Difference] = list(
        difference(
            Fingerprint({"subsystem": {"subsystem": "F", "hardware": "x", "acs": "enabled"}}),
            Fingerprint({"subsystem": {"subsystem": "H", "hardware": "y", "acs": "disabled"}}),
        )
    )
    assert [each.field for each in beyond(found, ("settings",))] == ["subsystem.subsystem", "subsystem.hardware"]


# --- JUnit, Markdown, JSON -------------------------------------------------------------------------------------------

TEXT: dict[str, tuple[set[str], set[str], set[str]]] = {
    name: (set(), {"message", "type"}, set()) for name in ("failure", "error", "skipped")
}
SCHEMA = {
    "testsuites": (set(), {"name", "time", "tests", "failures", "errors"}, {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors"},
        {"group", "time", "skipped", "timestamp", "hostname", "id", "package", "file", "log", "url"},
        {"testsuite", "properties", "testcase", "system-out", "system-err"},
    ),
    "properties": (set(), set(), {"property"}),
    "property": ({"name", "value"}, set(), set()),
    "testcase": ({"name"}, {"time", "classname", "group"}, {"skipped", "error", "failure", "system-out", "system-err"}),
    "system-out": (set(), set(), set()),
    **TEXT,
}
"""Element, what it must have, what it may have, what it may hold: what the schema of Jenkins' xUnit plugin allows."""


def check_junit(element: ET.Element) -> None:
    must, may, holds = SCHEMA[element.tag]
    assert must <= set(element.attrib) <= must | may, element.tag
    if "time" in element.attrib:
        assert re.fullmatch(r"\d*(\.\d*)?", element.attrib["time"])
    for child in element:
        assert child.tag in holds, f"{child.tag} in {element.tag}"
        check_junit(child)


@pytest.fixture(scope="module")
def mixed() -> GateSummary:
    """New, worse, fixed, still there, inconclusive, unsupported in one gate."""
    worse = (Planted(LOOPBACK, severity=0.6), Planted(BATCHES))
    never = case("a4\x1b[31m & <ever>", Mfs((Condition("qps", Op.AT_LEAST, 256),)), qps=256)
    far = replace(A1, name="far", workload=A1.workload.with_(loopback=True, qps=10**6))
    cases = (A1, A2, replace(case("a3", BATCHES, wqe_batch=32), kind=CaseOrigin.KNOWN), far, never)
    candidate = FakeTestbed(worse, unsupported=lambda w: "gone" if w.qps >= 256 else None)
    return gate(candidate, FakeTestbed(BOTH), cases, budget=90)[0]


def test_junit_is_what_jenkins_takes(mixed: GateSummary, tmp_path: Path) -> None:
    write_junit(tmp_path / "deep" / "gate.xml", mixed, CONTEXT)
    root = ET.parse(tmp_path / "deep" / "gate.xml").getroot()
    check_junit(root)
    (suite,) = root
    cases = {element.attrib["name"]: element for element in suite.iter("testcase")}
    assert {name for name in cases if "without" not in name} >= {"a1", "a2", "a3", "far", "a4[31m & <ever>"}
    failures = {name: element.find("failure") for name, element in cases.items()}
    assert failures["a1"] is not None
    assert (failures["a1"].attrib["type"], failures["a2"]) == ("worse", None)
    assert cases["far"].find("skipped") is not None
    assert cases["a4[31m & <ever>"].find("error") is not None
    out = cases["a1"].findtext("system-out")
    assert out is not None
    assert "collie reproduce base/a1 --subsystem F" in out
    assert int(suite.attrib["failures"]) == len(mixed.alarms) == int(root.attrib["failures"])


def test_inconclusive_that_passes_is_skipped(mixed: GateSummary, tmp_path: Path) -> None:
    write_junit(tmp_path / "gate.xml", mixed, replace(CONTEXT, inconclusive_fails=False))
    root = ET.parse(tmp_path / "gate.xml").getroot()
    assert root.attrib["errors"] == "0"
    check_junit(root)


def test_junit_of_a_gate_that_could_not_measure(tmp_path: Path) -> None:
    write_failed_junit(tmp_path / "gate.xml", CONTEXT, "host a cannot be reached")
    root = ET.parse(tmp_path / "gate.xml").getroot()
    check_junit(root)
    assert root.attrib["errors"] == "1"
    with pytest.raises(UsageError, match="cannot be written"):
        write_failed_junit(tmp_path, CONTEXT, "host a cannot be reached")


def test_markdown_is_added_and_keeps_its_tables_whole(mixed: GateSummary, tmp_path: Path) -> None:
    path = tmp_path / "summary.md"
    path.write_text("before\n")
    write_markdown(path, mixed, CONTEXT)
    text = path.read_text()
    assert text.startswith("before\n## Collie: gate failed: ")
    for section in ("New", "Worse", "Inconclusive", "Fixed"):
        assert f"{section} (" in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {6}
    assert "&lt;ever&gt;" in render_markdown(mixed, CONTEXT)


def test_what_hosts_say_makes_no_link_and_no_picture(mixed: GateSummary) -> None:
    result = mixed.results[0]
    reported = replace(result, comparison=replace(result.comparison, reason="see ![x](http://a.example) ~~not~~"))
    text = render_markdown(replace(mixed, results=(reported,)), CONTEXT)
    assert r"see !\[x\](http://a.example) \~\~not\~\~" in text


def test_json_and_text_tell_every_case(mixed: GateSummary) -> None:
    document = render_gate(mixed, replace(CONTEXT, exit_code=1), 1.5)
    assert (document["passed"], document["exit_code"], document["false_alarm_chance"]) == (False, 1, 0.01)
    assert len(document["cases"]) == len(mixed.results) == sum(document["counts"].values())
    worse = next(each for each in document["cases"] if each["name"] == "a1")
    assert worse["effect"]["pause_ratio_difference"]["median"] == pytest.approx(0.4)
    assert [pair["candidate_is"] for pair in worse["pairs"]] == ["worse"] * len(worse["pairs"])
    text = render_gate_text(mixed, CONTEXT)
    assert "WORSE  a1: case a1" in text
    assert "collie reproduce gates/1/a1" in text or not [r for r in mixed.alarms if r.case.kind is CaseOrigin.FOUND]
