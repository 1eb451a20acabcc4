"""From a measurement and a bound to a verdict (paper sections 3 and 5.2).

`_CHECKS` run from the gravest symptom to the plainest, and the first with a result decides. A run that loses throughput
to rejected messages is therefore an RNR storm.

1. Wrong bytes count in any run: neither a slow host nor a changed link produces them.
2. Problems that void the run come next, because no later check could rely on it.
3. Pause and completion errors count even when the generator was slow.
4. Other symptoms need a run that the generator could drive. A host short of CPU posts receives late, answers late and
   serves its queue pairs unevenly, through no fault of the device. A victim has a loop of its own, so its symptoms only
   need a host whose CPU no other process took.
5. Low throughput also needs a stable window, or a best moment that is too far below the bound.
6. Latency comes last. It has a right value only where a load is offered, and where both the workload and its plain
   sibling carry that load. With full send queues, or beyond capacity, it only tells the length of the queues.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from collie.detect.bounds import NOTHING_EXPECTED, Bound, host_bounds
from collie.detect.lateness import Lateness, lateness
from collie.detect.measurement import HostMeasurement, Latency, Measurement, Victim
from collie.detect.symptom import Outcome, Received, Symptom, Verdict, inconclusive, throughput_is_missing
from collie.detect.thresholds import Loss, Thresholds
from collie.detect.victims import has_too_little, lost_by
from collie.workloads.plan import flows, sinks
from collie.workloads.units import format_count, format_rate, format_share, format_short_seconds
from collie.workloads.workload import Workload


def judge(workload: Workload, measurement: Measurement, bound: Bound, thresholds: Thresholds) -> Verdict:
    """Return the verdict of the first check with a result, with `bound` as the healthy throughput of each port.

    In a run that was stopped early only pause is judged, because pause is what stops runs.
    """
    run = _Run(workload, measurement, bound, thresholds)
    checks = _CHECKS if thresholds.loss_of is Loss.OF_WORKLOAD else _CHECKS_OF_VICTIM
    verdict = next(verdict for check in checks if (verdict := check(run)) is not None)
    expects = thresholds.loss_of is Loss.OF_WORKLOAD and 0.0 < bound.bps < math.inf
    return replace(verdict, bound_bps=bound.bps) if expects else verdict


def is_sound(workload: Workload, measurement: Measurement, thresholds: Thresholds) -> bool:
    """Whether a run lacks only a bound: stable, driven, and without any other symptom."""
    settled = measurement.stable and measurement.health.driven
    return settled and judge(workload, measurement, NOTHING_EXPECTED, thresholds).is_normal


def can_be_late(workload: Workload, measurement: Measurement, thresholds: Thresholds) -> bool:
    """Whether latency can be anomalous: some message waited long enough, and is compared at an equal load.

    A workload has to carry its load. A victim need not: if it does beside plain traffic, its full queue is the harm.
    """
    judged: list[Latency] = []
    if thresholds.loss_of is Loss.OF_VICTIM:
        victim = measurement.victim
        if victim and victim.latency and victim.offered_bps:
            judged = [victim.latency]
    elif _carries(workload, measurement, thresholds):
        judged = list(measurement.latency.values())
    return max((flow.p99_seconds or 0.0 for flow in judged), default=0.0) > thresholds.latency_seconds


def _carries(workload: Workload, measurement: Measurement, thresholds: Thresholds) -> bool:
    """Whether what is offered reaches every receiving host. With full send queues nothing is offered."""
    least = (1.0 - thresholds.load_missed) * workload.offered_bps
    ends = Counter(flow.sink for flow in flows(workload))
    return (
        bool(workload.offered_bps)
        and not measurement.stopped
        and all((measurement.host(name).delivered_bps or 0.0) >= least * count for name, count in ends.items())
    )


_ACCOUNTS_FOR = 0.5
"""Share of a severity that a host's missing rate has to reach, to say that the severity is a matter of the rate."""


