"""Generators, links and error counters that void a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from collie.detect.measurement import GeneratorHealth
from collie.readings import victim
from collie.readings.health import generator_health
from collie.readings.samples import AgentSample, EngineTotals, FlowTotals, QpMessages
from collie.workloads.plan import Flow, flows
from collie.workloads.workload import Direction, Opcode, Workload
from tests.support.recorded_runs import Bytes, b_with, host, measure, steady, unidirectional


@pytest.mark.parametrize(
    ("link", "words"),
    [
        (lambda t: {"state": "4: ACTIVE" if t < 2 else "1: DOWN"}, "the port's state was 4: ACTIVE and became 1: DOWN"),
        (lambda t: {"carrier_changes": 2 if t < 0.3 else 4}, "the count of carrier changes was 2 and became 4"),
        (lambda t: {"pci_width": "16" if t < 1 else "8"}, "the PCIe width was 16 and became 8"),
        (lambda t: {"rate": None if t < 1 else "100 Gb/sec"}, None),
    ],
)
def test_a_link_that_changes_voids_the_run_even_when_work_requests_fail(
    link: Callable[[float], dict[str, str | int | None]], words: str | None
) -> None:
    a = host(50.0, {"a-b/requester": steady(1e6)}, errors={"transport retry exceeded": 1})
    b = host(9000.0, {"a-b/responder": None}, link=link)
    expected = (f"the link changed during the run: host b: {words}",) if words else ()
    assert measure(Workload(), a, b).problems == expected


def test_a_link_that_went_down_and_came_back_is_reported_by_its_counter() -> None:
    problems = b_with({"hw_counters": {"down": lambda t: t >= 1}}).problems
    assert problems == ("the link changed during the run: host b: down counted that it went down",)


def test_error_counters_void_a_run_unless_completions_explain_them() -> None:
    moving: dict[str, dict[str, Bytes | None]] = {"hw_counters": {"bad": steady(8)}}
    assert b_with(moving).problems == ("host b: error counter bad moved",)
    explained = b_with(moving, errors={"RNR retry exceeded": 2})
    assert explained.problems == ()
    assert explained.health.completion_errors == {"RNR retry exceeded": 2}


@pytest.mark.parametrize(
    ("rate", "counted", "asked", "problems"),
    [
        (100, 100, 100, ()),
        (100, 106, 100, ()),
        (100, 130, 100, ("host b: error counter bad moved",)),
        (100, 100, 0, ("host b: error counter bad moved",)),
        (0, 100, 100, ("host b: error counter bad moved",)),
    ],
    ids=["as many", "a few more", "too many", "none was asked for", "none was made"],
)
def test_errors_that_an_agent_makes_beside_the_traffic_void_nothing(
    rate: float, counted: float, asked: int, problems: tuple[str, ...]
) -> None:
    counters: dict[str, dict[str, Bytes | None]] = {"hw_counters": {"bad": lambda t: counted * t}}
    b = [
        replace(sample, engine=replace(sample.engine, qp_errors=int(rate * (sample.clock - 9000.0))))
        for sample in host(9000.0, {"a-b/responder": None}, counters=counters)
        if sample.engine is not None
    ]
    a = host(50.0, {"a-b/requester": steady(1e6)})
    found = measure(Workload(qp_errors_per_second=asked), a, b)
    assert found.problems == problems


def test_errors_that_come_late_in_the_window_explain_the_counters_as_well() -> None:
    a = [
        replace(sample, engine=replace(sample.engine, errors={"RNR retry exceeded": 2} if sample.clock > 52.2 else {}))
        for sample in host(50.0, {"a-b/requester": steady(1e6)})
        if sample.engine is not None
    ]
    b = host(9000.0, {"a-b/responder": None}, counters={"hw_counters": {"bad": steady(8)}})
    assert measure(Workload(), a, b).problems == ()


def test_errors_of_a_victim_that_fails_at_the_end_are_not_the_workload_s() -> None:
    a = host(0.0, {"a-b/requester": steady(1e6), victim.REQUESTER: steady(1e6)}, errors={"retry exceeded": 1})
    assert generator_health(Workload(), {"a": a}).completion_errors == {"retry exceeded": 1}
    failed = replace(a[-1].flows[victim.REQUESTER], failed_qps=1)
    a[-1] = replace(a[-1], flows={**a[-1].flows, victim.REQUESTER: failed})
    assert generator_health(Workload(), {"a": a}).completion_errors == {}


@pytest.mark.parametrize(
    ("engine", "depth", "driven"),
    [
        ((1000.0, 600.0, 50.0), 128, True),  # idle: it had time to fill the queue
        ((1000.0, 10.0, 50.0), 128, False),  # busy, and the queue was empty half the time
        ((1000.0, 10.0, 0.0), 128, True),  # busy, but the queue was never empty: the device is the slower one
        ((1000.0, 10.0, 100.0), 2, True),  # a queue of two is always empty
    ],
)
def test_a_generator_drove_a_run_unless_its_queue_ran_empty_while_it_was_busy(
    engine: tuple[float, float, float], depth: int, driven: bool
) -> None:
    a = host(0.0, {"a-b/requester": steady(1e6)}, engine=engine)
    b = host(0.0, {"a-b/responder": None})
    health = generator_health(Workload(send_wq_depth=depth), {"a": a, "b": b})
    assert health.driven is driven
    assert bool(health.reason) is not driven
    assert health.qp_rate_ratio is None
    assert health.empty_queue_ratio == pytest.approx(engine[2] / 100, rel=0.05)


def test_a_queue_of_few_rounds_is_always_empty_and_no_more_than_always() -> None:
    a = host(0.0, {"a-b/requester": steady(1e6)}, engine=(1000.0, 10.0, 150.0))
    for signal_every, driven in ((2, False), (4, True)):  # 128 entries are four or two rounds
        health = generator_health(Workload(wqe_batch=16, signal_every=signal_every), {"a": a})
        assert health.driven is driven
        assert health.empty_queue_ratio == 1.0


def test_unfair_queue_pairs_show_in_their_ratio() -> None:
    a, b = unidirectional(steady(1e6), None)
    assert generator_health(Workload(qps=2), {"a": a, "b": b}).qp_rate_ratio == pytest.approx(0.5, rel=0.05)


@pytest.mark.parametrize("starved", ["a", "b"])
def test_the_least_fair_flow_decides_by_its_slowest_queue_pair(starved: str) -> None:
    window = {
        role: host(
            0.0, {f"{flow}/requester": steady(1e6)}, qp_messages=(20, 200, 400) if role == starved else (190, 200, 210)
        )
        for role, flow in (("a", "a-b"), ("b", "b-a"))
    }
    health = generator_health(Workload(qps=8, send_wq_depth=16, direction=Direction.BIDIRECTIONAL), window)
    assert health.slowest_qp_share == pytest.approx(0.1, abs=0.02)
    assert health.qp_rate_ratio == pytest.approx(0.05, abs=0.01)


def test_queue_pairs_that_move_nothing_are_neither_fair_nor_unfair() -> None:
    a = host(0.0, {"a-b/requester": steady(0)}, qp_messages=(0, 0, 0))
    assert generator_health(Workload(qps=2), {"a": a}).qp_rate_ratio is None


@pytest.mark.parametrize(
    ("qps", "qp_messages", "share"),
    [
        (8, (0, 200, 230), 0.0),
        (8, (190, 200, 210), 0.95),
        (3, (0, 200, 300), None),  # too few queue pairs
        (8, (0, 20, 30), None),  # too few turns: four queues of 16 in 2.75 s are 23 messages/s
    ],
)
def test_a_starved_queue_pair_shows_where_all_had_enough_turns(
    qps: int, qp_messages: tuple[float, float, float], share: float | None
) -> None:
    a = host(0.0, {"a-b/requester": steady(1e6)}, qp_messages=qp_messages)
    b = host(0.0, {"a-b/responder": None}, qp_messages=(0, 0, 0))
    health = generator_health(Workload(qps=qps, send_wq_depth=16), {"a": a, "b": b})
    assert health.slowest_qp_share == (None if share is None else pytest.approx(share, abs=0.02))


@pytest.mark.parametrize(
    ("workload", "roles", "share"),
    [
        (Workload(requesters=3), {"a": "a-b", "c": "c-b", "d": "d-b"}, 0.2),
        (Workload(requesters=3), {"a": "a-b", "c": "c-b"}, None),  # one of them is not known
        (Workload(rails=2), {"a": "a-b", "c": "c-d"}, None),  # rails share no port
    ],
)
def test_hosts_that_send_to_one_are_compared_with_each_other(
    workload: Workload, roles: dict[str, str], share: float | None
) -> None:
    window = {
        role: host(0.0, {f"{flow}/requester": steady(1e6)}, qp_messages=(n, n, n))
        for (role, flow), n in zip(roles.items(), (900.0, 1900.0, 200.0), strict=False)
    }
    health = generator_health(workload, window)
    assert health.slowest_flow_share == (None if share is None else pytest.approx(share, abs=0.02))


def requesting(messages: Mapping[Flow, float]) -> dict[str, list[AgentSample]]:
    """Return the window of hosts whose flows move so many messages a second, as their requesters count them."""
    return {
        role: [
            AgentSample(
                clock,
                flows={
                    f"{flow.name}/requester": FlowTotals(None, None, QpMessages(n * clock, n * clock, n * clock), 0)
                    for flow, n in messages.items()
                    if flow.requester == role
                },
            )
            for clock in (1.0, 4.0)
        ]
        for role in {flow.requester for flow in messages}
    }


@pytest.mark.parametrize("loopback", [False, True])
@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("partners", [{"responders": 3}, {"requesters": 3}])
def test_flows_of_one_host_with_others_are_compared_with_each_other(
    partners: dict[str, int], direction: Direction, loopback: bool
) -> None:
    """Loopback competes with none of them, however slow it is."""
    workload = Workload().with_(direction=direction, loopback=loopback, **partners)
    between = [flow for flow in flows(workload) if not flow.is_loopback]
    rates = {**dict.fromkeys(flows(workload), 60.0), **dict(zip(between, [900.0, 1900.0, 200.0] * 2, strict=False))}
    assert generator_health(workload, requesting(rates)).slowest_flow_share == pytest.approx(0.2)
    back = {**rates, between[-1]: 2.0 * rates[between[-1]]}  # the slowest of the two directions decides
    expected = 0.2 if direction is Direction.BIDIRECTIONAL else 400.0 / (3200.0 / 3.0)
    assert generator_health(workload, requesting(back)).slowest_flow_share == pytest.approx(expected)


def test_flows_with_few_messages_are_not_compared() -> None:
    workload = Workload(requesters=3, send_wq_depth=64, wqe_batch=16, signal_every=8)  # 4 turns of 128 messages
    for mean, share in ((172.0, 0.5), (170.0, None)):
        rates = dict(zip(flows(workload), (0.5 * mean, mean, 1.5 * mean), strict=True))
        assert generator_health(workload, requesting(rates)).slowest_flow_share == share


def engines(*totals: EngineTotals | None, clocks: tuple[float, ...] = (10.0, 12.0)) -> GeneratorHealth:
    """Return the health of a host from its totals, sample by sample."""
    samples = [AgentSample(clock, engine=each) for clock, each in zip(clocks, totals, strict=True)]
    return generator_health(Workload(), {"a": samples})


TOTALS = EngineTotals(1000, 100, 0, {}, 0, cpu_seconds=1.0, wait_seconds=1.0, queue_outstanding=700, queue_limit=1000)


def test_the_fill_of_the_queues_is_that_of_the_window() -> None:
    later = replace(TOTALS, queue_outstanding=1600, queue_limit=2200)
    assert engines(TOTALS, later).queue_fill_ratio == pytest.approx(0.75)
    assert engines(TOTALS, TOTALS).queue_fill_ratio is None


def test_the_wait_for_a_cpu_is_unknown_without_totals_or_time() -> None:
    later = replace(TOTALS, wait_seconds=1.5)
    assert engines(TOTALS, later).cpu_wait_ratio == pytest.approx(0.25)
    assert engines(later, TOTALS).cpu_wait_ratio == 0.0  # the resolution of the clock
    unknown = replace(TOTALS, wait_seconds=None)
    assert engines(unknown, later).cpu_wait_ratio is None
    assert engines(TOTALS, unknown).cpu_wait_ratio is None
    assert engines(None, later).cpu_wait_ratio is None
    assert engines(TOTALS, None).cpu_wait_ratio is None
    assert engines(TOTALS, later, clocks=(10.0, 10.0)).cpu_wait_ratio is None
    assert engines(TOTALS, later, clocks=(10.0, 9.0)).cpu_wait_ratio is None


def test_idle_polls_are_a_share_of_all_polls_of_the_window() -> None:
    assert engines(TOTALS, replace(TOTALS, iterations=1400, idle_polls=400)).idle_poll_ratio == pytest.approx(0.75)
    assert engines(TOTALS, TOTALS).idle_poll_ratio is None


def test_each_ratio_is_that_of_the_host_that_is_nearest_to_a_limit() -> None:
    """The busiest, the one with the emptiest queues, and the one that waited most."""
    a = host(0.0, {"a-b/requester": steady(1e6)}, engine=(1000.0, 900.0, 5.0), cpu=(0.5, 0.4, 0.5, 1.0))
    b = host(0.0, {"b-a/requester": steady(1e6)}, engine=(1000.0, 300.0, 20.0), cpu=(0.5, 0.1, 0.5, 1.0))
    health = generator_health(Workload(direction=Direction.BIDIRECTIONAL), {"a": a, "b": b})
    assert health.idle_poll_ratio == pytest.approx(0.3, abs=0.01)
    assert health.empty_queue_ratio == pytest.approx(0.2, abs=0.01)
    assert health.cpu_wait_ratio == pytest.approx(0.4)


def test_the_data_paths_of_all_hosts_are_named_once() -> None:
    def named(*paths: str | None) -> str | None:
        window = {
            role: [AgentSample(clock, engine=replace(TOTALS, data_path=path)) for clock in (1.0, 2.0)]
            for role, path in zip("abc", paths, strict=False)
        }
        return generator_health(Workload(), window).data_path

    assert named("pyverbs", "native", "pyverbs") == "native, pyverbs"
    assert named("native", None) == "native"
    assert named(None, None) is None


def test_a_refused_post_is_an_error_of_the_run() -> None:
    refused = replace(TOTALS, post_errors=3, errors={"retry exceeded": 1})
    assert engines(TOTALS, refused).completion_errors == {"retry exceeded": 1, "post refused": 3}
    assert engines(TOTALS, TOTALS).completion_errors == {}


FULL, EMPTY = (100.0, 60.0, 0.0), (100.0, 60.0, 50.0)


@pytest.mark.parametrize(
    ("cpu", "engine", "software", "driven"),
    [
        # Of the generator, waited for, of all processes, idle.
        ((0.5, 0.5, 1.0, 0.0), EMPTY, False, False),  # a busy loop on its CPU
        ((0.5, 0.5, 1.0, 0.0), FULL, False, True),  # the device had enough to do
        ((0.5, 0.5, 0.5, 0.0), EMPTY, False, True),  # it waits for the kernel's work on its own traffic
        ((0.9, 0.02, 9.0, 30.0), EMPTY, False, True),  # others are busy on other CPUs
        ((0.2, 0.01, 0.7, 0.0), FULL, True, False),  # a software device lives on the same CPU
        ((0.2, 0.01, 0.7, 0.3), FULL, True, True),  # which has time to spare
    ],
)
def test_a_generator_whose_cpu_others_took_did_not_drive_the_run(
    cpu: tuple[float, float, float, float], engine: tuple[float, float, float], software: bool, driven: bool
) -> None:
    a = host(0.0, {"a-b/requester": steady(1e6)}, engine=engine, cpu=cpu)
    b = host(0.0, {"a-b/responder": None})
    health = generator_health(Workload(), {"a": a, "b": b}, software=software)
    assert health.driven is driven
    assert ("other processes took" in health.reason) is not driven
    assert health.starved is not driven
    assert health.cpu_wait_ratio == pytest.approx(cpu[1])


@pytest.mark.parametrize("end", ["victim/requester", "victim/responder", None])
def test_a_victim_needs_its_cpu_in_time(end: str | None) -> None:
    """With rails, a host can have an end of the victim and none of the workload."""
    c = host(0.0, {end: steady(1e6)} if end else {}, engine=FULL, cpu=(0.5, 0.5, 1.0, 0.0))
    window = {"a": host(0.0, {"a-b/requester": steady(1e6)}), "b": host(0.0, {"a-b/responder": None}), "c": c}
    assert generator_health(Workload(), window).starved is bool(end)


def with_cpu(sample: AgentSample, **changes: Any) -> AgentSample:
    return replace(sample, host=replace(sample.host, **changes))


def test_kernel_workers_of_a_software_device_are_no_other_processes() -> None:
    a = host(0.0, {"a-b/requester": steady(1e6)}, cpu=(0.2, 0.01, 0.7, 0.0))
    a = [with_cpu(sample, device_cpu_seconds=0.45 * sample.clock) for sample in a]
    b = host(0.0, {"a-b/responder": None})
    assert generator_health(Workload(), {"a": a, "b": b}, software=True).driven


def test_soft_interrupts_that_count_as_system_are_no_other_processes() -> None:
    def health(threads: float, counted: float) -> GeneratorHealth:
        a = [
            with_cpu(
                sample,
                softirq_thread_cpu_seconds=threads * sample.clock,
                cpu_seconds={**sample.host.cpu_seconds, "softirq": counted * sample.clock},
            )
            for sample in host(0.0, {"a-b/requester": steady(1e6)}, cpu=(0.2, 0.01, 0.5, 0.0))
        ]
        return generator_health(Workload(), {"a": a, "b": host(0.0, {"a-b/responder": None})}, software=True)

    assert health(0.3, 0.1).driven  # 0.2 of a CPU is nobody else's
    assert "took 30% of a CPU" in health(0.3, 0.3).reason  # soft interrupts that are counted as such hide no process
    assert "took 30% of a CPU" in health(0.1, 0.4).reason


def test_the_generator_of_another_device_of_the_host_is_no_foreign_process() -> None:
    # All processes take 1.2 CPUs: 0.5 each of two generators, and 0.2 of whoever else.
    a = host(0.0, {"a-b/requester": steady(1e6)}, engine=EMPTY, cpu=(0.5, 0.5, 1.2, 0.0))
    b = host(0.0, {"a-b/responder": None}, cpu=(0.5, 0.5, 1.2, 0.0))
    other = {"a": "server", "b": "another"}
    assert "took 70% of a CPU" in generator_health(Workload(), {"a": a, "b": b}, machines=other).reason
    same = dict.fromkeys("ab", "server")
    assert generator_health(Workload(), {"a": a, "b": b}, machines=same).driven
    silent = host(0.0, {"a-b/responder": None})  # does not tell its CPU time, so nobody knows whose the rest is
    assert generator_health(Workload(), {"a": a, "b": silent}, machines=same).driven


def test_kernel_workers_of_a_host_count_once_whichever_of_its_devices_work_there() -> None:
    # All processes take 2 CPUs: 0.5 each of two generators, 0.6 of the kernel's workers, and 0.4 of whoever else.
    cpu = (0.5, 0.5, 2.0, 0.0)
    a = host(0.0, {"a-b/requester": steady(1e6)}, engine=EMPTY, cpu=cpu)
    b = host(0.0, {"a-b/responder": None}, engine=EMPTY, cpu=cpu)
    both = ([with_cpu(sample, device_cpu_seconds=0.6 * sample.clock) for sample in samples] for samples in (a, b))
    window = dict(zip("ab", both, strict=True))
    health = generator_health(Workload(), window, machines=dict.fromkeys("ab", "server"))
    assert "took 40% of a CPU" in health.reason


def test_a_responder_that_waits_for_a_cpu_posts_its_receives_late() -> None:
    a = host(0.0, {"a-b/requester": None})
    b = host(0.0, {"a-b/responder": steady(1e6)}, cpu=(0.3, 0.5, 0.9, 0.0))
    health = generator_health(Workload(opcode=Opcode.SEND), {"a": a, "b": b})
    assert not health.driven
    assert health.reason.startswith("host b: other processes took 60% of a CPU")
    both = host(0.0, {"a-b/responder": steady(1e6), "b-a/requester": None}, cpu=(0.3, 0.5, 0.9, 0.0))
    two_ways = Workload(opcode=Opcode.SEND, direction=Direction.BIDIRECTIONAL)
    assert not generator_health(two_ways, {"a": a, "b": both}).driven
    assert generator_health(Workload(), {"a": a, "b": b}).driven
    waiting = host(0.0, {f"{role}-b/requester": None for role in "ac"}, cpu=(0.3, 0.5, 0.9, 0.0))
    two_to_one = Workload(opcode=Opcode.SEND, requesters=2)
    assert generator_health(two_to_one, {"a": waiting, "b": b[:1], "c": waiting}).driven, "they post no receives"
    some_receives = Workload(opcode=Opcode.WRITE, more_opcodes=(Opcode.SEND,), messages=(1024, 1024))
    assert not generator_health(some_receives, {"a": a, "b": b}).driven


def offered(
    seconds_per_second: float, engine: tuple[float, float, float] = (100.0, 60.0, 0.0), wqe_batch: int = 1
) -> GeneratorHealth:
    """The health of a generator that is to post 8 Mbit/s, and posts this share of it."""
    a = [
        replace(
            sample,
            flows={
                key: replace(totals, posted_bytes=int(1e6 * seconds_per_second * (sample.clock - 50.0)))
                for key, totals in sample.flows.items()
            },
        )
        for sample in host(50.0, {"a-b/requester": steady(1e6)}, engine=engine)
    ]
    b = host(9000.0, {"a-b/responder": None})
    found: GeneratorHealth = measure(Workload(offered_bps=8_000_000, wqe_batch=wqe_batch), a, b).health
    return found


@pytest.mark.parametrize(("posted", "error"), [(1.0, 0.0), (0.9, 0.1), (1.02, 0.02)])
def test_the_pacing_error_is_what_was_posted_off_the_offered_load(posted: float, error: float) -> None:
    assert offered(posted).pacing_error_ratio == pytest.approx(error, abs=1e-4)


def test_the_pacing_error_is_that_of_the_flow_that_is_most_off() -> None:
    workload = Workload(offered_bps=8_000_000, responders=2)
    totals = FlowTotals(None, None, QpMessages(0, 0, 0), 0)
    samples = [
        AgentSample(
            clock,
            flows={
                f"a-{role}/requester": replace(totals, posted_bytes=int(1e6 * share * clock))
                for role, share in (("b", 1.0), ("c", 0.9))
            },
            engine=TOTALS,
        )
        for clock in (10.0, 12.0)
    ]
    assert generator_health(workload, {"a": samples}).pacing_error_ratio == pytest.approx(0.1)


def test_without_an_offered_load_there_is_no_pacing_error() -> None:
    assert measure(Workload(), *unidirectional(steady(1e6), None)).health.pacing_error_ratio is None


@pytest.mark.parametrize(
    ("posted", "empty", "driven"),
    [
        (1.0, 90.0, True),  # a light load leaves queues empty
        (0.8, 90.0, False),
        (0.8, 0.0, True),  # the queue never ran empty: the device was the limit
    ],
)
def test_a_generator_that_posts_too_little_into_empty_queues_is_to_blame(
    posted: float, empty: float, driven: bool
) -> None:
    health = offered(posted, engine=(100.0, 5.0, empty))
    assert health.driven is driven
    assert health.starved is False
    if not driven:
        assert health.reason == "host a: the posted load was 20% off, and 90% of the posts found the send queue empty"


@pytest.mark.parametrize(("posted", "driven"), [(0.6, True), (0.2, False)])
def test_a_window_holds_whole_rounds_so_that_one_more_or_less_is_no_fault(posted: float, driven: bool) -> None:
    """Of rounds of 1 MiB, a window of 1.5 s at 1 MB/s has one or two."""
    assert offered(posted, engine=(100.0, 5.0, 90.0), wqe_batch=16).driven is driven
