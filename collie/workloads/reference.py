"""A reference anomaly: one that somebody published, with what triggers it, what was seen, and whether it was cured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from collie.workloads.feature import Mfs
from collie.workloads.workload import Workload


class FixStatus(StrEnum):
    """What became of an anomaly, as published."""

    FIXED = "fixed"
    NOT_FIXED = "not_fixed"
    NOT_STATED = "not_stated"
    BYPASS = "bypass"
    """Not cured; the application was changed so that it does not meet it."""


@dataclass(frozen=True, slots=True)
class Severity:
    """How bad it was; None for what was not published.

    Attributes:
        text: as an engineer would say it.
        pause_ratio: largest share of time spent in pause, 0..1.
        delivered_bps: throughput that was left, bits/s.
        throughput_deficit: share of the throughput that was missing at least, 0..1.
    """

    text: str
    pause_ratio: float | None = None
    delivered_bps: float | None = None
    throughput_deficit: float | None = None


@dataclass(frozen=True, slots=True)
class ReferenceAnomaly:
    """One published anomaly.

    Attributes:
        id: name of its file, such as `nsdi22-01`.
        title: one line for people.
        subsystem: name of the subsystem that shows it.
        source: where it was published.
        trigger: a workload that shows it; satisfies `conditions`.
        conditions: when it shows, as coarsely as the source says.
        symptom: `pause` or `low_throughput` (values of `detect.symptom.Symptom`, which this layer may not import).
        severity: how bad it was.
        cause: the root cause, as far as it is known.
        fix: what became of it.
        fix_text: the cure, or what was said instead.
        settings: of the simulated subsystem, where they are not the usual ones.
        note: how a gap or a contradiction of the source was resolved; empty when there was none.
    """

    id: str
    title: str
    subsystem: str
    source: str
    trigger: Workload
    conditions: Mfs
    symptom: str
    severity: Severity
    cause: str
    fix: FixStatus
    fix_text: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
