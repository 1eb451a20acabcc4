"""The HTML report: one file, complete, safe, the same twice."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from collie.app.adapters import ReportContext
from collie.counters.catalog import Catalog, Counter, CounterKind, Unit
from collie.detect.measurement import HostMeasurement, Measurement, Sample, Victim
from collie.detect.plain import plain_sibling
from collie.detect.symptom import Outcome, Received, Symptom, Verdict
from collie.errors import CollieError
from collie.inventory.fingerprint import Difference, Fingerprint, HostDifference
from collie.ports import HostLost, Measured, RunRecord, SetupFailed
from collie.report.html.page import environment, render_report, write_page, write_report
from collie.report.html.unanswered import unanswered
from collie.report.html.view import campaign_view, marker
from collie.report.representative_runs import number_of, sibling_run
from collie.report.terminal.findings import findings_table
from collie.search.anomaly import LikelySame
from collie.search.likely_cause import DiscriminatingCounter, hint
from collie.search.second_cause import Floor
from collie.store.memory import MemoryStore
from collie.store.sqlite import SqliteStore
from collie.testing.fakes import FAKE_CATALOG
from collie.testing.store_suite import measured
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.pruning import Drop
from collie.workloads.workload import Opcode, Workload
from tests.support.campaigns import HEADER, SPACE, fill
from tests.support.html_page import Page

HOSTILE = "<script>alert('x')</script>\"&amp;"


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
    assert [page.tags[tag] for tag in ("header", "main", "footer")] == [1, 1, 1]
    assert page.tags["caption"] == page.tags["table"]


def test_a_part_of_a_space_is_named_as_that(html: str) -> None:
    """Two searches of different parts do not have the same space."""
    settings = {**HEADER.settings, "fix": ["qp_type=UD"], "limit": ["qps<=64"]}
    store = MemoryStore(replace(HEADER, settings=settings))
    fill(store)
    part = render_report(store, ReportContext("campaigns/part", SPACE, 12.3))
    narrowed = f"{HEADER.space} --fix qp_type=UD --limit qps&lt;=64"
    assert narrowed in part
    assert narrowed not in html


def test_the_page_needs_nothing_else(html: str) -> None:
    page = Page(html)
    assert not re.search(r"https?:|//[a-z]|@import|url\((?!#)", html)
    assert html.count("<script") == html.count('<script type="application/json"') == 1
    assert page.tags["link"] == page.tags["img"] == 0
    assert all(reference.startswith("#") for reference in page.references)
    assert {reference[1:] for reference in page.references} <= set(page.ids)
    assert set(re.findall(r"url\(#([^)]+)\)", html)) <= set(page.ids)


@pytest.mark.parametrize("symptom", list(Symptom))
def test_every_symptom_has_a_name_and_an_effect(symptom: Symptom) -> None:
    assert environment().filters["symptom"](symptom)
    moved = [DiscriminatingCounter("context_miss", "context cache", 3.0)]
    assert hint(symptom, moved, Mfs(())).startswith("queue pair contexts")


def test_the_page_says_what_was_found(html: str) -> None:
    store = MemoryStore(HEADER)
    fill(store)
    text = Page(html).text
    for anomaly in store.anomalies():
        assert anomaly.sentence in text
    assert "2 anomalies on simulated subsystem F" in text
    assert "qps >= 64" in text
    assert "opcode == SEND" in text
    assert "collie reproduce 'campaigns/my example/a1' --controls" in text
    assert "Not explained to the end: conditions may be missing" in text
    assert "set-up failed qp timeout run 26: the queue pairs did not connect 6 26, 39, 41, 44, 59, …" in text
    assert "unsupported no GPU 10 7, 14" in text
    assert "12.3 s" in text
    assert "2026-01-01 10:15 UTC" in text


def _ranked(html: str) -> list[tuple[int, str]]:
    """Return rank and name of each row of the page's tables of anomalies."""
    rows = re.findall(r'<td class="rank">(\d+)</td><th scope="row"><a href="#([^"]+)">', html)
    return [(int(rank), name) for rank, name in rows]


