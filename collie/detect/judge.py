"""From a measurement and a bound to a verdict (paper sections 3 and 5.2, DESIGN 8)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from collie.detect.bounds import Bound
from collie.detect.measurement import HostMeasurement, Measurement
from collie.detect.symptom import Outcome, Symptom, Verdict, inconclusive
from collie.workloads.plan import shares, sinks
from collie.workloads.units import format_rate
from collie.workloads.workload import Workload


@dataclass(frozen=True, slots=True)
class Thresholds:
    """From where on a reading is an anomaly.

    Attributes:
        pause_ratio: share of time. Above 0 because NICs pause briefly while connections are set up (paper 5.2).
        throughput_deficit: share of the bound that is missing, in bits/s and in packets/s.
        loss_ratio: packets discarded or out of sequence over packets received, on NICs without pause counters.
    """

    pause_ratio: float = 0.001
    throughput_deficit: float = 0.2
    loss_ratio: float = 0.001


def judge(workload: Workload, measurement: Measurement, bound: Bound, thresholds: Thresholds) -> Verdict:
    """Say whether a run was normal, anomalous or says nothing.

    Args:
        workload: what ran.
        measurement: what it showed.
        bound: what a healthy subsystem delivers at each port.
        thresholds: from where on a reading is an anomaly.

    Returns:
        The worst host's verdict. Pause and errors are facts that stand even when the generator was slow; low
        throughput is only concluded from a stable window that the generator could drive.
    """
    if measurement.problems:
        return inconclusive("; ".join(measurement.problems))
    expected = {name: bound.share(part) for name, part in shares(workload).items()}
    receiving = [measurement.host(name) for name in sinks(workload)]
    deficits = {host.host: _deficit(host, expected[host.host]) for host in receiving}
    known = [deficit for deficit in deficits.values() if deficit is not None and math.isfinite(bound.bps)]
    worst_deficit = max(known, default=0.0)

    paused = _worst(measurement, "tx_pause_ratio")
    if paused and paused[1] > thresholds.pause_ratio:
        host, ratio = paused
        text = f"host {host} sends pause for {ratio:.1%} of the time"
        if worst_deficit > thresholds.throughput_deficit:
            text += f" and {worst_deficit:.0%} of the throughput is missing"
        margin = _margin(measurement, ratio, thresholds.pause_ratio)
        return Verdict(Outcome.ANOMALOUS, text, Symptom.PAUSE, max(ratio, worst_deficit), host, margin)
    received = _worst(measurement, "rx_pause_ratio")
    if received and received[1] > thresholds.pause_ratio:
        return inconclusive(
            f"host {received[0]} receives pause for {received[1]:.1%} of the time and no host sends it: "
            "the network is congested"
        )
    if measurement.health.completion_errors:
        errors = ", ".join(f"{count} x {name}" for name, count in sorted(measurement.health.completion_errors.items()))
        severity = min(1.0, max(worst_deficit, 0.0))
        text = f"work requests complete with errors: {errors}"
        return Verdict(Outcome.ANOMALOUS, text, Symptom.COMPLETION_ERRORS, severity, sinks(workload)[0], 1.0)
    if paused is None:
        lost = _worst(measurement, "loss_ratio")
        if lost and lost[1] > thresholds.loss_ratio:
            text = f"host {lost[0]} discards or reorders {lost[1]:.2%} of its packets"
            margin = _margin(measurement, lost[1], thresholds.loss_ratio)
            return Verdict(Outcome.ANOMALOUS, text, Symptom.LOSS, max(lost[1], worst_deficit), lost[0], margin)
    return _throughput(measurement, receiving, expected, thresholds)


def _throughput(
    measurement: Measurement,
    receiving: list[HostMeasurement],
    expected: Mapping[str, Bound],
    thresholds: Thresholds,
) -> Verdict:
    unknown = [host.host for host in receiving if host.delivered_bps is None or host.delivered_pps is None]
    if unknown:
        return inconclusive(f"delivered throughput of host {', '.join(unknown)} is unknown")
    worst = max(receiving, key=lambda host: _deficit(host, expected[host.host]) or 0.0)
    bound = expected[worst.host]
    deficit = _deficit(worst, bound) or 0.0
    delivered = worst.delivered_bps or 0.0
    figures = f"host {worst.host} receives {format_rate(delivered)}, the {bound.source} gives {format_rate(bound.bps)}"
    if deficit <= thresholds.throughput_deficit:
        return Verdict(Outcome.NORMAL, figures)
    if not measurement.health.driven:
        return inconclusive(f"{figures}, but the generator could not drive it: {measurement.health.reason}")
    if not measurement.stable:
        return inconclusive(f"{figures}, but the window was not stable")
    margin = _margin(measurement, deficit, thresholds.throughput_deficit)
    return Verdict(Outcome.ANOMALOUS, figures, Symptom.LOW_THROUGHPUT, deficit, worst.host, margin)


def _margin(measurement: Measurement, reading: float, threshold: float) -> float:
    """Return how far beyond its threshold a reading is; in an unstable window something else had a hand in it."""
    return reading / threshold if measurement.stable else 1.0


def _deficit(host: HostMeasurement, bound: Bound) -> float | None:
    """Return the missing share of the bound: of bits/s or of packets/s, whichever misses less."""
    if host.delivered_bps is None or host.delivered_pps is None:
        return None
    return min(_missing(host.delivered_bps, bound.bps), _missing(host.delivered_pps, bound.pps))


def _missing(delivered: float, bound: float) -> float:
    if bound == float("inf"):
        return 1.0  # nothing is known to be enough, so a caller has to measure the plain sibling
    return max(0.0, 1.0 - delivered / bound) if bound > 0 else 0.0


def _worst(measurement: Measurement, field: str) -> tuple[str, float] | None:
    known = [(host.host, value) for host in measurement.hosts if (value := getattr(host, field)) is not None]
    return max(known, key=lambda pair: pair[1]) if known else None
