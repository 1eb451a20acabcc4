"""Pictures of the report: where things are drawn, and what must be readable in them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from collie.report.figures.chart import (
    AnomalyMarker,
    Driven,
    Point,
    Trace,
    driven_chart,
    severity_chart,
    thinned,
    trace_chart,
)
from collie.report.figures.scale import Scale, engineering, scale_of
from collie.report.figures.strip import steps_of, strips_of
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.workload import Opcode, Workload
from tests.support.campaigns import PAUSING, SPACE

NUMBERS = st.floats(min_value=1e-6, max_value=1e15)


@given(st.lists(NUMBERS, min_size=1), st.sampled_from([3, 6, 9]))
def test_a_scale_holds_its_values_and_labels_a_few_of_them(values: list[float], most: int) -> None:
    scale = scale_of(values, 100.0, 0.0)
    assert all(0.0 <= scale.place(value) <= 100.0 for value in values)
    ticks = scale.ticks(most)
    assert 1 <= len(ticks) <= most + 1
    assert [tick.at for tick in ticks] == sorted((tick.at for tick in ticks), reverse=True)
    assert all(0.0 <= tick.at <= 100.0 for tick in ticks)


def test_the_top_of_a_scale_is_labelled() -> None:
    assert [tick.label for tick in scale_of([45e6, 3e6], 76.0, 0.0).ticks(3)] == ["0", "50M"]
    assert scale_of([0.0], 76.0, 0.0).ticks(3)[0].label == "0"


def test_values_over_decades_are_shown_by_their_logarithm_where_that_may_be() -> None:
    assert scale_of([1.0, 1e6], 0, 1).logarithmic
    assert not scale_of([0.0, 1e6], 0, 1).logarithmic
    assert not scale_of([1e-6, 0.5], 0, 1, decades=False).logarithmic
    assert Scale(1.0, 1e4, 0.0, 100.0, logarithmic=True).place(100.0) == 50.0


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.25, "0.25"), (850e3, "850k"), (1.65e6, "1.65M"), (2e10, "20G")]
)
def test_large_numbers_have_prefixes(value: float, text: str) -> None:
    assert engineering(value) == text


def marker(name: str, seconds: float, severity: float = 0.5) -> AnomalyMarker:
    return AnomalyMarker(name, seconds, severity, name)


def test_every_find_is_a_mark_at_its_time_and_severity() -> None:
    found = [marker("a1", 900.0, 0.9), marker("a2", 1800.0, 0.4), marker("a9", 3600.0, 0.0)]
    chart = severity_chart([("Severity", found)], 3600.0)
    (panel,) = chart.panels
    assert [mark.x for mark in panel.marks] == [25.0, 50.0, 100.0]
    heights = [(panel.bottom - mark.y) / (panel.bottom - panel.top) for mark in panel.marks]
    assert heights == pytest.approx([0.9, 0.4, 0.0])
    assert [mark.label for mark in panel.marks] == ["a1", "a2", "a9"]
    assert panel.marks[2].anchor == "end", "a label at the right edge would be cut off"
    assert "a2 40% after 30 min" in chart.words


def test_an_unexplained_anomaly_has_another_mark() -> None:
    found = [replace(marker("a1", 1.0), is_explained=explained) for explained in (True, False)]
    (panel,) = severity_chart([("", found)], 60.0).panels
    assert [mark.style for mark in panel.marks] == ["explained", "unexplained"]


@pytest.mark.parametrize("width", [280.0, 700.0, 1100.0])
@given(st.lists(st.tuples(st.floats(0.0, 60.0), st.floats(0.0, 1.0)), min_size=1, max_size=30))
def test_labels_of_marks_never_meet_at_any_width(width: float, found: list[tuple[float, float]]) -> None:
    """As all anomalies of a gate are found within minutes, many of them lie close together."""
    markers = [marker(f"nsdi22-{rank}", *place) for rank, place in enumerate(found)]
    (panel,) = severity_chart([("", markers)], 60.0).panels
    shift = {"start": 0.0, "middle": -0.5, "end": -1.0}
    boxes = []
    for mark in panel.marks:
        if mark.label:
            long = 6.6 * len(mark.label)
            left = mark.x * width / 100 + mark.offset[0] + shift[mark.anchor] * long
            boxes.append((left, left + long, mark.y + mark.offset[1]))
    assert boxes, "the worst has room"
    assert all(left >= 0 and right <= width for left, right, _ in boxes)
    for index, (left, right, y) in enumerate(boxes):
        assert all(right <= a or b <= left or abs(y - other) >= 12 for a, b, other in boxes[:index])


@pytest.mark.parametrize(("end", "unit"), [(60.0, "seconds"), (600.0, "minutes"), (36000.0, "hours")])
def test_pictures_choose_a_unit_of_time(end: float, unit: str) -> None:
    assert severity_chart([("", [marker("a1", end / 2)])], end).title == f"testbed time, {unit}"


def test_a_sample_before_the_first_message_is_inside_the_picture() -> None:
    chart = trace_chart([Trace("delivered_bps", "receives", (("a", ((-0.1, 0.0), (1.0, 5.0))),))])
    assert chart.panels[0].lines[0].path.startswith("M0.0 ")


def test_every_run_of_a_driven_counter_is_drawn() -> None:
    points = tuple(Point(run, run * 10.0, float(run), run % 5 == 0) for run in range(1, 51))
    chart = driven_chart([Driven("x$y_z$", "events/s", points)], [marker("a1", 50.0), marker("a2", 70.0)], 600.0)
    dots, squares = chart.panels[0].lines
    assert (dots.path.count("h0"), squares.path.count("h0")) == (40, 10)
    assert len(chart.rules) == 2
    assert "x$y_z$, 50 runs from 1 to 50 events/s, 10 of them anomalous" in chart.words


def test_a_host_has_one_style_of_line_and_gaps_where_nothing_is_known() -> None:
    receives = Trace("delivered_bps", "receives", (("b", ((1.0, 5.0), (2.0, None), (3.0, 6.0))),))
    pauses = Trace("tx_pause_ratio", "pauses", (("a", ((1.0, 0.0),)), ("b", ((1.0, 0.5), (2.0, 0.25)))))
    first, second = trace_chart([receives, pauses]).panels
    assert [line.style for line in first.lines] == ["host-2"]
    assert [line.style for line in second.lines] == ["host-1", "host-2"]
    assert first.lines[0].path.count("M") == 2
    assert second.ticks[-1].label == "50%"


def test_anomalous_runs_are_never_left_out_of_a_picture() -> None:
    points = [Point(index, float(index), 1.0, index % 100 == 0) for index in range(10_000)]
    kept = thinned(points, 500)
    assert sum(point.anomalous for point in kept) == 100
    assert 400 <= sum(not point.anomalous for point in kept) <= 500
    assert [point.seconds for point in kept] == sorted(point.seconds for point in kept)
    assert thinned(points[:50], 500) == points[:50]


def test_a_strip_fills_what_the_conditions_admit() -> None:
    workload = Workload(opcode=Opcode.SEND, qps=64)
    qps, opcode = strips_of(PAUSING, workload, SPACE).strips
    assert [cell.inside for cell in qps.cells] == [False, False, True, True, True]
    assert [cell.here for cell in qps.cells].index(True) == 2
    assert [cell.plain for cell in qps.cells].index(True) == 1
    assert [cell.inside for cell in opcode.cells] == [False, True]
    assert opcode.words == "opcode: opcode == SEND; here SEND, plain WRITE"


def test_two_conditions_on_one_dimension_are_one_strip() -> None:
    mfs = Mfs((Condition("qps", Op.AT_LEAST, 8), Condition("qps", Op.AT_MOST, 100)))
    (strip,) = strips_of(mfs, Workload(qps=64), SPACE).strips
    assert [label.text for label in strip.labels] == ["1", "8", "64", "100", "512", "1024"]
    assert [cell.inside for cell in strip.cells] == [False, True, True, True, False, False]


@pytest.mark.parametrize("feature", ["total_mrs", "total_qps", "gpu_hosts", "min_message_bytes", "sq_psn", "loopback"])
def test_every_feature_has_steps(feature: str) -> None:
    steps = steps_of(feature, SPACE)
    assert 1 <= len(steps) <= 24
    assert len(set(steps)) == len(steps)


@pytest.mark.parametrize("width", [320.0, 520.0, 1100.0])
def test_labels_of_a_strip_never_meet(width: float) -> None:
    mfs = Mfs((Condition("total_send_wqes", Op.AT_LEAST, 6144),))
    (strip,) = strips_of(mfs, Workload(qps=64), SPACE).strips
    shift = {"start": 0.0, "middle": -0.5, "end": -1.0}
    spans = []
    for label in strip.labels:
        if width > 320.0 or label.fits_narrow:
            left = label.x * width / 100 + shift[label.anchor] * 7.6 * len(label.text)
            spans.append((left, left + 7.6 * len(label.text)))
    assert len(spans) >= 3
    assert all(left[1] < right[0] for left, right in pairwise(spans))
    assert spans[0][0] >= 0
    assert spans[-1][1] <= width
