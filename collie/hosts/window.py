"""From the samples of all hosts to a measurement. Pure.

Rules:

1. Hosts have clocks of their own. A sample is placed on the controller's clock by the host's offset: the least of
   (arrival - clock) over its samples, the one that travelled fastest.
2. The window begins after the warm-up and ends with the last sample of the host whose samples end first. Nothing that
   came after the decision to stop is in it.
3. Delivered payload is a curve per flow, known at one end of it and attributed to the flow's sink. What a sink received
   between two moments is the difference of its curves there, linear between samples.
4. What is missing is None. A sink without a curve has no throughput, not zero.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from collie.counters.catalog import Catalog, Kind, Role, Unit
from collie.counters.series import is_stable, rates
from collie.detect.bounds import packets_per_byte
from collie.detect.measurement import HostMeasurement, Measurement, Sample
from collie.hosts.curve import Curve
from collie.hosts.health import generator_health
from collie.hosts.samples import AgentSample, snapshot
from collie.workloads.plan import Stream, sinks, streams
from collie.workloads.workload import QpType, Workload


@dataclass(frozen=True, slots=True)
class WindowPolicy:
    """How a run is timed.

    Attributes:
        period_seconds: between samples.
        warm_up_seconds: dropped after the start of traffic.
        window_seconds: that rates are over.
        patience_seconds: how much longer to wait for a window that is stable and holds enough steps.
        stability: largest coefficient of variation of a stable window. An emulated CPU shows 5 to 10 % between samples
            of 250 ms on plain traffic.
        resolution: largest share of a window's payload that one step of the accounting may be.
    """

    period_seconds: float = 0.25
    warm_up_seconds: float = 0.4
    window_seconds: float = 1.5
    patience_seconds: float = 2.0
    stability: float = 0.15
    resolution: float = 0.05


@dataclass(frozen=True, slots=True)
class Recording:
    """The samples of one run, of every host that has a part in it.

    Attributes:
        samples: by role, in order of time.
        began: the controller's clock when all hosts had started.
    """

    samples: Mapping[str, Sequence[AgentSample]]
    began: float

    def placed(self, role: str) -> list[tuple[float, AgentSample]]:
        """Return a host's samples with their seconds since traffic began."""
        samples = self.samples[role]
        offset = min((sample.arrived - sample.clock for sample in samples), default=0.0)
        return [(sample.clock + offset - self.began, sample) for sample in samples]

    @property
    def end(self) -> float:
        """Seconds since traffic began up to which every host has been heard."""
        return min((samples[-1][0] if (samples := self.placed(role)) else -math.inf) for role in self.samples)


Placed = Sequence[tuple[float, AgentSample]]

_SAME_MOMENT_SECONDS = 0.005
"""Hosts' clocks are compared no better than a message travels."""


def measurement(workload: Workload, recording: Recording, catalog: Catalog, policy: WindowPolicy) -> Measurement:
    """Say what a run showed.

    Args:
        workload: what ran.
        recording: all samples until the decision to stop.
        catalog: counters of the hosts' driver.
        policy: warm-up, window and stability.
    """
    placed = {role: recording.placed(role) for role in recording.samples}
    series = tuple(sample for role in placed for sample in _series(role, placed, workload, catalog))
    if not all(placed.values()):
        silent = " and ".join(role for role, samples in placed.items() if not samples)
        empty = tuple(HostMeasurement(role) for role in placed)
        return Measurement(empty, 0.0, stable=False, problems=(f"host {silent} sent no samples",), series=series)
    end = min(samples[-1][0] for samples in placed.values())
    begin = max(policy.warm_up_seconds, end - policy.window_seconds - policy.period_seconds / 2)
    window = {
        role: [entry for entry in placed[role] if begin <= entry[0] <= end + _SAME_MOMENT_SECONDS] for role in placed
    }
    hosts = tuple(_host(role, window, placed, workload, catalog) for role in placed)
    health = generator_health(workload, {role: [sample for _, sample in window[role]] for role in window})
    return Measurement(
        hosts,
        max(0.0, end - begin),
        stable=all(_is_stable(sink, window, placed, workload, policy) for sink in sinks(workload)),
        health=health,
        problems=tuple(_problems(window, catalog, bool(health.completion_errors))),
        series=series,
    )


def _host(
    role: str, window: Mapping[str, Placed], placed: Mapping[str, Placed], workload: Workload, catalog: Catalog
) -> HostMeasurement:
    own = window[role]
    counters = rates(catalog, [snapshot(sample, catalog) for _, sample in own])
    bps = pps = None
    if role in sinks(workload) and len(own) > 1:
        bps = _received_bps(_curves(role, placed, workload), own[0][0], own[-1][0])
        pps = None if bps is None else bps / 8 * packets_per_byte(workload, role)
    return HostMeasurement(
        role,
        delivered_bps=bps,
        delivered_pps=pps,
        tx_pause_ratio=_pause_ratio(catalog, counters, Role.TX_PAUSE),
        rx_pause_ratio=_pause_ratio(catalog, counters, Role.RX_PAUSE),
        loss_ratio=_loss_ratio(catalog, counters),
        counters=counters,
    )


def _curves(sink: str, placed: Mapping[str, Placed], workload: Workload) -> list[Curve | None]:
    return [_curve(stream, placed) for stream in streams(workload) if stream.sink == sink]


