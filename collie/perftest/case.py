"""An anomaly and its plain sibling as perftest commands, for a reader who has perftest and no Collie."""

from __future__ import annotations

from dataclasses import dataclass

from collie.detect.bounds import plain_sibling
from collie.detect.symptom import Symptom
from collie.perftest.command import Expression, command_of
from collie.workloads.feature import Mfs
from collie.workloads.space import Space
from collie.workloads.workload import Workload


@dataclass(frozen=True, slots=True)
class PerftestCase:
    """An anomaly in perftest's words.

    Attributes:
        name: of the anomaly, as the user wrote it.
        symptom: that the anomaly shows.
        mfs: its conditions.
        anomaly: its commands, or what perftest lacks for them.
        sibling: the commands of the plain sibling, always there.
    """

    name: str
    symptom: Symptom
    mfs: Mfs
    anomaly: Expression
    sibling: Expression


def in_perftest(name: str, workload: Workload, symptom: Symptom, mfs: Mfs, space: Space) -> PerftestCase:
    """Put an anomaly into perftest's words.

    Args:
        name: of the anomaly.
        workload: that shows it.
        symptom: that it shows.
        mfs: its conditions, which decide what perftest may run otherwise.
        space: gives the plain values of the sibling.
    """
    anomaly = command_of(workload, mfs)
    nearest = command_of(plain_sibling(anomaly.runs, space)).runs  # a queue may be deeper than perftest's deepest
    return PerftestCase(name, symptom, mfs, anomaly, command_of(nearest))
