#!/usr/bin/env python3
"""Aggressors on real verbs: a campaign of `collie isolate`, and a reproduction of each of its finds.

    scripts/acceptance/neighbours_verbs.py --hosts HOSTS.yaml --campaign DIRECTORY --budget 20m --seed 1

A directory that exists is not searched again. Prints a table. `beyond plain` counts the runs in which the victim lost
more than the threshold of the recipe, against the victim beside plain traffic of the same load. Exit code 1 if this was
so in 4 of 5 runs for fewer than two aggressors.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import click

ENOUGH = 2
SHARE = 0.8
BESIDE_PLAIN = "beside its plain sibling: it loses"
ANSWERED = (0, 1, 4)
"""Exit codes: reproduced, not reproduced, inconclusive."""


@click.command()
@click.option("--hosts", required=True, help="Inventory. `lab` is the lab's.")
@click.option("--campaign", type=click.Path(path_type=Path), required=True, help="Directory of the record.")
@click.option("--space", default="soft-roce-load", show_default=True)
@click.option("--recipe", default="soft-roce-isolate", show_default=True)
@click.option("--budget", default="20m", show_default=True)
@click.option("--seed", default=1, show_default=True)
@click.option("--repeat", default=5, show_default=True)
def main(hosts: str, campaign: Path, space: str, recipe: str, budget: str, seed: int, repeat: int) -> None:
    """Search aggressors and reproduce them."""
    if not campaign.exists():
        words = ["isolate", "--hosts", hosts, "--space", space, "--recipe", recipe, "--budget", budget]
        subprocess.run([*COLLIE, *words, "--seed", str(seed), "--campaign", str(campaign)], check=True)
    state = answer("status", str(campaign))
    click.echo(f"{state['runs']} runs in {state['elapsed_seconds'] / 60:.0f} min, {len(state['anomalies'])} finds")
    click.echo("| find | severity | explained | beyond plain | inconclusive | victim loses | what |\n|-|-|-|-|-|-|-|")
    found = [reproduced(campaign, anomaly, repeat) for anomaly in state["anomalies"] if not anomaly["same_as"]]
    click.echo(f"{sum(found)} aggressors showed in {SHARE:.0%} of {repeat} runs or more")
    sys.exit(0 if sum(found) >= ENOUGH else 1)


COLLIE = (sys.executable, "-m", "collie")


def answer(*words: str) -> dict[str, Any]:
    """Return the JSON answer of a command. An anomaly that is not reproduced is an answer, too."""
    done = subprocess.run([*COLLIE, *words, "--format", "json"], capture_output=True, text=True, check=False)
    if done.returncode not in ANSWERED:
        raise click.ClickException(f"collie {' '.join(words)}: {done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def reproduced(campaign: Path, anomaly: dict[str, Any], repeat: int) -> bool:
    """Reproduce a find, print its row, and return whether it showed often enough."""
    again = answer("reproduce", f"{campaign}/{anomaly['id']}", "--repeat", str(repeat))
    shown = [each for each in again["verdicts"] if BESIDE_PLAIN in each["reason"] and each["outcome"] == "anomalous"]
    lost = sorted(each["severity"] for each in shown)
    words = f"{lost[0]:.0%} to {lost[-1]:.0%}" if lost else "-"
    row = [anomaly["id"], f"{anomaly['severity']:.0%}", "yes" if anomaly["explained"] else "no"]
    row += [f"{len(shown)} of {again['runs']}", str(again["inconclusive"]), words, anomaly["sentence"]]
    click.echo(f"| {' | '.join(row)} |")
    return len(shown) >= SHARE * repeat


if __name__ == "__main__":
    main()
