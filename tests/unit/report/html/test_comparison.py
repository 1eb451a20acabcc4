"""Two campaigns beside each other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from collie.app.adapters import ReportContext
from collie.detect.symptom import Symptom
from collie.inventory.fingerprint import Fingerprint
from collie.report.html.comparison import (
    ComparisonPage,
    Likeness,
    SeverityChange,
    compare_campaigns,
    same_anomaly,
)
from collie.report.html.page import render_comparison
from collie.search.anomaly import Anomaly
from collie.store.memory import MemoryStore
from collie.workloads.feature import Mfs
from collie.workloads.workload import Workload
from tests.support.campaigns import HEADER, SPACE, fill
from tests.support.html_page import Page

OLD, NEW = ({"F": Fingerprint({"nic": {"firmware": version}})} for version in ("1.0", "2.0"))
MOVED = {"F": Fingerprint({"nic": {"firmware": "1.0", "pcie_width": 8}})}


def store_of(name: str, anomalies: Iterable[Anomaly], *, with_runs: bool = True) -> MemoryStore:
    full, store = MemoryStore(HEADER), MemoryStore(replace(HEADER, campaign=name))
    fill(full)
    for record in full.runs() if with_runs else ():
        store.add_run(record)
    for anomaly in anomalies:
        store.add_anomaly(anomaly)
    return store


@pytest.fixture(scope="module")
def a1() -> Anomaly:
    return anomaly_named("a1")


@pytest.fixture(scope="module")
def a2() -> Anomaly:
    return anomaly_named("a2")


def anomaly_named(name: str) -> Anomaly:
    store = MemoryStore(HEADER)
    fill(store)
    return next(anomaly for anomaly in store.anomalies() if anomaly.id == name)


def compared(
    here: Iterable[Anomaly],
    there: Iterable[Anomaly],
    fingerprints: tuple[dict[str, Fingerprint], dict[str, Fingerprint]] = (OLD, OLD),
    *,
    with_runs: bool = True,
) -> ComparisonPage:
    mine, its = (
        ReportContext(place=name, space=SPACE, fingerprints=prints)
        for name, prints in zip("xy", fingerprints, strict=True)
    )
    return compare_campaigns(
        store_of("new", here, with_runs=with_runs), mine, store_of("old", there, with_runs=with_runs), its
    )


def test_names_of_anomalies_do_not_count(a1: Anomaly, a2: Anomaly) -> None:
    found = compared([a1, a2], [replace(a1, id="a7")])
    assert [(pair.here.id, pair.there.id) for pair in found.both] == [("a1", "a7")]
    assert [item.anomaly.id for item in found.only_here] == ["a2"]
    assert found.only_there == ()


def test_what_another_anomaly_explains_is_not_compared_by_itself(a1: Anomaly) -> None:
    again = replace(a1, id="a5", same_as="a1", mfs=Mfs(()))
    assert len(compared([a1, again], [a1]).both) == 1


def test_a_changed_severity_is_named(a1: Anomaly) -> None:
    def change(here: float, there: float) -> SeverityChange:
        (pair,) = compared([replace(a1, severity=here)], [replace(a1, severity=there)]).both
        return pair.change

    assert [change(0.5, 0.2), change(0.2, 0.5), change(0.2, 0.25)] == [
        SeverityChange.WORSE,
        SeverityChange.MILDER,
        SeverityChange.ALIKE,
    ]


def test_only_shares_of_the_same_thing_are_compared(a1: Anomaly) -> None:
    """A paused host can be named by its pause, or by the throughput that it lacks."""
    paused = replace(a1, severity=0.015, reason="host a sends pause for 1.5% of the time")
    slower = replace(
        a1, severity=0.4, reason="host a sends pause for 1.6% of the time and throughput is 40% below the specification"
    )
    found = compared([paused], [slower])
    assert [pair.change for pair in found.changes] == [SeverityChange.INCOMPARABLE]
    text = Page(render_comparison(found)).text
    assert "0 worse, 0 milder, 1 not comparable." in text
    assert "1.5% of the time and 40% below the specification cannot be compared" in text
    long = replace(paused, id="a2", severity=0.35, reason="host a sends pause for 35.0% of the time")
    near = replace(slower, id="a3", severity=0.02, reason="throughput is 2.0% below the specification")
    both = compared([paused, replace(slower, id="a4")], [long, near]).both
    assert {(pair.here.id, pair.there.id) for pair in both} == {("a1", "a2"), ("a4", "a3")}


def test_anomalies_are_counted_not_pairs(a1: Anomaly) -> None:
    mild, severe = replace(a1, id="a2", severity=0.2), replace(a1, id="a3", severity=0.8)
    text = Page(render_comparison(compared([mild], [mild, severe]))).text
    assert "0 only in old, in both 1 of new and 2 of old: 0 worse, 1 milder, 0 not comparable." in text


def test_what_the_other_campaign_may_have_seen_is_not_only_in_one(a1: Anomaly) -> None:
    text = Page(render_comparison(compared([a1], []))).text
    assert "1 anomaly only in new (symptom of 1 seen in old too), 0 only in old, 0 in both." in text
    assert "explained only in new symptom seen in old too a1" in text
    unexplained = replace(a1, complete=False)
    assert "confirmed only in new symptom seen in old too" in Page(render_comparison(compared([unexplained], []))).text
    unseen = Page(render_comparison(compared([a1], [], with_runs=False))).text
    assert "1 anomaly only in new (old ran nothing inside the conditions of 1), 0 only in old, 0 in both." in unseen
    assert "too" not in unseen[: unseen.index("Severity in new")]


def test_a_missing_anomaly_is_reported_with_the_runs_measured_there(a1: Anomaly) -> None:
    (missing,) = compared([a1], []).only_here
    assert (missing.runs, missing.showed, missing.normal) == (9, 9, 0)  # a tenth run could not be set up
    (unseen,) = compared([a1], [], with_runs=False).only_here
    assert (unseen.runs, unseen.showed, unseen.normal) == (0, 0, 0)
    page = Page(render_comparison(compared([a1], [], with_runs=False)))
    assert "old ran nothing inside its conditions: it cannot tell whether it has it." in page.text


def test_symptoms_of_another_kind_are_other_anomalies(a1: Anomaly) -> None:
    assert same_anomaly(a1, replace(a1, id="a3"))
    assert not same_anomaly(a1, replace(a1, symptom=Symptom.LOW_THROUGHPUT))
    unexplained = replace(a1, mfs=Mfs(()), workload=Workload(qps=3), found_as=Workload(qps=3))
    assert same_anomaly(unexplained, replace(unexplained, id="a9"))
    assert not same_anomaly(unexplained, replace(unexplained, workload=Workload(qps=4), found_as=Workload(qps=4)))


def test_unlike_testbeds_are_said_before_anything_else(a1: Anomaly) -> None:
    found = compared([a1], [a1], (MOVED, OLD))
    assert found.likeness is Likeness.UNLIKE
    text = Page(render_comparison(found)).text
    assert text.index("may come from what differs there : nic.pcie_width.") < text.index("Severity in new")
    assert "nic.pcie_width 8 unknown yes" in text


def test_the_firmware_under_test_is_no_alarm(a1: Anomaly) -> None:
    found = compared([a1], [a1], (NEW, OLD))
    assert found.likeness is Likeness.UNDER_TEST
    html = render_comparison(found)
    assert 'class="warning"' not in html
    text = Page(html).text
    assert (
        "Under test: nic.firmware, 2.0 in new and 1.0 in old. "
        "Everything else known to change results is equal, or follows from that." in text
    )
    assert "nic.firmware 2.0 1.0 yes" in text
    both = compared([a1], [a1], ({"F": Fingerprint({"nic": {"firmware": "2.0", "pcie_width": 8}})}, OLD))
    assert both.likeness is Likeness.UNLIKE
    assert both.differing_fields == ["nic.pcie_width"]


def test_the_digest_of_a_simulated_subsystem_follows_its_firmware(a1: Anomaly) -> None:
    def of(firmware: str, digest: str) -> dict[str, Fingerprint]:
        return {"F": Fingerprint({"subsystem": {"firmware": firmware, "hardware": digest}})}

    assert compared([a1], [a1], (of("1", "x"), of("2", "y"))).likeness is Likeness.UNDER_TEST
    assert compared([a1], [a1], (of("1", "x"), of("1", "y"))).likeness is Likeness.UNLIKE


def test_of_several_candidates_those_of_closest_severity_are_paired(a1: Anomaly) -> None:
    """Otherwise the same two anomalies on both sides would read as one that got worse and one that got milder."""
    mild, severe = replace(a1, id="a2", severity=0.2), replace(a1, id="a3", severity=0.8)
    found = compared([mild, severe], [mild, severe])
    assert {(pair.here.id, pair.there.id) for pair in found.both} == {("a2", "a2"), ("a3", "a3")}
    assert found.changes == ()
    split = compared([mild], [mild, severe])
    assert {(pair.here.id, pair.there.id) for pair in split.both} == {("a2", "a2"), ("a2", "a3")}
    assert split.only_there == ()


def test_an_unknown_testbed_is_not_taken_for_the_same(a1: Anomaly) -> None:
    found = compared([a1], [a1], (NEW, {}))
    assert found.likeness is Likeness.UNKNOWN
    assert "Nobody can say whether the two ran on like testbeds" in Page(render_comparison(found)).text


def test_like_testbeds_raise_no_warning(a1: Anomaly) -> None:
    found = compared([a1], [])
    page = Page(render_comparison(found))
    assert found.likeness is Likeness.SAME
    assert "equal in everything known to change results" in page.text
    assert page.text.index(
        "1 anomaly only in new (symptom of 1 seen in old too), 0 only in old, 0 in both."
    ) < page.text.index("Anomalies that differ")
    assert [name for name, count in page.ids.items() if count > 1] == []


def test_every_number_names_its_campaign_and_its_place(a1: Anomaly, a2: Anomaly) -> None:
    found = compared([a1, a2], [replace(a1, id="a7", severity=0.9)])
    page = Page(render_comparison(found))
    severities = {"here/anomalies/a1": a1.severity, "here/anomalies/a2": a2.severity, "there/anomalies/a7": 0.9}
    inside = [record.verdict for record in found.there.records if a2.mfs.covers(record.workload)]
    judged = [verdict for verdict in inside if verdict is not None]
    expected = {f"{source}/severity": severity for source, severity in severities.items()} | {
        "there/inside/a2/runs": len(judged),
        "there/inside/a2/normal": sum(verdict.is_normal for verdict in judged),
        "there/inside/a2/showed": sum(verdict.symptom is a2.symptom for verdict in judged),
    }
    assert {source: float(value) for source, value, _ in page.numbers} == expected


def test_campaigns_of_one_name_are_distinguished_by_their_place(a1: Anomaly) -> None:
    one, other = (ReportContext(place=place, space=SPACE) for place in ("old/F", "new/F"))
    found = compare_campaigns(store_of("F", [a1]), one, store_of("F", []), other)
    assert (found.here.name, found.there.name) == ("old/F", "new/F")


def test_hostile_text_stays_text(a1: Anomaly) -> None:
    hostile = "<script>alert('x')</script>"
    prints = {hostile: Fingerprint({"nic": {hostile: hostile}})}
    found = compare_campaigns(
        store_of(hostile, [replace(a1, reason=hostile)]),
        ReportContext(hostile, SPACE, fingerprints=prints),
        store_of("old", []),
        ReportContext("y", SPACE, fingerprints=OLD),
    )
    page = Page(render_comparison(found))
    assert page.tags["script"] == 0
    assert page.text.count(hostile) >= 6
