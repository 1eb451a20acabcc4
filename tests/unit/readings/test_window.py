"""From samples to a measurement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from collie.counters.catalog import Catalog, Counter, CounterKind, Role, Unit
from collie.detect.measurement import GeneratorHealth, Measurement, Victim, cut_short
from collie.readings.delivery import accounting_step_bytes
from collie.readings.health import generator_health
from collie.readings.policy import WindowPolicy
from collie.readings.rate_stability import may_settle
from collie.readings.recording import Recording
from collie.readings.samples import AgentSample, EngineTotals, FlowTotals, HostCpu, QpMessages, parse_sample
from collie.readings.window import measurement
from collie.workloads.plan import flows, streams
from collie.workloads.workload import Direction, Opcode, QpType, Workload

CATALOG = Catalog(
    "some",
    (
        Counter("rx", "hw_counters", Unit.PACKETS, CounterKind.PERFORMANCE, "wire", role=Role.RX_PACKETS, width=32),
        Counter("lost", "hw_counters", Unit.PACKETS, CounterKind.DIAGNOSTIC, "wire", role=Role.OUT_OF_SEQUENCE),
        Counter("pause_0", "ethtool", Unit.MICROSECONDS, CounterKind.PAUSE, "wire", role=Role.TX_PAUSE),
        Counter("pause_3", "ethtool", Unit.MICROSECONDS, CounterKind.PAUSE, "wire", role=Role.TX_PAUSE),
        Counter("level", "hw_counters", Unit.PERCENT, CounterKind.INFO, "cache", gauge=True),
        Counter("bad", "hw_counters", Unit.EVENTS, CounterKind.ERROR, "wire"),
        Counter("down", "hw_counters", Unit.EVENTS, CounterKind.ERROR, "wire", canonical="link_down"),
        Counter("naks", "hw_counters", Unit.PACKETS, CounterKind.DIAGNOSTIC, "wire", role=Role.RNR_NAK),
        Counter("again", "hw_counters", Unit.PACKETS, CounterKind.DIAGNOSTIC, "wire", canonical="duplicate_request"),
    ),
)
POLICY = WindowPolicy(warm_up_seconds=0.75, window_seconds=1.5)
PERIOD = 0.25
IDLE_ENGINE = (100.0, 60.0, 0.0)
BEGAN = 1000.0

Bytes = Callable[[float], float]


def host(
    clock_zero: float,
    flows: dict[str, Bytes | None],
    *,
    engine: tuple[float, float, float] = IDLE_ENGINE,
    counters: dict[str, dict[str, Bytes | None]] | None = None,
    errors: dict[str, int] | None = None,
    delay: float = 0.01,
    samples: int = 12,
    dropped: int = 0,
    cpu: tuple[float, float, float, float] | None = None,
    link: Callable[[float], dict[str, str | int | None]] = lambda t: {},
    qp_messages: tuple[float, float, float] = (50, 75, 100),
) -> list[AgentSample]:
    """Samples of a host whose clock read `clock_zero` when traffic began; quantities are functions of seconds.

    `cpu` is CPUs: of the generator, waited for, of all processes together, idle. `qp_messages` are per second: of the
    slowest queue pair, on average, of the fastest.
    """
    made = []
    for number in range(samples):
        t = number * PERIOD
        iterations, idle, empty = (int(rate * t) for rate in engine)
        made.append(
            AgentSample(
                clock=clock_zero + t,
                # Every third sample is held up on its way.
                arrived=BEGAN + t + delay + (0.2 if number % 3 == 1 else 0.0),
                flows={
                    key: FlowTotals(
                        posted_messages=int(100 * t) if key.endswith("/requester") else None,
                        delivered_bytes=None if counted is None else int(counted(t)),
                        qp_messages=QpMessages(int(qp_messages[0] * t), qp_messages[1] * t, int(qp_messages[2] * t)),
                        failed_qps=0,
                    )
                    for key, counted in flows.items()
                },
                engine=EngineTotals(
                    iterations, idle, empty, errors or {}, 0, *((cpu[0] * t, cpu[1] * t) if cpu else (None, None))
                ),
                counters={
                    source: {name: None if value is None else int(value(t)) for name, value in values.items()}
                    for source, values in (counters or {}).items()
                },
                dropped=dropped * number,
                link=link(t),
                host=HostCpu({"user": cpu[2] * t, "system": 0.0, "idle": cpu[3] * t} if cpu else {}),
            )
        )
    return made


def with_cpu(sample: AgentSample, **changes: Any) -> AgentSample:
    return replace(sample, host=replace(sample.host, **changes))


def steady(rate: float) -> Bytes:
    return lambda t: rate * t


def measure(workload: Workload, a: list[AgentSample], b: list[AgentSample], policy: WindowPolicy = POLICY):  # type: ignore[no-untyped-def]
    return measurement(workload, Recording({"a": a, "b": b}, BEGAN), CATALOG, policy)


def unidirectional(a_counts: Bytes | None, b_counts: Bytes | None) -> tuple[list[AgentSample], list[AgentSample]]:
    return host(50.0, {"a-b/requester": a_counts}), host(9000.0, {"a-b/responder": b_counts})


def test_a_write_is_counted_at_the_requester_and_attributed_to_the_responder() -> None:
    measured = measure(Workload(), *unidirectional(steady(1e6), None))
    assert measured.host("a").delivered_bps is None
    assert measured.host("b").delivered_bps == pytest.approx(8e6)
    assert measured.host("b").delivered_pps == pytest.approx(1e6 / 4096)
    assert measured.stable
    assert measured.problems == ()
    assert measured.window_seconds == pytest.approx(1.5, abs=0.2)


def test_a_send_is_counted_at_the_responder() -> None:
    measured = measure(Workload(opcode=Opcode.SEND, messages=(64,)), *unidirectional(None, steady(64e3)))
    assert measured.host("b").delivered_bps == pytest.approx(512e3)
    assert measured.host("b").delivered_pps == pytest.approx(1000, rel=0.01)


def test_a_read_is_received_by_its_requester() -> None:
    measured = measure(Workload(opcode=Opcode.READ), *unidirectional(steady(1e6), None))
    assert measured.host("a").delivered_bps == pytest.approx(8e6)
    assert measured.host("b").delivered_bps is None


def test_both_directions_and_loopback_add_up_at_each_sink() -> None:
    workload = Workload(direction=Direction.BIDIRECTIONAL, loopback=True)
    a = host(50.0, {"a-b/requester": steady(1e6), "b-a/responder": None})
    own = {"b-b/requester": steady(5e6), "b-b/responder": None}
    b = host(9000.0, {"a-b/responder": None, "b-a/requester": steady(3e6), **own})
    measured = measure(workload, a, b)
    assert measured.host("a").delivered_bps == pytest.approx(24e6)
    assert measured.host("b").delivered_bps == pytest.approx(48e6, rel=0.001)


def test_a_flow_that_nobody_counts_has_no_throughput_rather_than_zero() -> None:
    measured = measure(Workload(qp_type=QpType.UC), *unidirectional(None, None))
    assert measured.host("b").delivered_bps is None
    assert not measured.stable


def test_start_up_is_not_in_the_window() -> None:
    measured = measure(Workload(), *unidirectional(lambda t: 1e6 * max(0.0, t - 0.7), None))
    assert measured.stable
    assert measured.host("b").delivered_bps == pytest.approx(8e6, rel=0.01)
    early = [s.values["delivered_bps"] for s in measured.series if s.host == "b" and s.seconds < 0.6]
    assert early
    assert early == pytest.approx([0.0] * len(early), abs=1.0)


def test_traffic_that_swings_is_not_stable() -> None:
    def swing(t: float) -> float:
        return 1e6 * t + (1e5 if int(t / PERIOD) % 2 else 0.0)

    measured = measure(Workload(messages=(1024,)), *unidirectional(swing, None))
    assert not measured.stable
    assert measured.host("b").peak_bps == pytest.approx(8 * (1e6 + 1e5 / PERIOD), rel=0.01)
    assert measured.host("a").peak_bps is None


def recorded(swing: float, samples: int, drift: float = 0.0) -> Recording:
    """A write whose rate is by turns less and more by a share, and grows by a share in a second."""

    def delivered(t: float) -> float:
        return 1e6 * (t + swing * PERIOD * (round(t / PERIOD) % 2) + drift * t * t / 2)

    a = host(50.0, {"a-b/requester": delivered}, samples=samples)
    return Recording({"a": a, "b": host(9000.0, {"a-b/responder": None}, samples=samples)}, BEGAN)


def test_a_whole_run_that_swings_about_one_level_is_stable_once_it_is_long_enough() -> None:
    workload = Workload(messages=(1024,))
    short, long = (measurement(workload, recorded(0.25, samples), CATALOG, POLICY, whole=True) for samples in (12, 30))
    assert not short.stable
    assert long.stable
    assert long.window_seconds == pytest.approx(29 * PERIOD - POLICY.warm_up_seconds, abs=0.02)
    assert long.host("b").delivered_bps == pytest.approx(8e6, rel=0.05)
    assert not measurement(workload, recorded(0.25, 30), CATALOG, POLICY).stable
    assert not measurement(workload, recorded(0.25, 30, drift=0.1), CATALOG, POLICY, whole=True).stable


def test_what_swings_too_much_for_the_longest_run_is_hopeless() -> None:
    workload = Workload(messages=(1024,))
    assert may_settle(workload, recorded(0.25, 15), POLICY)
    assert not may_settle(workload, recorded(0.5, 15), POLICY)
    chain = Workload(messages=(65536,), wqe_batch=16, send_wq_depth=64)
    assert not may_settle(chain, recorded(0.0, 15), POLICY)


def test_fewer_than_four_samples_of_a_rate_are_not_stable() -> None:
    a, b = unidirectional(steady(1e6), None)
    measured = measure(Workload(), a[:7], b[:7])
    assert not measured.stable
    assert measured.problems == ()


def test_traffic_that_stands_still_is_a_stable_zero() -> None:
    measured = measure(Workload(), *unidirectional(lambda t: 0, None))
    assert measured.stable
    assert measured.host("b").delivered_bps == 0.0


def test_steps_of_a_chain_are_no_instability_but_must_be_fine_enough() -> None:
    workload = Workload(messages=(65536,), wqe_batch=16, send_wq_depth=64)
    step = 16 * 65536

    def stepped(rate: float) -> Bytes:
        return lambda t: int(rate * t / step) * step

    assert measure(workload, *unidirectional(stepped(40e6), None)).stable
    assert not measure(workload, *unidirectional(stepped(5e6), None)).stable


def test_a_host_that_sends_no_samples_voids_the_run() -> None:
    measured = measure(Workload(), host(0.0, {"a-b/requester": steady(1)}), [])
    assert measured.problems == ("host b sent no samples",)
    assert not measured.stable


def test_lost_samples_void_the_run() -> None:
    a = host(50.0, {"a-b/requester": steady(1e6)}, dropped=1)
    b = host(9000.0, {"a-b/responder": None})
    assert "host a lost 6 samples in the window" in measure(Workload(), a, b).problems


def b_with(counters: dict[str, dict[str, Bytes | None]], errors: dict[str, int] | None = None):  # type: ignore[no-untyped-def]
    a = host(50.0, {"a-b/requester": steady(1e6)})
    b = host(9000.0, {"a-b/responder": None}, counters=counters, errors=errors)
    return measure(Workload(), a, b)


def test_counters_are_rates_gauges_are_means_and_missing_is_none() -> None:
    def wrapping(t: float) -> float:
        return (2**32 - 500 + 1000 * t) % 2**32

    measured = b_with({"hw_counters": {"rx": wrapping, "lost": None, "level": lambda t: 40}})
    counters = measured.host("b").counters
    assert counters["rx"] == pytest.approx(1000, rel=0.01)
    assert counters["level"] == 40
    assert counters["lost"] is None
    assert counters["pause_0"] is None
    assert measured.host("b").loss_ratio is None
    assert measured.host("b").tx_pause_ratio is None


def test_pause_is_the_largest_share_of_time_over_the_priorities() -> None:
    measured = b_with({"ethtool": {"pause_0": steady(1000), "pause_3": steady(20_000)}})
    assert measured.host("b").tx_pause_ratio == pytest.approx(0.02, rel=0.01)
    assert measured.host("a").tx_pause_ratio is None


def test_loss_is_a_share_of_the_packets_received() -> None:
    measured = b_with({"hw_counters": {"rx": steady(1000), "lost": steady(10)}})
    assert measured.host("b").loss_ratio == pytest.approx(0.01, rel=0.1)


def test_messages_turned_away_are_a_share_of_those_that_arrive() -> None:
    naks: dict[str, dict[str, Bytes | None]] = {"hw_counters": {"naks": steady(500), "rx": steady(2000)}}
    a = host(50.0, {"a-b/requester": None})
    b = host(9000.0, {"a-b/responder": steady(1000 * 64)}, counters=naks)
    sends = Workload(opcode=Opcode.SEND, messages=(64,))
    assert measure(sends, a, b).host("b").rnr_ratio == pytest.approx(1 / 3, rel=0.01)
    assert measure(sends, a, b).host("a").rnr_ratio is None
    for needs_no_receive in (sends.with_(opcode=Opcode.WRITE), sends.with_(qp_type=QpType.UC)):
        assert measure(needs_no_receive, a, b).host("b").rnr_ratio is None


def test_packets_that_come_again_are_a_share_of_those_received() -> None:
    measured = b_with({"hw_counters": {"rx": steady(1000), "again": steady(40)}})
    assert measured.host("b").repeat_ratio == pytest.approx(0.04, rel=0.05)
    assert measured.host("a").repeat_ratio is None


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


def test_a_link_that_went_down_and_came_back_is_told_by_its_counter() -> None:
    problems = b_with({"hw_counters": {"down": lambda t: t >= 1}}).problems
    assert problems == ("the link changed during the run: host b: down counted that it went down",)


def test_error_counters_void_a_run_unless_completions_explain_them() -> None:
    moving: dict[str, dict[str, Bytes | None]] = {"hw_counters": {"bad": steady(8)}}
    assert b_with(moving).problems == ("host b: error counter bad moved",)
    explained = b_with(moving, errors={"RNR retry exceeded": 2})
    assert explained.problems == ()
    assert explained.health.completion_errors == {"RNR retry exceeded": 2}


def test_a_level_of_errors_that_was_there_before_voids_nothing() -> None:
    level = Counter("bad", "hw_counters", Unit.OBJECTS, CounterKind.ERROR, "firmware", gauge=True)
    assert believed({}, {"hw_counters": {"bad": at(3)}}, Catalog("some", (level,))).problems == ()


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


def test_unfair_queue_pairs_show_in_their_ratio() -> None:
    a, b = unidirectional(steady(1e6), None)
    assert generator_health(Workload(qps=2), {"a": a, "b": b}).qp_rate_ratio == pytest.approx(0.5, rel=0.05)


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
    assert health.cpu_wait_ratio == pytest.approx(cpu[1])


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


def test_a_sample_of_the_protocol_is_read() -> None:
    raw = {
        "event": "sample",
        "n": 12,
        "clock": 10.0,
        "clock_end": 10.002,
        "phase": "running",
        "flows": {
            "a-b/requester": {
                "posted_messages": 4096,
                "posted_bytes": 1,
                "completed_messages": 3968,
                "delivered_messages": 3968,
                "delivered_bytes": 260046848,
                "qp_messages": {"min": 990, "mean": 992.0, "max": 994},
                "failed_qps": 0,
                "stalled": False,
            }
        },
        "health": {"iterations": 9, "idle_polls": 5, "queue_empty": 3, "posts": 64, "errors": {}, "post_errors": 0},
        "counters": {"hw_counters": {"rcvd_pkts": 1}, "counters": {}},
        "link": {"state": "4: ACTIVE", "pci_width": None},
        "host": {"cpu_seconds": {"user": 1.5}, "agent_cpu_seconds": 0.25, "device_cpu_seconds": 0.125},
        "dropped_samples": 0,
    }
    sample = parse_sample(raw, arrived=5.0)
    assert sample.clock == pytest.approx(10.001)
    assert sample.flows["a-b/requester"].delivered_bytes == 260046848
    assert sample.engine is not None
    assert sample.engine.idle_polls == 5
    assert sample.engine.wait_seconds is None
    assert (sample.link["state"], sample.host.cpu_seconds["user"], sample.host.agent_cpu_seconds) == (
        "4: ACTIVE",
        1.5,
        0.25,
    )
    assert sample.host.device_cpu_seconds == 0.125
    assert parse_sample({"clock": 1, "clock_end": 1, "counters": {}}, 0.0).engine is None


def test_payload_both_ways_is_known_at_both_hosts() -> None:
    mix = Workload(opcode=Opcode.SEND, more_opcodes=(Opcode.READ,), messages=(64, 8192))
    a, b = unidirectional(None, steady(64e3))
    key = "a-b/requester"
    returned = [replace(one.flows[key], returned_bytes=int(8192e3 * PERIOD * n)) for n, one in enumerate(a)]
    returning = [replace(one, flows={key: flow}) for one, flow in zip(a, returned, strict=True)]
    measured = measure(mix, returning, b)
    assert measured.host("a").delivered_bps == pytest.approx(8 * 8192e3)
    assert measured.host("a").delivered_pps == pytest.approx(2000)
    assert measured.host("b").delivered_bps == pytest.approx(8 * 64e3)
    assert measured.host("b").delivered_pps == pytest.approx(1000)


def test_a_step_of_the_accounting_is_what_one_completion_stands_for() -> None:
    mix = Workload(opcode=Opcode.SEND, more_opcodes=(Opcode.READ,), messages=(64, 8192), wqe_batch=4, signal_every=2)
    assert [accounting_step_bytes(mix, stream) for stream in streams(mix)] == [64, 4 * 8192]
    (only,) = streams(write := Workload(wqe_batch=4, signal_every=2))
    assert accounting_step_bytes(write, only) == 8 * 65536


# --- Whether counters can be believed ---------------------------------------------------------------------------------

PAUSE_AT_3 = Counter("pause_3", "ethtool", Unit.MICROSECONDS, CounterKind.PAUSE, "wire", role=Role.TX_PAUSE)
RDMA = Catalog(
    "rdma",
    (
        Counter(
            "rx",
            "hw_counters",
            Unit.PACKETS,
            CounterKind.PERFORMANCE,
            "wire",
            role=Role.RX_PACKETS,
            canonical="rx_packets",
        ),
        Counter("tx", "hw_counters", Unit.PACKETS, CounterKind.PERFORMANCE, "wire", canonical="tx_packets"),
        Counter(
            "port_rx",
            "ethtool",
            Unit.PACKETS,
            CounterKind.PERFORMANCE,
            "wire",
            canonical="port_rx_packets",
            spelled="rx",
        ),
        Counter("lost", "hw_counters", Unit.PACKETS, CounterKind.DIAGNOSTIC, "loss", role=Role.OUT_OF_SEQUENCE),
        Counter("dropped", "ethtool", Unit.PACKETS, CounterKind.DIAGNOSTIC, "buffer", role=Role.DISCARD),
        Counter("rnr", "hw_counters", Unit.PACKETS, CounterKind.DIAGNOSTIC, "receives", role=Role.RNR_NAK),
        PAUSE_AT_3,
        Counter("xoff", "ethtool", Unit.PACKETS, CounterKind.PAUSE, "wire", role=Role.TX_PAUSE_FRAMES),
    ),
)


def believed(  # type: ignore[no-untyped-def]
    a: dict[str, dict[str, Bytes | None]],
    b: dict[str, dict[str, Bytes | None]],
    catalog: Catalog = RDMA,
    delivered: Bytes | None = None,
):
    samples = {
        "a": host(50.0, {"a-b/requester": delivered or steady(1e6)}, counters=a),
        "b": host(9000.0, {"a-b/responder": None}, counters=b),
    }
    return measurement(Workload(), Recording(samples, BEGAN), catalog, POLICY)


def at(level: float) -> Bytes:
    return lambda t: level


def test_a_counter_that_has_stopped_is_unknown_and_voids_the_run() -> None:
    measured = believed({"hw_counters": {"tx": at(77)}}, {"hw_counters": {"rx": steady(1000), "tx": at(5)}})
    assert measured.problems == ("host a: tx stood at 77 while traffic ran; it has stopped counting",)
    assert measured.host("a").counters["tx"] is None
    assert measured.host("b").counters["tx"] == 0  # b sends nothing


def test_a_counter_stands_when_traffic_ends_as_the_window_begins() -> None:
    """As when all queue pairs fail: a sent its last packet before the window, and b counts it in its first step."""
    sent: dict[str, dict[str, Bytes | None]] = {"hw_counters": {"tx": lambda t: 1000 * min(t, 1.2)}}
    received: dict[str, dict[str, Bytes | None]] = {"hw_counters": {"rx": lambda t: 1000 * min(t, 1.4)}}
    measured = believed(sent, received, delivered=lambda t: 1e6 * min(t, 1.4))
    assert measured.host("b").delivered_bps > 0
    assert measured.problems == ()
    assert measured.host("a").counters["tx"] == 0


def test_a_counter_that_never_counts_is_unknown_and_only_noted() -> None:
    counted: dict[str, dict[str, Bytes | None]] = {"hw_counters": {"rx": at(0), "lost": steady(10)}}
    measured = believed({"hw_counters": {"tx": steady(1000)}}, counted)
    assert measured.problems == ()
    assert "host b: rx stood at 0 while traffic ran; the driver does not count it" in measured.notes
    assert measured.host("b").counters["rx"] is None
    assert measured.host("b").loss_ratio is None


def test_loopback_across_ports_may_pass_counters_by_and_is_noted() -> None:
    samples = {
        "a": host(50.0, {"a-b/requester": steady(1e6)}, counters={"hw_counters": {"tx": at(77)}}),
        "b": host(9000.0, {"a-b/responder": None}, counters={"hw_counters": {"rx": at(0)}}),
    }
    recording = Recording(samples, BEGAN, dict.fromkeys("ab", "server-1"))
    measured = measurement(Workload(), recording, RDMA, POLICY)
    assert measured.problems == ()
    assert "a-b is loopback across ports of server-1" in measured.notes
    assert measured.host("b").counters["rx"] == 0
    assert measured.host("b").delivered_bps == pytest.approx(8e6)


def test_only_flows_between_devices_of_one_host_are_loopback_across_ports() -> None:
    workload = Workload(requesters=3, direction=Direction.BIDIRECTIONAL, loopback=True)
    machines = {"a": "server-1", "b": "server-2", "c": "server-2", "d": "server-1"}
    assert [flow.name for flow in flows(workload) if flow.is_across_ports(machines)] == ["c-b", "b-c"]
    assert not any(flow.is_across_ports({}) for flow in flows(workload))


def test_a_reset_voids_the_run_and_has_no_rate() -> None:
    def reset(t: float) -> float:
        return 1e9 + t if t < 2 else t

    measured = believed({}, {"hw_counters": {"rx": steady(1000), "lost": reset}})
    assert measured.problems == ("host b: lost went backwards: the device or its driver was reset",)
    assert measured.host("b").counters["lost"] is None


def changing(first: dict[str, int | None], then: dict[str, int | None]) -> tuple[str, ...]:
    a = host(50.0, {"a-b/requester": steady(1e6)})
    b = host(9000.0, {"a-b/responder": None})
    b = [replace(one, counters={"ethtool": first if number < 8 else then}) for number, one in enumerate(b)]
    return measurement(Workload(), Recording({"a": a, "b": b}, BEGAN), RDMA, POLICY).problems


def test_pfc_that_is_switched_during_a_run_voids_it() -> None:
    assert changing({"dropped": 0, "pause_3": 1}, {"dropped": 0}) == (
        "host b: the PFC state changed: pause_3 came or went",
    )
    assert changing({"dropped": 0}, {"dropped": 0, "rx": 7}) == (
        "host b: the driver changed its set of counters: port_rx came or went",
    )


def test_a_source_that_cannot_be_read_for_a_moment_changes_no_set() -> None:
    assert changing({"dropped": 0, "pause_3": 1}, {}) == ()
    assert changing({"rx5_packets": 0, "dropped": 1}, {"rx6_packets": 0, "dropped": 1}) == ()


def test_pause_is_unknown_and_said_to_be_off_while_its_counters_are_hidden() -> None:
    measured = believed({}, {"hw_counters": {"rx": steady(1000)}, "ethtool": {"dropped": steady(20)}})
    assert measured.host("b").tx_pause_ratio is None
    assert measured.host("b").loss_ratio == pytest.approx(0.02, rel=0.01)
    (note,) = measured.notes
    assert note.startswith("host b: PFC is off on every priority")


def test_nothing_is_said_of_pfc_where_pause_counts_or_nothing_could_be_read() -> None:
    assert believed({}, {"ethtool": {"pause_3": at(0)}}).notes == ()


def test_receives_that_ran_out_excuse_what_came_out_of_sequence_but_no_drops() -> None:
    hardware: dict[str, Bytes | None] = {"rx": steady(1000), "lost": steady(50), "rnr": steady(60)}
    measured = believed({}, {"hw_counters": hardware, "ethtool": {"dropped": steady(30)}})
    assert measured.host("b").loss_ratio == pytest.approx(0.03, rel=0.01)


def test_loss_is_unknown_while_a_counter_that_is_there_cannot_be_read() -> None:
    hardware: dict[str, Bytes | None] = {"rx": steady(1000), "lost": steady(50)}
    assert believed({}, {"hw_counters": hardware, "ethtool": {"dropped": None}}).host("b").loss_ratio is None
    assert believed({}, {"hw_counters": hardware}).host("b").loss_ratio == pytest.approx(0.05, rel=0.01)


def test_pause_frames_are_told_where_pause_has_no_duration() -> None:
    measured = believed({}, {"ethtool": {"xoff": steady(40)}})
    assert measured.host("b").tx_pause_ratio is None
    assert measured.host("b").tx_pause_frames == pytest.approx(40, rel=0.05)
    assert measured.host("a").tx_pause_frames is None


def test_no_host_pauses_for_more_than_all_the_time() -> None:
    assert believed({}, {"ethtool": {"pause_3": steady(1.2e6)}}).host("b").tx_pause_ratio == 1.0


WAIT = Counter(
    "wait", "counters", Unit.BYTES, CounterKind.PAUSE, "credits", scale=8, role=Role.XMIT_WAIT, link_layer="InfiniBand"
)


def test_a_sender_that_waits_for_credits_is_paused_by_its_receiver() -> None:
    catalog = Catalog("ib", (WAIT,)).on_link("InfiniBand", 8e9)  # 1 GB/s: a tick of 8 bytes is 8 ns
    measured = believed({"counters": {"wait": steady(25e6)}}, {"counters": {"wait": at(0)}}, catalog)
    assert measured.host("b").tx_pause_ratio == pytest.approx(0.2, rel=0.01)
    assert measured.host("a").rx_pause_ratio == pytest.approx(0.2, rel=0.01)
    assert measured.host("a").tx_pause_ratio is None  # nobody sends to it
    assert measured.host("b").rx_pause_ratio == 0.0


def test_ethernet_has_no_credits() -> None:
    catalog = Catalog("ib", (WAIT,)).on_link("Ethernet", 8e9)
    measured = believed({"counters": {"wait": steady(25e6)}}, {}, catalog)
    assert measured.host("b").tx_pause_ratio is None
    assert measured.host("a").rx_pause_ratio is None


def test_a_window_holds_four_refreshes_of_what_decides() -> None:
    slow = Catalog("slow", (replace(PAUSE_AT_3, refresh_seconds=1.0),))
    assert WindowPolicy().for_catalog(slow).window_seconds == 4.0
    assert WindowPolicy().for_catalog(RDMA) == WindowPolicy()


def with_victim(a: list[AgentSample], b: list[AgentSample]) -> Measurement:
    return measurement(Workload(), Recording({"a": a, "b": b}, BEGAN), CATALOG, POLICY, victim=True)


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


def test_a_victim_that_nobody_counts_is_unknown_and_one_that_nobody_asked_for_is_none() -> None:
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


def test_queues_that_run_empty_are_a_share_of_all_rounds_the_victims_among_them() -> None:
    flows: dict[str, Bytes | None] = {"a-b/requester": steady(1e6), "victim/requester": steady(1e6)}
    busy = (100.0, 0.0, 15.0)
    a = host(50.0, flows, engine=busy)
    b = host(9000.0, {"a-b/responder": None, "victim/responder": None})
    # 100 rounds/s of each, of which 15 in all found their queue empty.
    assert with_victim(a, b).health.empty_queue_ratio == pytest.approx(0.075, rel=0.1)


def test_a_run_that_was_stopped_says_nothing_of_the_victim_beside_it() -> None:
    measured = Measurement((), 1.0, victim=Victim(8e6, 4e6))
    assert cut_short(measured, (), "enough").victim == Victim(8e6, None)


@pytest.mark.parametrize(
    ("alone", "beside", "lost"),
    [(8e6, 2e6, 0.75), (8e6, 9e6, 0.0), (8e6, 0.0, 1.0), (None, 1.0, None), (8e6, None, None), (0.0, 0.0, None)],
)
def test_what_a_victim_lost(alone: float | None, beside: float | None, lost: float | None) -> None:
    assert Victim(alone, beside).lost_ratio == lost
