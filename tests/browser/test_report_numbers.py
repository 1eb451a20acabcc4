"""Every number of a report comes from the record, and every reading that a picture shows is in it."""

from __future__ import annotations

import json
import math
import re
from collections import Counter as Tally
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from collie.app import inputs, reports
from collie.ports import Measured, RunRecord
from collie.store.sqlite import SqliteStore
from collie.wiring import ADAPTERS
from collie.workloads.dimension import Choice, Vector
from collie.workloads.space import Space
from tests.support.html_page import Page


@pytest.fixture(scope="module")
def store(campaign: Path) -> Iterator[SqliteStore]:
    with SqliteStore.open(campaign, read_only=True) as opened:
        yield opened


@pytest.fixture(scope="module")
def written(campaign: Path) -> Page:
    return Page((campaign / "report.html").read_text())


class Record:
    """Looks up in a campaign what a `data-source` names (docs/reference/report-data.md)."""

    def __init__(self, store: SqliteStore) -> None:
        self._header = store.header
        self._runs = {record.run: record for record in store.runs()}
        self._anomalies = {anomaly.id: anomaly for anomaly in store.anomalies()}
        choice = reports.recorded_choice(ADAPTERS, store.directory.path)
        self._space: Space = inputs.narrowed_space_of(ADAPTERS, choice)

    def value(self, source: str) -> Any:
        match source.split("/"):
            case ["header", name]:
                return getattr(self._header, name)
            case ["runs"]:
                return len(self._runs)
            case ["set_ups"]:
                return len({record.set_up or record.run for record in self._runs.values()})
            case ["elapsed_seconds"]:
                return max(record.finished_at_seconds for record in self._runs.values())
            case ["anomalies"]:
                return sum(anomaly.same_as is None for anomaly in self._anomalies.values())
            case ["anomalies", name, "telling", counter]:
                return next(item.factor for item in self._anomalies[name].telling if item.counter == counter)
            case ["anomalies", name, "likely_same_as", field]:
                return getattr(self._anomalies[name].likely_same_as, field)
            case ["anomalies", name, field]:
                return getattr(self._anomalies[name], field)
            case ["runs", number, "hosts", host, field]:
                return getattr(self._measurement(int(number)).host(host), field)
            case ["runs", number, "latency", flow, field]:
                return getattr(self._measurement(int(number)).latency[flow], field)
            case ["runs", number, "counters", counter]:
                return self._measurement(int(number)).counter(counter)
            case ["runs", number, "victim", field]:
                return getattr(self._measurement(int(number)).victim, field)
            case ["runs", number, "victim", "latency", field]:
                return getattr(self._measurement(int(number)).victim.latency, field)
            case ["runs", numbers]:
                return len({int(number) for number in numbers.split("+") if self._says_nothing(int(number))})
            case ["anomalies", name, "plain", "counters", counter]:
                return next(item.plain for item in self._anomalies[name].telling if item.counter == counter)
            case ["purposes", purpose]:
                return sum(record.purpose == purpose for record in self._runs.values())
            case ["outcomes", outcome]:
                return sum(r.verdict is not None and r.verdict.outcome == outcome for r in self._runs.values())
            case ["coverage", name]:
                return self._tried(name)
        raise AssertionError(f"{source} names nothing")

    def _measured(self) -> list[RunRecord]:
        return [record for record in self._runs.values() if isinstance(record.result, Measured)]

    def _measurement(self, run: int) -> Any:
        result = self._runs[run].result
        assert isinstance(result, Measured)
        return result.measurement

    def _says_nothing(self, run: int) -> bool:
        record = self._runs[run]
        verdict = record.verdict
        return not isinstance(record.result, Measured) or (verdict is not None and verdict.is_inconclusive)

    def _tried(self, name: str) -> int:
        dimension = self._space.dimensions[name]
        values = [record.workload.get(name) for record in self._measured()]
        if isinstance(dimension, Choice):
            return len(set(values))
        ladder = dimension.element.ladder if isinstance(dimension, Vector) else dimension.ladder
        flat = [item for value in values for item in (value if isinstance(value, tuple) else (value,))]
        return len({max(step for step in ladder if step <= item) for item in flat})


def test_every_number_is_what_the_record_says(written: Page, store: SqliteStore) -> None:
    record = Record(store)
    kinds = Tally(source.split("/")[0] for source, _, _ in written.numbers)
    assert set(kinds) >= {"anomalies", "runs", "purposes", "outcomes", "coverage", "elapsed_seconds", "header"}
    for source, value, _ in written.numbers:
        expected = record.value(source)
        assert value == ("" if expected is None else str(expected)), source


