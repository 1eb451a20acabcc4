#!/usr/bin/env python3
"""Whether what a search on real verbs reports shows again, and its controls do not.

    collie search --hosts lab --recipe soft-roce --budget 20m --campaign FOLDER
    scripts/acceptance/findings_verbs.py FOLDER [--repeat 5]

Reproduces each explained anomaly of a finished campaign on its own hosts, with its controls. An anomaly holds if four
of five runs show it, a control if four of five runs are normal. Prints a table, asserts nothing.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import click

HOLDS = 0.8


@click.command()
@click.argument("campaign", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--repeat", default=5, show_default=True, help="Runs of each workload.")
def main(campaign: Path, repeat: int) -> None:
    """Reproduce what the campaign explained."""
    found = sorted((campaign / "anomalies").glob("*/mfs.json"))
    anomalies = [json.loads(path.read_text()) for path in found]
    explained = [each for each in anomalies if each["complete"] and not each.get("same_as")]
    click.echo(f"{len(anomalies)} anomalies, {len(explained)} explained on their own\n")
    click.echo("| anomaly | what | shows | controls that are normal | inconclusive |\n|-|-|-|-|-|")
    shows = controls = held = 0
    for anomaly in explained:
        result = _reproduced(campaign / anomaly["id"], repeat)
        normal = {_condition(each["broken"]): each["normal"] for each in result["controls"]}
        silent = result["inconclusive"] + sum(each["inconclusive"] for each in result["controls"])
        shows += result["shown"] >= HOLDS * repeat
        controls += len(normal)
        held += sum(each >= HOLDS * repeat for each in normal.values())
        words = ", ".join(f"{condition}: {each}" for condition, each in normal.items())
        click.echo(
            f"| {anomaly['id']} | {anomaly['sentence']} | {result['shown']} of {repeat} | {words or '-'} | {silent} |"
        )
    click.echo(f"\nshow again: {shows} of {len(explained)} anomalies; normal: {held} of {controls} controls")


def _condition(broken: dict[str, Any]) -> str:
    return f"{broken['dimension']} {broken['op']} {broken['value']}"


def _reproduced(anomaly: Path, repeat: int) -> dict[str, Any]:
    words = ["reproduce", str(anomaly), "--repeat", str(repeat), "--controls", "--format", "json"]
    done = subprocess.run([sys.executable, "-m", "collie", *words], stdout=subprocess.PIPE, check=False)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


if __name__ == "__main__":
    main()
