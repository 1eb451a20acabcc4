"""An anomaly and its plain sibling as perftest commands."""

from __future__ import annotations

from dataclasses import dataclass

from collie.detect.plain import plain_sibling
from collie.detect.symptom import Symptom
from collie.perftest.command import Expression, command_of
from collie.workloads.feature import Mfs
from collie.workloads.space import Space
from collie.workloads.workload import Workload


@dataclass(frozen=True, slots=True)
class PerftestCase:
    """An anomaly in perftest's terms.

    Attributes:
        anomaly: its commands, or the options that perftest lacks.
        sibling: commands of the plain sibling, always present.
    """

    name: str
    symptom: Symptom
    mfs: Mfs
    anomaly: Expression
    sibling: Expression


def in_perftest(name: str, workload: Workload, symptom: Symptom, mfs: Mfs, space: Space) -> PerftestCase:
    """Express an anomaly in perftest's terms. `mfs` decides the permitted differences."""
    anomaly = command_of(workload, mfs)
    nearest = command_of(plain_sibling(anomaly.runs, space)).runs  # the sibling may have a queue above perftest's limit
    return PerftestCase(name, symptom, mfs, anomaly, command_of(nearest))
