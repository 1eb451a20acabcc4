"""The battery on a fleet with hosts that do not answer."""

from __future__ import annotations

from collie import ports
from collie.campaign.fleet import Battery
from collie.campaign.safety import Guard
from collie.errors import HostUnreachable
from collie.fleet.battery import BATTERY, rounds
from collie.testing.fakes import FakeTestbed


def test_a_host_that_cannot_be_reached_is_asked_once_and_the_fleet_is_incomplete() -> None:
    asked: list[tuple[str, ...]] = []

    def open_group(group: tuple[str, ...]) -> ports.Testbed:
        asked.append(group)
        if "c" in group:
            raise HostUnreachable("c", "192.0.2.3", "no route")
        return FakeTestbed(noise=0.02)

    survey = Battery(open_group, Guard(), 1, lambda _failed: None).run(rounds(tuple("abcdef"), BATTERY[:1]))
    assert sum("c" in group for group in asked) == 1
    assert survey.incomplete >= {"c"}
    assert survey.failures == {"c": "host c (192.0.2.3) cannot be reached: no route"}
    assert {reading.host for reading in survey.readings} == set("abdef")


def test_a_host_that_answers_stays_however_many_rounds_there_are() -> None:
    planned = rounds(tuple("abcdef"), BATTERY[:1])
    survey = Battery(lambda _group: FakeTestbed(noise=0.02), Guard(), 1, lambda _failed: None).run(planned)
    assert survey.runs == sum(len(groups) for groups in planned)
    assert (survey.incomplete, survey.failures) == (set(), {})
