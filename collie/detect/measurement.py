"""What one run showed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class HostMeasurement:
    """One host over the stable window of a run.

    Attributes:
        host: `a`, `b`, ...: the role in the plan.
        delivered_bps: payload bits/s that this host received, over all its flows; None when it receives none.
        delivered_pps: payload packets/s that this host received; None when it receives none.
        tx_pause_ratio: share of time for which this host asked its peer to stop, the largest over its priorities;
            None on a NIC without pause counters.
        rx_pause_ratio: the same, received.
        loss_ratio: discarded and out-of-sequence packets over all received; None when no counter tells.
        rnr_ratio: share of the messages arriving here that were turned away, as no receive was posted for them; None
            where none needs a receive, or no counter tells.
        repeat_ratio: packets received that had been received before, over all received; None when no counter tells.
        counters: by name, advance per second or mean of a gauge; None when unknown.
        tx_pause_frames: frames/s that asked the peer to stop, over all priorities: all that some NICs tell of pause;
            None when no counter tells. One frame stops 100 Gbit/s for at most 335 us.
        rx_pause_frames: the same, received.
        peak_bps: the most payload bits/s that this host received from one sample to the next since the warm-up; None
            when unknown.
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
    """Whether the traffic generator could drive the workload (no judgement of the NIC).

    Attributes:
        driven: False when the generator, not the device, may have decided how fast the run went: send queues ran empty
            because the CPU could not fill them, or other processes took the CPU that it needed.
        reason: why not, in words.
        idle_poll_ratio: completion queue polls that found nothing: CPU time to spare.
        empty_queue_ratio: posts that found the send queue empty.
        completion_errors: by status in words, as the verbs API names them.
        qp_rate_ratio: slowest over fastest queue pair since the start of traffic; None with one queue pair.
        slowest_qp_share: what the slowest queue pair did in the window at most, over the mean of its flow; None with
            few queue pairs, or when they had too few turns to be compared.
        cpu_wait_ratio: share of the window for which a generator was ready to run and had no CPU, the largest of the
            hosts; None where the kernel does not tell.
        data_path: what drove traffic, `native` or `pyverbs`; both, with a comma, where hosts differ; None on the
            simulator.
        queue_fill_ratio: how full send queues still were when they were filled again, of the host where that is least;
            a queue of one round is always empty then. None where no host told.
    """

    driven: bool = True
    reason: str = ""
    idle_poll_ratio: float | None = None
    empty_queue_ratio: float | None = None
    completion_errors: Mapping[str, int] = field(default_factory=dict)
    qp_rate_ratio: float | None = None
    slowest_qp_share: float | None = None
    cpu_wait_ratio: float | None = None
    data_path: str | None = None
    queue_fill_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class Victim:
    """A plain flow that ran beside the workload.

    Attributes:
        alone_bps: payload bits/s that it delivers with nothing beside it; None when that could not be measured.
        beside_bps: payload bits/s that it delivered in the window of the run; None when unknown.
    """

    alone_bps: float | None = None
    beside_bps: float | None = None

    @property
    def lost_ratio(self) -> float | None:
        """Share of its throughput that it lost, 0 to 1; None when unknown."""
        if self.beside_bps is None or not self.alone_bps:
            return None
        return max(0.0, 1.0 - self.beside_bps / self.alone_bps)


@dataclass(frozen=True, slots=True)
class Sample:
    """One host at one moment, for pictures: rates since the sample before.

    Attributes:
        seconds: since traffic started.
        host: role in the plan.
        values: `delivered_bps`, `tx_pause_ratio` and counters, None when unknown; as a `Watch` of real hosts sees it
            also `sent_bps`, payload bits/s that the host's flows took elsewhere.
    """

    seconds: float
    host: str
    values: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class Measurement:
    """One run on all hosts.

    Attributes:
        hosts: one entry per host, that has a part in it, in the order a, b, ...
        window_seconds: length of the window that rates are over, start-up excluded.
        stable: whether the window showed one level.
        health: of the traffic generator.
        problems: what voids the run, in words: a link that changed, error counters that moved, lost samples.
        series: every sample, start-up included.
        notes: what a reader should know though it voids nothing: flow control that is off, a counter that never counts.
        wrong_bytes: payload bytes that differ from those sent; None when nobody compared them.
        stopped: who watched the run had it stopped before its window was full, for this reason; then all readings are
            means of what was seen, start-up included.
        victim: a plain flow beside the workload: what counters and the generator tell of a whole host holds it too, no
            other reading does. None when nobody asked for one, or this workload cannot have one (`notes` say so).
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

    def host(self, name: str) -> HostMeasurement:
        """Return what one host showed.

        Raises:
            KeyError: no such host.
        """
        for measured in self.hosts:
            if measured.host == name:
                return measured
        raise KeyError(name)

    def counter(self, name: str) -> float | None:
        """Return a counter summed over all hosts that know it, or None when none does."""
        known = [value for measured in self.hosts if (value := measured.counters.get(name)) is not None]
        return sum(known) if known else None


Watch = Callable[[Sample], str | None]
"""Sees each sample of a run as it comes, each host's in order of time; a reason that it returns stops the run."""


def cut_short(measurement: Measurement, seen: Sequence[Sample], reason: str) -> Measurement:
    """Return what a run that was stopped has shown: the means of its samples, which are no stable window."""
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
        victim=measurement.victim and replace(measurement.victim, beside_bps=None),
    )


def replayed(measurement: Measurement, watch: Watch | None) -> Measurement:
    """Show a watch the samples of a run that took no time, and stop where it says so."""
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
"""NICs send pause while queue pairs are connected (paper 5.2). In the first `START_UP_SECONDS` this much of it, or
for that share of the time, is a storm; the default limit of pause within a second stops no run with less."""


def _paused(samples: Sequence[Sample]) -> float | None:
    """Return the share of time that was pause, of that which tells of it; but for the start-up, if that was no storm.

    Where a driver tells of pause once a second, the first samples of a run do not.
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
