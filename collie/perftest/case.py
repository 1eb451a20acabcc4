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
    """A workload in perftest's terms.

    Attributes:
        symptom, mfs: of an anomaly. A workload by itself has neither.
        anomaly: its commands, or the options that perftest lacks.
        sibling: commands of the plain sibling, always present.
        explanation_begun: whether the conditions of the anomaly were looked for.
    """

    name: str
    symptom: Symptom | None
    mfs: Mfs
    anomaly: Expression
    sibling: Expression
    explanation_begun: bool = True

    @property
    def is_plain(self) -> bool:
        """Whether perftest runs the same for the workload and for its sibling, so that they cannot be compared."""
        return self.anomaly.is_faithful and self.anomaly.pairs == self.sibling.pairs


def in_perftest(name: str, workload: Workload, symptom: Symptom | None, mfs: Mfs, space: Space) -> PerftestCase:
    """Express a workload in perftest's terms. The conditions of `mfs` must hold. Other fields may differ."""
    anomaly = command_of(workload, mfs)
    nearest = command_of(plain_sibling(anomaly.runs, space)).runs  # the sibling may have a queue above perftest's limit
    return PerftestCase(name, symptom, mfs, anomaly, command_of(nearest))