def test_anomalies_have_the_order_of_the_terminal_and_are_numbered_by_it() -> None:
    full, store = MemoryStore(HEADER), MemoryStore(HEADER)
    fill(full)
    one = full.anomalies()[0]
    anomalies = [
        replace(one, id="a1", severity=0.2),
        replace(one, id="a2", severity=0.9, mfs=Mfs(()), complete=False),
        replace(one, id="a3", severity=0.7),
        replace(one, id="a5", severity=0.95, complete=False),
        replace(one, id="a4", severity=0.95, same_as="a1"),
    ]
    for anomaly in anomalies:
        store.add_anomaly(anomaly)
    html = render_report(store, ReportContext(space=SPACE))
    order = [row.plain.split()[0] for row in findings_table(anomalies[:4])][1:]
    assert order == ["a3", "a1", "a5", "a2"]
    assert _ranked(html) == list(enumerate(order, start=1))
    assert re.findall(r'<span class="rank">(\d+)</span> (\w+)', html) == [
        ("1", "a3"),
        ("2", "a1"),
        ("3", "a5"),
        ("4", "a2"),
    ]
    text = Page(html).text
    assert (
        text.index("The worst that is explained is a3 .")
        < text.index("2 of 4 anomalies explained")
        < text.index("Where")
    )
    assert [mark["id"] for mark in json.loads(Page(html).data)["found"]] == order


def test_conditions_are_claimed_as_far_as_they_were_tested() -> None:
    store, full = MemoryStore(HEADER), MemoryStore(HEADER)
    fill(full)
    store.add_anomaly(replace(full.anomalies()[0], fresh_runs=9, fresh_shows=8))
    text = Page(render_report(store, ReportContext(space=SPACE))).text
    tested = "What it needs, as far as tested: with every condition it showed in 8 of 9 fresh runs, and with any one"
    assert f"{tested} broken it did not, which --controls tests again" in text
    store.add_anomaly(replace(full.anomalies()[0], complete=False))
    text = Page(render_report(store, ReportContext(space=SPACE))).text
    assert "What it needs so far: conditions may be missing or too narrow" in text
    assert "as far as tested" not in text


def test_plain_traffic_that_is_anomalous_says_why_it_has_no_counters() -> None:
    store, full = MemoryStore(HEADER), MemoryStore(HEADER)
    fill(full)
    store.add_anomaly(replace(full.anomalies()[0], is_plain=True))
    text = Page(render_report(store, ReportContext(space=SPACE))).text
    assert "Plain traffic (RC SEND, qps 64, messages [64 KiB]) itself is anomalous." in text
    assert "plain traffic itself, and qps >= 64" in text
    assert "No counter is named: counters are compared with those of plain traffic, which itself" in text


def test_an_explanation_that_has_not_begun_is_not_called_half_done() -> None:
    store, full = MemoryStore(HEADER), MemoryStore(HEADER)
    fill(full)
    bare = replace(full.anomalies()[0], mfs=Mfs(()), complete=False, extraction_runs=0)
    store.add_anomaly(bare)
    text = Page(render_report(store, ReportContext(space=SPACE))).text
    assert "Not explained yet: its explanation has not begun." in text
    assert "Not explained to the end" not in text
    made_for = replace(bare, history=(Workload(),), made_for=Workload())
    store.add_anomaly(made_for)
    assert "no condition found" not in Page(render_report(store, ReportContext(space=SPACE))).text
    *_, row = findings_table([made_for])
    assert row.plain.endswith(f"not explained: {bare.workload.qp_type} {bare.workload.opcode}")


