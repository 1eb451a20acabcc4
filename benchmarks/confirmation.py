"""How far a confirmation can be trusted: by arithmetic, and on campaigns of the simulated testbed.

Usage: python benchmarks/confirmation.py                                         the two tables of the arithmetic
       python benchmarks/confirmation.py --campaigns 24 --subsystem F --noise 1  a row of the measured table

Prints the tables of docs/evidence/verdicts.md.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

from collie.detect.confirm import Confirmation, false_chance, miss_chance
from collie.detect.judge import Thresholds

RUNS = 900
FIRST_SEED = 2000
POLICIES = (Confirmation(needed=1, runs=1), Confirmation(needed=2, runs=3), Confirmation(needed=3, runs=5))
DISTURBED = (0.005, 0.01, 0.02, 0.05)
MISSING = (0.19, 0.20, 0.21, 0.22, 0.23, 0.25, 0.30)
PAUSE = (0.0011, 0.0012)
NOISES = (1.0, 2.0)
THROUGHPUT_SPREAD = 0.01
PAUSE_SPREAD = 0.03


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--campaigns", type=int, default=0)
    options.add_argument("--subsystem", default="F")
    options.add_argument("--noise", type=float, default=1.0)
    chosen = options.parse_args()
    if chosen.campaigns:
        print(measured(chosen.subsystem, chosen.noise, range(FIRST_SEED, FIRST_SEED + chosen.campaigns)))
        return 0
    for disturbed in DISTURBED:
        chances = [false_chance(policy, disturbed, 1000) for policy in POLICIES]
        print(row(f"{100 * disturbed:g} %", *map(percent, chances)))
    for noise in NOISES:
        print(row(f"noise {noise:g}", *(percent(miss_of_throughput(missing, noise)) for missing in MISSING)))
    for noise in NOISES:
        print(row(f"noise {noise:g}", *(percent(miss_of_pause(ratio, noise)) for ratio in PAUSE)))
    return 0


def miss_of_throughput(missing: float, noise: float) -> float:
    """Return the chance to miss a deficit: the run and its plain sibling vary independently."""
    spread = (1.0 - missing) * THROUGHPUT_SPREAD * noise * math.sqrt(2.0)
    return miss_chance(Confirmation(), 1.0 - NormalDist(missing, spread).cdf(Thresholds().throughput_deficit))


def miss_of_pause(ratio: float, noise: float) -> float:
    """Return the chance to miss a share of pause."""
    return miss_chance(
        Confirmation(), 1.0 - NormalDist(ratio, ratio * PAUSE_SPREAD * noise).cdf(Thresholds().pause_ratio)
    )


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
    return f"{100 * share:.2g} %" if share >= 0.001 else "under 0.1 %"


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
