"""The textfile for Prometheus."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from prometheus_client.parser import text_string_to_metric_families

from collie.campaign.progress import CampaignProgress
from collie.report.ci.prometheus import render_metrics
from tests.support.campaigns import HEADER
from tests.support.standings import STANDING, UPDATED


def test_prometheus_reads_the_textfile() -> None:
    header = replace(HEADER, campaign='quote " back \\ slash\nline')
    text = render_metrics(header, STANDING, UPDATED, running=True)
    families = {family.name: family for family in text_string_to_metric_families(text)}
    values = {
        (sample.name, *(sample.labels.get(name) for name in ("symptom", "host") if name in sample.labels)): sample.value
        for family in families.values()
        for sample in family.samples
    }
    assert values["collie_runs_total",] == 812
    assert values["collie_set_ups_total",] == 203
    assert values["collie_further_phases_total",] == 609
    assert values["collie_phases_per_set_up",] == 4
    assert values["collie_anomalies",] == 2
    assert values["collie_campaign_elapsed_seconds",] == 32400.5
    assert values["collie_worst_severity_ratio",] == 0.79
    assert values["collie_campaign_running",] == 1
    assert values["collie_campaign_updated_timestamp_seconds",] == datetime.fromisoformat(UPDATED).timestamp()
    assert values["collie_anomalies_by_symptom", "pause"] == 1
    assert values["collie_host_losses_total", "server-2"] == 2
    latencies = {
        (sample.labels["flow"], sample.labels["quantile"]): sample.value
        for sample in families["collie_last_run_latency_seconds"].samples
    }
    assert latencies == {
        ("a-b", "0.5"): 3e-6,
        ("a-b", "0.99"): 9e-6,
        ("b-a", "0.5"): 4e-6,
        ("b-a", "0.99"): 8e-6,
        ("b-a", "0.999"): 2e-5,
        ("victim", "0.99"): 7e-5,
    }
    assert values["collie_last_run_victim_kept_ratio",] == 0.25
    assert {sample.labels["campaign"] for family in families.values() for sample in family.samples} == {header.campaign}
    assert all(family.documentation and family.type in {"counter", "gauge"} for family in families.values())


def test_what_is_unknown_is_no_sample() -> None:
    names = {
        family.name
        for family in text_string_to_metric_families(render_metrics(HEADER, CampaignProgress(), UPDATED, running=False))
    }
    assert "collie_campaign_left_seconds" not in names
    assert "collie_worst_severity_ratio" not in names
    assert "collie_phases_per_set_up" not in names
    assert "collie_runs" in names
