"""Recordings of two hosts, made of functions of time, and the measurement of each."""

from __future__ import annotations

from collections.abc import Callable

from collie.counters.catalog import Catalog, Counter, CounterKind, Role, Unit
from collie.readings.policy import WindowPolicy
from collie.readings.recording import Recording
from collie.readings.samples import AgentSample, EngineTotals, FlowTotals, HostCpu, QpMessages
from collie.readings.window import measurement
from collie.workloads.workload import Workload

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
                        failed_qps=0,
                        qp_messages=QpMessages(int(qp_messages[0] * t), qp_messages[1] * t, int(qp_messages[2] * t)),
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


def steady(rate: float) -> Bytes:
    return lambda t: rate * t


def measure(workload: Workload, a: list[AgentSample], b: list[AgentSample], policy: WindowPolicy = POLICY):  # type: ignore[no-untyped-def]
    return measurement(workload, Recording({"a": a, "b": b}, BEGAN), CATALOG, policy)


def unidirectional(a_counts: Bytes | None, b_counts: Bytes | None) -> tuple[list[AgentSample], list[AgentSample]]:
    return host(50.0, {"a-b/requester": a_counts}), host(9000.0, {"a-b/responder": b_counts})


def b_with(counters: dict[str, dict[str, Bytes | None]], errors: dict[str, int] | None = None):  # type: ignore[no-untyped-def]
    a = host(50.0, {"a-b/requester": steady(1e6)})
    b = host(9000.0, {"a-b/responder": None}, counters=counters, errors=errors)
    return measure(Workload(), a, b)


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
