"""Time the simulated testbed on one core, in CPU seconds.

    python benchmarks/simulator.py [SUBSYSTEM]

Prints, for random workloads of a space that the subsystem can run, how many per second are measured (the whole of
`measure`, noise included), evaluated one by one, and evaluated at once: medians with their range over the rounds. Then
how much faster many at once are. Rounds are interleaved, so that whatever else the machine does hits all alike. Asserts
nothing.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from itertools import count, islice
from random import Random

from collie.content.catalogs import load_catalog
from collie.content.spaces import load_space
from collie.content.subsystems import load_subsystem
from collie.ports import Unsupported
from collie.simulator.model import evaluate, evaluate_many
from collie.simulator.subsystem import SubsystemFile
from collie.simulator.testbed import SimulatedTestbed


def rate(work: Callable[[], object], points: int) -> float:
    """Do some work on so many points and return points per CPU second."""
    start = time.process_time()
    work()
    return points / (time.process_time() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("subsystem", nargs="?", default="F")
    parser.add_argument("--space", default="nsdi22")
    parser.add_argument("--points", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seed", type=int, default=3)
    options = parser.parse_args()

    subsystem = load_subsystem(options.subsystem, SubsystemFile)
    hardware = subsystem.hardware
    testbed = SimulatedTestbed(subsystem, load_catalog("simulated"), seed=options.seed)
    random, space, runs = Random(options.seed), load_space(options.space), count()  # every run is a new one
    samples = (space.sample(random) for _ in count())
    supported = (workload for workload in samples if not isinstance(testbed.measure(workload, 0), Unsupported))
    workloads = list(islice(supported, options.points))

    def measure_all() -> None:
        for workload in workloads:
            testbed.measure(workload, next(runs))

    def evaluate_all() -> None:
        for workload in workloads:
            evaluate(hardware, workload)

    ways: dict[str, Callable[[], object]] = {
        "measure": measure_all,
        "evaluate": evaluate_all,
        "evaluate_many": lambda: evaluate_many(hardware, workloads),
    }
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(options.rounds):
        for name, work in ways.items():
            rates[name].append(rate(work, len(workloads)))

    print(f"subsystem {hardware.name}, {len(workloads)} workloads of {options.space}")
    print(f"{'':14} {'points/s':>9}  range of {options.rounds} rounds")
    for name, values in rates.items():
        print(f"{name:14} {statistics.median(values):9.0f}  {min(values):.0f}-{max(values):.0f}")
    ratio = statistics.median(rates["evaluate_many"]) / statistics.median(rates["evaluate"])
    print(f"many at once are {ratio:.1f} times as fast as one by one")


if __name__ == "__main__":
    main()