def test_what_waits_names_the_anomaly_whose_cause_it_probably_shares() -> None:
    store = MemoryStore(HEADER)
    fill(store)
    one = store.anomalies()[0]
    store.add_anomaly(replace(one, id="a3", mfs=Mfs(()), complete=False, likely_same_as=LikelySame(one.id, 0.61)))
    assert "61% likely to share the cause of a1" in Page(render_report(store, ReportContext(space=SPACE))).text


def test_what_is_not_explained_to_the_end_is_not_counted_as_explained() -> None:
    full, store = MemoryStore(HEADER), MemoryStore(HEADER)
    fill(full)
    one = replace(full.anomalies()[0], complete=True)
    for anomaly in (one, replace(one, id="a2", complete=False)):
        store.add_anomaly(anomaly)
    text = Page(render_report(store, ReportContext(space=SPACE))).text
    assert "1 of 2 anomalies explained" in text
    assert [marker(each, "").is_explained for each in store.anomalies()] == [True, False]


def test_the_first_screen_has_ten_anomalies_and_the_others_fold() -> None:
    full, store = MemoryStore(HEADER), MemoryStore(HEADER)
    fill(full)
    for number in range(1, 14):
        store.add_anomaly(replace(full.anomalies()[0], id=f"a{number}", severity=1 - number / 20))
    html = render_report(store, ReportContext(space=SPACE))
    first, folded = html.split("<summary>3 more</summary>")
    assert [rank for rank, _ in _ranked(first)] == list(range(1, 11))
    assert [rank for rank, _ in _ranked(folded)] == [11, 12, 13]
    assert first.count("<details") == 1, "only what the fold itself begins"


def test_the_page_claims_what_fresh_runs_show() -> None:
    full, store = MemoryStore(HEADER), MemoryStore(HEADER)
    fill(full)
    found = replace(full.anomalies()[0], trials=17, passed=16)
    store.add_anomaly(found)
    old = Page(render_report(store, ReportContext("campaigns/my example", SPACE))).text
    assert f"{found.brief_figure} pause frames" in old
    assert "16 of 17 runs inside its conditions showed it." in old
    store.add_anomaly(replace(found, fresh_runs=9, fresh_shows=8))
    page = render_report(store, ReportContext("campaigns/my example", SPACE))
    text = "It showed in 8 of 9 fresh runs inside its conditions (57 to 98% of all runs there, 95% confidence)."
    assert text in Page(page).text
    assert "16 of 17" not in Page(page).text
    assert '<data value="8" data-source="anomalies/a1/fresh_shows">8</data>' in page
    store.add_anomaly(replace(found, fresh_runs=9, fresh_shows=8, floor=Floor(0.87)))
    second = Page(render_report(store, ReportContext("campaigns/my example", SPACE))).text
    assert "It showed in 8 of 9 fresh runs inside its conditions, with a severity of at least 87% (57 to 98%" in second
    for packet_bytes, words in ((4096, "2.5 Mpps and 81.92 Gbit/s"), (64, "2.5 Mpps")):
        floor = Floor(0.87, Received(5e6 * 8 * packet_bytes, 5e6), 2.0)
        store.add_anomaly(replace(found, fresh_runs=9, fresh_shows=8, floor=floor))
        page = render_report(store, ReportContext("campaigns/my example", SPACE))
        assert f"inside its conditions, with less than {words} received (57 to 98%" in Page(page).text
        assert '<data value="2500000.0" data-source="anomalies/a1/most_received/pps">2.5 Mpps</data>' in page


