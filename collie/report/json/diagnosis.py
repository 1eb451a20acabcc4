"""Diagnoses as JSON."""

from __future__ import annotations

from collie.app.diagnoses import Diagnosed, DiagnosedApplication
from collie.campaign.diagnose import Change
from collie.report.json.objects import SCHEMA_VERSION, Json, plain, render_measure
from collie.workloads.workload import render


def render_diagnosis(diagnosed: Diagnosed) -> Json:
    """Return the object of `collie diagnose`. Each change is relative to the workload with those in `kept`."""
    found = diagnosed.diagnosis
    return {
        **render_measure(found.run),
        "kept": [_change(each) for each in found.kept],
        "changes": [_change(each) for each in found.changes],
        "advised": _change(found.advised) if found.advised else None,
        "untried": list(found.untried),
        "untried_apart": list(found.untried_apart),
        "discriminating_counters": plain(diagnosed.telling),
        "hint": diagnosed.hint,
        "recorded_hint": diagnosed.recorded_hint,
        "known": [{"id": each.id, "sentence": each.sentence, "remedy": each.cure or None} for each in diagnosed.known],
        "runs": diagnosed.runs,
        "elapsed_seconds": plain(diagnosed.elapsed_seconds),
    }


def render_application(diagnosed: DiagnosedApplication) -> Json:
    """Return the object of `collie diagnose APPLICATION`: its corners, and the diagnoses of those that are slow."""
    return {
        "schema_version": SCHEMA_VERSION,
        "application": diagnosed.application.id,
        "title": diagnosed.application.title,
        "corners": [
            {
                "traffic": corner.traffic,
                "why": corner.why,
                "workload": render(corner.workload),
                "verdict": plain(run.verdict),
            }
            for corner, run in diagnosed.corners
        ],
        "diagnoses": [
            {"traffic": corner.traffic, "why": corner.why, **render_diagnosis(each)}
            for corner, each in diagnosed.diagnoses
        ],
        "runs": diagnosed.runs,
        "elapsed_seconds": plain(diagnosed.elapsed_seconds),
    }


def _change(change: Change) -> Json:
    return {
        "dimension": change.dimension,
        "also": list(change.also),
        "cures": change.cures,
        "severity": plain(change.severity),
        "steps": change.steps,
        "workload": render(change.run.workload),
        "verdict": plain(change.run.verdict),
    }
