"""A victim beside the workload of a run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collie.detect.measurement import Latency, Measurement, Victim, cut_short
from collie.readings.recording import Recording
from collie.readings.samples import AgentSample
from collie.readings.victim import notes, victim_flow
from collie.readings.window import measurement
from collie.workloads.workload import Workload
from tests.support.recorded_runs import BEGAN, CATALOG, POLICY, Bytes, host, measure, steady, unidirectional


def with_victim(a: list[AgentSample], b: list[AgentSample]) -> Measurement:
    return measurement(Workload(), Recording({"a": a, "b": b}, BEGAN), CATALOG, POLICY, victim=victim_flow(Workload()))


def failing(samples: list[AgentSample], *keys: str) -> list[AgentSample]:
    """The same samples, in which the queue pairs of some ends have failed."""
    return [
        replace(
            sample,
            flows={key: replace(end, failed_qps=int(key in keys)) for key, end in sample.flows.items()},
        )
        for sample in samples
    ]


def test_the_victim_is_counted_apart_over_the_window_of_the_workload() -> None:
    # It delivers nothing during the warm-up and 2 MB/s from then on.
    late: Bytes = lambda t: 2e6 * max(0.0, t - 0.75)  # noqa: E731
    a = host(50.0, {"a-b/requester": steady(1e6), "victim/requester": late})
    b = host(9000.0, {"a-b/responder": None, "victim/responder": None})
    measured = with_victim(a, b)
    assert measured.host("b").delivered_bps == pytest.approx(8e6)
    assert measured.victim is not None
    assert measured.victim.alone_bps is None
    assert measured.victim.beside_bps == pytest.approx(16e6, rel=0.01)
    assert all(sample.values["delivered_bps"] in (None, pytest.approx(8e6)) for sample in measured.series)


def test_an_uncounted_victim_is_unknown_and_one_not_requested_is_none() -> None:
    a, b = unidirectional(steady(1e6), None)
    assert with_victim(a, b).victim == Victim()
    assert with_victim([], b).victim == Victim()
    assert measure(Workload(), a, b).victim is None


@pytest.mark.parametrize(
    ("ends", "errors", "whose"),
    [
        (("victim/requester",), {}, "its own"),
        (("victim/requester", "a-b/requester"), {"transport retry exceeded": 2}, "its own and the workload's"),
        (("a-b/requester",), {"transport retry exceeded": 2}, None),
    ],
)
def test_errors_of_the_victim_alone_are_not_the_workloads(
    ends: tuple[str, ...], errors: dict[str, int], whose: str | None
) -> None:
    flows: dict[str, Bytes | None] = {"a-b/requester": steady(1e6), "victim/requester": steady(0)}
    moving: dict[str, dict[str, Bytes | None]] = {"hw_counters": {"bad": steady(10)}}
    a = failing(host(50.0, flows, errors={"transport retry exceeded": 2}, counters=moving), *ends)
    measured = with_victim(a, host(9000.0, {"a-b/responder": None, "victim/responder": None}))
    assert measured.health.completion_errors == errors
    assert measured.problems == (), "error counters are explained by completions, whoever's they are"
    said = () if whose is None else (f"host a: the victim's queue pair failed; the errors are {whose}",)
    assert measured.notes == said


def test_a_victim_that_fails_at_the_end_of_the_window_is_noted() -> None:
    a = host(50.0, {"a-b/requester": steady(1e6), "victim/requester": steady(1e6)})
    a[-1:] = failing(a[-1:], "victim/requester")
    assert notes({"a": a, "b": []}) == ("host a: the victim's queue pair failed; the errors are its own",)
    assert notes({"a": a[:-1], "b": []}) == ()


def test_one_failed_flow_of_several_shares_the_errors() -> None:
    ends: dict[str, Bytes | None] = dict.fromkeys(("a-b/requester", "a-c/requester", "victim/requester"))
    a = failing(host(50.0, ends), "victim/requester", "a-b/requester")
    assert notes({"a": a}) == ("host a: the victim's queue pair failed; the errors are its own and the workload's",)


def test_queues_that_run_empty_are_a_share_of_the_rounds_of_the_workload() -> None:
    flows: dict[str, Bytes | None] = {"a-b/requester": steady(1e6), "victim/requester": steady(1e6)}
    busy = (100.0, 0.0, 15.0)
    a = host(50.0, flows, engine=busy)
    b = host(9000.0, {"a-b/responder": None, "victim/responder": None})
    # 100 rounds/s of each. The victim's engine does not count here.
    assert with_victim(a, b).health.empty_queue_ratio == pytest.approx(0.15, rel=0.1)


def test_a_run_that_was_stopped_says_nothing_of_the_victim_beside_it() -> None:
    measured = Measurement((), 1.0, victim=Victim(8e6, 4e6, 8_000_000, Latency(1e-3)))
    assert cut_short(measured, (), "enough").victim == Victim(8e6, None, 8_000_000)


@pytest.mark.parametrize(
    ("alone", "beside", "lost"),
    [(8e6, 2e6, 0.75), (8e6, 9e6, 0.0), (8e6, 0.0, 1.0), (None, 1.0, None), (8e6, None, None), (0.0, 0.0, None)],
)
def test_what_a_victim_lost(alone: float | None, beside: float | None, lost: float | None) -> None:
    assert Victim(alone, beside).lost_ratio == lost
