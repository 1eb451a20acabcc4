"""Compare the search of the paper's released prototype with Collie's: minutes to the mechanisms of a subsystem.

    git clone https://github.com/bytedance/Collie prototype
    python benchmarks/prototype.py prototype --seeds 1-20

The prototype's own code proposes points, accepts or rejects them, decides what is anomalous and looks for minimal
feature sets, in its own space. This script imports it from the checkout, and puts three things in its place:

* A point runs on a simulated subsystem, and costs the time of one run there. The prototype's traffic engine and its
  command lines over SSH are not used.
* Its two monitors read that run's counters. Its bars are those of its example at the subsystem's line rate, with 0.1 %
  of pause in either direction.
* Its log goes nowhere. The original removes folders of /tmp.

A point has two traffics with parameters of their own, and a workload has one kind. So a point with unlike traffics runs
twice, each time with one traffic's parameters for both. It costs one run, and what it shows is the worse of the two.
This favours the prototype. So does what counts as found: the first anomalous reading whose workload the ground truth
credits to a mechanism. Nothing confirms it.

--output FILE appends each search as a line of JSON. What is there, of the same commit, is not run again. Asserts
nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from random import Random
from types import ModuleType, SimpleNamespace
from typing import Any

from collie.app import testbeds
from collie.campaign.budget import parse_budget
from collie.campaign.choice import TestbedChoice
from collie.content.prototype import read_point, workloads_of
from collie.content.spaces import load_space
from collie.content.subsystems import load_subsystem
from collie.counters.catalog import CounterKind
from collie.detect.measurement import Measurement
from collie.ports import Measured, Testbed
from collie.simulator.subsystem import SubsystemFile
from collie.simulator.truth import Truth
from collie.wiring import ADAPTERS
from collie.workloads.workload import Workload
from tests.support.results import Result, append, last_commit, parse_seeds, read_results
from tests.support.search_tables import minutes_table, prototype_table

ROOT = Path(__file__).parents[1]
MODES = {"perf": "simulated_annealing", "diag": "diag_simulated_annealing"}
"""What drives the annealing: throughput, which is the released default, or one diagnostic counter after the other."""
_MODULES = ("logger", "bone", "hardware", "space", "engine", "anneal")
_ITERATIONS = 1000
"""Of the prototype's example. Its diagnostic mode shares them among the counters."""
_NOT_RUN_SECONDS = 20.0
"""A point that sends nothing: the prototype waits for its queue pairs, and goes on."""
_BARS_BPS = 100e9
"""Line rate that the bars of the prototype's example are for."""
_DEPENDS_ON = ("collie", "workloads", "counters", "benchmarks/prototype.py")


@dataclass(frozen=True)
class Task:
    """One search of the prototype."""

    checkout: str
    subsystem: str
    mode: str
    seed: int
    budget: str
    commit: str

    @property
    def asked(self) -> dict[str, Any]:
        """What a line of results answers. Where the checkout lies does not matter."""
        return {name: value for name, value in asdict(self).items() if name != "checkout"}


class BudgetEnds(Exception):
    """The next run would end after the budget."""


