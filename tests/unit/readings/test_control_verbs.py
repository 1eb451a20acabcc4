"""Control verbs that a host was too slow for are a note of the measurement."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from collie.readings.control_verbs import most_errors_per_second, notes, problems
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
    ("workload", "said"),
    [
        (
            Workload(new_ahs_per_second=1000),
            "created and destroyed 500 address handles a second, not 1,000 (new_ahs_per_second)",
        ),
        (
            Workload(qp_errors_per_second=1000),
            "brought a queue pair back from 500 errors a second, not 1,000 (qp_errors_per_second)",
        ),
    ],
)
def test_each_kind_has_its_words(workload: Workload, said: str) -> None:
    def both(rate: float) -> list[AgentSample]:
        made = (EngineTotals(0, 0, 0, {}, 0, new_ahs=int(rate * at), qp_errors=int(rate * at)) for at in (10, 12))
        return [AgentSample(clock, engine=totals) for clock, totals in zip((10.0, 12.0), made, strict=True)]

    assert notes(workload, {"a": both(1000), "b": both(500)}) == (f"host b {said}",)


@pytest.mark.parametrize(
    ("mrs", "qps", "found"),
    [
        (2000, 100, ()),
        (1910, 96, ()),
        (1890, 100, ("host b registered and deregistered 1,890 regions a second, not 2,000 (new_mrs_per_second)",)),
        (1200, 100, ("host b registered and deregistered 1,200 regions a second, not 2,000 (new_mrs_per_second)",)),
        (2000, 0, ("host b created and destroyed 0 queue pairs a second, not 100 (new_qps_per_second)",)),
    ],
)
def test_only_what_is_missing_is_noted(mrs: float, qps: float, found: tuple[str, ...]) -> None:
    assert notes(BOTH, {"a": samples(2000, 100), "b": samples(mrs, qps)}) == found


def test_imitated_verbs_have_their_own_words_and_no_errors() -> None:
    errors = Workload(qp_errors_per_second=1000)
    made = [AgentSample(at, engine=EngineTotals(0, 0, 0, {}, 0, qp_errors=int(500 * at))) for at in (10.0, 12.0)]
    imitated = errors.with_(control_verbs_imitated=True)
    said = "host a took the CPU time of 500 a second, not 1,000 (qp_errors_per_second)"
    assert notes(imitated, {"a": made}) == (said,)
    assert most_errors_per_second(errors, made) > 500
    assert most_errors_per_second(imitated, made) == 0


def test_a_rate_is_that_of_the_whole_window_however_long_it_is() -> None:
    totals = EngineTotals(0, 0, 0, {}, 0)
    window = [AgentSample(clock, engine=replace(totals, new_mrs=int(1000 * clock))) for clock in (10.0, 35.0)]
    said = "host a registered and deregistered 1,000 regions a second, not 2,000 (new_mrs_per_second)"
    assert notes(Workload(new_mrs_per_second=2000), {"a": window}) == (said,)


def test_a_few_missing_ones_are_the_whole_numbers_of_a_short_window() -> None:
    slow = Workload(new_qps_per_second=5)
    assert notes(slow, {"a": samples(0, 3), "b": samples(0, 5)}) == ()
    assert notes(slow, {"a": samples(0, 2), "b": samples(0, 5)}) != ()


def test_a_host_with_a_victim_alone_makes_none() -> None:
    window = {"a": samples(2000, 100), "b": samples(2000, 100), "c": samples(0, 0), "d": samples(0, 0)}
    assert notes(BOTH, window) == ()


def test_a_verb_that_failed_voids_the_run() -> None:
    first, last = samples(2000, 100)
    assert last.engine is not None
    failed = replace(last, engine=replace(last.engine, control_verb_errno=errno.ENOMEM))
    assert problems(BOTH, {"a": [first, last], "b": samples(2000, 100)}) == ()
    said = "host b makes no control verbs any more: ENOMEM"
    assert problems(BOTH, {"a": [first, last], "b": [first, failed]}) == (said,)


def test_nothing_is_asked_of_other_workloads() -> None:
    assert notes(Workload(), {"a": samples(0, 0)}) == ()


@pytest.mark.parametrize("window", [[], samples(0, 0)[:1], [AgentSample(1.0), AgentSample(2.0)]])
def test_without_samples_nothing_is_known(window: list[AgentSample]) -> None:
    assert notes(BOTH, {"a": window}) == ()