@dataclass(frozen=True)
class _Run:
    workload: Workload
    measurement: Measurement
    bound: Bound
    thresholds: Thresholds

    @cached_property
    def receiving(self) -> list[HostMeasurement]:
        return [self.measurement.host(name) for name in sinks(self.workload)]

    @cached_property
    def deficit(self) -> float:
        """Share of the bound that the worst receiving host lacks, or 0 when unknown."""
        if not math.isfinite(self.bound.bps) or self.measurement.stopped:
            return 0.0  # traffic that was stopped can still have been growing
        return max((self.deficit_of(host) for host in self.receiving), default=0.0)

    @cached_property
    def expected(self) -> Mapping[str, Bound]:
        return host_bounds(self.workload, self.bound)

    @cached_property
    def worst(self) -> HostMeasurement:
        """The receiving host that lacks most of its bound."""
        return max(self.receiving, key=self.deficit_of)

    @cached_property
    def throughput(self) -> str:
        """What the worst host receives and what its bound gives, in words."""
        bound = self.expected[self.worst.host]
        delivered = format_rate(self.worst.delivered_bps or 0.0)
        gives = f"the {bound.name} gives {format_rate(bound.bps)}"
        if bound.source == "specification":  # computed, so a healthy run can exceed it by its noise
            gives = f"about {format_rate(bound.bps)} is expected by the {bound.name}"
        return f"host {self.worst.host} receives {delivered}, {gives}"

    @property
    def flows_of_the_sibling(self) -> Iterator[tuple[str, Latency]]:
        """The latency of each flow that the plain sibling has, too. Loopback beside other traffic is none of them."""
        alike = {flow.name for flow in flows(self.workload) if not (flow.is_loopback and self.workload.remote)}
        return ((name, measured) for name, measured in self.measurement.latency.items() if name in alike)

    def deficit_of(self, host: HostMeasurement) -> float:
        """Return the missing share of the bound, of bits/s or packets/s, whichever is smaller, or 0 when unknown."""
        bound = self.expected[host.host]
        if host.delivered_bps is None or host.delivered_pps is None:
            return 0.0
        return min(_missing(host.delivered_bps, bound.bps), _missing(host.delivered_pps, bound.pps))

    def least_deficit_of(self, host: HostMeasurement) -> float:
        """Return the share that a host lacked at its peak, or 0 when unknown."""
        if host.peak_bps is None or not host.delivered_bps or host.delivered_pps is None:
            return 0.0
        peak_pps = host.delivered_pps * host.peak_bps / host.delivered_bps
        return self.deficit_of(replace(host, delivered_bps=host.peak_bps, delivered_pps=peak_pps))

    def anomalous(self, symptom: Symptom, text: str, severity: float, host: str | None, margin: float = 1.0) -> Verdict:
        """Return an anomalous verdict. `margin` counts only in a stable window.

        The reason states the deficit if it is anomalous or decides the severity.
        """
        if symptom.is_of_victim:
            return Verdict(Outcome.ANOMALOUS, text, symptom, severity, host, margin)
        decides = self.deficit > min(self.thresholds.throughput_deficit, severity) or self.deficit == severity > 0.0
        if decides and symptom is not Symptom.LOW_THROUGHPUT:
            text += f" and {throughput_is_missing(self.deficit, self.bound.source)}"
        margin = margin if self.measurement.stable else 1.0
        severity = min(1.0, max(severity, self.deficit))
        received = self.received_by(host, severity) if symptom.is_of_rate else None
        return Verdict(Outcome.ANOMALOUS, text, symptom, severity, host, margin, received=received)

    def received_by(self, name: str | None, severity: float) -> Received | None:
        """Return what a host received, or None if that is unknown or lacks too little to account for a severity."""
        host = next((each for each in self.receiving if each.host == name), None)
        if host is None or not host.delivered_bps or not host.delivered_pps:
            return None
        if self.deficit_of(host) < _ACCOUNTS_FOR * severity:
            return None  # pause that costs no throughput is not a matter of a rate
        return Received(host.delivered_bps, host.delivered_pps)

    def concluded(self, symptom: Symptom, text: str, severity: float, host: str | None, margin: float) -> Verdict:
        health = self.measurement.health
        # A workload that posts less than it should does a victim less harm, and its loop is not the victim's.
        if not health.driven and not (symptom.is_of_victim and health.starved is False):
            return inconclusive(f"{text}, but the generator could not drive it: {health.reason}")
        return self.anomalous(symptom, text, severity, host, margin)


def _wrong_payload(run: _Run) -> Verdict | None:
    wrong = run.measurement.wrong_bytes
    if not wrong:
        return None
    text = f"{wrong:,} bytes of payload differ from those that were sent"
    return run.anomalous(Symptom.WRONG_PAYLOAD, text, run.deficit, sinks(run.workload)[0])


def _void(run: _Run) -> Verdict | None:
    return inconclusive("; ".join(run.measurement.problems)) if run.measurement.problems else None


def _pause(run: _Run) -> Verdict | None:
    threshold = run.thresholds.pause_ratio
    if (above := _above(run.measurement, "tx_pause_ratio", threshold)) is None:
        return None
    host, ratio = above
    text = f"host {host} sends pause for {ratio:.1%} of the time"
    if run.measurement.stopped:
        text += f", until it was stopped: {run.measurement.stopped}"
    return run.anomalous(Symptom.PAUSE, text, ratio, host, ratio / threshold)


