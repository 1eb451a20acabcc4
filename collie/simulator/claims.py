"""The results of the check of a subsystem file's claims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from collie.detect.symptom import Symptom
from collie.simulator.mechanism import Mechanism
from collie.workloads.workload import Opcode, QpType


@dataclass(frozen=True, slots=True)
class WitnessCheck:
    """The check of a witness.

    Attributes:
        credited: the mechanism that ground truth credits.
        problem: what is wrong with the claim.
        outside: why the space does not hold the witness. It is then not measured.
    """

    mechanism: Mechanism
    symptom: Symptom | None = None
    severity: float = 0.0
    credited: Mechanism | None = None
    problem: str | None = None
    outside: str | None = None


@dataclass(frozen=True, slots=True)
class CureCheck:
    """The check of a setting's claim to cure a mechanism.

    Attributes:
        options: the options under which the mechanism's witness is normal.
        planted: whether the mechanism has a witness.
        problem: what is wrong with the claim.
        outside: why the space does not hold the witness. The claim is then not tried.
        vacuous: why there is nothing to cure: the witness is not anomalous with the options in force.
    """

    setting: str
    mechanism: Mechanism
    options: tuple[str, ...]
    planted: bool
    problem: str | None = None
    outside: str | None = None
    vacuous: str | None = None


@dataclass(frozen=True, slots=True)
class PlainCheck:
    """The check of the space's plain traffic with one transport and opcode.

    Attributes:
        delivered_bps: payload bits/s that arrive.
        allowed_bps: payload bits/s that line and PCIe can carry.
        limited_by: the busiest resource.
        note: what is wrong with this traffic. It can be intended.
        problem: the note of the best plain traffic, if even that is far below what line and PCIe can carry.
    """

    qp_type: QpType
    opcode: Opcode
    delivered_bps: float
    allowed_bps: float
    pause_ratio: float
    loss_ratio: float
    limited_by: str
    note: str | None
    problem: str | None = None

    @property
    def shortfall(self) -> float:
        """The missing share of what line and PCIe can carry."""
        return 1.0 - self.delivered_bps / self.allowed_bps


@dataclass(frozen=True, slots=True)
class ShownMechanism:
    """A mechanism that random workloads show.

    Attributes:
        shows: share of the workloads that it makes anomalous, alone or with others.
        credited: share of the workloads in which it causes more of the severity than any other mechanism.
        median_severity: median severity of the workloads that are credited to it, 0 if there are none.
        planted: whether it has a witness.
        example: a workload that is credited to it, in the form of a witness's `workload`. None if there is none.
    """

    mechanism: Mechanism
    shows: float
    credited: float
    median_severity: float
    planted: bool
    example: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Survey:
    """What random workloads show.

    Attributes:
        points: number of workloads.
        anomalous: share of workloads that are anomalous.
        uncredited: share of workloads that are anomalous for a reason that is no mechanism, such as slow plain traffic.
        mechanisms: the most often credited first.
    """

    points: int
    anomalous: float
    uncredited: float
    mechanisms: tuple[ShownMechanism, ...]


@dataclass(frozen=True, slots=True)
class Audit:
    """The checks of all claims of a subsystem file. Its witnesses together claim to cover every mechanism that shows.

    Attributes:
        unplanned: the mechanisms of `survey` that are credited and have no witness.
    """

    witnesses: tuple[WitnessCheck, ...]
    cures: tuple[CureCheck, ...]
    plain: tuple[PlainCheck, ...]
    unplanned: tuple[ShownMechanism, ...]
    survey: Survey

    @property
    def problems(self) -> int:
        """Number of wrong claims."""
        checks: tuple[WitnessCheck | CureCheck | PlainCheck, ...] = (*self.witnesses, *self.cures, *self.plain)
        return sum(check.problem is not None for check in checks) + len(self.unplanned)

    @property
    def outside(self) -> int:
        """Number of claims that the space cannot check."""
        checks: tuple[WitnessCheck | CureCheck, ...] = (*self.witnesses, *self.cures)
        return sum(check.outside is not None for check in checks)
