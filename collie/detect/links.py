"""Links that are slower than at their calibration.

A slow network holds up a workload and its plain sibling alike, so the sibling cannot tell. The same plain traffic, at
the same offered load as at the calibration, tells: nothing but the hosts and the network can have made it slower.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from collie.detect.lateness import Lateness, lateness
from collie.detect.measurement import Latency, Measurement
from collie.detect.symptom import Outcome, Symptom, Verdict, inconclusive
from collie.workloads.plan import flows
from collie.workloads.workload import Workload


@dataclass(frozen=True, slots=True)
class LinkLatency:
    """Latency of plain traffic on one link, at an offered load.

    Attributes:
        link: name of the flow, such as `a-b`.
        workload: the plain traffic.
        median_seconds, p99_seconds: the longest over the repeats of the calibration.
    """

    link: str
    workload: Workload
    median_seconds: float
    p99_seconds: float


def link_latencies(workload: Workload, runs: Sequence[Measurement]) -> Iterator[LinkLatency]:
    """Yield the latency of each link that every run of plain traffic timed."""
    for flow in flows(workload):
        found = [latency for run in runs if (latency := run.latency.get(flow.name)) is not None]
        medians = [latency.median_seconds for latency in found if latency.median_seconds is not None]
        mosts = [latency.p99_seconds for latency in found if latency.p99_seconds is not None]
        if runs and len(medians) == len(mosts) == len(runs):
            yield LinkLatency(flow.name, workload, max(medians), max(mosts))


def judge_links(
    calibrated: Sequence[LinkLatency], measurement: Measurement, ratio: float, least_seconds: float
) -> Verdict | None:
    """Judge a run of calibrated plain traffic by its calibration. Return None if no link is late.

    A link is late if half or 99 % of its messages take more than `ratio` times as long as in the slowest run of the
    calibration, and `least_seconds` longer. If the generator could not drive the run, the hosts may be why, and the
    verdict is inconclusive.
    """
    found = [
        (lateness(now, Latency(point.median_seconds, point.p99_seconds), ratio, least_seconds), point.link)
        for point in calibrated
        if (now := measurement.latency.get(point.link)) is not None
    ]
    late, link = max(found, default=(Lateness(), ""))
    if late.margin <= 1.0:
        return None
    text = late.in_words(
        f"link {link} is slow: {{whose}} of the messages of plain traffic complete within {{here}}, "
        "at the calibration within {usual}"
    )
    if not measurement.health.driven:
        return inconclusive(f"{text}, but the generator could not drive it: {measurement.health.reason}")
    if not measurement.stable:
        return inconclusive(f"{text}, but the window was not stable")
    host = link.rpartition("-")[2]
    return Verdict(Outcome.ANOMALOUS, text, Symptom.LATENCY, late.severity, host, late.margin)


def late_as_well(link: Verdict) -> Verdict:
    """Return the verdict on a late workload whose plain sibling is as late, from the verdict on the link of both."""
    return replace(link, reason=f"the plain sibling is as late: {link.reason}")