def _pause_frames(run: _Run) -> Verdict | None:
    threshold = run.thresholds.pause_frames
    if run.measurement.stopped:
        return None  # no limit counts frames, so these can come from the start-up
    if (above := _above(run.measurement, "tx_pause_frames", threshold)) is None:
        return None
    host, frames = above
    text = f"host {host} sends {frames:,.0f} pause frames/s, for how much of the time its NIC does not tell"
    return run.anomalous(Symptom.PAUSE, text, run.thresholds.pause_ratio, host, frames / threshold)


def _stopped(run: _Run) -> Verdict | None:
    reason = run.measurement.stopped
    return inconclusive(f"stopped early: {reason}") if reason else None


def _congestion(run: _Run) -> Verdict | None:
    if above := _above(run.measurement, "rx_pause_ratio", run.thresholds.pause_ratio):
        received = f"pause for {above[1]:.1%} of the time"
    elif above := _above(run.measurement, "rx_pause_frames", run.thresholds.pause_frames):
        received = f"{above[1]:,.0f} pause frames/s"
    else:
        return None
    return inconclusive(f"host {above[0]} receives {received} and no host sends it: the network is congested")


def _completion_errors(run: _Run) -> Verdict | None:
    errors = run.measurement.health.completion_errors
    if not errors:
        return None
    text = "work requests complete with errors: " + ", ".join(
        f"{count} x {name}" for name, count in sorted(errors.items())
    )
    return run.anomalous(Symptom.COMPLETION_ERRORS, text, run.deficit, sinks(run.workload)[0])


def _rnr_storm(run: _Run) -> Verdict | None:
    text = "host {host} turns {ratio:.0%} of the messages away, as no receive is posted for them (RNR NAK)"
    return _arrivals(run, "rnr_ratio", run.thresholds.rnr_ratio, Symptom.RNR_STORM, text)


def _loss(run: _Run) -> Verdict | None:
    if _has_pause_time(run.measurement):
        return None  # where pause counters exist, they decide
    text = "host {host} discards or reorders {ratio:.2%} of its packets"
    return _arrivals(run, "loss_ratio", run.thresholds.loss_ratio, Symptom.LOSS, text)


def _retransmission(run: _Run) -> Verdict | None:
    text = "{ratio:.1%} of the packets that host {host} receives had arrived before: its peer sends them again"
    return _arrivals(run, "repeat_ratio", run.thresholds.repeat_ratio, Symptom.RETRANSMISSION, text)


def _arrivals(run: _Run, field: str, threshold: float, symptom: Symptom, text: str) -> Verdict | None:
    if (above := _above(run.measurement, field, threshold)) is None:
        return None
    host, ratio = above
    return run.concluded(symptom, text.format(host=host, ratio=ratio), ratio, host, ratio / threshold)


def _unfairness(run: _Run) -> Verdict | None:
    health, threshold = run.measurement.health, run.thresholds.qp_deficit
    shares = {
        "the slowest queue pair does {} less than the mean of its flow": health.slowest_qp_share,
        "the slowest of several hosts does {} less than the mean of those at the same port": health.slowest_flow_share,
    }
    known = [(share, text) for text, share in shares.items() if share is not None]
    share, text = min(known, default=(1.0, ""))
    if 1.0 - share <= threshold:
        return None
    text = text.format(f"{1.0 - share:.1%}")
    return run.concluded(Symptom.UNFAIRNESS, text, 1.0 - share, sinks(run.workload)[0], (1.0 - share) / threshold)


def _stall(run: _Run) -> Verdict | None:
    """Judge the longest time without completions. A host that stops the traffic loop also stops completions."""
    stalls = ((flow, each.stall_seconds) for flow, each in run.measurement.latency.items())
    known = [(flow, seconds) for flow, seconds in stalls if seconds is not None]
    flow, seconds = max(known, key=lambda pair: pair[1], default=("", 0.0))
    threshold = run.thresholds.stall_seconds
    if seconds <= threshold:
        return None
    share = min(1.0, seconds / run.measurement.window_seconds)
    text = f"nothing completes on flow {flow} for {format_short_seconds(seconds)}, {format_share(share)} of the window"
    return run.concluded(Symptom.STALL, text, share, sinks(run.workload)[0], seconds / threshold)


