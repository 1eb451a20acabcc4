"""The HTML report: one file, complete, safe, the same twice."""

from __future__ import annotations

import re
from collections import Counter as Tally
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from collie.detect.measurement import Victim
from collie.detect.symptom import Outcome, Symptom, Verdict
from collie.errors import UsageError
from collie.ports import Measured, RunRecord, SetupFailed
from collie.report.figures import Found, Panel, Point, counters_over_time, found_over_time, thinned
from collie.report.html import render_report, write_report
from collie.report.view import ReportContext, campaign_view
from collie.search.telling import Telling
from collie.store import MemoryStore, SqliteStore
from collie.testing.campaigns import HEADER, SPACE, fill
from collie.testing.store_suite import measured
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.workload import Workload

VOID = {"meta", "br", "img", "link", "hr", "input"}
HOSTILE = "<script>alert('x')</script>\"&amp;"


class Page(HTMLParser):
    """Checks that tags nest, and collects what a browser would fetch."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: Tally[str] = Tally()
        self.ids: Tally[str] = Tally()
        self.references: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        if tag not in VOID:
            self.open.append(tag)
        self._collect(attrs)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self._collect(attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in {"style"}:
            self.words.append(data)

    def _collect(self, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            assert not name.startswith("on"), f"a page without scripts has no {name}"
            if name == "id":
                self.ids[value or ""] += 1
            if name in {"src", "href", "xlink:href", "action", "data"}:
                self.references.append(value or "")


@pytest.fixture(scope="module")
def html() -> str:
    store = MemoryStore(HEADER)
    fill(store)
    return render_report(store, ReportContext("campaigns/my example", SPACE, 12.3))


def test_the_page_is_well_formed(html: str) -> None:
    page = Page(html)
    assert html.startswith("<!DOCTYPE html>")
    assert [name for name, count in page.ids.items() if count > 1] == []
    assert page.tags["h1"] == 1
    assert page.tags["svg"] == 2
    assert page.tags["caption"] == page.tags["table"]


def test_the_page_needs_nothing_else(html: str) -> None:
    page = Page(html)
    assert not re.search(r"https?:|//[a-z]|@import|url\((?!#)", html)
    assert page.tags["script"] == page.tags["link"] == page.tags["img"] == 0
    assert all(reference.startswith("#") for reference in page.references)
    assert {reference[1:] for reference in page.references} <= set(page.ids)
    assert set(re.findall(r"url\(#([^)]+)\)", html)) <= set(page.ids)


def test_pictures_take_the_colours_and_the_font_of_the_page(html: str) -> None:
    svg = html[html.index("<svg") : html.rindex("</svg>")]
    assert "var(--alarm)" in svg
    assert "currentColor" in svg
    assert "font-family" not in svg
    assert "<style" not in svg
    assert "#0102" not in svg


def test_the_page_says_what_was_found(html: str) -> None:
    store = MemoryStore(HEADER)
    fill(store)
    text = Page(html).text
    for anomaly in store.anomalies():
        assert text.count(anomaly.sentence) == 2
    assert "2 anomalies on simulated subsystem F" in text
    assert "qps >= 64" in text
    assert "opcode == SEND" in text
    assert "collie reproduce 'campaigns/my example/a1' --controls" in text
    assert "Not explained to the end: conditions may be missing" in text
    assert "set-up failed: qp timeout" in text
    assert "unsupported by the device 10" in text
    assert "12.3 s" in text
    assert "2026-01-01 10:15 UTC" in text


def test_the_page_compares_with_the_plain_sibling(html: str) -> None:
    text = Page(html).text
    assert "b receives 38 Gbit/s 100 Gbit/s" in text
    assert "and under the plain sibling" in text


def test_the_page_says_what_a_victim_lost(html: str) -> None:
    assert "victim" not in Page(html).text
    full, store = MemoryStore(HEADER), MemoryStore(HEADER)
    fill(full)
    for record in full.runs():
        if isinstance(record.result, Measured):
            beside = replace(record.result.measurement, victim=Victim(27e6, 3.1e6))
            store.add_run(replace(record, result=replace(record.result, measurement=beside)))
    store.add_anomaly(full.anomalies()[0])
    page = Page(render_report(store, ReportContext("campaigns/my example", SPACE)))
    assert "The victim beside it keeps 3.1 Mbit/s of 27 Mbit/s alone: 89% lost." in page.text


def test_the_page_names_only_what_is_not_plain() -> None:
    store = MemoryStore(HEADER)
    fill(store)
    views = {item.anomaly.id: item for item in campaign_view(store, ReportContext(space=SPACE)).anomalies}
    assert [(row.dimension, row.here, row.plain) for row in views["a1"].differences] == [
        ("opcode", "SEND", "WRITE"),
        ("qps", "64", "8"),
    ]
    assert [(row.text, row.here, row.plain) for row in views["a2"].conditions] == [
        ("wqe_batch >= 8", "8", "1"),
        (str(views["a2"].anomaly.mfs.conditions[1]), "true", "false"),
    ]


def test_only_runs_of_the_search_are_drawn_as_driven() -> None:
    store = MemoryStore(HEADER)
    fill(store)
    panels = campaign_view(store, ReportContext()).panels
    assert {panel.counter for panel in panels} == {"pressure", "rx_packets"}
    driven = sum(record.driven is not None for record in store.runs())
    assert sum(len(panel.points) for panel in panels) == driven
    assert any(point.anomalous for panel in panels for point in panel.points)


def test_the_same_record_gives_the_same_bytes(html: str, tmp_path: Path) -> None:
    with SqliteStore.create(tmp_path / "c", HEADER) as store:
        fill(store)
    with SqliteStore.open(tmp_path / "c", read_only=True) as store:
        assert render_report(store, ReportContext("campaigns/my example", SPACE, 12.3)) == html


def test_hostile_text_stays_text() -> None:
    store = MemoryStore(
        replace(HEADER, campaign=HOSTILE, testbed={"kind": "hosts", "name": HOSTILE}, settings={HOSTILE: HOSTILE})
    )
    store.add_run(replace(measured(1), driven=f"${HOSTILE}", verdict=Verdict(Outcome.NORMAL, HOSTILE)))
    store.annotate(1, Verdict(Outcome.ANOMALOUS, HOSTILE, Symptom.PAUSE, 0.5, HOSTILE), "tenth")
    store.add_run(replace(measured(2), driven=f"$x_{HOSTILE}$"))
    store.add_run(RunRecord(3, HOSTILE, Workload(), SetupFailed(HOSTILE, HOSTILE, 1.0), 100.0))
    fill_one = MemoryStore(HEADER)
    fill(fill_one)
    store.add_anomaly(
        replace(
            fill_one.anomalies()[0], reason=HOSTILE, host=HOSTILE, mfs=Mfs((Condition("opcode", Op.EQUAL, HOSTILE),))
        )
    )
    page = Page(render_report(store, ReportContext(HOSTILE)))
    assert page.tags["script"] == 0
    assert page.text.count("<script>alert('x')</script>") >= 6


def test_a_campaign_that_has_just_begun_has_a_report() -> None:
    text = Page(render_report(MemoryStore(HEADER), ReportContext())).text
    assert "No anomaly on simulated subsystem F" in text
    assert "nothing has run yet" in text


def test_a_time_that_is_none_is_shown_as_it_is() -> None:
    assert "yesterday" in Page(render_report(MemoryStore(replace(HEADER, started="yesterday")), ReportContext())).text


def test_an_anomaly_without_a_run_or_a_condition_is_shown() -> None:
    full, store = MemoryStore(HEADER), MemoryStore(HEADER)
    fill(full)
    store.add_anomaly(replace(full.anomalies()[0], mfs=Mfs(()), workload=Workload(), symptom=Symptom.LOSS))
    text = Page(render_report(store, ReportContext())).text
    assert "nowhere: plain traffic shows it" in text
    assert "packet loss" in text


def test_the_report_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "report.html"
    for _ in range(2):
        write_report(MemoryStore(HEADER), path)
        assert Page(path.read_text()).tags["h1"] == 1
    assert [file.name for file in path.parent.iterdir()] == ["report.html"]
    with pytest.raises(UsageError, match="cannot be written"):
        write_report(MemoryStore(HEADER), path / "report.html")


def test_anomalous_runs_are_never_left_out_of_a_picture() -> None:
    points = [Point(float(index), 1.0, index % 100 == 0) for index in range(10_000)]
    kept = thinned(points, 500)
    assert sum(point.anomalous for point in kept) == 100
    assert 400 <= sum(not point.anomalous for point in kept) <= 500
    assert [point.seconds for point in kept] == sorted(point.seconds for point in kept)
    assert thinned(points[:50], 500) == points[:50]


@pytest.mark.parametrize(("end", "unit"), [(60.0, "seconds"), (600.0, "minutes"), (36000.0, "hours")])
def test_pictures_choose_a_unit_of_time(end: float, unit: str) -> None:
    assert f"testbed time, {unit}" in found_over_time([Found("a1", end / 2)], end)


def test_a_counter_over_decades_is_drawn_on_a_logarithm() -> None:
    def draw(values: list[float]) -> str:
        points = tuple(Point(float(index), value, False) for index, value in enumerate(values))
        return counters_over_time([Panel("x$y_z$", points)], [Found("a1", 1.0)], 3.0)

    assert ">x$y_z$<" in draw([1.0, 2.0])
    assert draw([1.0, 1e6]) != draw([0.0, 1e6])


def test_the_counters_that_tell_are_on_the_page() -> None:
    store = MemoryStore(HEADER)
    fill(store)
    telling = (Telling("pressure", "receive WQE cache", 42.0, f"how bad it is {HOSTILE}"),)
    store.add_anomaly(replace(store.anomalies()[0], telling=telling, hint="receives are late"))
    page = Page(render_report(store, ReportContext()))
    assert "Likely: receives are late." in page.text
    assert "42 times" in page.text
    assert page.tags["script"] == 0
