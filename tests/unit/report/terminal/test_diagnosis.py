"""A diagnosis as text."""

from __future__ import annotations

from collie.app.diagnoses import Diagnosed
from collie.campaign.diagnose import Diagnosis
from collie.report.terminal.diagnosis import render_diagnosis
from collie.testing.fakes import Planted
from collie.workloads.feature import Mfs
from tests.support.diagnoses import at_least, diagnosed
from tests.support.planted import LOOPBACK, SPACE


def lines(found: Diagnosis) -> list[str]:
    return render_diagnosis(Diagnosed(found, (), "", (), 1, 1.0, None)).splitlines()


def test_a_change_is_not_called_the_cheapest_if_another_took_fewer_steps() -> None:
    planted = Planted(Mfs((*LOOPBACK.conditions, *at_least(qps=240).conditions)))
    found, _ = diagnosed(SPACE.base.with_(qps=320, loopback=True), planted, every=True)
    *_, advised, cheaper, _ = lines(found)
    assert advised == "the surest change that was tried: loopback true -> false (normal on two set-ups)"
    assert cheaper == "cheaper, and not tried again: qps 320 -> 160"