def _throughput(run: _Run) -> Verdict | None:
    unknown = [host.host for host in run.receiving if host.delivered_bps is None or host.delivered_pps is None]
    if unknown:
        return inconclusive(f"delivered throughput of host {', '.join(unknown)} is unknown")
    worst, figures = run.worst, run.throughput
    deficit, threshold = run.deficit_of(worst), run.thresholds.throughput_deficit
    if deficit <= threshold:
        return None
    verdict = run.concluded(Symptom.LOW_THROUGHPUT, figures, deficit, worst.host, deficit / threshold)
    if verdict.is_anomalous and not run.measurement.stable and run.least_deficit_of(worst) <= threshold:
        return inconclusive(f"{figures}, but the window was not stable")
    return verdict


def _latency(run: _Run) -> Verdict | None:
    reference, limits = run.bound.latency, run.thresholds
    if reference is None or not _carries(run.workload, run.measurement, limits):
        return None
    found = ((_lateness(each, reference, limits), flow) for flow, each in run.flows_of_the_sibling)
    late, flow = max(found, default=(Lateness(), ""))
    text = f"{{whose}} of the messages of flow {flow} complete within {{here}}, those of the plain sibling within "
    return _late(run, Symptom.LATENCY, late, text + "{usual}")


def _lateness(measured: Latency, reference: Latency, limits: Thresholds) -> Lateness:
    return lateness(measured, reference, limits.latency_ratio, limits.latency_seconds)


def _late(run: _Run, symptom: Symptom, late: Lateness, text: str) -> Verdict | None:
    if late.margin <= 1.0:
        return None
    text = late.in_words(text)
    verdict = run.concluded(symptom, text, late.severity, sinks(run.workload)[0], late.margin)
    if verdict.is_anomalous and not run.measurement.stable:
        return inconclusive(f"{text}, but the window was not stable")
    return verdict


def _victim(run: _Run) -> Verdict:
    """Judge the loss of a victim, then its latency, by the victim beside plain traffic of the same load."""
    victim, threshold = run.measurement.victim, run.thresholds.victim_loss
    if victim is None or victim.beside_bps is None:
        return inconclusive("no victim was measured beside the workload")
    lost, figures = lost_by(victim, run.bound)
    if has_too_little(victim, run.bound, run.measurement.window_seconds):
        return inconclusive(f"{figures}: it has too little to lose any")
    if lost <= threshold:
        errors = run.measurement.health.completion_errors
        late = _victim_latency(run, victim)
        if late is None and errors:
            return inconclusive(
                f"{figures}, but the workload had {format_count(sum(errors.values()), 'failed request')}"
            )
        return Verdict(Outcome.NORMAL, figures) if late is None else late
    text = f"{figures}: it loses {format_share(lost)} of its throughput"
    # What the victim keeps is a mean over the window. An aggressor whose own rate swings holds it up all the same.
    margin = lost / threshold if run.measurement.stable else 1.0
    return run.concluded(Symptom.VICTIM_LOSS, text, lost, sinks(run.workload)[0], margin)


def _victim_latency(run: _Run, victim: Victim) -> Verdict | None:
    reference = run.bound.victim_latency
    if victim.latency is None or reference is None:
        return None
    late = _lateness(victim.latency, reference, run.thresholds)
    text = "{whose} of the messages of a plain flow complete within {here} beside the workload, within {usual} beside "
    return _late(run, Symptom.VICTIM_LATENCY, late, text + "its plain sibling")


def _normal(run: _Run) -> Verdict:
    return Verdict(Outcome.NORMAL, run.throughput)


_CHECKS: tuple[Callable[[_Run], Verdict | None], ...] = (
    _wrong_payload,
    _void,
    _pause,
    _pause_frames,
    _stopped,
    _congestion,
    _completion_errors,
    _rnr_storm,
    _loss,
    _retransmission,
    _unfairness,
    _stall,
    _throughput,
    _latency,
    _normal,
)
"""Checks in the order of `Symptom`. The last check always has a result."""

_CHECKS_OF_VICTIM: tuple[Callable[[_Run], Verdict | None], ...] = (_void, _stopped, _victim)


def _missing(delivered: float, bound: float) -> float:
    if bound == float("inf"):
        return 1.0  # no throughput is known to suffice, so the caller must measure the plain sibling
    return max(0.0, 1.0 - delivered / bound) if bound > 0 else 0.0


def _has_pause_time(measurement: Measurement) -> bool:
    return any(host.tx_pause_ratio is not None for host in measurement.hosts)


def _above(measurement: Measurement, field: str, threshold: float) -> tuple[str, float] | None:
    """Return the host with the largest reading above the threshold. Frames count only if no NIC reports time."""
    if field.endswith("_frames") and _has_pause_time(measurement):
        return None
    known = [(host.host, value) for host in measurement.hosts if (value := getattr(host, field)) is not None]
    host, ratio = max(known, key=lambda pair: pair[1], default=("", 0.0))
    return (host, ratio) if ratio > threshold else None