def test_the_page_names_the_phases_that_it_displays() -> None:
    """The first half of the runs are phases of one set-up, and the displayed runs are among them."""
    full, store = MemoryStore(HEADER), MemoryStore(HEADER)
    fill(full)
    for record in full.runs():
        roomy = record.workload.with_(qps=2 * record.workload.qps)
        store.add_run(replace(record, set_up=2, made_for=roomy) if 2 <= record.run < 36 else record)
    for anomaly in full.anomalies():
        store.add_anomaly(anomaly)
    html = render_report(store, ReportContext("campaigns/my example", SPACE))
    assert '<data value="71" data-source="runs">71</data>' in html
    assert '<data value="38" data-source="set_ups">38</data>' in html
    text = Page(html).text
    assert "Found in run 3 (phase 2 on the set-up of run 2), confirmed" in text
    shown = "in run 34 (phase 33 on the set-up of run 2), and under its plain sibling in run 1 Host"
    assert f"What the hosts showed {shown}" in text


def test_a_sibling_on_a_set_up_of_its_own_stands_for_plain_traffic() -> None:
    """A phase of a larger set-up can show what the set-up brought about."""
    store = MemoryStore(HEADER)
    fill(store)
    anomaly, records = store.anomalies()[1], list(store.runs())
    looping = next(r for r in records if r.workload == anomaly.workload)
    siblings = [r for r in records if r.workload == plain_sibling(anomaly.workload, SPACE)]
    measured = [r for r in siblings if isinstance(r.result, Measured)]
    assert len(measured) > 2
    usual = sibling_run(looping, records, SPACE)
    for alone in (measured[0], measured[-1]):
        larger = [r if r is alone else _phase(r, qps=1024) for r in records]
        assert sibling_run(looping, larger, SPACE) == alone
        equal = [r if r is alone else _phase(r) for r in records]
        assert number_of(sibling_run(looping, equal, SPACE)) == number_of(usual), "its set-up would be the same"
    everywhere = [_phase(r, qps=1024) for r in records]
    assert number_of(sibling_run(looping, everywhere, SPACE)) == number_of(usual)


def _phase(record: RunRecord, **larger: int) -> RunRecord:
    return replace(record, set_up=1, made_for=record.workload.with_(**larger))


def test_the_page_compares_with_the_plain_sibling(html: str) -> None:
    text = Page(html).text
    assert "b receives 38 Gbit/s 100 Gbit/s" in text
    assert "and under its plain sibling in run 1" in text


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


def test_a_sibling_that_the_search_ran_keeps_its_counters() -> None:
    full, store = MemoryStore(HEADER), MemoryStore(HEADER)
    fill(full)
    found = full.anomalies()[1]
    sibling = plain_sibling(found.workload, SPACE)
    for record in full.runs():
        store.add_run(replace(record, purpose="search") if record.workload == sibling else record)
    store.add_anomaly(found)
    (view,) = campaign_view(store, ReportContext(space=SPACE)).findings
    assert view.sibling_run is not None
    assert view.counters, "without the sibling's counters, none can have risen"


def _quoting(reason: str, severity: float, run: int, record: RunRecord) -> RunRecord:
    """Return a confirming run of its own figures."""
    assert isinstance(record.result, Measured)
    assert record.verdict is not None
    hosts = tuple(
        replace(host, tx_pause_ratio=severity, counters={"pressure": 1e6 * severity})
        for host in record.result.measurement.hosts
    )
    samples = tuple(
        Sample(second, "b", {"tx_pause_ratio": severity, "pressure": 1e6 * severity}) for second in (1.0, 2.0)
    )
    measurement = replace(record.result.measurement, hosts=hosts, series=samples)
    verdict = Verdict(Outcome.ANOMALOUS, reason, Symptom.PAUSE, severity, "b")
    result = replace(record.result, measurement=measurement)
    return replace(record, run=run, purpose="confirm", result=result, verdict=verdict)


