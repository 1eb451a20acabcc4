"""A diagnosis as text."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collie.app.diagnoses import Diagnosed
from collie.campaign.diagnose import Diagnosis
from collie.report.terminal.diagnosis import render_diagnosis
from collie.testing.fakes import Planted
from collie.workloads.feature import Mfs
from collie.workloads.workload import Direction
from tests.support.diagnoses import at_least, diagnosed
from tests.support.planted import LOOPBACK, SPACE


def lines(found: Diagnosis) -> list[str]:
    return render_diagnosis(Diagnosed(found, (), "", (), 1, 1.0, None)).splitlines()


def test_what_cures_helps_and_does_nothing_are_told_apart() -> None:
    both = Mfs((*at_least(qps=64).conditions, *at_least(wqe_batch=8).conditions))
    planted = (Planted(both, severity=0.8), Planted(at_least(qps=64, sge_count=2), severity=0.3))
    workload = SPACE.base.with_(qps=512, wqe_batch=16, sge_count=4, mrs_per_qp=4, mtu=1024)
    found, _ = diagnosed(workload, *planted, every=True)
    headline, *text = lines(replace(found, untried=("mtu",), untried_apart=("mtu",), unjudged=("memory",)))
    assert "wqe_batch 16" in headline
    cures, better = (text.index(f"with one change at a time, it is {how}") for how in ("normal", "better"))
    assert [line.split()[0] for line in text[cures + 1 : better]] == ["qps"]
    useless = next(place for place, line in enumerate(text) if line.startswith("hardly helps, if at all: "))
    assert {line.split()[0] for line in text[better + 1 : useless]} == {"wqe_batch"}
    assert {"sge_count", "mrs_per_qp"} <= set(text[useless].partition(": ")[2].split(", "))
    assert "tried, and could not be judged: memory" in text


def test_a_dimension_that_helps_most_is_not_said_to_hardly_help() -> None:
    """Once it has changed, changing it further is tried as well."""
    found, _ = diagnosed(SPACE.base.with_(qps=512, sge_count=4), Planted(at_least(qps=64), severity=0.8))
    (cure,) = (each for each in found.changes if each.cures)
    useless = next(each for each in found.changes if each.dimension != cure.dimension)
    changes = (replace(useless, dimension=cure.dimension), useless)
    text = lines(replace(found, kept=(cure,), changes=changes, advised=None))
    (line,) = (each for each in text if each.startswith("hardly helps, if at all: "))
    assert line == f"hardly helps, if at all: {useless.dimension}"


def test_every_difference_in_the_headline_is_accounted_for() -> None:
    """The plain sibling may differ where the space has no plainer value, and an application keeps some."""
    found, _ = diagnosed(SPACE.base.with_(loopback=True, mtu=1024), Planted(LOOPBACK))
    apart = replace(found, untried=(), untried_apart=())
    headline, *text = lines(apart)
    assert "mtu 1024 (sibling 4096)" in headline
    assert "no simpler value in the space: mtu" in text
    assert "not tried, as it needs another set-up: mtu" in lines(found)


@pytest.mark.parametrize(
    ("recorded", "now", "said"),
    [
        ("", "PCIe", ["likely: PCIe"]),
        ("PCIe", "PCIe", ["likely: PCIe"]),
        ("PCIe", "the packet engine", ["likely: PCIe", "in this run: the packet engine"]),
        ("PCIe", "", ["likely: PCIe"]),
        ("", "", []),
    ],
)
def test_the_recorded_cause_is_told_before_that_of_this_run(recorded: str, now: str, said: list[str]) -> None:
    found, _ = diagnosed(SPACE.base.with_(loopback=True), Planted(LOOPBACK))
    text = render_diagnosis(Diagnosed(found, (), now, (), 1, 1.0, None, recorded)).splitlines()
    assert [line for line in text if line.startswith(("likely", "in this run"))] == said


def test_a_change_is_not_called_the_cheapest_if_another_took_fewer_steps() -> None:
    planted = Planted(Mfs((*LOOPBACK.conditions, *at_least(qps=240).conditions)))
    found, _ = diagnosed(SPACE.base.with_(qps=320, loopback=True), planted, every=True)
    *_, advised, cheaper, _ = lines(found)
    assert advised == "the surest change that was tried: loopback true -> false (normal on two set-ups)"
    assert cheaper == "cheaper, and not tried again: qps 320 -> 160"


@pytest.mark.parametrize(("direction", "said"), [(Direction.UNIDIRECTIONAL, 0), (Direction.BIDIRECTIONAL, 1)])
def test_throughput_of_both_directions_is_called_a_sum(direction: Direction, said: int) -> None:
    found, _ = diagnosed(SPACE.base.with_(qps=512, direction=direction), Planted(at_least(qps=64)))
    (row,) = (line for line in lines(found) if line.lstrip().startswith("qps "))
    assert row.count("Gbit/s, both directions together") == said
