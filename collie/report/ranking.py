"""The order in which every report lists anomalies."""

from __future__ import annotations

from collections.abc import Iterable

from collie.search.anomaly import Anomaly


def awaits_explanation(anomaly: Anomaly) -> bool:
    """Whether nothing is known of an anomaly but its workload. Many such have a cause that is known."""
    return not anomaly.complete and not anomaly.mfs.conditions and not anomaly.history


def worst_first(anomalies: Iterable[Anomaly]) -> list[Anomaly]:
    """Return the worst anomaly first. Those not explained to the end follow. Those without any explanation are last.

    An anomaly that shows after other traffic only has no conditions to look for.
    """

    def place(anomaly: Anomaly) -> tuple[bool, bool, float]:
        return awaits_explanation(anomaly), not anomaly.complete and not anomaly.history, -anomaly.severity

    return sorted(anomalies, key=place)
