"""From the samples of all hosts to a measurement. Pure.

1. The window begins after the warm-up and ends with the last sample of the host whose samples end first.
2. A flow's payload is counted at one end and attributed to its sink, linear between samples.
3. A missing value is None. A sink without a curve has an unknown throughput, not zero.
4. A counter that disagrees with other counters or with the traffic is unknown, or voids the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from collie.counters.catalog import SOFTWARE_DRIVERS, Catalog, CounterKind, Role
from collie.counters.series import rates_at
from collie.detect.measurement import HostMeasurement, Measurement, Sample, Victim
from collie.readings import control_verbs, victim as victims
from collie.readings.counter_sanity import LINK_DOWN, StalledCounter, link_change, stalled_counters, void_reasons
from collie.readings.delivery import Curve, curves_of, received_bps, received_inside, step_rates
from collie.readings.health import generator_health, has_errors
from collie.readings.latency import latencies
from collie.readings.pause import SentPause, pause_ratio
from collie.readings.policy import WindowPolicy
from collie.readings.rate_stability import is_settled
from collie.readings.ratios import loss_ratio, repeat_ratio, rnr_ratio, total
from collie.readings.recording import Recording, Timeline, between, samples_of
from collie.readings.samples import AgentSample, counter_rates, names_in, present, snapshot
from collie.workloads.plan import Flow, flows, packets_per_byte, sinks, streams
from collie.workloads.units import format_count
from collie.workloads.workload import Workload


def measurement(
    workload: Workload,
    recording: Recording,
    catalog: Catalog,
    policy: WindowPolicy,
    *,
    victim: Flow | None = None,
    whole: bool = False,
    with_series: bool = True,
) -> Measurement:
    """Return the measurement of a run.

    With `whole` the window is everything after the warm-up, and stable when it has one level.
    """
    timelines = recording.timelines()
    series = series_of(workload, recording, catalog) if with_series else ()
    if not all(timelines.values()):
        return replace(_without_samples(timelines), series=series, victim=Victim() if victim else None)
    end = recording.end
    begin = policy.warm_up_seconds
    if not whole:
        begin = max(begin, end - policy.window_seconds - policy.period_seconds / 2)
    window = between(timelines, begin, end)
    machines = recording.machines
    after_warm_up = between(timelines, policy.warm_up_seconds, end)
    curves = {role: curves_of(role, timelines, workload) for role in timelines}
    peaks = {role: max(step_rates(curves[role], after_warm_up[role]) or (), default=None) for role in timelines}
    rated = [
        replace(_host(role, own, curves[role], workload, catalog), peak_bps=peaks[role]) for role, own in window.items()
    ]
    hosts = _with_credit_waits(rated, workload, catalog)
    samples = {role: samples_of(entries) for role, entries in window.items()}
    inside = {sink: received_inside(curves[sink], window[sink]) for sink in sinks(workload)}
    stalled = {
        host.host: stalled_counters(host, inside, workload, catalog, samples[host.host], machines) for host in hosts
    }
    hosts = tuple(_without(host, stalled[host.host], catalog, samples[host.host]) for host in hosts)
    errors_reported = any(own and has_errors(own[-1]) for own in samples.values())
    return Measurement(
        hosts,
        max(0.0, end - begin),
        stable=is_settled(workload, window, curves, policy, whole=whole),
        health=generator_health(workload, samples, software=catalog.driver in SOFTWARE_DRIVERS, machines=machines),
        problems=(
            *_link_changes(timelines, catalog),
            *_problems(workload, samples, catalog, errors_reported),
            *control_verbs.problems(workload, samples),
            *(f"host {role}: {one.text}" for role, found in stalled.items() for one in found if one.voids),
        ),
        notes=(
            *_across_ports(workload, machines),
            *_invisible_pause(samples, catalog),
            *victims.notes(samples),
            *control_verbs.notes(workload, samples),
            *(f"host {role}: {one.text}" for role, found in stalled.items() for one in found if not one.voids),
        ),
        series=series,
        victim=(victims.beside(timelines[victim.requester], begin, end, samples[victim.requester]) if victim else None),
        latency=latencies(workload, samples),
    )


def _without_samples(timelines: Mapping[str, Timeline]) -> Measurement:
    silent = " and ".join(role for role, samples in timelines.items() if not samples)
    hosts = tuple(HostMeasurement(role) for role in timelines)
    return Measurement(hosts, 0.0, stable=False, problems=(f"host {silent} sent no samples",))


def _host(
    role: str, own: Timeline, curves: Sequence[Curve | None], workload: Workload, catalog: Catalog
) -> HostMeasurement:
    counters = counter_rates(samples_of(own), catalog)
    bps = received_bps(curves, own[0][0], own[-1][0]) if len(own) > 1 else None
    return HostMeasurement(
        role,
        delivered_bps=bps,
        delivered_pps=None if bps is None else bps / 8 * packets_per_byte(workload, role),
        tx_pause_ratio=pause_ratio(catalog, counters, Role.TX_PAUSE),
        rx_pause_ratio=pause_ratio(catalog, counters, Role.RX_PAUSE),
        loss_ratio=loss_ratio(present(catalog, names_in(samples_of(own))), counters),
        tx_pause_frames=total(catalog.of_role(Role.TX_PAUSE_FRAMES), counters),
        rx_pause_frames=total(catalog.of_role(Role.RX_PAUSE_FRAMES), counters),
        counters=counters,
        rnr_ratio=rnr_ratio(role, bps, workload, catalog, counters),
        repeat_ratio=repeat_ratio(catalog, counters),
    )


def _without(
    host: HostMeasurement, stalled: Sequence[StalledCounter], catalog: Catalog, samples: Sequence[AgentSample]
) -> HostMeasurement:
    if not stalled:
        return host
    counters = {**host.counters, **dict.fromkeys(one.counter.name for one in stalled)}
    return replace(host, counters=counters, loss_ratio=loss_ratio(present(catalog, names_in(samples)), counters))


def _with_credit_waits(
    hosts: Sequence[HostMeasurement], workload: Workload, catalog: Catalog
) -> tuple[HostMeasurement, ...]:
    """Use credit waits in place of pause. On InfiniBand a sender waits because its receivers withhold credits."""
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


def _link_changes(timelines: Mapping[str, Timeline], catalog: Catalog) -> Iterator[str]:
    for role, entries in timelines.items():
        if change := link_change(role, samples_of(entries), catalog):
            yield change


def _problems(
    workload: Workload, window: Mapping[str, Sequence[AgentSample]], catalog: Catalog, errors_reported: bool
) -> Iterator[str]:
    # A gauge, such as the number of queues in an error state, may have had its value before the run.
    moving = (counter for counter in catalog.of_kind(CounterKind.ERROR) if not counter.gauge)
    errors = Catalog(catalog.driver, tuple(counter for counter in moving if counter.canonical != LINK_DOWN))
    for role, samples in window.items():
        if len(samples) < 2:
            yield f"host {role} sent {format_count(len(samples), 'sample')} in the window"
            continue
        if (lost := samples[-1].dropped - samples[0].dropped) > 0:
            yield f"host {role} lost {format_count(lost, 'sample')} in the window"
        yield from (f"host {role}: {text}" for text in void_reasons(samples, catalog))
        if not errors_reported:  # failed completions explain the error counters, and are judged instead
            made = control_verbs.most_errors_per_second(workload, samples)
            moved = (name for name, rate in counter_rates(samples, errors).items() if rate is not None and rate > made)
            yield from (f"host {role}: error counter {name} moved" for name in moved)


def _across_ports(workload: Workload, machines: Mapping[str, str]) -> Iterator[str]:
    """Name the flows between devices of one host, which cross its PCIe and memory twice."""
    by_host: dict[str, list[str]] = {}
    for flow in flows(workload):
        if flow.is_across_ports(machines):
            by_host.setdefault(machines[flow.requester], []).append(flow.name)
    for host, names in by_host.items():
        yield f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} loopback across ports of {host}"


def _invisible_pause(window: Mapping[str, Sequence[AgentSample]], catalog: Catalog) -> Iterator[str]:
    """Report NICs that hide their pause counters, as some do while flow control is off."""
    pausing = catalog.of_role(Role.TX_PAUSE)
    for role, samples in window.items():
        names = names_in(samples)
        if pausing and names.get(pausing[0].source) and not present(catalog, names).of_role(Role.TX_PAUSE):
            yield (
                f"host {role}: PFC is off on every priority, as its NIC shows none of the pause counters "
                f"({pausing[0].name}, ...); discards and out-of-sequence arrivals take their place"
            )


def series_of(workload: Workload, recording: Recording, catalog: Catalog) -> tuple[Sample, ...]:
    """Return every host's readings from sample to sample."""
    timelines = recording.timelines()
    return tuple(sample for role in timelines for sample in _series(role, timelines, workload, catalog))


def _series(role: str, timelines: Mapping[str, Timeline], workload: Workload, catalog: Catalog) -> list[Sample]:
    curves = curves_of(role, timelines, workload)
    sent, own = SentPause(catalog), timelines[role]
    snapshots = [snapshot(sample, catalog) for _, sample in own]
    series = []
    for index, ((begin, _), (end, _)) in enumerate(pairwise(own), 1):
        values = rates_at(catalog, snapshots, index)
        delivered = received_bps(curves, begin, end)
        displayed = {"delivered_bps": delivered, "tx_pause_ratio": sent.ratio(own, index)}
        series.append(Sample(end, role, {**displayed, **values}))
    return series
