"""An anomaly and its plain sibling as perftest commands, for a reader without Collie."""

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
    """An anomaly in perftest's terms.

    Attributes:
        name: of the anomaly, as on the command line.
        anomaly: its commands, or the options that perftest lacks for them.
        sibling: the commands of the plain sibling, always present.
    """

    name: str
    symptom: Symptom
    mfs: Mfs
    anomaly: Expression
    sibling: Expression


def in_perftest(name: str, workload: Workload, symptom: Symptom, mfs: Mfs, space: Space) -> PerftestCase:
    """Express an anomaly in perftest's terms.

    Args:
        name: of the anomaly.
        workload: the workload that shows it.
        symptom: its symptom.
        mfs: its conditions, which decide the permitted differences.
        space: gives the plain values of the sibling.
    """
    anomaly = command_of(workload, mfs)
    nearest = command_of(plain_sibling(anomaly.runs, space)).runs  # a queue can be deeper than perftest's limit
    return PerftestCase(name, symptom, mfs, anomaly, command_of(nearest))