def _curve(stream: Stream, placed: Mapping[str, Placed]) -> Curve | None:
    """Return what a stream delivered over time, from the end of its flow that knows."""
    flow = stream.flow
    for role, key in ((flow.responder, f"{flow.name}/responder"), (flow.requester, f"{flow.name}/requester")):
        points = [
            (seconds, delivered)
            for seconds, sample in placed[role]
            if (totals := sample.flows.get(key)) is not None
            and (delivered := totals.returned_bytes if stream.returned else totals.delivered_bytes) is not None
        ]
        if len(points) > 1:
            return Curve(points)
    return None


def _received_bps(curves: Sequence[Curve | None], begin: float, end: float) -> float | None:
    advances = [curve.advance(begin, end) if curve else None for curve in curves]
    if end <= begin or not advances or None in advances:
        return None
    return 8 * sum(advance for advance in advances if advance is not None) / (end - begin)


def _is_stable(
    sink: str, window: Mapping[str, Placed], placed: Mapping[str, Placed], workload: Workload, policy: WindowPolicy
) -> bool:
    """Whether a sink shows one level, and finely enough.

    A requester's completions come once per chain, so payload moves in steps of a chain. Each difference between two
    samples is off by the difference of two such roundings, with a variance of step^2 / 6 per queue pair; that much
    variation is no instability.
    """
    curves = _curves(sink, placed, workload)
    steps = list(itertools.pairwise(seconds for seconds, _ in window[sink]))
    received = [_received_bps(curves, begin, end) for begin, end in steps]
    known = [value for value in received if value is not None]
    if len(known) < len(received) or not known:
        return False
    seconds = steps[-1][1] - steps[0][0]
    mean = sum(known) / len(known)
    if mean <= 0:
        return is_stable(known, policy.stability)
    steps_at_once = (accounting_step_bytes(workload, stream) for stream in streams(workload) if stream.sink == sink)
    step_bits = 8 * math.sqrt(workload.qps * sum(step * step for step in steps_at_once))
    rounding = step_bits / (mean * seconds / len(known)) / math.sqrt(6)
    fine_enough = step_bits / (mean * seconds) <= policy.resolution
    return fine_enough and is_stable(known, math.hypot(policy.stability, rounding))


def accounting_step_bytes(workload: Workload, stream: Stream) -> float:
    """Return by how much the delivered payload of a queue pair moves at once: by what one completion stands for.

    The requester's stands for all its work requests since the last, a receive's for one message.
    """
    brought = [opcode for opcode in workload.opcodes if not opcode.fetches]
    counted_at_responder = not stream.returned and brought and all(opcode.consumes_receive for opcode in brought)
    if counted_at_responder or workload.qp_type is QpType.UC:
        return sum(stream.payloads) / len(stream.payloads)
    return stream.per_request * workload.messages_per_signal


def _pause_ratio(catalog: Catalog, counters: Mapping[str, float | None], role: Role) -> float | None:
    """Return the largest share of time over the priorities, from microseconds per second or percent."""
    scale = {Unit.MICROSECONDS: 1e-6, Unit.PERCENT: 1e-2}
    ratios = [
        value * scale[counter.unit]
        for counter in catalog.counters
        if counter.role is role and counter.unit in scale and (value := counters[counter.name]) is not None
    ]
    return max(ratios, default=None)


def _loss_ratio(catalog: Catalog, counters: Mapping[str, float | None]) -> float | None:
    def total(*roles: Role) -> float | None:
        known = [counters[counter.name] for counter in catalog.counters if counter.role in roles]
        return sum(value for value in known if value is not None) if known and None not in known else None

    lost, received = total(Role.DISCARD, Role.OUT_OF_SEQUENCE), total(Role.RX_PACKETS)
    if lost is None or not received:
        return None
    # After a receiver-not-ready NAK the next packet under way is out of sequence, though nothing was lost.
    return max(0.0, lost - (total(Role.RNR_NAK) or 0.0)) / received


def _problems(window: Mapping[str, Placed], catalog: Catalog, errors_reported: bool) -> list[str]:
    problems = []
    errors = Catalog(catalog.driver, catalog.of_kind(Kind.ERROR))
    for role, samples in window.items():
        if len(samples) < 2:
            problems.append(f"host {role} sent {len(samples)} samples in the window")
            continue
        if (lost := samples[-1][1].dropped - samples[0][1].dropped) > 0:
            problems.append(f"host {role} lost {lost} samples in the window")
        if errors_reported:
            continue  # completions with an error explain what error counters say, and are judged themselves
        moved = rates(errors, [snapshot(sample, catalog) for _, sample in samples])
        problems += [f"host {role}: error counter {name} moved" for name, rate in moved.items() if rate]
    return problems


def _series(role: str, placed: Mapping[str, Placed], workload: Workload, catalog: Catalog) -> list[Sample]:
    curves = _curves(role, placed, workload) if role in sinks(workload) else []
    series = []
    for (begin, before), (end, after) in itertools.pairwise(placed[role]):
        values = rates(catalog, [snapshot(before, catalog), snapshot(after, catalog)])
        pause = _pause_ratio(catalog, values, Role.TX_PAUSE)
        delivered = _received_bps(curves, begin, end)
        series.append(Sample(end, role, {"delivered_bps": delivered, "tx_pause_ratio": pause, **values}))
    return series