def test_sentence_tables_and_picture_quote_one_run() -> None:
    """A reader who sees two figures for one reading trusts neither."""
    full, store = MemoryStore(HEADER), MemoryStore(HEADER)
    fill(full)
    anomaly = full.anomalies()[0]
    shown = next(r for r in full.runs() if r.verdict is not None and r.verdict.symptom is Symptom.PAUSE)
    for record in full.runs():
        store.add_run(record)
    for run, (severity, workload) in enumerate(
        [(0.2, anomaly.found_as), (0.3, anomaly.found_as), (0.4, Workload(qps=512))], start=1001
    ):
        record = _quoting(f"host b sends pause for {severity:.0%} of the time", severity, run, shown)
        store.add_run(replace(record, workload=workload))
    telling = (DiscriminatingCounter("pressure", "PCIe", 99.0, "waits"),)
    for severity, run in ((0.2, 1001), (0.3, 1002), (0.4, 1003)):
        reason = f"host b sends pause for {severity:.0%} of the time"
        store.add_anomaly(replace(anomaly, severity=severity, reason=reason, telling=telling))
        (view,) = campaign_view(store, ReportContext(space=SPACE)).findings
        assert view.run == run, "another workload can be the one that was confirmed"
        quoted = {row.here for row in view.readings if row.source.endswith("/tx_pause_ratio")}
        assert quoted == {severity}
        ((_, samples),) = next(trace for trace in view.traces if trace.name == "pressure").hosts
        (row,) = view.counters
        assert row.here == 2e6 * severity, "over both hosts"
        assert {value for _, value in samples} == {1e6 * severity}


def test_the_page_names_only_what_is_not_plain() -> None:
    store = MemoryStore(HEADER)
    fill(store)
    views = {item.anomaly.id: item for item in campaign_view(store, ReportContext(space=SPACE)).findings}
    assert [(row.name, row.here, row.plain) for row in views["a1"].differences] == [
        ("opcode", "SEND", "WRITE"),
        ("qps", "64", "8"),
    ]
    assert [(row.name, row.here, row.plain) for row in views["a2"].conditions] == [
        ("wqe_batch >= 8", "8", "1"),
        (str(views["a2"].anomaly.mfs.conditions[1]), "true", "false"),
    ]


def test_only_runs_of_the_search_are_drawn_as_driven() -> None:
    store = MemoryStore(HEADER)
    fill(store)
    driven = campaign_view(store, ReportContext()).driven
    assert {item.counter for item in driven} == {"pressure", "rx_packets"}
    assert sum(len(item.points) for item in driven) == sum(record.driven is not None for record in store.runs())
    assert any(point.anomalous for item in driven for point in item.points)


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
    assert page.tags["script"] == 1
    assert page.text.count("<script>alert('x')</script>") >= 6


def test_the_testbed_is_described_and_what_it_could_not_do() -> None:
    prints = {
        "alice": Fingerprint({"nic": {"firmware": "1.2", "vpd": HOSTILE}, "cpu": {"cores": None}}),
        "bob": Fingerprint({"nic": {"firmware": "1.3", "vpd": HOSTILE}, "cpu": {"cores": 8}}),
    }
    changed = Difference("nic.firmware", "1.1", "1.2")
    context = ReportContext(
        space=SPACE,
        fingerprints=prints,
        changes=(HostDifference("alice", "alice", (changed,)),),
        dropped=(Drop("qp_type", "XRC, DC", "the device has neither"),),
    )
    page = Page(render_report(MemoryStore(HEADER), context))
    assert "nic.firmware differs 1.2 1.3" in page.text
    assert "cpu.cores unknown 8" in page.text, "unknown differs from nothing"
    assert "changed while the campaign was resumed: alice: nic.firmware: 1.1 and 1.2;" in page.text
    assert "qp_type XRC, DC the device has neither" in page.text
    assert "kept no fingerprint" in Page(render_report(MemoryStore(HEADER), ReportContext())).text