@dataclass
class Bench:
    """The prototype's engine and its monitors, on a simulated subsystem.

    Attributes:
        bone: the prototype's monitor, which decides what is anomalous.
        points: that sent something.
        anomalous: minute and workloads of each point that read so.
    """

    testbed: Testbed
    budget_seconds: float
    bone: Any = None
    elapsed_seconds: float = 0.0
    runs: int = 0
    points: int = 0
    anomalous: list[tuple[float, list[Workload]]] = field(default_factory=list)
    _bones: Mapping[str, float] = field(default_factory=dict)
    _counters: Mapping[str, float] = field(default_factory=dict)

    def clean_process(self) -> int:
        """Stop the traffic. Return 0, as the prototype's engine does for success."""
        return 0

    def log_scripts(self, _point: Any, _path: str) -> None:
        """Write no command lines."""

    def set_up_traffic(self, point: Any) -> int:
        """Run a point. Return 0, or -1 if nothing was sent.

        Raises:
            BudgetEnds: there is no time for it.
        """
        try:
            workloads = workloads_of(read_point(json.dumps(point.log_to_dict())))
        except ValueError:
            self._spend(_NOT_RUN_SECONDS)
            return -1
        ran = [(workload, self._measured(workload)) for workload in workloads]
        self._spend(max(seconds for _, (_, seconds) in ran))
        readings = [(workload, measurement) for workload, (measurement, _) in ran if measurement is not None]
        if not readings:
            return -1
        self.points += 1
        self._read(readings)
        return 0

    def _measured(self, workload: Workload) -> tuple[Measurement | None, float]:
        self.runs += 1
        result = self.testbed.measure(workload, self.runs)
        return (result.measurement if isinstance(result, Measured) else None), result.elapsed_seconds

    def _spend(self, seconds: float) -> None:
        self.elapsed_seconds += seconds
        if self.elapsed_seconds > self.budget_seconds:
            raise BudgetEnds

    def _read(self, readings: Sequence[tuple[Workload, Measurement]]) -> None:
        worst = {-1: 0, -2: 1, 0: 2}  # the prototype's codes: only pause makes it look for a minimal feature set
        bones = [(workload, measurement, _bones(measurement)) for workload, measurement in readings]
        _, measurement, self._bones = min(bones, key=lambda each: worst[self.bone.check_bone(each[2])])
        self._counters = _diagnostic(self.testbed, measurement)
        if anomalous := [workload for workload, _, bone in bones if self.bone.check_bone(bone)]:
            self.anomalous.append((self.elapsed_seconds / 60, anomalous))

    def bones(self, _device: str) -> Mapping[str, float]:
        """Return what tells an anomaly, in the prototype's names and units, of the last point."""
        return self._bones

    def counters(self, _device: str) -> Mapping[str, float]:
        """Return the diagnostic counters of the last point."""
        return self._counters


def _bones(measurement: Measurement) -> dict[str, float]:
    """Return throughput in Gbit/s, packets/s and microseconds of pause per second at host A."""
    read = {name: value or 0.0 for name, value in measurement.host("a").counters.items()}
    return {
        **{f"{way}_vport_rdma_unicast_bytes": read[f"{way}_bytes"] * 8 / 1e9 for way in ("tx", "rx")},
        **{f"{way}_vport_rdma_unicast_packets": read[f"{way}_packets"] for way in ("tx", "rx")},
        **{f"{way}_prio3_pause_duration": read[f"{way}_pause_duration"] for way in ("tx", "rx")},
    }


def _diagnostic(testbed: Testbed, measurement: Measurement) -> dict[str, float]:
    names = [counter.name for counter in testbed.info.catalog.of_kind(CounterKind.DIAGNOSTIC)]
    return {name: measurement.counter(name) or 0.0 for name in names}


class _Draws(Random):
    """The prototype divides sizes before it draws between them, which newer Pythons refuse."""

    def randint(self, a: float, b: float) -> int:
        return super().randint(int(a), int(b))


@contextlib.contextmanager
def loaded(checkout: Path) -> Iterator[Mapping[str, ModuleType]]:
    """Import the modules of a checkout's `search` folder, by name, with a log that writes nothing."""
    folder = checkout.resolve() / "search"
    before = {name: sys.modules.pop(name) for name in _MODULES if name in sys.modules}
    quiet: Any = ModuleType("logger")
    quiet.Init = quiet.LOG = quiet.printKV = lambda *_, **__: None
    sys.modules["logger"] = quiet
    sys.path.insert(0, str(folder))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of old names of numpy
            yield {name: importlib.import_module(name) for name in _MODULES}
    finally:
        sys.path.remove(str(folder))
        for name in _MODULES:
            sys.modules.pop(name, None)
        sys.modules.update(before)


def run(task: Task) -> dict[str, Any]:
    """Run one search and return plain values that say how it did."""
    file, budget = load_subsystem(task.subsystem, SubsystemFile), parse_budget(task.budget)
    testbed = testbeds.open_testbed(ADAPTERS, TestbedChoice(subsystem=task.subsystem), task.seed)
    bench = Bench(testbed, budget.seconds)
    wall, ended_by = time.perf_counter(), "itself"
    with tempfile.TemporaryDirectory() as logs, loaded(Path(task.checkout)) as modules:
        search = _director(modules, bench, file.hardware.wire.line_rate_bps, logs, _Draws(task.seed))
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
            try:
                getattr(search, MODES[task.mode])(iters=_ITERATIONS)
            except BudgetEnds:
                ended_by = "budget"
    truth = Truth(file, load_space("nsdi22"))
    found, unfounded = _credited(bench.anomalous, truth)
    return {
        **task.asked,
        "asked": task.asked,
        "contender": f"prototype-{task.mode}",
        "phases": 1,
        "planted": [str(name) for name in truth.score(()).planted],
        "found": found,
        "budget_minutes": min(bench.elapsed_seconds, budget.seconds) / 60,
        "ended_by": ended_by,
        "points": bench.points,
        "anomalous": len(bench.anomalous),
        "unfounded": unfounded,
        "wall_seconds": time.perf_counter() - wall,
    }


