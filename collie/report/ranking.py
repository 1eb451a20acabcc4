"""The order in which every report lists anomalies."""

from __future__ import annotations

from collections.abc import Iterable

from collie.search.anomaly import Anomaly


def awaits_explanation(anomaly: Anomaly) -> bool:
    """Whether nothing is known of an anomaly but its workload. Many such have a cause that is known."""
    return not anomaly.complete and not anomaly.mfs.conditions and not anomaly.history


def worst_first(anomalies: Iterable[Anomaly]) -> list[Anomaly]:
    """Return anomalies by severity, the worst first, and those without an explanation last."""
    return sorted(anomalies, key=lambda anomaly: (awaits_explanation(anomaly), -anomaly.severity))
