"""How faint a fault may be, and how noisy a fleet, before `collie fleet` misses it.

    python benchmarks/fleet_sensitivity.py                     what docs/evidence/fleet.md shows
    python benchmarks/fleet_sensitivity.py --first-seed 1001 --fleets 2

Simulated fleets of 40 hosts of subsystem F, two of which have the fault. Nothing in the detector was chosen by these
figures.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from random import Random

from collie.app import fleets
from collie.campaign.choice import SearchChoice, TestbedChoice
from collie.fleet.fault import Fault, FaultKind
from collie.simulator.faults import COMPONENTS
from collie.wiring import ADAPTERS

HOSTS, FAULTY = 40, 2
SIZES = {
    FaultKind.BIT_ERRORS: (1e-9, 1e-10, 1e-11, 1e-12, 1e-13, 1e-14),
    FaultKind.BUSY_MEMORY: (0.2, 0.4, 0.6, 0.8, 0.9, 0.95),
}
NOISES = (1.0, 2.0, 4.0, 8.0)


@dataclass(frozen=True)
class Case:
    """Faults of one kind and size in fleets of one noise."""

    fault: Fault
    noise: float = 1.0


@dataclass(frozen=True)
class Found:
    """What became of one fleet: hosts found, those with the right component, sound hosts accused."""

    found: int
    named: int
    false: int


def cases() -> Iterator[Case]:
    """Yield everything that is measured: sizes at the usual noise, then kinds at more and more of it."""
    for kind, sizes in SIZES.items():
        for size in sizes:
            yield Case(Fault(kind, size))
    for kind in FaultKind:
        for noise in NOISES:
            yield Case(Fault(kind), noise)


def judged(case: Case, seed: int) -> Found:
    """Judge one fleet."""
    hosts = Random(f"sensitivity {seed}").sample(fleets.simulated_names(HOSTS), FAULTY)
    search = SearchChoice(TestbedChoice(noise=case.noise), seed=seed)
    choice = fleets.FleetChoice(search, HOSTS, dict.fromkeys(hosts, case.fault))
    verdict = fleets.fleet(ADAPTERS, choice, lambda _text: None).verdict
    assert verdict is not None
    accused = {standing.host: standing.component for standing in verdict.odd}
    right = COMPONENTS[case.fault.kind]
    found = [host for host in hosts if host in accused]
    return Found(len(found), sum(accused[host] == right for host in found), len(accused) - len(found))


def row(case: Case, results: Sequence[Found]) -> str:
    """Return one line of the table."""
    size = f"{case.fault.size:g}" if case.fault.size is not None else "usual"
    hosts = FAULTY * len(results)
    found, named, false = (sum(getattr(each, name) for each in results) for name in ("found", "named", "false"))
    return f"| `{case.fault.kind}` | {size} | {case.noise:g} | {found} of {hosts} | {named} | {false} |"


def main() -> None:
    """Print the table, row by row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fleets", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.fleets)
    print("| fault | size | noise | found | right component | accused and sound |\n" + "|" + " --- |" * 6, flush=True)
    with ProcessPoolExecutor(options.processes) as pool:
        for case in cases():
            print(row(case, list(pool.map(judged, repeat(case), seeds))), flush=True)


if __name__ == "__main__":
    main()
