"""Writes files from the record. Collie never reads them back.

`results.jsonl` has one run per line, for grep and jq. `anomalies/ID/` has the files to reproduce an anomaly.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from collie.campaign.phases import Place, with_places
from collie.files import Folder, write_whole
from collie.plain import CODEC
from collie.ports import CampaignHeader, Measured, RunRecord
from collie.search.anomaly import NOT_BEGUN, Anomaly
from collie.store import codec
from collie.store.directory import ANOMALIES, CampaignDirectory
from collie.workloads.workload import render

LINE_SCHEMA_VERSION = 1


def write_results(path: Path, runs: Iterable[RunRecord]) -> None:
    """Write every run as a line, without its samples."""
    write_whole(path, (codec.dumps(run_line(record, place)) + "\n" for record, place in with_places(runs)))


def run_line(record: RunRecord, place: Place) -> dict[str, Any]:
    """Return one run as an object, with null for unknown values."""
    return {
        "schema_version": LINE_SCHEMA_VERSION,
        "run": record.run,
        "set_up": place.set_up,
        "phase": place.phase,
        "made_for": None if record.made_for is None else render(record.made_for),
        "purpose": record.purpose,
        "finished_at_seconds": record.finished_at_seconds,
        "driven": record.driven,
        "workload": render(record.workload),
        "verdict": codec.encode(record.verdict),
        **codec.encode_result(record.result),
        **_with_loss(record),
    }


def _with_loss(record: RunRecord) -> dict[str, Any]:
    victim = record.result.measurement.victim if isinstance(record.result, Measured) else None
    return {"victim": {**codec.encode(victim), "lost_ratio": victim.lost_ratio}} if victim else {}


def write_anomaly(
    directory: CampaignDirectory, header: CampaignHeader, anomaly: Anomaly, run: RunRecord | None, *, survives: bool
) -> None:
    """Write the files of one anomaly. `run` is the run that raised the suspicion."""
    with Folder(directory.path) as campaign, campaign.below(ANOMALIES, anomaly.id, create_mode=0o777) as place:
        write = partial(place.write, survives=survives)
        write("workload.json", [_pretty(render(anomaly.workload))])
        write("mfs.json", [_pretty(_explanation(anomaly))])
        write("reproduce.txt", [_instructions(directory, header, anomaly)])
        if run is not None and isinstance(run.result, Measured):
            samples = map(CODEC.write, run.result.measurement.series)
            write("series.jsonl", (codec.dumps(sample) + "\n" for sample in samples))


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
{f"Minimal feature set: {anomaly.mfs}" if anomaly.explanation_begun else NOT_BEGUN}
{_cause(anomaly)}
{again}, in the directory that holds {name}:

    {command}

It runs on the campaign's own testbed; --hosts FILE or --subsystem NAME chooses another.
"""


def _cause(anomaly: Anomaly) -> str:
    if not anomaly.telling:
        return ""
    moved = "".join(f"    {item.counter}: {item.component}\n" for item in anomaly.telling)
    against = "Counters that moved most against healthy plain traffic, and what they point at"
    return f"Likely: {anomaly.hint}. {against}:\n\n{moved}"


def _pretty(value: Any) -> str:
    return json.dumps(value, allow_nan=False, indent=2) + "\n"
