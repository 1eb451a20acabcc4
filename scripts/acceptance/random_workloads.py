#!/usr/bin/env python3
"""Random workloads of the Soft-RoCE space on real hosts: nothing hangs, every failure has a cause, and a run is short.

    python scripts/acceptance/random_workloads.py --hosts lab --runs 500 --seed 1

Prints outcomes and failures by cause, machines that were lost and brought back, and what runs cost: set-up and
settling, as `benchmarks/overhead.py` tells them apart.
Exits 1 when a run took longer than `--longest` without costing a machine.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from random import Random

import click
import numpy as np

from collie.app import testbeds
from collie.campaign.choice import TestbedChoice
from collie.content.spaces import load_space
from collie.detect.measurement import Measurement
from collie.ports import HostLost, Measured, RunResult, SetupFailed
from collie.readings.policy import WindowPolicy
from collie.wiring import ADAPTERS
from collie.workloads.pruning import prune
from collie.workloads.workload import Workload

FEW_QPS = 32


@dataclass
class Tally:
    """What came of the runs.

    Attributes:
        outcomes: by kind.
        causes: of what failed or was refused.
        cost: seconds of measured runs beyond their window, as (set-up, settling), by whether they had few queue pairs
            and a stable window.
        slow: runs that took too long.
        lost: runs that cost a machine.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    causes: Counter[str] = field(default_factory=Counter)
    cost: dict[tuple[bool, bool], list[tuple[float, float]]] = field(default_factory=dict)
    slow: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    def add(self, run: int, workload: Workload, result: RunResult, seconds: float, longest: float) -> None:
        """Count one run."""
        self.outcomes[type(result).__name__] += 1
        match result:
            case Measured(measurement):
                key = (workload.qps * workload.directions <= FEW_QPS, measurement.stable)
                settling = settling_seconds(measurement)
                self.cost.setdefault(key, []).append((seconds - measurement.window_seconds - settling, settling))
            case SetupFailed():
                self.causes[result.cause] += 1
            case HostLost():
                self.lost.append(f"run {run}, {seconds:.0f} s: {result.detail}: {workload}")
            case _:
                self.causes[f"unsupported: {result.reason}"] += 1
        if seconds > longest and not isinstance(result, HostLost):
            self.slow.append(f"run {run}, {seconds:.1f} s, {type(result).__name__}: {workload}")

    def show(self) -> None:
        """Print everything."""
        click.echo(f"outcomes  {dict(self.outcomes)}")
        for cause, count in self.causes.most_common():
            click.echo(f"  {count:4} x {cause}")
        for (few, stable), runs in sorted(self.cost.items(), reverse=True):
            what = f"{'up to' if few else 'over'} {FEW_QPS} QPs, {'stable' if stable else 'unstable'} window"
            for name, values in zip(("set-up", "settling"), zip(*runs, strict=True), strict=True):
                at = np.percentile(values, (50, 90, 99))
                click.echo(
                    f"{name}, {what}: {len(values)} runs, median {at[0]:.2f} s, 90 % {at[1]:.2f} s, "
                    f"99 % {at[2]:.2f} s, most {max(values):.2f} s"
                )
        for line in (*(f"LOST  {text}" for text in self.lost), *(f"SLOW  {text}" for text in self.slow)):
            click.echo(line)


def settling_seconds(measurement: Measurement) -> float:
    """Return how much longer than warm-up and window a run was watched."""
    last = {sample.host: sample.seconds for sample in measurement.series}
    watched = min(last.values(), default=0.0)
    return max(0.0, watched - WindowPolicy().warm_up_seconds - measurement.window_seconds)


@click.command()
@click.option("--hosts", default="lab", show_default=True, help="Inventory, or `lab`.")
@click.option("--space", default="soft-roce", show_default=True)
@click.option("--runs", default=500, show_default=True)
@click.option("--seed", default=1, show_default=True)
@click.option("--longest", default=60.0, show_default=True, help="Seconds that a run may take.")
def main(hosts: str, space: str, runs: int, seed: int, longest: float) -> None:
    """Run random workloads and print what came of them."""
    testbed = testbeds.open_testbed(ADAPTERS, TestbedChoice(hosts=hosts), seed)
    rng, tally = Random(seed), Tally()
    began = ended = time.monotonic()
    try:
        pruned, drops = prune(load_space(space), testbed.capabilities)
        for drop in drops:
            click.echo(f"left out  {drop}")
        for run in range(1, runs + 1):
            workload = pruned.sample(rng)
            result = testbed.measure(workload, run)
            before, ended = ended, time.monotonic()
            tally.add(run, workload, result, ended - before, longest)
            if run % 25 == 0:
                click.echo(f"{run} runs, {ended - began:.0f} s: {dict(tally.outcomes)}", err=True)
    finally:
        testbed.close()
    click.echo(f"{runs} runs in {ended - began:.0f} s")
    tally.show()
    sys.exit(1 if tally.slow else 0)


if __name__ == "__main__":
    main()
