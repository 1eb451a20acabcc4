"""From the samples of all hosts to a measurement. Pure.

Rules:

1. Hosts have clocks of their own. A sample is placed on the controller's clock by the host's offset: the least of
   (arrival - clock) over its samples, the one that travelled fastest.
2. The window begins after the warm-up and ends with the last sample of the host whose samples end first. Nothing that
   came after the decision to stop is in it.
3. Delivered payload is a curve per flow, known at one end of it and attributed to the flow's sink. What a sink received
   between two moments is the difference of its curves there, linear between samples.
4. What is missing is None. A sink without a curve has no throughput, not zero.
5. What counters say is believed as far as they agree with each other and with the traffic (`collie/hosts/trust.py`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from collie.counters.catalog import Catalog, Counter, Kind, Role
from collie.counters.series import is_level, is_stable, rates, variation
from collie.detect.bounds import packets_per_byte
from collie.detect.measurement import HostMeasurement, Measurement, Sample, Victim
from collie.hosts import victim as victims
from collie.hosts.curve import Curve
from collie.hosts.facts import SOFTWARE_DRIVERS
from collie.hosts.health import generator_health, has_errors
from collie.hosts.link import LINK_DOWN, link_change
from collie.hosts.pause import Placed, SentPause, pause_ratio
from collie.hosts.samples import AgentSample, names_in, snapshot
from collie.hosts.trust import broken, standstills
from collie.workloads.plan import HOST_A, Stream, flows, sinks, streams
from collie.workloads.workload import QpType, Workload


@dataclass(frozen=True, slots=True)
class WindowPolicy:
    """How a run is timed.

    Attributes:
        period_seconds: between samples.
        warm_up_seconds: dropped after the start of traffic.
        window_seconds: that rates are over.
        patience_seconds: how much longer to wait for a window that is stable and holds enough steps.
        averaging_seconds: how much longer than the window a run may get, after that, where its rate swings about one
            level: a mean over more samples is as good as that of a stable window.
        stability: largest coefficient of variation of a stable window. An emulated CPU shows 5 to 10 % between samples
            of 250 ms on plain traffic.
        resolution: largest share of a window's payload that one step of the accounting may be.
    """

    period_seconds: float = 0.25
    warm_up_seconds: float = 0.4
    window_seconds: float = 1.5
    patience_seconds: float = 2.0
    averaging_seconds: float = 7.5
    stability: float = 0.15
    resolution: float = 0.05

    def for_catalog(self, catalog: Catalog) -> WindowPolicy:
        """Return the policy with a window that holds several refreshes of the slowest counter that verdicts read."""
        return replace(self, window_seconds=max(self.window_seconds, _REFRESHES * catalog.slowest_deciding_seconds))

    @property
    def usual_samples(self) -> float:
        """How many samples a window holds."""
        return self.window_seconds / self.period_seconds

    @property
    def longest_seconds(self) -> float:
        """Longest time that rates are over."""
        return self.window_seconds + self.averaging_seconds


_REFRESHES = 4
"""A rate over n steps is off by at most a sampling period in n refreshes."""


@dataclass(frozen=True, slots=True)
class Recording:
    """The samples of one run, of every host that has a part in it.

    Attributes:
        samples: by role, in order of time.
        began: the controller's clock when all hosts had started.
        machines: by role, the host that it is on: several may be on one, each with a device of its own. Empty where
            each is on its own.
    """

    samples: Mapping[str, Sequence[AgentSample]]
    began: float
    machines: Mapping[str, str] = field(default_factory=dict)

    def placed(self, role: str) -> list[tuple[float, AgentSample]]:
        """Return a host's samples with their seconds since traffic began."""
        samples = self.samples[role]
        offset = min((sample.arrived - sample.clock for sample in samples), default=0.0)
        return [(sample.clock + offset - self.began, sample) for sample in samples]

    @property
    def end(self) -> float:
        """Seconds since traffic began up to which every host has been heard."""
        return min((samples[-1][0] if (samples := self.placed(role)) else -math.inf) for role in self.samples)


_SAME_MOMENT_SECONDS = 0.005
"""Hosts' clocks are compared no better than a message travels."""


