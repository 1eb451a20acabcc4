"""Public measurements of NICs, and what the model says of the subsystems that were written without them.

The rows test the model outside its fit. No quantity of `cx6-200` or `cx7-400` may be changed to meet one: a row that is
off gets an explanation instead. The second reading of the latencies (`set_up`) describes the measured network, and
takes no part in the comparison.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Final

from collie.content.subsystems import load_subsystem
from collie.simulator.hardware import Subsystem
from collie.simulator.latency import FlowLatency, latencies
from collie.simulator.model import evaluate
from collie.simulator.subsystem import SubsystemFile
from collie.workloads.workload import Opcode, Workload

FROZEN: Final = ("cx6-200", "cx7-400")
"""The subsystems that were written before the comparison."""
THROUGHPUT_TOLERANCE: Final = 0.25
LATENCY_TOLERANCE: Final = 0.2

SCALACN: Final = "ScalaCN, NSDI '25"
PEGAFLOW: Final = "novitalabs/pegaflow PR 291"
NCCL: Final = "NVIDIA/nccl issue 2409"
INFINISTORE: Final = "bytedance/InfiniStore PR 160"
STAR: Final = "StaR, ICNP '21, in valkey-io/valkey PR 477"
PIPEDEVICE: Final = "PipeDevice, CoNEXT '22, in houminz/paper-reading issue 12"
URDMA: Final = "uRDMA, arXiv 2510.00735"


@dataclass(frozen=True, slots=True)
class Figure:
    """One public measurement that the model can express.

    Attributes:
        id: key of `EXPLANATIONS`.
        text: what was measured. Figures of one curve share the text before the first comma.
        measured, predict: both in `unit`.
        tolerance: largest relative error that needs no explanation.
        reading: form of both numbers.
    """

    id: str
    text: str
    source: str
    unit: str
    measured: float
    predict: Callable[[], float]
    tolerance: float = THROUGHPUT_TOLERANCE
    reading: str = ".0f"

    @property
    def ratio(self) -> float:
        """The model over the measurement."""
        return self.predict() / self.measured

    @property
    def near(self) -> bool:
        """Whether the ratio is within the tolerance of 1."""
        return abs(self.ratio - 1.0) <= self.tolerance

    @property
    def cells(self) -> tuple[str, ...]:
        """The row of the table: text, source, both numbers, ratio, verdict, explanation."""
        form, unit = self.reading, f" {self.unit}" if self.unit else ""
        why = "" if self.near else EXPLANATIONS.get(self.id, "**not explained**")
        numbers = (f"{value:{form}}{unit}" for value in (self.measured, self.predict()))
        return (self.text, self.source, *numbers, f"{self.ratio:.2f}", "yes" if self.near else "**no**", why)


@dataclass(frozen=True, slots=True)
class Unmodelled:
    """A public measurement that the model cannot express, and the reason."""

    text: str
    source: str
    reason: str


@cache
def hardware(name: str, processes: str = "1") -> Subsystem:
    """Return a frozen subsystem with some number of sending processes."""
    return load_subsystem(name, SubsystemFile).with_settings({"processes": processes}).hardware


def received_bps(subsystem: Subsystem, workload: Workload) -> float:
    """Return the payload bits/s that arrive at the sink of a one-way workload."""
    return float(max(evaluate(subsystem, workload).delivered_bps()))


# The logs are data/cen_0_cde_0_sen_0_sde_0_*.log of scala-cn/scala-cn.github.io. perftest's "MB/sec" is MiB/s.
PERFTEST: Final = Workload(mtu=1024, qps=4, signal_every=100)
"""`-q 4 -t 128 -Q 100 -m 1024`: four queue pairs, depth 128, one completion per 100 messages, one message per post."""
CURVES: Final[Mapping[int, tuple[float, float]]] = {
    2: (13.9, 13.6),
    64: (452.6, 450.6),
    256: (1807.7, 1789.2),
    1024: (7117.5, 7120.8),
    2048: (14136, 14109),
    4096: (20137, 20908),
    8192: (20716, 21016),
    65536: (21064, 21107),
    524288: (21113, 21118),
    8388608: (21118, 21115),
}
"""Message bytes to MiB/s of SEND and of WRITE."""


def _curve_mib(opcode: Opcode, size: int) -> float:
    workload = PERFTEST.with_(opcode=opcode, messages=(size,))
    return received_bps(hardware("cx6-200"), workload) / 8 / 2**20


def _curves() -> list[Figure]:
    return [
        Figure(
            f"{opcode.lower()}-{size}",
            f"{opcode} of 4 queue pairs, {size:,} B",
            SCALACN,
            "MiB/s",
            measured,
            partial(_curve_mib, opcode, size),
            reading=",.1f" if size < 2048 else ",.0f",
        )
        for index, opcode in enumerate((Opcode.SEND, Opcode.WRITE))
        for size, both in CURVES.items()
        for measured in (both[index],)
    ]


LATENCIES: Final[Mapping[int, tuple[float, float]]] = {
    2: (2.74, 2.76),
    64: (2.82, 2.80),
    256: (3.41, 3.33),
    1024: (3.62, 3.57),
    2048: (3.75, 3.90),
    4096: (3.90, 3.90),
    8192: (4.54, 4.46),
    65536: (9.74, 9.74),
    524288: (51.15, 51.08),
}
"""Message bytes to microseconds of SEND and of WRITE, typical, one way (half of a ping-pong)."""
PING: Final = Workload(mtu=1024, offered_bps=1_000_000)
"""Low load: messages are far apart. The logs name the inline limits."""
INLINE: Final = {Opcode.SEND: 236, Opcode.WRITE: 220}


def _latency(subsystem: Subsystem, opcode: Opcode, size: int, regions: int = 1) -> FlowLatency:
    workload = PING.with_(opcode=opcode, messages=(size,), max_inline_data=INLINE[opcode], mrs_per_qp=regions)
    found = latencies(subsystem, evaluate(subsystem, workload)).forth
    assert found is not None
    return found


def one_way_us(subsystem: Subsystem, opcode: Opcode, size: int) -> float:
    """Return the median microseconds of one message at low load until its payload has arrived."""
    return float(_latency(subsystem, opcode, size).one_way.median) * 1e6


def _frozen_us(opcode: Opcode, size: int) -> float:
    return one_way_us(hardware("cx6-200"), opcode, size)


def _slower_by_misses() -> float:
    """Return the factor by which missed translations prolong a small WRITE until its completion."""
    subsystem = hardware("cx6-200")
    slow, fast = (_latency(subsystem, Opcode.WRITE, 64, regions).completion.median for regions in (65536, 1))
    return float(slow / fast)


# The second reading of the latencies. It describes the network between the measured hosts, and changes no frozen file.
ALONE_BPS: Final = 8 * 8_388_608 / 762.38e-6
"""Payload bits/s of one queue pair: WRITE of 8 MiB, 762.38 us one way in the log. The comparison has no such row."""
PORTS_BPS: Final = (25e9, 40e9, 50e9, 100e9, 200e9, 400e9)
"""Speeds of Ethernet ports."""
DELAYED_BY: Final = Opcode.WRITE, 2
"""The row that sets the delay of the network. The second reading does not count it."""


@cache
def set_up() -> Subsystem:
    """Return `cx6-200` behind the port and the network of the measured set-up. Nothing but its wire differs.

    The port is the slowest that carries one queue pair. The delay is what the smallest WRITE takes longer than the
    model behind that port.
    """
    frozen = hardware("cx6-200")
    behind_port = frozen.with_part("wire", line_rate_bps=min(rate for rate in PORTS_BPS if rate >= ALONE_BPS))
    delay = (LATENCIES[DELAYED_BY[1]][1] - one_way_us(behind_port, *DELAYED_BY)) / 1e6
    return behind_port.with_part("wire", round_trip_seconds=frozen.wire.round_trip_seconds + 2 * delay)


def _set_up_us(opcode: Opcode, size: int) -> float:
    return one_way_us(set_up(), opcode, size)


def _without_nic_us(_: Opcode, size: int) -> float:
    """Return what the two facts of the set-up say by themselves: the smallest WRITE, and more bytes at `ALONE_BPS`."""
    smallest = DELAYED_BY[1]
    return LATENCIES[smallest][1] + (size - smallest) * 8 / ALONE_BPS * 1e6


def _latencies(predict: Callable[[Opcode, int], float]) -> list[Figure]:
    return [
        Figure(
            f"latency-{opcode.lower()}-{size}",
            f"{opcode} latency one way, {size:,} B",
            SCALACN,
            "us",
            both[index],
            partial(predict, opcode, size),
            tolerance=LATENCY_TOLERANCE,
            reading=".2f",
        )
        for index, opcode in enumerate((Opcode.SEND, Opcode.WRITE))
        for size, both in LATENCIES.items()
    ]


_MISSES: Final = Figure(
    *("latency-misses", "WRITE latency when translations miss, up to", URDMA, "times", 2.0, _slower_by_misses),
    tolerance=LATENCY_TOLERANCE,
    reading=".1f",
)


def _single_gbps(opcode: Opcode, qps: int, size: int, window: int = 16) -> float:
    workload = Workload(
        opcode=opcode, qps=qps, messages=(size,), signal_every=100, max_rd_atomic=window, max_dest_rd_atomic=window
    )
    return received_bps(hardware("cx7-400"), workload) / 1e9


def _window_gain() -> float:
    """READ: 16 outstanding with 64 KiB against one with 32 KiB, as the source changed both."""
    return _single_gbps(Opcode.READ, 1, 65536) / _single_gbps(Opcode.READ, 1, 32768, window=1)


SHORT_QUEUES: Final = Workload(mtu=1024, messages=(64,), send_wq_depth=16, recv_wq_depth=16)
"""Many connections with a few small WRITEs each. The sources give neither size nor depth."""


def _small_rate(**changes: int) -> float:
    return received_bps(hardware("cx6-200", "16"), SHORT_QUEUES.with_(**changes)) / 8 / 64


def _connections_at_peak() -> float:
    """Return the most connections with at least 95 % of the peak rate."""
    counts = [round(16 * 2 ** (step / 8)) for step in range(81)]
    rates = [_small_rate(qps=count) for count in counts]
    return float(max(count for count, rate in zip(counts, rates, strict=True) if rate >= 0.95 * max(rates)))


def _left_at_4096() -> float:
    return _small_rate(qps=4096) / _small_rate(qps=256)


def _left_after_misses() -> float:
    """Return the share that is left when no translation of a WRITE is on chip."""
    return _small_rate(qps=16, mrs_per_qp=65536) / _small_rate(qps=16)


def _singles() -> list[Figure]:
    points = [(Opcode.WRITE, 1, 365), (Opcode.WRITE, 2, 392), (Opcode.READ, 1, 320), (Opcode.READ, 2, 390)]
    large = [
        Figure(
            f"cx7-{opcode.lower()}-{qps}",
            f"ConnectX-7 {opcode} of 4 MiB, {qps} queue pair{'s' * (qps > 1)}",
            PEGAFLOW,
            "Gbit/s",
            measured,
            partial(_single_gbps, opcode, qps, 4 << 20),
        )
        for opcode, qps, measured in points
    ]
    one_queue_pair = [
        Figure(
            f"cx7-one-{size}",
            f"ConnectX-7 WRITE of one queue pair, {size >> 10:,} KiB",
            NCCL,
            "Gbit/s",
            measured,
            partial(_single_gbps, Opcode.WRITE, 1, size),
        )
        for size, measured in ((128 << 10, 392.1), (1 << 20, 284.4))
    ]
    return [
        *large,
        *one_queue_pair,
        Figure(
            "read-window",
            "READ of one queue pair, `max_rd_atomic` 16 (64 KiB) against 1 (32 KiB)",
            INFINISTORE,
            "times",
            19463.58 / 2421.56,
            _window_gain,
            reading=".1f",
        ),
        Figure("peak", "Connections at peak rate, fewer than", STAR, "", 450, _connections_at_peak, reading=",.0f"),
        Figure("left-4096", "Rate left at 4,096 connections", PIPEDEVICE, "of peak", 0.5, _left_at_4096, reading=".2f"),
        Figure(
            "translations",
            "Rate left when translations miss (up to 40 % less)",
            URDMA,
            "of peak",
            0.6,
            _left_after_misses,
            reading=".2f",
        ),
    ]


_CURVES: Final = tuple(_curves())
_SINGLES: Final = tuple(_singles())
_LATENCIES: Final = (*_latencies(_frozen_us), _MISSES)
THROUGHPUTS: Final = (*_CURVES, *_SINGLES)
FIGURES: Final = (*THROUGHPUTS, *_LATENCIES)
_WITH_SET_UP: Final = tuple(_latencies(_set_up_us))
_WITHOUT_NIC: Final = tuple(_latencies(_without_nic_us))


def _counts(figure: Figure) -> bool:
    """Return whether a row of the second reading did not set the delay."""
    opcode, size = DELAYED_BY
    return figure.id != f"latency-{opcode.lower()}-{size}"


SECOND_READING: Final = tuple(figure for figure in _WITH_SET_UP if _counts(figure))
"""Latencies with the port and the network of the set-up. They are no part of the comparison, and none of `FIGURES`."""

_FAR: Final = "Probably more than one switch between the hosts (see *Distance*)."
_SLOW: Final = "Probably two ports of 100 Gbit/s (see *Two ports*)."
EXPLANATIONS: Final[Mapping[str, str]] = {
    **{
        f"latency-{opcode.lower()}-{size}": _FAR if size < 65536 else _SLOW
        for opcode in (Opcode.SEND, Opcode.WRITE)
        for size in LATENCIES
    },
    "cx7-one-1048576": "One queue pair loses a quarter at 1 MiB, and eight lose nothing (391.5 Gbit/s). The model has "
    "no limit of one queue pair that grows with the message.",
    "read-window": "32 KiB took 13.5 us in the source: the store's own work for each block. The model has only the 3.3 "
    "us of network and NIC. The faster single READ leaves the window less to gain.",
    "peak": "The file takes its capacity from the SRAM of a ConnectX-5 and hides misses until six are in flight. The "
    "measured NIC holds fewer contexts, or its first misses already cost.",
    "latency-misses": "A miss is one read on each host in the model, 0.55 us on average and 0.38 us in the median. A "
    "key and its page are two tables, so the measured NIC may read twice.",
    "translations": "Sixteen processes post 40 million WRITEs/s before the misses. A sender of 18 million/s would lose "
    "the 40 % of the paper, which does not give its rate.",
}
"""By the id of a figure outside its tolerance."""

UNMODELLED: Final = (
    Unmodelled("ConnectX-7 in loopback, 361 / 374 and 322 / 374 Gbit/s", PEGAFLOW, "no loopback without other traffic"),
    Unmodelled("Curves with flow tables and encapsulation", SCALACN, "no match-action tables"),
    Unmodelled("GPU beside RDMA, 194.5 to 156.3 Gbit/s", "NVIDIA/daqiri issue 301", "no other load on memory and PCIe"),
    Unmodelled("Incast 2 to 1, 5 of 25 Gbit/s", "linux-rdma/perftest issue 219", "no congestion in the network"),
    Unmodelled(
        "Container against container: bandwidth -94 %, latency 1,117 times",
        "Noisy Neighbor, 2025",
        "no control verbs, no second application",
    ),
    Unmodelled("QPC 100, MPT 40,000, MTT 50,000 entries", "ncsg-group/csRNA `Rnic.py`", "parameters of another model"),
    Unmodelled("2,000 MTT entries, watchdog of 100 ms", "notes on Guo et al., SIGCOMM '16", "an older NIC"),
    Unmodelled("Error of a contention model, 3.7 %", "Yala, arXiv 2405.05529", "says nothing about a NIC"),
    Unmodelled(
        "Least latency, and its 99 and 99.9 %", SCALACN, "jitter of hosts and switches: only queues have a tail"
    ),
)


def second_reading() -> list[tuple[str, ...]]:
    """Return the table of the latencies with the port and the network of the set-up, heads first."""
    heads = (
        *("second reading, not counted above", "measured", "as frozen"),
        *("with the set-up's port and network delay", "ratio", "near", "the set-up without a NIC", "ratio"),
    )
    rows = []
    for frozen, figure, alone in zip(_LATENCIES, _WITH_SET_UP, _WITHOUT_NIC, strict=False):
        near = ("yes" if figure.near else "**no**") if _counts(figure) else "sets the delay"
        measured, first, second, without = (
            f"{value:.2f} us" for value in (figure.measured, *(one.predict() for one in (frozen, figure, alone)))
        )
        rows.append((figure.text, measured, first, second, f"{figure.ratio:.2f}", near, without, f"{alone.ratio:.2f}"))
    return [heads, *rows]


def second_summary() -> str:
    """Return what the second reading assumes, and how many of its rows are near."""
    frozen, wire = hardware("cx6-200").wire, set_up().wire
    delay = (wire.round_trip_seconds - frozen.round_trip_seconds) / 2
    alone = [figure for figure in _WITHOUT_NIC if _counts(figure)]
    port = f"a port of {wire.line_rate_bps / 1e9:.0f} Gbit/s"
    lines = (
        f"- Set-up: {port}, and {delay * 1e6:.2f} us more each way. All else is as frozen.",
        _share("- ", "With the set-up's port and network delay", SECOND_READING, LATENCY_TOLERANCE),
        _share("- ", "The set-up without a NIC", alone, LATENCY_TOLERANCE),
    )
    return "\n".join(lines)


def _share(indent: str, name: str, figures: Sequence[Figure], tolerance: float) -> str:
    errors = sorted(abs(figure.ratio - 1.0) for figure in figures)
    near = sum(figure.near for figure in figures)
    share = f"{near} of {len(figures)} within {tolerance:.0%} ({near / len(figures):.0%})"
    return f"{indent}{name}: {share}, median error {statistics.median(errors):.0%}, largest {errors[-1]:.0%}."


def summary() -> str:
    """Return how many figures are near, and their errors, by kind."""
    return "\n".join(
        _share(*kind)
        for kind in (
            ("- ", "Throughput", THROUGHPUTS, THROUGHPUT_TOLERANCE),
            ("  - ", "curves of one NIC", _CURVES, THROUGHPUT_TOLERANCE),
            ("  - ", "single points", _SINGLES, THROUGHPUT_TOLERANCE),
            ("- ", "Latency at low load", _LATENCIES, LATENCY_TOLERANCE),
        )
    )


def unexplained() -> list[str]:
    """Return the figures that are off and have no explanation."""
    return [figure.id for figure in FIGURES if not figure.near and figure.id not in EXPLANATIONS]


def shortfalls() -> list[str]:
    """Return what misses the promise: 70 % of throughputs are near, all latencies are, and the others are explained."""
    short = [f"`{name}` is off without an explanation." for name in unexplained()]
    for kind, figures, share in (("throughput", THROUGHPUTS, 0.7), ("latency", _LATENCIES, 1.0)):
        near = sum(figure.near for figure in figures)
        if near < share * len(figures):
            short.append(
                f"Falls short as frozen: {near} of {len(figures)} figures of {kind} are near, not {share:.0%}."
            )
    return short