def _credited(anomalous: Sequence[tuple[float, list[Workload]]], truth: Truth) -> tuple[dict[str, float], int]:
    """Return the first minute of each mechanism, and the number of points that no mechanism makes anomalous."""
    mechanisms = iter(truth.mechanisms([workload for _, workloads in anomalous for workload in workloads]))
    found: dict[str, float] = {}
    unfounded = 0
    for minute, workloads in anomalous:
        its = [mechanism for mechanism in islice(mechanisms, len(workloads)) if mechanism is not None]
        unfounded += not its
        for mechanism in its:
            found.setdefault(mechanism, minute)
    return found, unfounded


def _director(modules: Mapping[str, ModuleType], bench: Bench, line_rate_bps: float, logs: str, draws: Random) -> Any:
    """Return the prototype's search with a bench in place of its engine, its monitors, its log and its hosts."""
    (Path(logs) / "result").mkdir()  # for its minimal feature sets, which nothing here reads
    anneal, space = (vars(modules[name]) for name in ("anneal", "space"))
    anneal["random"] = space["random"] = draws
    anneal["Engine"] = lambda *_, **__: bench
    anneal["log_result"] = anneal["log_reproduce"] = lambda *_: None
    anneal["subprocess"] = SimpleNamespace(check_output=lambda *_, **__: b"")
    space["Space"].update_numa = lambda *_: 0
    scale = line_rate_bps / _BARS_BPS
    bars = {"tx_pfc_bar": 1000.0, "rx_pfc_bar": 1000.0, "bps_bar": 90.0 * scale, "pps_bar": 4e6 * scale}
    counters = {"counters": [], "bars": bars}
    search = anneal["Director"]("", "", counters, ip_A="a", ip_B="b", usr_A="", usr_B="", logpath=logs)
    search._bonemon.monitor, search._hwmon.monitor = bench.bones, bench.counters
    bench.bone = search._bonemon
    return search


def _run_all(tasks: Sequence[Task], jobs: int) -> Iterator[Result]:
    if jobs == 1:
        yield from map(run, tasks)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(run, task) for task in tasks]):
            yield done.result()


def main(words: Sequence[str] | None = None) -> None:
    """Parse the command line, and run what it asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="of github.com/bytedance/Collie")
    parser.add_argument("--subsystem", default="F")
    parser.add_argument("--modes", default=",".join(MODES), help=f"of {', '.join(MODES)}")
    parser.add_argument("--seeds", type=parse_seeds, default=parse_seeds("1-20"))
    parser.add_argument("--budget", default="10h")
    parser.add_argument("--jobs", default=os.cpu_count() or 1, type=int)
    parser.add_argument("--output", type=Path, metavar="FILE")
    options = parser.parse_args(words)
    if unknown := set(options.modes.split(",")) - {*MODES}:
        parser.error(f"no mode {', '.join(sorted(unknown))}; there is {', '.join(MODES)}")
    folder = options.checkout / "search"
    if missing := [name for name in _MODULES if not (folder / f"{name}.py").is_file()]:
        parser.error(f"{folder}: no {missing[0]}.py; give a checkout of github.com/bytedance/Collie")

    commit = last_commit(ROOT, _DEPENDS_ON)
    tasks = [
        Task(str(options.checkout), options.subsystem, mode, seed, options.budget, commit)
        for mode in options.modes.split(",")
        for seed in options.seeds
    ]
    results: list[Result] = read_results(options.output) if options.output else []
    results = [one for one in results if one["asked"] in [task.asked for task in tasks]]
    had = [one["asked"] for one in results]
    for result in _run_all([task for task in tasks if task.asked not in had], options.jobs):
        results.append(result)
        if options.output:
            append(options.output, result)
    results.sort(key=lambda one: (one["contender"], one["seed"]))
    print(f"{minutes_table(results)}\n\n{prototype_table(results)}")


if __name__ == "__main__":
    main()