def test_causes_are_counted_without_their_figures() -> None:
    store = MemoryStore(HEADER)
    for run, received in enumerate(("4.679", "12"), start=1):
        reason = f"host b receives {received} Gbit/s, but the window was not stable"
        store.add_run(replace(measured(run), verdict=Verdict(Outcome.INCONCLUSIVE, reason)))
    store.add_run(RunRecord(3, "search", Workload(), HostLost("b", "no answer for 20 s", 1.0), 100.0))
    lost, unstable = unanswered(store.runs())
    assert (lost.kind, lost.cause, lost.example) == ("host lost", "host b", "no answer for 20 s")
    assert (unstable.cause, unstable.runs) == ("host b receives … Gbit/s, but the window was not stable", (1, 2))


def test_an_anomaly_of_mixed_operations_is_shown() -> None:
    full, store = MemoryStore(HEADER), MemoryStore(HEADER)
    fill(full)
    mixed = Workload(more_opcodes=(Opcode.SEND, Opcode.READ), messages=(64, 1024))
    mfs = Mfs((Condition("more_opcodes", Op.ONE_OF, ((Opcode.SEND,), (Opcode.SEND, Opcode.READ))),))
    store.add_anomaly(replace(full.anomalies()[0], workload=mixed, mfs=mfs))
    text = Page(render_report(store, ReportContext(space=SPACE))).text
    assert "more_opcodes [SEND, READ] []" in text
    assert "messages [64 B, 1 KiB] [64 KiB]" in text


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
    path = tmp_path / "report.html"
    for _ in range(2):
        write_report(MemoryStore(HEADER), path)
        assert Page(path.read_text()).tags["h1"] == 1
    assert [file.name for file in path.parent.iterdir()] == ["report.html"]
    # The user's own words are bad input; that a campaign's folder takes nothing more is the machine's fault.
    for is_users, code in ((True, 2), (False, 3)):
        with pytest.raises(CollieError, match="cannot be written") as refused:
            write_report(MemoryStore(HEADER), path / "report.html", follow=is_users)
        assert refused.value.exit_code == code


def test_a_link_in_a_campaign_is_replaced_because_another_user_can_have_made_it(tmp_path: Path) -> None:
    mine, place = tmp_path / "authorized_keys", tmp_path / "report.html"
    mine.write_text("mine")
    place.symlink_to(mine)
    write_page("a page", place)
    assert (mine.read_text(), place.read_text(), place.is_symlink()) == ("mine", "a page", False)


def test_a_page_goes_through_a_link_of_the_user_s_and_into_a_pipe(tmp_path: Path) -> None:
    link, pipe = tmp_path / "latest.html", tmp_path / "pipe"
    link.symlink_to(tmp_path / "one.html")
    for text in ("first", "second"):
        write_page(text, link, follow=True)
        assert (link.is_symlink(), (tmp_path / "one.html").read_text()) == (True, text)
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_page("into the pipe", pipe, follow=True)
        assert (pipe.is_fifo(), os.read(reader, 99)) == (True, b"into the pipe"), "it is not replaced by a file"
    finally:
        os.close(reader)


def test_until_counters_tell_those_that_rose_are_on_the_page() -> None:
    def run(number: int, purpose: str, workload: Workload, **counters: float | None) -> RunRecord:
        host = HostMeasurement("b", 1e9, 1e6, 0.2, counters=counters)
        samples = (Sample(1.0, "b", dict(counters)), Sample(2.0, "b", dict(counters)))
        verdict = Verdict(Outcome.ANOMALOUS, "it pauses", Symptom.PAUSE, 0.2) if purpose == "confirm" else None
        measurement = Measurement((host,), 10.0, series=samples)
        return RunRecord(number, purpose, workload, Measured(measurement, 20.0), number * 20.0, verdict)

    full, store = MemoryStore(HEADER), MemoryStore(HEADER)
    fill(full)
    anomaly = full.anomalies()[0]
    store.add_run(
        run(1, "sibling", plain_sibling(anomaly.found_as, SPACE), misses=3.0, stalls=0.0, bytes=9e9, new=None)
    )
    store.add_run(run(2, "confirm", anomaly.found_as, misses=4.0, stalls=5e6, bytes=1e9, new=7.0))
    store.add_anomaly(anomaly)
    page = Page(render_report(store, ReportContext(space=SPACE)))
    assert "Counters that rose most in run 2, summed over all hosts, beside run 1, its plain sibling" in page.text
    assert "stalls not known yet not known 5M 0" in page.text
    assert {source for source, _, _ in page.numbers if "counters" in source} == {
        "runs/1/counters/stalls",
        "runs/2/counters/stalls",
    }
    assert list(json.loads(page.data)["series"]["a1"]["readings"]) == ["stalls"]
    stalls = Counter("stalls", "model", Unit.EVENTS, CounterKind.DIAGNOSTIC, "PCIe", meaning="how long it waits")
    named = Page(render_report(store, ReportContext(space=SPACE, catalog=Catalog("fake", (stalls,)))))
    assert "stalls how long it waits PCIe events/s 5M 0" in named.text


