"""Runs of plain siblings: throughput, fitness as a reference, and plain traffic that is itself anomalous."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from collie.campaign.lanes import Lane
from collie.detect.bounds import Bound
from collie.detect.measurement import Measurement
from collie.detect.symptom import Verdict
from collie.detect.thresholds import Loss
from collie.ports import HostLost, Measured, RunRecord, RunResult, SetupFailed, Unsupported
from collie.workloads.plan import sinks
from collie.workloads.workload import Workload


class SickPlain(NamedTuple):
    """Plain traffic that is itself anomalous, with the run that shows it."""

    record: RunRecord
    measurement: Measurement
    verdict: Verdict
    lane: Lane


def unfit(result: RunResult, unbounded: Verdict | None, *, beside_victim: bool = False) -> str:
    """Return why a run is no reference, as a clause without a subject, or an empty string.

    `unbounded` is the verdict on the run without a bound. A victim is compared by its mean, which needs no level. But
    beside a plain sibling that posts less than it should, a victim keeps too much.
    """
    match result:
        case Measured(measurement) if beside_victim and not measurement.health.driven:
            return f"could not be driven: {measurement.health.reason}"
        case Measured(measurement) if unbounded is not None:
            if unbounded.is_normal:
                return "" if measurement.stable or beside_victim else "did not hold one level"
            word = "is itself anomalous" if unbounded.is_anomalous else "was inconclusive"
            return f"{word}: {unbounded.reason}"
        case SetupFailed(cause, detail):
            return f"could not be set up: {cause}: {detail}"
        case Unsupported(reason):
            return f"cannot run here: {reason}"
        case HostLost(host, detail):
            return f"cost host {host}: {detail}"
    return "was not measured"


def is_too_slow(measurement: Measurement) -> bool:
    """Whether the generator posts less than it should although no other process takes its CPU."""
    return not measurement.health.driven and measurement.health.starved is False


def delivered(workload: Workload, measurement: Measurement, loss_of: Loss = Loss.OF_WORKLOAD) -> Mapping[str, Bound]:
    """Return the throughput of a plain sibling at each receiving host with known readings.

    It comes with the victim beside it, and with the latency that is judged: the victim's, or the longest of the run.
    """
    found, latency, victim = {}, measurement.longest_latency, measurement.victim
    if loss_of is Loss.OF_VICTIM:
        latency = victim.latency if victim else None
    victim_bps = None if victim is None else victim.beside_bps
    for name in sinks(workload):
        host = measurement.host(name)
        if host.delivered_bps is not None and host.delivered_pps is not None:
            found[name] = Bound(
                host.delivered_bps, host.delivered_pps, "plain sibling", latency=latency, victim_bps=victim_bps
            )
    return found


def best_rate(workload: Workload, measurement: Measurement) -> float | None:
    """Return the bits/s of the busiest receiving port, or None without a reading above zero."""
    return max((bound.bps for bound in delivered(workload, measurement).values()), default=None) or None
