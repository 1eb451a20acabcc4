"""The readings of one run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class HostMeasurement:
    """One host over the stable window of a run. A value without a counter or without traffic is None.

    Attributes:
        host: the role in the plan: `a`, `b`, ...
        delivered_bps, delivered_pps: payload received over all flows.
        tx_pause_ratio: share of time for which this host asked its peer to stop, the largest over its priorities.
        loss_ratio: discarded and out-of-sequence packets over all received.
        rnr_ratio: share of arriving messages rejected because no receive was posted.
        repeat_ratio: packets that had been received before, over all received.
        counters: advance per second, or mean of a gauge.
        tx_pause_frames: frames/s over all priorities, the only reading of pause on some NICs.
        peak_bps: highest payload bits/s between two samples since the warm-up.
    """

    host: str
    delivered_bps: float | None = None
    delivered_pps: float | None = None
    tx_pause_ratio: float | None = None
    rx_pause_ratio: float | None = None
    loss_ratio: float | None = None
    counters: Mapping[str, float | None] = field(default_factory=dict)
    tx_pause_frames: float | None = None
    rx_pause_frames: float | None = None
    rnr_ratio: float | None = None
    repeat_ratio: float | None = None
    peak_bps: float | None = None


@dataclass(frozen=True, slots=True)
class GeneratorHealth:
    """Whether the traffic generator could drive the workload (no judgement of the NIC). Unknown values are None.

    Attributes:
        driven: False if a lack of CPU may have limited the run.
        idle_poll_ratio: share of completion queue polls that found nothing, which is spare CPU time.
        empty_queue_ratio: share of posts that found the send queue empty.
        completion_errors: number of failed completions, by name of the status in the verbs API.
        qp_rate_ratio: slowest over fastest queue pair since the start of traffic.
        slowest_qp_share: upper limit of the slowest queue pair's rate in the window, as a share of its flow's mean.
        slowest_flow_share: the slowest flow's rate in the window, as a share of the mean of the flows between one host
            and its several partners. None with one partner.
        cpu_wait_ratio: share of the window in which a generator was ready to run and had no CPU, the largest of the
            hosts.
        data_path: `native` or `pyverbs`, or both with a comma if hosts differ.
        queue_fill_ratio: lowest fill level of a send queue at a refill, 0 for a queue that holds one round.
        pacing_error_ratio: largest difference of a flow between what it posted and its offered load, as a share of the
            latter.
        starved: whether other processes took the CPU. Then a victim's loss decides nothing, either. None in records of
            older versions.
    """

    driven: bool = True
    reason: str = ""
    idle_poll_ratio: float | None = None
    empty_queue_ratio: float | None = None
    completion_errors: Mapping[str, int] = field(default_factory=dict)
    qp_rate_ratio: float | None = None
    slowest_qp_share: float | None = None
    slowest_flow_share: float | None = None
    cpu_wait_ratio: float | None = None
    data_path: str | None = None
    queue_fill_ratio: float | None = None
    pacing_error_ratio: float | None = None
    starved: bool | None = None


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds from the time a message was due to its completion, over the messages of a flow. Unknown values are None.

    A message of an offered load is due by the clock, however late it is posted. With full send queues it is due when it
    is posted.

    Attributes:
        sampled: messages that were timed.
        median_interval, p99_interval, p999_interval: 95 % intervals of the quantiles.
        stall_seconds: longest time without a completion while messages were outstanding.
        clock: `nic` if time stamps of the device ended the latencies. `host` if polls of the generator did, which adds
            the time that it took to come to the completion.
    """

    median_seconds: float | None = None
    p99_seconds: float | None = None
    p999_seconds: float | None = None
    sampled: int | None = None
    median_interval: tuple[float, float] | None = None
    p99_interval: tuple[float, float] | None = None
    p999_interval: tuple[float, float] | None = None
    stall_seconds: float | None = None
    clock: str | None = None


@dataclass(frozen=True, slots=True)
class Victim:
    """A plain flow beside the workload.

    Attributes:
        alone_bps, beside_bps: payload bits/s alone and in the window of the run.
        offered_bps: payload bits/s that it offers. 0: it keeps its send queue full.
        latency: that of its messages beside the workload. With full send queues it only tells their length.
    """

    alone_bps: float | None = None
    beside_bps: float | None = None
    offered_bps: int = 0
    latency: Latency | None = None

    @property
    def kept_ratio(self) -> float | None:
        """Share of its throughput alone that it keeps beside the workload, 0 to 1, or None when unknown."""
        return None if self.lost_ratio is None else 1.0 - self.lost_ratio

    @property
    def lost_ratio(self) -> float | None:
        """Share of its throughput alone that it lost beside the workload, 0 to 1, or None when unknown."""
        if self.beside_bps is None or not self.alone_bps:
            return None
        return max(0.0, 1.0 - self.beside_bps / self.alone_bps)