def measurement(
    workload: Workload,
    recording: Recording,
    catalog: Catalog,
    policy: WindowPolicy,
    *,
    victim: bool = False,
    whole: bool = False,
) -> Measurement:
    """Say what a run showed.

    Args:
        workload: what ran.
        recording: all samples until the decision to stop.
        catalog: counters of the hosts' driver.
        policy: warm-up, window and stability.
        victim: a victim ran beside it.
        whole: the window is all that came after the warm-up, and stable when it has one level.
    """
    placed = {role: recording.placed(role) for role in recording.samples}
    series = tuple(sample for role in placed for sample in _series(role, placed, workload, catalog))
    if not all(placed.values()):
        silent = " and ".join(role for role, samples in placed.items() if not samples)
        empty = tuple(HostMeasurement(role) for role in placed)
        problem = f"host {silent} sent no samples"
        return Measurement(
            empty, 0.0, stable=False, problems=(problem,), series=series, victim=Victim() if victim else None
        )
    end = recording.end
    begin = policy.warm_up_seconds
    if not whole:
        begin = max(begin, end - policy.window_seconds - policy.period_seconds / 2)
    window = _between(placed, begin, end)
    swings = [_swing(sink, window, placed, workload, policy) for sink in sinks(workload)]
    machines = recording.machines
    hosts = _with_credit_waits([_host(role, window, placed, workload, catalog) for role in placed], workload, catalog)
    inside = {sink: _received_inside(sink, window, placed, workload) for sink in sinks(workload)}
    still = {
        host.host: standstills(host, inside, workload, catalog, _samples(window[host.host]), machines) for host in hosts
    }
    hosts = tuple(_without(host, [one.counter.name for one in still[host.host]], catalog, window) for host in hosts)
    seen = {role: _samples(window[role]) for role in window}
    health = generator_health(workload, seen, software=catalog.driver in SOFTWARE_DRIVERS, machines=machines)
    return Measurement(
        hosts,
        max(0.0, end - begin),
        stable=all(swing is not None and swing.settled(policy, whole=whole) for swing in swings),
        health=health,
        problems=(
            *_link_changes(placed, catalog),
            *_problems(window, catalog, any(samples and has_errors(samples[-1]) for samples in seen.values())),
            *(f"host {role}: {one.text}" for role, found in still.items() for one in found if one.voids),
        ),
        notes=(
            *_across_ports(workload, machines),
            *_notes(window, catalog),
            *victims.notes(seen),
            *(f"host {role}: {one.text}" for role, found in still.items() for one in found if not one.voids),
        ),
        series=series,
        victim=victims.beside(placed[HOST_A], begin, end) if victim else None,
    )


def may_settle(workload: Workload, recording: Recording, policy: WindowPolicy) -> bool:
    """Whether the longest run could have one level, if its rate goes on to swing as it did."""
    placed = {role: recording.placed(role) for role in recording.samples}
    window = _between(placed, policy.warm_up_seconds, recording.end)
    swings = [_swing(sink, window, placed, workload, policy) for sink in sinks(workload)]
    return all(swing is not None and swing.may_settle(policy) for swing in swings)


def _between(placed: Mapping[str, Placed], begin: float, end: float) -> dict[str, Placed]:
    return {
        role: [entry for entry in samples if begin <= entry[0] <= end + _SAME_MOMENT_SECONDS]
        for role, samples in placed.items()
    }


def _samples(placed: Placed) -> list[AgentSample]:
    return [sample for _, sample in placed]


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
        tx_pause_ratio=pause_ratio(catalog, counters, Role.TX_PAUSE),
        rx_pause_ratio=pause_ratio(catalog, counters, Role.RX_PAUSE),
        loss_ratio=_loss_ratio(_there(catalog, own), counters),
        tx_pause_frames=_sum(catalog.of_role(Role.TX_PAUSE_FRAMES), counters),
        rx_pause_frames=_sum(catalog.of_role(Role.RX_PAUSE_FRAMES), counters),
        counters=counters,
        rnr_ratio=_rnr_ratio(role, bps, workload, catalog, counters),
        repeat_ratio=_repeat_ratio(catalog, counters),
    )


def _there(catalog: Catalog, own: Placed) -> Catalog:
    """Return the counters that the host has at all, read or not."""
    names = {(source, name) for source, found in names_in(_samples(own)).items() for name in found}
    return replace(catalog, counters=tuple(counter for counter in catalog.counters if counter.key in names))


def _without(
    host: HostMeasurement, unknown: Sequence[str], catalog: Catalog, window: Mapping[str, Placed]
) -> HostMeasurement:
    """Return what a host showed without counters that are not to be believed."""
    if not unknown:
        return host
    counters = {**host.counters, **dict.fromkeys(unknown)}
    return replace(host, counters=counters, loss_ratio=_loss_ratio(_there(catalog, window[host.host]), counters))


