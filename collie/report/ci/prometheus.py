"""The state of a campaign as a textfile for node_exporter. Unknown values are omitted."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from collie.campaign.progress import CampaignProgress
from collie.detect.measurement import Latency
from collie.ports import CampaignHeader
from collie.report.quantities import name_testbed

SUFFIX = ".prom"
"""Suffix of the textfile. node_exporter reads no other files."""

Labels = Mapping[str, str]
Samples = Sequence[tuple[Labels, float | None]]


def render_metrics(header: CampaignHeader, standing: CampaignProgress, updated: str, *, running: bool) -> str:
    """Return the textfile of a campaign. `updated` is RFC 3339."""
    common = {"campaign": header.campaign, "testbed": name_testbed(header)}
    lines = []
    for name, text, samples in _metrics(standing, updated, running):
        known = [(labels, value) for labels, value in samples if value is not None]
        if known:
            kind = "counter" if name.endswith("_total") else "gauge"
            lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
            lines += [f"{name}{_labels({**common, **labels})} {float(value)!r}" for labels, value in known]
    return "\n".join(lines) + "\n"


def _timestamp(rfc3339: str) -> float | None:
    try:
        return datetime.fromisoformat(rfc3339).timestamp()
    except (ValueError, OverflowError):
        return None


def _metrics(standing: CampaignProgress, updated: str, running: bool) -> Iterator[tuple[str, str, Samples]]:
    def metric(name: str, text: str, value: float | None) -> tuple[str, str, Samples]:
        return name, text, [({}, value)]

    symptoms = Tally(found.symptom for found in standing.anomalies.values())
    by_symptom = [({"symptom": symptom}, count) for symptom, count in sorted(symptoms.items())]
    losses = [({"host": name}, host.lost) for name, host in standing.hosts.items()]
    latencies = [
        ({"flow": flow, "quantile": quantile}, seconds)
        for flow, measured in _by_flow(standing).items()
        for quantile, seconds in (
            ("0.5", measured.median_seconds),
            ("0.99", measured.p99_seconds),
            ("0.999", measured.p999_seconds),
        )
    ]
    kept = standing.victim.kept_ratio if standing.victim else None
    per_set_up = standing.runs / standing.set_ups if standing.set_ups else None
    worst = standing.anomalies[standing.worst].severity if standing.worst else None
    yield metric("collie_runs_total", "Runs on record, of every purpose.", standing.runs)
    yield metric("collie_failed_runs_total", "Runs that could not be set up or cost a host.", standing.failed_runs)
    yield metric("collie_set_ups_total", "Set-ups of the runs.", standing.set_ups)
    yield metric("collie_further_phases_total", "Runs on a set-up that an earlier run made.", standing.further_phases)
    yield metric("collie_phases_per_set_up", "Mean number of runs on a set-up.", per_set_up)
    yield metric("collie_anomalies", "Confirmed anomalies.", len(standing.anomalies))
    yield "collie_anomalies_by_symptom", "Confirmed anomalies by how they show.", by_symptom
    yield metric("collie_worst_severity_ratio", "Severity of the most severe anomaly.", worst)
    yield metric(
        "collie_campaign_elapsed_seconds", "Testbed time that the campaign has used.", standing.elapsed_seconds
    )
    yield metric("collie_campaign_wall_seconds", "Time since this process began.", standing.wall_seconds)
    yield metric("collie_campaign_budget_used_ratio", "Share of the budget that is used up.", standing.budget_ratio)
    yield metric("collie_campaign_left_seconds", "Time until the budget is spent.", standing.left_seconds)
    yield metric("collie_campaign_running", "1 while a process is at the campaign.", int(running))
    yield metric("collie_campaign_updated_timestamp_seconds", "When these figures were taken.", _timestamp(updated))
    yield "collie_last_run_latency_seconds", "Latency by flow and quantile in the last measured run.", latencies
    yield metric(
        "collie_last_run_victim_kept_ratio", "Share of its throughput alone that the victim kept in that run.", kept
    )
    yield "collie_host_losses_total", "How often a host under test went down.", losses


def _by_flow(standing: CampaignProgress) -> Mapping[str, Latency]:
    victim = standing.victim
    return {**standing.latency, **({"victim": victim.latency} if victim and victim.latency else {})}


def _labels(labels: Labels) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
