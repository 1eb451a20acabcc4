"""The report of a gate."""

from __future__ import annotations

import re
from dataclasses import replace

from collie.app.adapters import ReportContext
from collie.detect.compare import Change
from collie.report.html.page import render_report
from collie.store.memory import MemoryStore
from tests.support.campaigns import HEADER, SPACE, fill
from tests.support.gate_answers import ANSWER
from tests.support.html_page import Page


def rendered(context: ReportContext) -> str:
    store = MemoryStore(replace(HEADER, campaign="gate"))
    fill(store)
    return render_report(store, context)


def test_it_leads_with_the_verdict_and_what_failed() -> None:
    html = rendered(ReportContext("gate", SPACE, is_gate=True, answer=ANSWER))
    page = Page(html)
    assert page.tags["h1"] == 1
    assert [name for name, count in page.ids.items() if count > 1] == []
    assert page.tags["caption"] == page.tags["table"]
    first, folded = html.split("<details", 1)
    order = (
        "Gate failed: 1 new, 1 still there, 1 absent",
        "nsdi22-10 is new: Very many queue pairs send pause",
        "22.28",
    )
    places = [first.index(words) for words in (*order, "collie reproduce nsdi22-10")]
    assert places == sorted(places)
    assert "base-a1" not in first
    assert "base-a1" in folded
    assert page.text.startswith("Collie: gate failed: 1 new")


def test_what_is_only_still_there_is_no_alarm() -> None:
    html = rendered(ReportContext("gate", SPACE, is_gate=True, answer=ANSWER))
    tags = {change: kind for kind, change in re.findall(r'<span class="(tag[ a-z]*)">([a-z ]+)</span></td>', html)}
    assert tags == {"new": "tag", "still there": "tag plain", "absent": "tag plain"}


def test_what_cannot_run_says_why_and_gives_no_command() -> None:
    unable = replace(ANSWER.cases[2], change=Change.UNSUPPORTED, reason="outside of the space")
    html = rendered(ReportContext("gate", SPACE, is_gate=True, answer=replace(ANSWER, cases=(unable,))))
    assert "<small>outside of the space</small>" in html
    assert unable.command not in html


def test_the_anomalies_of_the_candidate_fold_under_it() -> None:
    html = rendered(ReportContext("gate", SPACE, is_gate=True, answer=ANSWER))
    assert html.index("Gate failed") < html.index("2 anomalies on the candidate") < html.index('class="rank"')


def test_a_gate_without_an_answer_claims_none() -> None:
    text = Page(rendered(ReportContext("gate", SPACE, is_gate=True))).text
    assert "The gate on simulated subsystem F has not ended" in text
    assert "The worst" in text


def test_a_gate_that_passed_says_so() -> None:
    passed = replace(ANSWER, headline="gate passed: 1 absent", cases=ANSWER.cases[2:])
    text = Page(rendered(ReportContext("gate", SPACE, is_gate=True, answer=passed))).text
    assert "Gate passed: 1 absent No anomaly is new, worse, fixed or undecided." in text