def test_every_number_of_a_victim_is_what_the_record_says(isolated: Path) -> None:
    page = Page((isolated / "report.html").read_text())
    with SqliteStore.open(isolated, read_only=True) as store:
        record = Record(store)
        for source, value, _ in page.numbers:
            expected = record.value(source)
            assert value == ("" if expected is None else str(expected)), source
        sources = [source for source, _, _ in page.numbers]
        for name, bar in json.loads(page.data)["neighbours"].items():
            place = f"runs/{bar['run']}/victim"
            assert bar["kept"] == pytest.approx(1 - record.value(f"{place}/lost_ratio"), rel=1e-5)
            assert f"{place}/beside_bps" in sources
            assert f"{place}/latency/p99_seconds" in sources
            assert f"anomalies/{name}/severity" in sources
    assert json.loads(page.data)["neighbours"]


_UNITS = {
    "": 1.0, "%": 0.01, "Gbit/s": 1e9, "Mbit/s": 1e6, "kbit/s": 1e3, "bit/s": 1.0, "Mpps": 1e6, "kpps": 1e3, "pps": 1.0,
    "s": 1.0, "min": 60.0, "h": 3600.0, "k": 1e3, "M": 1e6, "G": 1e9, "run": 1.0, "runs": 1.0, "times": 1.0,
    "anomaly": 1.0, "anomalies": 1.0, "set-up": 1.0, "set-ups": 1.0,
}  # fmt: skip


def test_every_number_reads_as_its_value(written: Page) -> None:
    for source, value, text in written.numbers:
        if text in {"unknown", "over 1000 times"}:
            assert value == "" if text == "unknown" else float(value) > 1000
            continue
        displayed = re.fullmatch(r"(\d+(?:\.(\d+))?) ?(\D*)", text)
        assert displayed, (source, text)
        unit, digits = _UNITS[displayed[3]], len(displayed[2] or "")
        rounded = 0.51 * unit * 10.0**-digits
        assert math.isclose(float(displayed[1]) * unit, float(value), rel_tol=0, abs_tol=rounded), (source, value, text)


def test_what_pictures_show_is_on_record(written: Page, store: SqliteStore) -> None:
    data = json.loads(written.data)
    runs = {record.run: record for record in store.runs()}
    for counter, points in data["driven"].items():
        for run, seconds, value, anomalous in points:
            result, verdict = runs[run].result, runs[run].verdict
            assert isinstance(result, Measured)
            assert verdict is not None
            assert runs[run].driven == counter
            assert seconds == pytest.approx(runs[run].finished_at_seconds, rel=1e-5)
            assert value == pytest.approx(result.measurement.counter(counter), rel=1e-5)
            assert anomalous == verdict.is_anomalous
    anomalies = {anomaly.id: anomaly for anomaly in store.anomalies()}
    assert {item["id"] for item in data["found"]} == {a.id for a in anomalies.values() if a.same_as is None}
    assert all(item["seconds"] == anomalies[item["id"]].found_at_seconds for item in data["found"])
    assert all(item["severity"] == anomalies[item["id"]].severity for item in data["found"])
    assert data["neighbours"] == {}, "no victim ran beside these workloads"
    assert data["series"]
    for name, series in data["series"].items():
        result = runs[series["run"]].result
        assert isinstance(result, Measured)
        verdict = runs[series["run"]].verdict
        assert verdict is not None
        assert verdict.reason == anomalies[name].reason, "the picture shows the run that the sentence quotes"
        for reading, hosts in series["readings"].items():
            for host, samples in hosts.items():
                recorded = [s for s in result.measurement.series if s.host == host]
                assert [seconds for seconds, _ in samples] == pytest.approx([s.seconds for s in recorded], rel=1e-5)
                assert [v for _, v in samples] == pytest.approx([s.values.get(reading) for s in recorded], rel=1e-5)
    record = Record(store)
    for name, steps in data["coverage"].items():
        assert sum(runs > 0 for _, runs, _ in steps) == record.value(f"coverage/{name}")
        assert all(anomalous <= runs for _, runs, anomalous in steps)


def test_pictures_show_all_of_it(written: Page, campaign: Path) -> None:
    data = json.loads(written.data)
    html = (campaign / "report.html").read_text()
    squares = "".join(re.findall(r'<path class="squares" d="([^"]*)"', html)).count("h0")
    assert squares == sum(point[3] for points in data["driven"].values() for point in points)
    assert len(re.findall(r'<circle class="(?:un)?explained"', html)) == len(data["found"])
    dots = "".join(re.findall(r'<path class="dots" d="([^"]*)"', html)).count("h0")
    assert dots == sum(not point[3] for points in data["driven"].values() for point in points)
    lines = len(re.findall(r'<path class="host-\d"', html))
    assert lines == sum(len(hosts) for s in data["series"].values() for hosts in s["readings"].values())
