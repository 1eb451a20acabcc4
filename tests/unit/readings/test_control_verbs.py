"""Control verbs that a host was too slow for are a note of the measurement."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collie.readings.control_verbs import notes
from collie.readings.samples import AgentSample, EngineTotals
from collie.workloads.workload import Workload

BOTH = Workload(new_mrs_per_second=2000, new_qps_per_second=100)


def samples(mrs: float, qps: float) -> list[AgentSample]:
    """Return two samples, 2 s apart, of a host that makes so many a second."""
    totals = EngineTotals(0, 0, 0, {}, 0)
    return [
        AgentSample(clock, engine=replace(totals, new_mrs=7 + int(mrs * clock), new_qps=int(qps * clock)))
        for clock in (10.0, 12.0)
    ]


@pytest.mark.parametrize(
    ("mrs", "qps", "found"),
    [
        (2000, 100, ()),
        (1910, 96, ()),
        (1200, 100, ("host b registered and deregistered 1,200 regions a second, not 2,000 (new_mrs_per_second)",)),
        (2000, 0, ("host b created and destroyed 0 queue pairs a second, not 100 (new_qps_per_second)",)),
    ],
)
def test_only_what_is_missing_is_noted(mrs: float, qps: float, found: tuple[str, ...]) -> None:
    assert notes(BOTH, {"a": samples(2000, 100), "b": samples(mrs, qps)}) == found


def test_nothing_is_asked_of_other_workloads() -> None:
    assert notes(Workload(), {"a": samples(0, 0)}) == ()


@pytest.mark.parametrize("window", [[], samples(0, 0)[:1], [AgentSample(1.0), AgentSample(2.0)]])
def test_without_samples_nothing_is_known(window: list[AgentSample]) -> None:
    assert notes(BOTH, {"a": window}) == ()