def _with_credit_waits(
    hosts: Sequence[HostMeasurement], workload: Workload, catalog: Catalog
) -> tuple[HostMeasurement, ...]:
    """Let InfiniBand's waiting for credits take the place of pause.

    Where a sender waits for credits, the receiver of its flows withholds them: what a NIC on Ethernet does by pause.
    """
    waits = {host.host: pause_ratio(catalog, host.counters, Role.XMIT_WAIT) for host in hosts}
    withheld: dict[str, list[float]] = {}
    for stream in streams(workload):
        if not stream.flow.is_loopback and (wait := waits.get(stream.source)) is not None:
            withheld.setdefault(stream.sink, []).append(wait)
    return tuple(
        replace(
            host,
            tx_pause_ratio=max(withheld.get(host.host, ()), default=host.tx_pause_ratio),
            rx_pause_ratio=host.rx_pause_ratio if waits[host.host] is None else waits[host.host],
        )
        for host in hosts
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


def _received_inside(
    sink: str, window: Mapping[str, Placed], placed: Mapping[str, Placed], workload: Workload
) -> float:
    """Return a sink's rate without its first and last step, in bits/s; 0 where that is unknown.

    Hosts are not sampled at the same moments: of traffic that ends with the first step, as when all queue pairs have
    failed, another host may have no two samples.
    """
    inner = window[sink][1:-1]
    if len(inner) < 2:
        return 0.0
    return _received_bps(_curves(sink, placed, workload), inner[0][0], inner[-1][0]) or 0.0


@dataclass(frozen=True, slots=True)
class _Swing:
    """How the rate of a sink moves in a window.

    Attributes:
        values: bits/s, per sample.
        tolerance: largest coefficient of variation of a stable window.
        seconds: length of the window.
        step_seconds: in which the payload moves by one step of its accounting; infinite where nothing moves.
    """

    values: Sequence[float]
    tolerance: float
    seconds: float
    step_seconds: float

    def settled(self, policy: WindowPolicy, *, whole: bool) -> bool:
        """Whether it has one level, known finely enough."""
        if not any(self.values):
            return is_stable(self.values, self.tolerance)
        if self.step_seconds > policy.resolution * self.seconds:
            return False
        if whole:
            return is_level(self.values, self.tolerance, policy.usual_samples)
        return is_stable(self.values, self.tolerance)

    def may_settle(self, policy: WindowPolicy) -> bool:
        """Whether the longest window could."""
        wider = math.sqrt(policy.longest_seconds / policy.window_seconds)
        return (
            self.step_seconds <= policy.resolution * policy.longest_seconds
            and variation(self.values) <= self.tolerance * wider
        )


def _swing(
    sink: str, window: Mapping[str, Placed], placed: Mapping[str, Placed], workload: Workload, policy: WindowPolicy
) -> _Swing | None:
    """Return how a sink's rate moves; None where it is not known throughout.

    A requester's completions come once per chain, so payload moves in steps of a chain. Each difference between two
    samples is off by the difference of two such roundings, with a variance of step^2 / 6 per queue pair; that much
    variation is no instability.
    """
    curves = _curves(sink, placed, workload)
    steps = list(itertools.pairwise(seconds for seconds, _ in window[sink]))
    received = [_received_bps(curves, begin, end) for begin, end in steps]
    known = [value for value in received if value is not None]
    if len(known) < len(received) or not known:
        return None
    seconds = steps[-1][1] - steps[0][0]
    mean = sum(known) / len(known)
    if mean <= 0:
        return _Swing(known, policy.stability, seconds, math.inf)
    steps_at_once = (accounting_step_bytes(workload, stream) for stream in streams(workload) if stream.sink == sink)
    step_seconds = 8 * math.sqrt(workload.qps * sum(step * step for step in steps_at_once)) / mean
    rounding = step_seconds / (seconds / len(known)) / math.sqrt(6)
    return _Swing(known, math.hypot(policy.stability, rounding), seconds, step_seconds)


def accounting_step_bytes(workload: Workload, stream: Stream) -> float:
    """Return by how much the delivered payload of a queue pair moves at once: by what one completion stands for.

    The requester's stands for all its work requests since the last, a receive's for one message.
    """
    brought = [opcode for opcode in workload.opcodes if not opcode.fetches]
    counted_at_responder = not stream.returned and brought and all(opcode.consumes_receive for opcode in brought)
    if counted_at_responder or workload.qp_type is QpType.UC:
        return sum(stream.payloads) / len(stream.payloads)
    return stream.per_request * workload.messages_per_signal


def _sum(chosen: Sequence[Counter], counters: Mapping[str, float | None]) -> float | None:
    known = [value for counter in chosen if (value := counters[counter.name]) is not None]
    return sum(known) if known else None


def _loss_ratio(catalog: Catalog, counters: Mapping[str, float | None]) -> float | None:
    """Return dropped and out-of-sequence packets over all received.

    Args:
        catalog: the counters that the host has; one of them that could not be read leaves the ratio unknown.
        counters: rates.
    """
    lost = catalog.of_role(Role.DISCARD, Role.OUT_OF_SEQUENCE)
    received = _sum(catalog.of_role(Role.RX_PACKETS), counters)
    if not lost or not received or any(counters[counter.name] is None for counter in lost):
        return None
    # After a receiver-not-ready NAK the next packet under way is out of sequence, though nothing was lost.
    reordered = _sum(catalog.of_role(Role.OUT_OF_SEQUENCE), counters) or 0.0
    not_ready = _sum(catalog.of_role(Role.RNR_NAK), counters) or 0.0
    dropped = _sum(catalog.of_role(Role.DISCARD), counters) or 0.0
    return (dropped + max(0.0, reordered - not_ready)) / received


def _rnr_ratio(
    role: str, bps: float | None, workload: Workload, catalog: Catalog, counters: Mapping[str, float | None]
) -> float | None:
    """Return the share of arriving messages that were turned away: a message that gets in after all counts once more.

    Only acknowledged transports turn messages away; UC and UD drop them.
    """
    refused = _sum(catalog.of_role(Role.RNR_NAK), counters)
    needing = sum(opcode.consumes_receive for opcode, _ in workload.turn) / len(workload.turn)
    if workload.qp_type in {QpType.UC, QpType.UD} or not needing or bps is None or refused is None:
        return None
    here = [stream for stream in streams(workload) if stream.sink == role]
    requests = bps / 8 / sum(stream.per_request for stream in here)  # per second, of each flow
    arrived = refused + needing * requests * sum(not stream.returned for stream in here)
    return refused / arrived if arrived > 0 else 0.0


def _repeat_ratio(catalog: Catalog, counters: Mapping[str, float | None]) -> float | None:
    repeated = _sum([counter for counter in catalog.counters if counter.canonical == "duplicate_request"], counters)
    received = _sum(catalog.of_role(Role.RX_PACKETS), counters)
    return None if repeated is None or not received else repeated / received


def _link_changes(placed: Mapping[str, Placed], catalog: Catalog) -> Iterator[str]:
    for role, entries in placed.items():
        if change := link_change(role, _samples(entries), catalog):
            yield change


def _problems(window: Mapping[str, Placed], catalog: Catalog, errors_reported: bool) -> list[str]:
    problems = []
    # A level, such as queues in an error state, may have been there before: it does not move by being read.
    moving = (counter for counter in catalog.of_kind(Kind.ERROR) if not counter.gauge)
    errors = Catalog(catalog.driver, tuple(counter for counter in moving if counter.canonical != LINK_DOWN))
    for role, samples in window.items():
        if len(samples) < 2:
            problems.append(f"host {role} sent {len(samples)} samples in the window")
            continue
        if (lost := samples[-1][1].dropped - samples[0][1].dropped) > 0:
            problems.append(f"host {role} lost {lost} samples in the window")
        problems += [f"host {role}: {text}" for text in broken(_samples(samples), catalog)]
        if errors_reported:
            continue  # completions with an error explain what error counters say, and are judged themselves
        moved = rates(errors, [snapshot(sample, catalog) for _, sample in samples])
        problems += [f"host {role}: error counter {name} moved" for name, rate in moved.items() if rate]
    return problems


def _across_ports(workload: Workload, machines: Mapping[str, str]) -> Iterator[str]:
    """Say which flows are between devices of one host: their figures are about its PCIe and memory, too, twice over."""
    by_host: dict[str, list[str]] = {}
    for flow in flows(workload):
        if flow.is_across_ports(machines):
            by_host.setdefault(machines[flow.requester], []).append(flow.name)
    for host, names in by_host.items():
        yield f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} loopback across ports of {host}"


