"""A diagnosis as text."""

from __future__ import annotations

import pytest

from collie.app.diagnoses import Diagnosed
from collie.campaign.diagnose import Diagnosis
from collie.report.terminal.diagnosis import render_diagnosis
from collie.testing.fakes import Planted
from collie.workloads.feature import Mfs
from tests.support.diagnoses import at_least, diagnosed
from tests.support.planted import LOOPBACK, SPACE


def lines(found: Diagnosis) -> list[str]:
    return render_diagnosis(Diagnosed(found, (), "", (), 1, 1.0, None)).splitlines()


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
