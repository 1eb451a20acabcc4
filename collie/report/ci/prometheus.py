"""The state of a campaign in the text format of Prometheus, for node_exporter's textfile collector.

Base units, `_total` for counters, one series per campaign, no label per workload. Unknown values are omitted.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from collie.campaign.progress import CampaignProgress
from collie.ports import CampaignHeader
from collie.report.quantities import name_testbed

SUFFIX = ".prom"
"""node_exporter reads no other files."""

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Metric:
    """A metric with its samples.

    Attributes:
        samples: value by additional labels. None is omitted.
    """

    name: str
    kind: str
    help: str
    samples: tuple[tuple[Labels, float | None], ...]


def render_metrics(header: CampaignHeader, standing: CampaignProgress, updated: str, *, running: bool) -> str:
    """Return the textfile of a campaign. `updated` is RFC 3339."""
    common = {"campaign": header.campaign, "testbed": name_testbed(header.testbed)}
    lines = []
    for metric in _metrics(standing, updated, running):
        known = [(labels, value) for labels, value in metric.samples if value is not None]
        if known:
            lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}"]
            lines += [f"{metric.name}{_labels({**common, **labels})} {float(value)!r}" for labels, value in known]
    return "\n".join(lines) + "\n"


def _timestamp(rfc3339: str) -> float | None:
    try:
        return datetime.fromisoformat(rfc3339).timestamp()
    except (ValueError, OverflowError):
        return None


def _metrics(standing: CampaignProgress, updated: str, running: bool) -> Iterator[_Metric]:
    def counter(name: str, text: str, value: float | None) -> _Metric:
        return _Metric(name, "counter", text, (({}, value),))

    def gauge(name: str, text: str, value: float | None) -> _Metric:
        return _Metric(name, "gauge", text, (({}, value),))

    symptoms = Tally(found.symptom for found in standing.anomalies.values())
    worst = standing.anomalies[standing.worst].severity if standing.worst else None
    yield counter("collie_runs_total", "Runs on record, of every purpose.", standing.runs)
    yield counter("collie_failed_runs_total", "Runs that could not be set up or cost a host.", standing.failed_runs)
    yield gauge("collie_anomalies", "Confirmed anomalies.", len(standing.anomalies))
    yield _Metric(
        "collie_anomalies_by_symptom",
        "gauge",
        "Confirmed anomalies by how they show.",
        tuple(({"symptom": symptom}, count) for symptom, count in sorted(symptoms.items())),
    )
    yield gauge("collie_worst_severity_ratio", "Severity of the most severe anomaly.", worst)
    yield gauge("collie_campaign_elapsed_seconds", "Testbed time that the campaign has used.", standing.elapsed_seconds)
    yield gauge("collie_campaign_wall_seconds", "Time since this process began.", standing.wall_seconds)
    yield gauge("collie_campaign_budget_used_ratio", "Share of the budget that is used up.", standing.budget_ratio)
    yield gauge("collie_campaign_left_seconds", "Time until the budget is spent.", standing.left_seconds)
    yield gauge("collie_campaign_running", "1 while a process is at the campaign.", int(running))
    yield gauge(
        "collie_campaign_updated_timestamp_seconds",
        "When these figures were taken.",
        _timestamp(updated),
    )
    yield _Metric(
        "collie_host_losses_total",
        "counter",
        "How often a host under test went down.",
        tuple(({"host": name}, host.lost) for name, host in standing.hosts.items()),
    )


def _labels(labels: Labels) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
