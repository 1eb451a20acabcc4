"""Comparison of the pairs of a campaign before a search, by the same plain workloads on each.

A slow pair would give too low bounds, so it is set aside and named. Of two equal halves, the slower half is set aside.

A reading is the logarithm of a pair's rate over the median of all pairs. A pair's deviation is the median of its
readings. For two pairs, or if all deviate, the deviation of the middle pair (the faster of two) is subtracted. The
standard deviation of noise is 1.0483 times the median difference of two readings of a pair.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from statistics import median, median_high

from collie.campaign.calibrate import plan
from collie.campaign.lanes import Lane
from collie.campaign.measure import QUALIFY, Measurer
from collie.campaign.siblings import best_rate
from collie.detect.bounds import NOTHING_EXPECTED
from collie.detect.judge import judge
from collie.detect.thresholds import Thresholds
from collie.ports import Measured
from collie.workloads.space import Space
from collie.workloads.workload import Workload

_SIZES = (1024, 65536)
_WORKLOADS = 5
"""Limit on workloads. An operator should see a deviation within ten runs."""
_ALIKE = 0.05
"""Tolerated relative difference between pairs: a quarter of the throughput deficit of an anomaly."""
_STANDARD_DEVIATIONS = 4.0
"""A pair is odd if its deviation exceeds this multiple of the chance deviation. A healthy pair is set aside in 1 of 400
campaigns where rates vary by 3 %, in 1 of 40 to 140 at 8 %, in none of 24,000 at 1 % (normal noise, 2 to 8 pairs)."""

Rates = Mapping[Workload, float]


def odd_pairs(measurer: Measurer, space: Space, thresholds: Thresholds) -> dict[Lane, str]:
    """Run plain workloads on every pair and return the odd ones, with the reason."""
    workloads = _evenly(tuple(plan(space, _SIZES)), _WORKLOADS)
    tasks = {lane: _plain_rates(measurer, lane, workloads, thresholds) for lane in measurer.lanes}
    results = measurer.scheduler.drive(tasks)
    failed = {lane: result for lane, result in results.items() if isinstance(result, str)}
    rates = {lane: result for lane, result in results.items() if not isinstance(result, str)}
    if not rates:
        return {}  # a failure of all pairs is no pair's fault
    return failed | unlike(rates)


async def _plain_rates(
    measurer: Measurer, lane: Lane, workloads: Sequence[Workload], thresholds: Thresholds
) -> Rates | str:
    rates, anomalous = {}, []
    for workload in workloads:
        result = (await measurer.running(lane, workload, QUALIFY)).result
        if not isinstance(result, Measured):
            continue
        if (best := best_rate(workload, result.measurement)) is not None:
            rates[workload] = best
        verdict = judge(workload, result.measurement, NOTHING_EXPECTED, thresholds)
        if verdict.is_anomalous:
            anomalous.append(verdict.reason)
    if len(anomalous) * 2 > len(workloads):
        return f"plain traffic is sick there: {anomalous[0]}"
    return rates or "none of the plain workloads could be measured there"


def unlike(rates: Mapping[Lane, Rates]) -> dict[Lane, str]:
    """Return the pairs with deviating rates, with the reason."""
    common = set.intersection(*(set(own) for own in rates.values()))
    if len(rates) < 2 or not common:
        return {}
    levels = {workload: median(own[workload] for own in rates.values()) for workload in common}
    readings = {lane: [math.log(own[each] / levels[each]) for each in common] for lane, own in rates.items()}
    deviations = {lane: median(own) for lane, own in readings.items()}
    differences = [abs(a - b) for own in readings.values() for a, b in itertools.combinations(own, 2)]
    noise = 1.0483 * median(differences or [0.0])
    chance_deviation = noise * math.sqrt(math.pi / 2 / len(common))
    if len(rates) == 2:  # the median lies halfway between two pairs, so each reading shows half of their difference
        chance_deviation *= 2
    limit = max(_ALIKE, _STANDARD_DEVIATIONS * chance_deviation)
    if len(rates) == 2 or min(map(abs, deviations.values())) > limit:  # no pair lies between equal halves
        middle = median_high(deviations.values())
        deviations = {lane: own - middle for lane, own in deviations.items()}
    return {
        lane: f"its plain traffic runs at {math.exp(off):.0%} of the other pairs' ({len(common)} workloads, "
        f"{limit:.0%} would pass)"
        for lane, off in deviations.items()
        if abs(off) > limit
    }


def _evenly(workloads: Sequence[Workload], count: int) -> list[Workload]:
    if len(workloads) <= count:
        return list(workloads)
    return [workloads[index * (len(workloads) - 1) // (count - 1)] for index in range(count)]