@dataclass(frozen=True, slots=True)
class Sample:
    """One host at one moment: rates since the previous sample.

    Attributes:
        seconds: time since the start of traffic.
        values: `delivered_bps`, `tx_pause_ratio` and counters. A `Watch` of real hosts also gets `sent_bps`.
    """

    seconds: float
    host: str
    values: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class Measurement:
    """One run on all hosts.

    Attributes:
        window_seconds: length of the window of all rates, start-up excluded.
        stable: whether the rates of the window had one level.
        problems: reasons that void the run: a changed link, moving error counters, lost samples.
        series: every sample, start-up included.
        notes: remarks that do not void the run: flow control off, a counter that never counts.
        wrong_bytes: payload bytes that differ from those sent, or None without a comparison.
        stopped: the reason why a watch stopped the run. All readings are then means over all samples.
        latency: latency by the name of the flow (`workloads.plan.Flow`). Empty without measurement.
        victim: the plain flow beside the workload. Host counters include it, other readings not.
    """

    hosts: tuple[HostMeasurement, ...]
    window_seconds: float
    stable: bool = True
    health: GeneratorHealth = field(default_factory=GeneratorHealth)
    problems: tuple[str, ...] = ()
    series: Sequence[Sample] = ()
    notes: tuple[str, ...] = ()
    wrong_bytes: int | None = None
    stopped: str | None = None
    victim: Victim | None = None
    latency: Mapping[str, Latency] = field(default_factory=dict)

    def host(self, name: str) -> HostMeasurement:
        """Return the readings of one host, or raise KeyError."""
        for measured in self.hosts:
            if measured.host == name:
                return measured
        raise KeyError(name)

    @property
    def longest_latency(self) -> Latency | None:
        """The longest latency of any flow, quantile by quantile, or None without a reading."""
        flows = list(self.latency.values())
        if not flows:
            return None
        return Latency(
            _longest(flow.median_seconds for flow in flows),
            _longest(flow.p99_seconds for flow in flows),
            _longest(flow.p999_seconds for flow in flows),
        )

    def counter(self, name: str) -> float | None:
        """Return a counter summed over the hosts that have it, or None without any."""
        known = [value for measured in self.hosts if (value := measured.counters.get(name)) is not None]
        return sum(known) if known else None


def _longest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


Watch = Callable[[Sample], str | None]
"""Receives each sample of a run, in order of time per host. A returned reason stops the run."""


def cut_short(measurement: Measurement, seen: Sequence[Sample], reason: str) -> Measurement:
    """Return the measurement of a stopped run: means of its samples, without a stable window."""
    hosts = tuple(_seen(host, [sample for sample in seen if sample.host == host.host]) for host in measurement.hosts)
    window = max((sample.seconds for sample in seen), default=0.0)
    return replace(
        measurement,
        hosts=hosts,
        window_seconds=window,
        stable=False,
        problems=(),
        series=tuple(seen),
        stopped=reason,
        victim=measurement.victim and replace(measurement.victim, beside_bps=None, latency=None),
        latency={},
    )


def replayed(measurement: Measurement, watch: Watch | None) -> Measurement:
    """Pass the samples of a simulated run to a watch, and stop where it asks."""
    if watch is None:
        return measurement
    for index, sample in enumerate(measurement.series):
        if reason := watch(sample):
            return cut_short(measurement, measurement.series[: index + 1], reason)
    return measurement


def _seen(host: HostMeasurement, samples: Sequence[Sample]) -> HostMeasurement:
    def mean(name: str) -> float | None:
        values = [value for sample in samples if (value := sample.values.get(name)) is not None]
        return sum(values) / len(values) if values and len(values) == len(samples) else None

    bps, pps = mean("delivered_bps"), None
    if bps is not None and host.delivered_bps and host.delivered_pps is not None:
        pps = host.delivered_pps * bps / host.delivered_bps
    counters = {name: mean(name) for name in host.counters}
    return HostMeasurement(host.host, bps, pps, _paused(samples), counters=counters)


START_UP_SECONDS = 2.0
START_UP_PAUSE_SECONDS = 0.15
START_UP_PAUSE_RATIO = 0.5
"""NICs send pause while queue pairs are connected (paper 5.2). In `START_UP_SECONDS`, either limit makes it a storm."""


def _paused(samples: Sequence[Sample]) -> float | None:
    """Return the share of pause in the reported time. The start-up counts only if it was a storm.

    A driver that reports pause once a second leaves the first samples without a reading.
    """
    begins = (0.0, *(sample.seconds for sample in samples))
    reported = [
        (begin, max(0.0, sample.seconds - begin), ratio)
        for begin, sample in zip(begins, samples, strict=False)
        if (ratio := sample.values.get("tx_pause_ratio")) is not None
    ]
    first = [(length, ratio) for begin, length, ratio in reported if begin < START_UP_SECONDS]
    paused, lasted = sum(length * ratio for length, ratio in first), sum(length for length, _ in first)
    if paused < min(START_UP_PAUSE_SECONDS, START_UP_PAUSE_RATIO * lasted):
        reported = reported[len(first) :]
    seconds = sum(length for _, length, _ in reported)
    return sum(length * ratio for _, length, ratio in reported) / seconds if seconds else None