def _notes(window: Mapping[str, Placed], catalog: Catalog) -> list[str]:
    """Say where pause cannot be seen, because a NIC shows its counters only while flow control is on."""
    notes = []
    pausing = catalog.of_role(Role.TX_PAUSE)
    for role, samples in window.items():
        names = names_in(_samples(samples))
        if pausing and names.get(pausing[0].source) and not _there(catalog, samples).of_role(Role.TX_PAUSE):
            notes.append(
                f"host {role}: PFC is off on every priority, as its NIC shows none of the pause counters "
                f"({pausing[0].name}, ...); discards and out-of-sequence arrivals take their place"
            )
    return notes


def _series(role: str, placed: Mapping[str, Placed], workload: Workload, catalog: Catalog) -> list[Sample]:
    curves = _curves(role, placed, workload) if role in sinks(workload) else []
    sent, own = SentPause(catalog), placed[role]
    series = []
    for index, ((begin, before), (end, after)) in enumerate(itertools.pairwise(own), 1):
        values = rates(catalog, [snapshot(before, catalog), snapshot(after, catalog)])
        delivered = _received_bps(curves, begin, end)
        shown = {"delivered_bps": delivered, "tx_pause_ratio": sent.ratio(own, index)}
        series.append(Sample(end, role, {**shown, **values}))
    return series