def test_a_workload_is_called_the_simplest_only_once_it_is_explained() -> None:
    store, full = MemoryStore(HEADER), MemoryStore(HEADER)
    fill(full)
    one = full.anomalies()[0]
    found = one.workload.with_(wqe_batch=8)
    for anomaly, words in (
        (replace(one, found_as=found), "the simplest workload that shows it"),
        (replace(one, found_as=found, complete=False), "the workload, as far as it was simplified,"),
        (replace(one, complete=False), "the workload, as it was found,"),
        (replace(one, complete=False, mfs=Mfs(()), extraction_runs=0), "the workload, as it was found,"),
    ):
        store.add_anomaly(anomaly)
        text = Page(render_report(store, ReportContext(space=SPACE))).text
        assert f"Where {words} differs from plain traffic" in text
        assert ("simplest workload" in text) is anomaly.complete


def test_the_discriminating_counters_are_on_the_page() -> None:
    store = MemoryStore(HEADER)
    fill(store)
    item = DiscriminatingCounter("pressure", "receive WQE cache", 42.0, f"how bad it is {HOSTILE}", 7.25, 4)
    explained = replace(store.anomalies()[0], telling=(item,), hint="receives are late")
    store.add_anomaly(explained)
    page = Page(render_report(store, ReportContext(space=SPACE)))
    assert "Likely: receives are late." in page.text
    assert "pressure how bad it is" in page.text
    assert "beside the median of 4 runs of healthy plain traffic" in page.text
    assert ("anomalies/a1/plain/counters/pressure", "7.25", "7.25") in page.numbers
    assert page.tags["script"] == 1

    store.add_anomaly(replace(explained, telling=(replace(item, plain=None, plain_runs=0),)))
    earlier = Page(render_report(store, ReportContext(space=SPACE)))
    assert re.search(r"in run \d+, summed over all hosts Counter", earlier.text)
    assert ("anomalies/a1/plain/counters/pressure", "", "unknown") in earlier.numbers


def test_a_counter_has_the_unit_of_its_catalog() -> None:
    """A gauge is a level: so many writes are outstanding, not so many per second."""
    store = MemoryStore(HEADER)
    fill(store)
    moved = tuple(DiscriminatingCounter(name, "cache", 42.0) for name in ("pressure", "level", "forgotten"))
    store.add_anomaly(replace(store.anomalies()[0], telling=moved))
    context = ReportContext(space=SPACE, catalog=FAKE_CATALOG)
    (first, *_) = (item for item in campaign_view(store, context).findings if item.anomaly.id == "a1")
    assert [row.unit for row in first.counters] == ["events/s", "percent", ""]
    titles = [trace.title for trace in first.traces if trace.name in {"pressure", "level"}]
    assert titles == ["pressure, events/s", "level, percent"]
    text = Page(render_report(store, context)).text
    assert "level cache percent" in text
    assert "forgotten cache not known" in text
    assert "pressure, events/s" in text
    assert not re.search(r"level, per second|per second over", text)
