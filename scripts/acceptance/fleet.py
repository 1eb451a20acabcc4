"""How well `collie fleet` finds the odd hosts of simulated fleets.

    .venv/bin/python scripts/acceptance/fleet.py                  40 fleets of 200 hosts with faults, 20 without
    .venv/bin/python scripts/acceptance/fleet.py --first-seed 1001 --fleets 3 --healthy 1     others, to work with

The seeds reported are those from 1; whatever in the detector was chosen by looking at results was chosen on seeds above
1000. Each fleet has 1 to 5 faulty hosts; kinds take turns, so that each has its share. Exit code 1 when something falls
short.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import repeat
from random import Random

from collie.app import fleets
from collie.campaign.choice import SearchChoice
from collie.fleet.fault import Fault, FaultKind
from collie.simulator.faults import COMPONENTS
from collie.wiring import ADAPTERS

MAX_FAULTY = 5
HEALTHY = 500
"""What is added to the seeds of fleets without a fault."""
MIN_PRECISION = MIN_RECALL = 0.95
MIN_NAMED = 0.9
MINDER = "Minder (Deng et al., NSDI '25), on production machines: precision 0.904, F1 0.893"


@dataclass
class Score:
    """Hosts counted over fleets.

    Attributes:
        false: accused, and like the others.
        faulty, found, named: by kind of fault: hosts, those accused, and those with the right component.
        accused_healthy: fleets without a fault in which a host was accused.
    """

    false: int = 0
    faulty: Counter[FaultKind] = field(default_factory=Counter)
    found: Counter[FaultKind] = field(default_factory=Counter)
    named: Counter[FaultKind] = field(default_factory=Counter)
    accused_healthy: int = 0

    @property
    def precision(self) -> float:
        """Share of the accused that are faulty."""
        return self.found.total() / max(1, self.found.total() + self.false)

    @property
    def recall(self) -> float:
        """Share of the faulty that are accused."""
        return self.found.total() / max(1, self.faulty.total())

    @property
    def named_ratio(self) -> float:
        """Share of the faulty and accused whose component is right."""
        return self.named.total() / max(1, self.found.total())


def faults_of(seed: int, hosts: int) -> dict[str, FaultKind]:
    """Draw which hosts of a fleet are faulty, and how."""
    rng = Random(f"fleet {seed}")
    chosen = rng.sample(fleets.simulated_names(hosts), rng.randint(1, MAX_FAULTY))
    kinds = list(FaultKind)
    return {host: kinds[(seed + index * 3) % len(kinds)] for index, host in enumerate(chosen)}


def judged(seed: int, hosts: int, faults: dict[str, FaultKind]) -> dict[str, str]:
    """Return the accused hosts of one fleet, and the component of each."""
    unlike = {host: Fault(kind) for host, kind in faults.items()}
    result = fleets.fleet(ADAPTERS, fleets.FleetChoice(SearchChoice(seed=seed), hosts, unlike), lambda _text: None)
    assert result.verdict is not None
    return {standing.host: str(standing.component) for standing in result.verdict.odd}


def add(score: Score, faults: dict[str, FaultKind], accused: dict[str, str]) -> None:
    """Count the hosts of one fleet."""
    score.false += len(accused.keys() - faults.keys())
    for host, kind in faults.items():
        score.faulty[kind] += 1
        score.found[kind] += host in accused
        score.named[kind] += accused.get(host) == COMPONENTS[kind]


def main() -> int:
    """Score fleets with and without faults, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--hosts", type=int, default=200)
    parser.add_argument("--fleets", type=int, default=40)
    parser.add_argument("--healthy", type=int, default=20)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=1)
    options = parser.parse_args()
    score, began = Score(), time.monotonic()
    seeds = range(options.first_seed, options.first_seed + options.fleets)
    sound = range(HEALTHY + options.first_seed, HEALTHY + options.first_seed + options.healthy)
    drawn = [faults_of(seed, options.hosts) for seed in seeds] + [{} for _ in sound]
    with ProcessPoolExecutor(options.processes) as executor:
        answers = executor.map(judged, [*seeds, *sound], repeat(options.hosts), drawn)
        for seed, faults, accused in zip([*seeds, *sound], drawn, answers, strict=True):
            add(score, faults, accused)
            score.accused_healthy += bool(accused) and not faults
            print(f"fleet {seed}: {len(faults)} faulty, accused: {accused}", file=sys.stderr, flush=True)
    print("| fault | hosts | found | right component |\n|---|---|---|---|")
    for kind in FaultKind:
        print(f"| {kind} | {score.faulty[kind]} | {score.found[kind]} | {score.named[kind]} |")
    print(
        f"\n{options.fleets} fleets of {options.hosts} hosts, {score.faulty.total()} of them faulty: "
        f"precision {score.precision:.3f}, recall {score.recall:.3f}, right component {score.named_ratio:.3f} of the "
        f"found, {score.false} hosts accused that are like the others\n"
        f"{options.healthy} fleets without a fault: {score.accused_healthy} with a host accused\n"
        f"{MINDER}\n{time.monotonic() - began:.0f} s"
    )
    good = score.precision >= MIN_PRECISION and score.recall >= MIN_RECALL and score.named_ratio >= MIN_NAMED
    return 0 if good and not score.accused_healthy else 1


if __name__ == "__main__":
    sys.exit(main())
