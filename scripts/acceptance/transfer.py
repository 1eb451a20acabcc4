"""Acceptance of what a search knows of another testbed: G searched with a campaign on F as `--known`.

    python scripts/acceptance/transfer.py [F G] [--seeds 20] [--first 1] [--jobs 2] [--budget 5h] [--known-budget 10h]

For each seed, a campaign on the first subsystem is made, and then one on the second with it as `--known`. A line says
how many mechanisms are found and explained, how many when all known anomalies had been looked for, and how many
anomalies are false. Sums follow.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from collie import wiring
from collie.app import campaigns
from collie.campaign.choice import SearchChoice, TestbedChoice
from collie.campaign.events import RunFinished, Silence
from collie.campaign.summary import Summary
from collie.campaign.transfer import PURPOSE
from collie.content.spaces import load_space
from collie.ports import ProgressSink
from collie.simulator.truth import Truth
from collie.wiring import ADAPTERS

SPACE = load_space("nsdi22")


class Outcome(NamedTuple):
    """What a campaign with known anomalies of another testbed found. Times are seconds of testbed time."""

    seed: int
    planted: int
    found: int
    explained: int
    looked_for: float
    explained_by_then: int
    not_confirmed: int
    false: int


class _Clock:
    """Notes when the last known anomaly was looked for."""

    def __init__(self) -> None:
        self.looked_for = 0.0

    def on_event(self, event: Any) -> None:
        if isinstance(event, RunFinished) and event.record.purpose == PURPOSE:
            self.looked_for = event.record.finished_at_seconds


def run(words: argparse.Namespace, seed: int) -> Outcome:
    """Run both campaigns of a seed."""
    there, here = words.subsystems
    with tempfile.TemporaryDirectory() as folder:
        known, own = Path(folder) / "known", Path(folder) / "own"
        _search(SearchChoice(TestbedChoice(subsystem=there), budget=words.known_budget, seed=seed), known, Silence())
        clock = _Clock()
        choice = SearchChoice(TestbedChoice(subsystem=here), budget=words.budget, seed=seed, known=str(known))
        summary = _search(choice, own, clock)
    truth = Truth(wiring.subsystem_of(TestbedChoice(subsystem=here)), SPACE)
    score = truth.score(summary.anomalies)
    early = [each for each in summary.anomalies if each.complete and each.found_at_seconds <= clock.looked_for]
    by_then = {score.mechanisms[each.id] for each in early} - {None}
    return Outcome(
        seed,
        len(score.planted),
        len(score.found),
        len(score.explained),
        clock.looked_for,
        len(by_then),
        len(summary.not_confirmed),
        score.false,
    )


def _search(choice: SearchChoice, directory: Path, sink: ProgressSink) -> Summary:
    opened = campaigns.begin(ADAPTERS, choice, directory)
    try:
        return opened.run(sink)
    finally:
        opened.close()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the campaigns and print their sums."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("subsystems", nargs="*", default=["F", "G"])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--budget", default="5h")
    parser.add_argument("--known-budget", default="10h")
    words = parser.parse_args(argv)
    if len(words.subsystems) != 2:
        parser.error("name two subsystems: the one that is known, and the one to search")
    outcomes = []
    with ProcessPoolExecutor(words.jobs, mp_context=get_context("spawn")) as pool:
        for each in pool.map(partial(run, words), range(words.first, words.first + words.seeds)):
            outcomes.append(each)
            print(
                f"seed {each.seed}: found {each.found} and explained {each.explained} of {each.planted}, "
                f"{each.explained_by_then} of them after {each.looked_for / 3600:.1f} h with all known looked for; "
                f"{each.not_confirmed} known not confirmed, {each.false} false",
                flush=True,
            )
    whole = sum(each.found == each.planted for each in outcomes)
    false = sum(each.false for each in outcomes)
    print(f"all found by {whole} of {len(outcomes)} campaigns, {false} false anomalies")
    return 0 if whole == len(outcomes) and not false else 1


if __name__ == "__main__":
    sys.exit(main())
