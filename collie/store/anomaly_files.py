"""`anomalies/ID/`: files for running an anomaly again, written from the record."""

from __future__ import annotations

import json
import shlex
from typing import Any

from collie.files import Folder
from collie.ports import CampaignHeader, Measured, RunRecord
from collie.search.anomaly import Anomaly
from collie.store import codec
from collie.store.directory import ANOMALIES, CampaignDirectory
from collie.store.jsonl import series_lines
from collie.workloads.workload import render


def write_anomaly(
    directory: CampaignDirectory, header: CampaignHeader, anomaly: Anomaly, run: RunRecord | None
) -> None:
    """Write the files of one anomaly. `run` raised the suspicion."""
    with Folder(directory.path) as campaign, campaign.below(ANOMALIES, anomaly.id, create_mode=0o777) as place:
        place.write("workload.json", [_pretty(render(anomaly.workload))])
        place.write("mfs.json", [_pretty(_explanation(anomaly))])
        place.write("reproduce.txt", [_instructions(directory, header, anomaly)])
        if run is not None and isinstance(run.result, Measured):
            place.write("series.jsonl", series_lines(run.result.measurement.series))


def _explanation(anomaly: Anomaly) -> dict[str, Any]:
    encoded = codec.encode_anomaly(anomaly)
    return {"schema_version": 1, "sentence": anomaly.sentence} | {
        name: value for name, value in encoded.items() if name != "workload"
    }


def _instructions(directory: CampaignDirectory, header: CampaignHeader, anomaly: Anomaly) -> str:
    name = directory.path.absolute().name
    again, controls = "Run it again", []
    if anomaly.mfs.conditions:
        again, controls = f"{again}, and with each condition broken in turn", ["--controls"]
    command = shlex.join(["collie", "reproduce", f"{name}/{anomaly.id}", *controls])
    return f"""{anomaly.sentence}

Found in run {anomaly.found_at_run} of campaign {header.campaign} ({header.space}, {header.recipe}, seed {header.seed}).
Minimal feature set: {anomaly.mfs}
{_cause(anomaly)}
{again}, in the directory that holds {name}:

    {command}

It runs on the campaign's own testbed; --hosts FILE or --subsystem NAME chooses another.
"""


def _cause(anomaly: Anomaly) -> str:
    if not anomaly.telling:
        return ""
    moved = "".join(f"    {item.counter}: {item.component}\n" for item in anomaly.telling)
    return f"Likely: {anomaly.hint}. Counters that moved most against plain traffic, and what they point at:\n\n{moved}"


def _pretty(value: Any) -> str:
    return json.dumps(value, allow_nan=False, indent=2) + "\n"
