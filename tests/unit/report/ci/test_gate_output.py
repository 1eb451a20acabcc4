"""JUnit, Markdown, JSON and text of a gate."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from collie.campaign.gate.cases import CaseOrigin
from collie.campaign.gate.summary import GateSummary
from collie.errors import UsageError
from collie.report.ci.junit import write_failed_junit, write_junit
from collie.report.ci.markdown import render_markdown, write_markdown
from collie.report.terminal.gate import render_gate, render_gate_text
from collie.testing.fakes import FakeTestbed, Planted
from collie.workloads.feature import Condition, Mfs, Op
from tests.support.gates import A1, A2, BATCHES, BOTH, CONTEXT, case, gate
from tests.support.planted import LOOPBACK, SPACE

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
    write_junit(tmp_path / "gate.xml", mixed, CONTEXT)
    root = ET.parse(tmp_path / "gate.xml").getroot()
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


def test_json_and_text_name_every_case(mixed: GateSummary) -> None:
    document = render_gate(mixed, replace(CONTEXT, exit_code=1), 1.5)
    assert (document["passed"], document["exit_code"], document["false_alarm_chance"]) == (False, 1, 0.01)
    assert len(document["cases"]) == len(mixed.results) == sum(document["counts"].values())
    worse = next(each for each in document["cases"] if each["name"] == "a1")
    assert worse["effect"]["pause_ratio_difference"]["median"] == pytest.approx(0.4)
    assert [pair["candidate_is"] for pair in worse["pairs"]] == ["worse"] * len(worse["pairs"])
    text = render_gate_text(mixed, CONTEXT)
    assert "WORSE  a1: case a1" in text
    assert "collie reproduce gates/1/a1" in text or not [r for r in mixed.alarms if r.case.kind is CaseOrigin.FOUND]


@pytest.fixture(scope="module")
def quiet() -> GateSummary:
    """Still there, absent, and neighbours that were not reached."""
    gone = case("a3", BATCHES, wqe_batch=32)
    return gate(FakeTestbed(BOTH), FakeTestbed(BOTH), (A1, A2, gone), budget=8)[0]


def test_only_a_neighbour_is_healthy_and_an_absent_anomaly_is_named(quiet: GateSummary, tmp_path: Path) -> None:
    text = render_gate_text(quiet, CONTEXT)
    assert text.startswith("gate passed: 2 still there, 1 absent\n")
    assert "\nABSENT\n    a3: case a3\n" in text
    assert re.findall(r".*healthy.*", text) == ["2 of 2 neighbours are healthy"]
    assert "Absent (1)" in render_markdown(quiet, CONTEXT)
    write_junit(tmp_path / "gate.xml", quiet, CONTEXT)
    outputs = {e.attrib["name"]: e.findtext("system-out") for e in ET.parse(tmp_path / "gate.xml").iter("testcase")}
    assert str(outputs["a3"]).startswith("absent: case a3\n")
    assert str(outputs["a1/without-loopback"]).startswith("healthy: neighbour of a1: without ")


def test_what_was_not_reached_is_skipped(quiet: GateSummary, tmp_path: Path) -> None:
    assert {each.name for each in quiet.untested} == {"a2/without-loopback", "a3/without-wqe_batch-min"}
    write_junit(tmp_path / "gate.xml", quiet, CONTEXT)
    root = ET.parse(tmp_path / "gate.xml").getroot()
    check_junit(root)
    (suite,) = root
    skipped = {e.attrib["name"]: found for e in suite.iter("testcase") if (found := e.find("skipped")) is not None}
    assert set(skipped) == {"search", *(each.name for each in quiet.untested)}
    assert skipped["a3/without-wqe_batch-min"].attrib == {"type": "not reached", "message": "the budget was spent"}
    assert skipped["search"].attrib["message"].startswith("nothing was searched: ")
    assert (suite.attrib["skipped"], suite.attrib["tests"]) == ("3", str(len(quiet.results) + 3))
    line = "2 neighbours were not reached: the budget was spent"
    assert f"\n- {line}\n" in render_markdown(quiet, CONTEXT)
    assert f"\n{line}\n" in render_gate_text(quiet, CONTEXT)


def test_what_cannot_run_is_listed_under_its_reason() -> None:
    many = [case(f"many{qps}", Mfs((Condition("qps", Op.AT_LEAST, 256),)), qps=qps) for qps in (256, 512)]
    far = [replace(A1, name=f"far{n}", workload=A1.workload.with_(loopback=True, qps=n * 10**6)) for n in (1, 2)]
    baseline = FakeTestbed(BOTH, unsupported=lambda w: "gone" if w.qps >= 256 else None)
    text = render_gate_text(gate(FakeTestbed(BOTH), baseline, (*many, *far), budget=20)[0], CONTEXT)
    names = "many256: case many256\n    many512: case many512\n"
    assert f"\nUNSUPPORTED: the baseline cannot run this workload\n    {names}" in text
    assert (
        f"\nUNSUPPORTED: outside of the space {SPACE.name} of this testbed\n    far1: case a1\n    far2: case a1\n"
        in text
    )
