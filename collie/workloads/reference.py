"""A published anomaly, with its trigger, observation and fix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from collie.workloads.feature import Mfs
from collie.workloads.workload import Workload


class FixStatus(StrEnum):
    """The published fix. With `BYPASS` the application avoids the anomaly."""

    FIXED = "fixed"
    NOT_FIXED = "not_fixed"
    NOT_STATED = "not_stated"
    BYPASS = "bypass"


@dataclass(frozen=True, slots=True)
class Severity:
    """Published severity, None where not published. Ratios are 0..1, `delivered_bps` is the remaining throughput."""

    text: str
    pause_ratio: float | None = None
    delivered_bps: float | None = None
    throughput_deficit: float | None = None


@dataclass(frozen=True, slots=True)
class ReferenceAnomaly:
    """One published anomaly.

    Attributes:
        id: name of its file, such as `nsdi22-01`.
        title: one line for readers.
        subsystem: the affected subsystem.
        source: the publication.
        trigger: a workload that shows it. Satisfies `conditions`.
        conditions: when the anomaly occurs, as precisely as the source states.
        symptom: `pause` or `low_throughput` (values of `detect.symptom.Symptom`, which this layer cannot import).
        severity: published severity.
        cause: the root cause, as far as known.
        fix: state of the fix.
        fix_text: the fix, or what the source states instead.
        settings: settings of the simulated subsystem other than its defaults.
        note: resolution of a gap or contradiction in the source, or empty.
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
