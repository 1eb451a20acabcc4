#!/usr/bin/env python3
"""Whether what a search on real verbs reports shows again, and its controls do not.

    collie search --hosts lab --recipe soft-roce --budget 20m --campaign FOLDER
    scripts/acceptance/findings_verbs.py FOLDER [--repeat 5]

Reproduces each anomaly of a finished campaign on its own hosts, the explained ones with their controls. An anomaly
holds if four of five runs show it, a control if four of five runs are normal. Prints a table, asserts nothing.
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
    """Reproduce what the campaign found."""
    found = sorted((campaign / "anomalies").glob("*/mfs.json"))
    anomalies = [each for path in found if not (each := json.loads(path.read_text())).get("same_as")]
    explained = sum(each["complete"] for each in anomalies)
    click.echo(f"{len(anomalies)} anomalies without those joined to others, {explained} explained\n")
    click.echo("| anomaly | what | shows | controls that are normal | inconclusive |\n|-|-|-|-|-|")
    shows = controls = held = 0
    for anomaly in anomalies:
        result = _reproduced(campaign / anomaly["id"], repeat, controls=anomaly["complete"])
        normal = {_condition(each["broken"]): each["normal"] for each in result["controls"]}
        silent = result["inconclusive"] + sum(each["inconclusive"] for each in result["controls"])
        shows += result["shown"] >= HOLDS * repeat
        controls += len(normal)
        held += sum(each >= HOLDS * repeat for each in normal.values())
        words = ", ".join(f"{condition}: {each}" for condition, each in normal.items())
        click.echo(
            f"| {anomaly['id']} | {anomaly['sentence']} | {result['shown']} of {repeat} | {words or '-'} | {silent} |"
        )
    click.echo(f"\nshow again: {shows} of {len(anomalies)} anomalies; normal: {held} of {controls} controls")


def _condition(broken: dict[str, Any]) -> str:
    return f"{broken['dimension']} {broken['op']} {broken['value']}"


def _reproduced(anomaly: Path, repeat: int, *, controls: bool) -> dict[str, Any]:
    words = ["reproduce", str(anomaly), "--repeat", str(repeat), "--format", "json", *["--controls"] * controls]
    done = subprocess.run([sys.executable, "-m", "collie", *words], stdout=subprocess.PIPE, check=False)
    if not done.stdout:  # the error was printed
        raise click.ClickException(f"collie {' '.join(words)} ended with exit status {done.returncode}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


if __name__ == "__main__":
    main()
