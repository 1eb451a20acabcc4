"""An anomaly and its plain sibling as perftest commands, for whoever has perftest but not Collie."""

from __future__ import annotations

from dataclasses import dataclass

from collie.campaign.single_run import Case
from collie.detect.bounds import plain_sibling
from collie.workloads.perftest_command import Expression, command_of
from collie.workloads.space import Space


@dataclass(frozen=True, slots=True)
class PerftestCase:
    """An anomaly in perftest's words.

    Attributes:
        case: the anomaly.
        anomaly: its commands, or what perftest lacks for them.
        sibling: the commands of what perftest's anomaly is compared with, always there.
    """

    case: Case
    anomaly: Expression
    sibling: Expression


def in_perftest(case: Case, space: Space) -> PerftestCase:
    """Put an anomaly into perftest's words.

    Args:
        case: the anomaly; its conditions decide what perftest may run otherwise.
        space: gives the plain values of the sibling.
    """
    anomaly = command_of(case.workload, case.mfs)
    nearest = command_of(plain_sibling(anomaly.runs, space)).runs  # a queue may be deeper than perftest's deepest
    return PerftestCase(case, anomaly, command_of(nearest))
