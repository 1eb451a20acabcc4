"""Runs of plain siblings: throughput, fitness as a reference, and plain traffic that is itself anomalous."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from collie.campaign.lanes import Lane
from collie.detect.bounds import Bound
from collie.detect.measurement import Measurement, Victim
from collie.detect.symptom import Verdict
from collie.detect.victims import carries_its_load
from collie.ports import HostLost, Measured, RunRecord, RunResult, SetupFailed, Unsupported
from collie.workloads.plan import sinks
from collie.workloads.units import format_count
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
    beside a plain sibling that posts less than it should, or whose queue pairs fail, a victim keeps too much.
    """
    match result:
        case Measured(measurement) if beside_victim and (errors := measurement.health.completion_errors):
            return f"had {format_count(sum(errors.values()), 'failed request')}: {', '.join(errors)}"
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


def delivered(workload: Workload, measurement: Measurement) -> Mapping[str, Bound]:
    """Return the throughput of a plain sibling at each receiving host with known readings.

    It comes with the longest latency of the run, and with the victim beside it.
    """
    found, victim = {}, measurement.victim or Victim()
    victim_latency = victim.latency if carries_its_load(victim) else None
    for name in sinks(workload):
        host = measurement.host(name)
        if host.delivered_bps is not None and host.delivered_pps is not None:
            found[name] = Bound(
                host.delivered_bps,
                host.delivered_pps,
                "plain sibling",
                latency=measurement.longest_latency,
                victim_bps=victim.beside_bps,
                victim_latency=victim_latency,
            )
    return found


def best_rate(workload: Workload, measurement: Measurement) -> float | None:
    """Return the bits/s of the busiest receiving port, or None without a reading above zero."""
    return max((bound.bps for bound in delivered(workload, measurement).values()), default=None) or None
