"""The table of victims: who holds up whom, and what the victim keeps."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from collie.app.adapters import ReportContext
from collie.detect.measurement import Latency, Victim
from collie.detect.symptom import Symptom
from collie.ports import Measured
from collie.report.html.page import render_report
from collie.report.html.view import campaign_view
from collie.search.likely_cause import DiscriminatingCounter
from collie.store.memory import MemoryStore
from tests.support.campaigns import HEADER, SPACE, fill
from tests.support.html_page import Page

CONTEXT = ReportContext("campaigns/my example", SPACE)


def campaign(symptom: Symptom = Symptom.VICTIM_LOSS, offered_bps: int = 0, kept_bps: float = 20e9) -> MemoryStore:
    """A campaign whose slow workload holds up a victim of 100 Gbit/s, which keeps 80 Gbit/s beside others."""
    full, store = MemoryStore(HEADER), MemoryStore(HEADER)
    fill(full)
    sick = full.anomalies()[1]
    for record in full.runs():
        if isinstance(record.result, Measured):
            is_here = record.workload == sick.workload
            latency = Latency(1e-5, 3e-4 if is_here else 2e-5)
            victim = Victim(100e9, kept_bps if is_here else 80e9, offered_bps, latency)
            beside = replace(record.result.measurement, victim=victim)
            record = replace(record, result=replace(record.result, measurement=beside))
            if is_here and record.verdict is not None:
                record = replace(record, verdict=replace(record.verdict, symptom=symptom))
        store.add_run(record)
    telling = (DiscriminatingCounter("pressure", "PCIe", 99.0, "waits"),)
    reason = "it loses 75% of its throughput"
    store.add_anomaly(replace(sick, symptom=symptom, severity=0.75, reason=reason, telling=telling))
    return store


def test_a_row_names_resource_aggressor_victim_and_what_it_keeps() -> None:
    (row,) = campaign_view(campaign(), CONTEXT).neighbours
    assert (row.resource, row.counters) == ("PCIe", ("pressure",))
    assert row.aggressor == "RC WRITE: loopback true, wqe_batch 8"
    assert row.victim == "RC WRITE of 64 KiB, full send queue"
    assert (row.kept.here, row.kept.sibling, row.late) == (20e9, 80e9, None)
    assert row.bar is not None
    assert row.bar.kept == 0.2
    assert row.bar.lost == pytest.approx(0.6)


def test_a_late_victim_has_its_latency() -> None:
    store = campaign(Symptom.VICTIM_LATENCY, 10**10)
    (row,) = campaign_view(store, CONTEXT).neighbours
    assert row.victim == "RC WRITE of 64 KiB, offers 10 Gbit/s"
    assert row.late is not None
    assert (row.late.here, row.late.sibling) == (3e-4, 2e-5)
    assert "99% of the messages within 300 us ( 20 us beside plain traffic)" in Page(render_report(store, CONTEXT)).text


def test_a_victim_that_keeps_more_than_usual_loses_nothing_in_its_bar() -> None:
    (row,) = campaign_view(campaign(kept_bps=90e9), CONTEXT).neighbours
    assert row.bar is not None
    assert row.bar.lost == 0.0


def test_the_picture_shows_what_the_table_says() -> None:
    page = Page(html := render_report(campaign(), CONTEXT))
    assert "Who holds up whom" in page.text
    assert "20 Gbit/s ( 80 Gbit/s beside plain traffic)" in page.text
    (bar,) = re.findall(r'<svg class="bars kept".*?</svg>', html, re.DOTALL)
    assert re.findall(r'width="([\d.]+)"', bar) == ["100", "20.0", "60.0"]
    ((name, drawn),) = json.loads(page.data)["neighbours"].items()
    assert (name, drawn["kept"], drawn["usual"]) == ("a2", 0.2, 0.8)


def test_without_a_victim_there_is_no_table() -> None:
    store = MemoryStore(HEADER)
    fill(store)
    assert "Who holds up whom" not in render_report(store, CONTEXT)
