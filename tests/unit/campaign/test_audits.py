"""What one run inside a set says of the explanation of its anomaly."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from collie.detect.symptom import Symptom
from collie.testing.fakes import FakeTestbed, Planted
from tests.support.explained import explained_search
from tests.support.planted import LOOPBACK, SPACE

SHOWS = (Planted(LOOPBACK),)
COVERED = SPACE.base.with_(loopback=True, qps=64)


def audited(
    first: Sequence[Planted], second: Sequence[Planted], *, shows: int = 20, runs: int = 20
) -> tuple[bool, list[str]]:
    """Audit a set with one testbed in the first run and another one afterwards.

    Return whether the explanation stands, and the purposes of the runs.
    """
    testbed = FakeTestbed(SHOWS)
    search = explained_search(testbed, shows=shows, runs=runs)
    testbed.planted = first
    audits = search.loop._audits
    record, verdict = search.drive(audits.measure(search.lane, search.confirmed, COVERED))
    testbed.planted = second
    stands = search.drive(audits.holds(search.lane, search.confirmed, record, verdict))
    return stands, search.purposes


def test_an_audit_that_is_healthy_twice_withdraws_an_explanation() -> None:
    assert audited((), ()) == (False, ["audit", "audit"])


def test_an_explanation_outlives_an_audit_that_is_healthy_once() -> None:
    assert audited((), SHOWS) == (True, ["audit", "audit"])


def test_an_audit_that_shows_the_anomaly_needs_no_second_run() -> None:
    assert audited(SHOWS, SHOWS) == (True, ["audit"])


@pytest.mark.parametrize(("symptom", "related"), [(Symptom.WRONG_PAYLOAD, False), (Symptom.PAUSE, True)])
def test_an_anomaly_that_its_cause_cannot_have_is_a_suspicion_and_no_reproduction(
    symptom: Symptom, related: bool
) -> None:
    testbed = FakeTestbed(SHOWS)
    search = explained_search(testbed, shows=20, runs=20)
    passed = search.confirmed.anomaly.passed
    testbed.planted = [Planted(LOOPBACK, symptom=symptom)]
    audits, triage = search.loop._audits, search.loop._triage
    record, verdict = search.drive(audits.measure(search.lane, search.confirmed, COVERED))
    assert search.drive(audits.holds(search.lane, search.confirmed, record, verdict))
    assert search.confirmed.anomaly.passed == passed + related
    assert [each.verdict.symptom for each in triage.suspicions] == ([] if related else [symptom])


@pytest.mark.parametrize(("shows", "stands"), [(7, True), (10, False)])
def test_a_set_that_does_not_always_show_may_have_healthy_runs(shows: int, stands: bool) -> None:
    """At 7 of 10 fresh runs, two healthy ones are no surprise."""
    assert audited((), (), shows=shows, runs=10)[0] is stands
