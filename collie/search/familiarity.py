"""How likely an explained anomaly is the cause of another one that its set does not cover.

The limits of a set are exact around the workload that it was found with, and elsewhere only nearly so. So what lies
just beyond a limit, with the same counters, most likely has the same cause. What differs in a choice, such as the
transport or where memory lies, most likely has another one.

The weights are a logistic regression on pairs of anomalies with one symptom, from campaigns on the simulated subsystems
F, G and H (seeds 31 to 35). Whether one of the explained anomalies has the same cause, counters alone tell with an area
under the ROC curve of 0.76, and both together with one of 0.84.
"""

from __future__ import annotations

import math

from collie.detect.signature import Signature, likeness
from collie.workloads.feature import Condition, Mfs, Op, feature_value
from collie.workloads.workload import Workload

_BASE = -0.24
_COUNTERS = 1.39
"""Weight of counters that are alike."""
_CHOICE = -1.7
"""Weight of each broken condition on a choice."""
_DOUBLING = -0.18
"""Weight of each doubling between a number and the limit that it breaks."""
_PLACES = frozenset({"gpu_hosts", "far_hosts"})
"""Numbers that count choices: on how many hosts memory lies elsewhere."""


def chance_of_same_cause(workload: Workload, signature: Signature, mfs: Mfs, explained: Signature) -> float:
    """Return the chance that the cause of a set is that of an anomaly outside it. The signatures are those of both."""
    distances = [_doublings(condition, workload) for condition in mfs.conditions if not condition.holds(workload)]
    choices, doublings = distances.count(None), math.fsum(distance for distance in distances if distance is not None)
    log_odds = _BASE + _COUNTERS * likeness(signature, explained) + _CHOICE * choices + _DOUBLING * doublings
    return 1.0 / (1.0 + math.exp(-log_odds))


def _doublings(broken: Condition, workload: Workload) -> float | None:
    """Return how far a number lies beyond a limit. None for a choice, which has no distance."""
    if broken.op not in (Op.AT_LEAST, Op.AT_MOST) or broken.dimension in _PLACES:
        return None
    actual = feature_value(workload, broken.dimension)
    return abs(math.log2((actual + 1) / (broken.value + 1)))  # NUMA nodes begin at 0
