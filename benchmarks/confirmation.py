"""How far a confirmation can be trusted: by arithmetic, and on campaigns of the simulated testbed.

Usage: python benchmarks/confirmation.py                                         the tables of the arithmetic
       python benchmarks/confirmation.py --campaigns 24 --subsystem F --noise 1  a row of the measured table

Prints the tables of docs/explanation/trust.md and docs/evidence/verdicts.md.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from statistics import NormalDist

from collie.detect.confirm import Confirmation, Rule, false_chance, miss_chance, odds, rule
from collie.detect.interval import wilson
from collie.detect.noise import Noise
from collie.detect.thresholds import Thresholds

RUNS = 900
FIRST_SEED = 2000
STRAY = {"0.5 %": 0.005, "1 %": 0.01, "1/30": float(Fraction(1, 30)), "5 %": 0.05}
SHOW_RATES = (0.3, 0.6, 0.8, 1.0)
MISSING = (0.19, 0.20, 0.21, 0.22, 0.23, 0.25, 0.30)
PAUSE = (0.0011, 0.0012)
NOISES = (1.0, 2.0)
THROUGHPUT_SPREAD = 0.01
PAUSE_SPREAD = 0.03
CLAIMS = ((9, 9), (8, 9), (7, 12), (6, 12), (0, 9))


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--campaigns", type=int, default=0)
    options.add_argument("--subsystem", default="F")
    options.add_argument("--noise", type=float, default=1.0)
    chosen = options.parse_args()
    if chosen.campaigns:
        print(measured(chosen.subsystem, chosen.noise, range(FIRST_SEED, FIRST_SEED + chosen.campaigns)))
        return 0
    print("\n".join(arithmetic()))
    return 0


def arithmetic() -> Iterator[str]:
    """Yield the rows of the tables that need no campaign."""
    for name, stray in STRAY.items():
        until = rule(Confirmation(), stray)
        chances = [percent(odds(until, shows).confirmed) for shows in SHOW_RATES]
        yield row(name, *steps(until), percent(false_chance(stray, {until: 1000})), *chances)
    for noise in NOISES:
        yield row(f"noise {noise:g}", *(percent(miss_of_throughput(missing, noise)) for missing in MISSING))
    for noise in NOISES:
        yield row(f"noise {noise:g}", *(percent(miss_of_pause(ratio, noise)) for ratio in PAUSE))
    for shows, runs in CLAIMS:
        shown = wilson(shows, runs)
        assert shown is not None
        yield row(f"{shows} of {runs}", f"{100 * shown.low:.0f} to {100 * shown.high:.0f} %")


def steps(until: Rule) -> tuple[str, str]:
    """Return the courses that confirm, as reproducing runs of all runs, and the normal runs that end it without any."""
    possible = [
        (needed, needed + normal) for normal, needed in enumerate(until.needed) if needed + normal <= until.runs
    ]
    latest = {needed: f"{needed} of {runs}" for needed, runs in possible}
    return ", ".join(latest.values()), str(until.hopeless[0])


def miss_of_throughput(missing: float, noise: float) -> float:
    """Return the chance to miss a deficit: the run and its plain sibling vary independently."""
    spread = (1.0 - missing) * THROUGHPUT_SPREAD * noise * math.sqrt(2.0)
    return miss(1.0 - NormalDist(missing, spread).cdf(Thresholds().throughput_deficit))


def miss_of_pause(ratio: float, noise: float) -> float:
    """Return the chance to miss a share of pause."""
    return miss(1.0 - NormalDist(ratio, ratio * PAUSE_SPREAD * noise).cdf(Thresholds().pause_ratio))


def miss(shows: float) -> float:
    """Return the chance that one visit misses an anomaly with this show rate, at the declared stray rate."""
    return miss_chance(rule(Confirmation(), Noise().stray_rate), shows)


@dataclass
class Tally:
    """Sums over campaigns."""

    dropped: int = 0
    confirmed: int = 0
    false: int = 0
    confirmations: int = 0


def measured(subsystem: str, noise: float, seeds: range) -> str:
    """Return a row of the measured table: random searches of 900 runs each."""
    tally = Tally()
    for seed in seeds:
        _add(tally, subsystem, noise, seed)
    suspicions = tally.dropped + tally.confirmed
    each = f"{tally.confirmations / suspicions:.2f}" if tally.confirmed else "-"
    counts = (len(seeds), suspicions, tally.dropped, tally.confirmed, tally.false)
    return row(subsystem, f"{noise:g}", *(f"{count:,}" for count in counts), each)


def _add(tally: Tally, subsystem: str, noise: float, seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        campaign = Path(folder) / "campaign"
        argv = [sys.executable, "-m", "collie", "search", "--subsystem", subsystem, "--noise", str(noise)]
        argv += ["--recipe", "random", "--budget", f"{RUNS}runs", "--seed", str(seed), "--score"]
        argv += ["--campaign", str(campaign), "--format", "json"]
        found = json.loads(subprocess.run(argv, check=True, capture_output=True, text=True).stdout)
        records = [json.loads(line) for line in (campaign / "results.jsonl").read_text(encoding="utf-8").splitlines()]
    tally.dropped += found["trust"]["dropped_suspicions"]
    tally.confirmed += len(found["anomalies"])
    tally.false += found["score"]["false"]
    tally.confirmations += sum(record["purpose"] == "confirm" for record in records)


def percent(share: float) -> str:
    if share < 0.001:
        return "under 0.1 %"
    return f"{100 * share:.2g} %" if share < 0.995 else f"{100 * share:.3g} %"


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
