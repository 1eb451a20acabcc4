#!/usr/bin/env python3
"""Phases on real verbs: random sequences count exactly, phases give what fresh set-ups give, and nothing leaks.

    scripts/acceptance/phases_verbs.py --hosts HOSTS.yaml --record FOLDER sequences --count 200 --revive
    scripts/acceptance/phases_verbs.py --hosts HOSTS.yaml --record FOLDER compare --count 60
    scripts/acceptance/phases_verbs.py --hosts HOSTS.yaml --record FOLDER leaks --phases 2000 --set-ups 200

Each part appends its results to a file of the folder, and goes on there when it is started again. `--minutes` ends it
earlier. Prints a table; exit code 1 on any violation.

`compare` runs each workload as a phase after others and on a set-up of its own, in turn. It names the workloads whose
medians differ by more than 10 %. Runs of one workload on emulated machines spread by more than that, so the carry-over
rate is the share that differs by more than chance (Mann and Whitney, 5 %), with its 95 % interval (Clopper and
Pearson).
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import click
from scipy.stats import beta, mannwhitneyu

from benchmarks.agent_driver import Footprint, NoAnswer, RemoteAgent, begin_phase, ends, read_inventory, set_up
from collie.app import testbeds
from collie.campaign.choice import TestbedChoice
from collie.content.spaces import load_space
from collie.hosts.testbed import HostsTestbed
from collie.lab import lab
from collie.ports import Measured
from collie.wiring import ADAPTERS
from collie.workloads.setup import SetUp
from collie.workloads.space import Space
from collie.workloads.workload import Workload, render
from tests.support.phases import Outcome, PhaseSequence, sequence

LENGTH = 8
GROUP = 6
"""Workloads that share a set-up when they are compared."""
REPEATS = 5
ALIKE = 0.1
BY_CHANCE = 0.05
SETTLING_BYTES = 16 << 20
FEW_PHASES = 20
"""Phases before the first look: the first ones leave heap and page tables that the next ones use again."""
PLAIN = {"qp_type": "RC", "opcode": "WRITE", "messages": [4096], "qps": 8, "mrs_per_qp": 4, "mtu": 4096, "timeout": 18}


class Record:
    """Results on disk, by the name of what gave them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_text().splitlines() if path.exists() else []
        self.results: dict[str, Any] = dict(json.loads(line) for line in lines)

    def add(self, name: str, result: Any) -> None:
        """Append a result."""
        self.results[name] = result
        with self._path.open("a") as file:
            file.write(json.dumps([name, result]) + "\n")

    def missing(self, names: Iterator[str], minutes: float) -> Iterator[str]:
        """Yield the names without a result until the time is over."""
        ends_at = time.monotonic() + 60 * minutes
        for name in names:
            if name not in self.results and time.monotonic() < ends_at:
                yield name


@contextmanager
def two_agents(hosts: Path) -> Iterator[list[RemoteAgent]]:
    """Start an agent on each of the first two hosts."""
    agents = [RemoteAgent(host) for host in read_inventory(hosts)]
    try:
        yield agents
    finally:
        for agent in agents:
            agent.close()


@click.group()
@click.option("--hosts", type=click.Path(path_type=Path, exists=True), required=True, help="Inventory.")
@click.option("--record", type=click.Path(path_type=Path), required=True, help="Folder of results.")
@click.option("--minutes", default=1e6, help="Begin nothing new after this time.")
@click.pass_context
def main(context: click.Context, hosts: Path, record: Path, minutes: float) -> None:
    """Compare phases with fresh set-ups on real verbs."""
    context.obj = (hosts, record, minutes)


@main.command()
@click.option("--count", default=200, show_default=True)
@click.option("--seconds", default=0.3, show_default=True, help="Traffic of each phase.")
@click.option("--revive", is_flag=True, help="Restart machines of the lab whose kernel locks up, as rdma_rxe does.")
@click.pass_obj
def sequences(options: tuple[Path, Path, float], count: int, seconds: float, revive: bool) -> None:
    """Run random sequences of 8 phases."""
    hosts, folder, minutes = options
    record, space = Record(folder / "sequences.jsonl"), load_space("soft-roce")
    names = record.missing((str(number) for number in range(count)), minutes)
    while True:
        with two_agents(hosts) as agents:
            if not _run_sequences(agents, names, record, space, seconds):
                break
        if revive:
            lab.mend(hosts.parent)
    total: dict[str, Any] = {"sequences": len(record.results)}
    for result in record.results.values():
        for key, value in result.items():
            if isinstance(value, Mapping):
                total.setdefault(key, {})
                for what, times in value.items():
                    total[key][what] = total[key].get(what, 0) + times
            else:
                total[key] = total.get(key, type(value)()) + value
    for key, value in total.items():
        click.echo(f"{key:12} {value}")
    sys.exit(1 if total.get("wrong") or total.get("stragglers") else 0)


def _run_sequences(
    agents: list[RemoteAgent], names: Iterator[str], record: Record, space: Space, seconds: float
) -> bool:
    """Run sequences until there are no more, or an agent does not answer. Return whether that was so."""
    for name in names:
        rng, outcome, silent = Random(name), Outcome(), False
        made_for, phases = sequence(space, rng, LENGTH)
        data_path = rng.choice(("native", "pyverbs"))
        processes = 1 if made_for.srq else min(made_for.qps, rng.choice((1, 2)))
        try:
            PhaseSequence(agents, outcome, seconds).run(f"sequence {name}", made_for, phases, data_path, processes)
        except NoAnswer:
            silent = True
            outcome.ended["a host did not answer in time"] += 1
        record.add(name, vars(outcome))
        for line in outcome.wrong:
            click.echo(f"WRONG  {line}")
        if silent:
            return True
    return False


@main.command()
@click.option("--count", default=60, show_default=True)
@click.pass_obj
def compare(options: tuple[Path, Path, float], count: int) -> None:
    """Run workloads as phases and on set-ups of their own, in turn."""
    hosts, folder, minutes = options
    record, space = Record(folder / "compare.jsonl"), load_space("soft-roce")
    testbed = testbeds.open_testbed(ADAPTERS, TestbedChoice(hosts=str(hosts)), 1)
    assert isinstance(testbed, HostsTestbed)
    groups = {str(number): sequence(space, Random(f"compare {number}"), GROUP) for number in range(-(-count // GROUP))}
    try:
        for name in record.missing((f"{group}/{turn}" for group in groups for turn in range(REPEATS)), minutes):
            made_for, workloads = groups[name.split("/")[0]]
            record.add(name, _compared(testbed, made_for, workloads))
            click.echo(f"{name}: {record.results[name]}", err=True)
    finally:
        left = testbed.close()
    rates: dict[str, list[tuple[float | None, float | None]]] = {}
    for name, pairs in record.results.items():
        for place, pair in enumerate(pairs):
            rates.setdefault(f"{name.split('/')[0]}.{place}", []).append(pair)
    k = n = apart = 0
    for key, pairs in rates.items():
        fresh = [alone for alone, _ in pairs if alone is not None]
        phase = [shared for _, shared in pairs if shared is not None]
        if len(fresh) < 2 or len(phase) < 2:
            continue
        n += 1
        ratio = median(phase) / median(fresh) if median(fresh) else float(median(phase) == 0)
        chance = mannwhitneyu(fresh, phase).pvalue
        k += bool(chance < BY_CHANCE)
        if abs(ratio - 1) > ALIKE:
            apart += 1
            group, _, position = key.partition(".")
            spread = (max(fresh) - min(fresh)) / median(fresh) if median(fresh) else 0.0
            words = _words(groups[group][1][int(position)])
            click.echo(f"{key}: phase / fresh {ratio:.2f}, spread of fresh {spread:.2f}, p {chance:.2f}: {words}")
    low = beta.ppf(0.025, k, n - k + 1) if k else 0.0
    high = beta.ppf(0.975, k + 1, n - k) if k < n else 1.0
    click.echo(f"compared {n} workloads; medians differ by more than {ALIKE:.0%}: {apart}; more than by chance: {k}")
    click.echo(f"carry-over rate {k / max(1, n):.3f}, 95 % interval {low:.3f} to {high:.3f}; left {left}")


def _compared(
    testbed: HostsTestbed, made_for: Workload, workloads: list[Workload]
) -> list[tuple[float | None, float | None]]:
    """Return delivered bits/s of each workload on its own and as a phase after the others."""
    on, found = SetUp(made_for), []
    phases = []
    for workload in workloads:
        result = testbed.measure(workload, 1, None, on)
        phases.append(_delivered(result))
        on = on.after(workload) if isinstance(result, Measured) and result.stands else SetUp(made_for)
    for workload, phase in zip(workloads, phases, strict=True):
        found.append((_delivered(testbed.measure(workload, 1)), phase))
    return found


def _delivered(result: Any) -> float | None:
    if not isinstance(result, Measured) or result.measurement.health.completion_errors:
        return None
    return sum(host.delivered_bps or 0.0 for host in result.measurement.hosts)


def _words(workload: Workload) -> str:
    plain = render(Workload())
    return ", ".join(f"{name} {value}" for name, value in render(workload).items() if value != plain[name])


@main.command()
@click.option("--phases", default=2000, show_default=True)
@click.option("--set-ups", "set_ups", default=200, show_default=True)
@click.pass_obj
def leaks(options: tuple[Path, Path, float], phases: int, set_ups: int) -> None:
    """Look for what many phases and many set-ups leave behind."""
    hosts, folder, minutes = options
    record = Record(folder / "leaks.jsonl")
    if "phases" not in record.results:
        record.add("phases", _after_phases(hosts, phases, minutes))
    if "set-ups" not in record.results:
        record.add("set-ups", _after_set_ups(hosts, set_ups, minutes))
    for name, result in record.results.items():
        click.echo(f"{name}: {result}")
    sys.exit(1 if any(result["leaks"] for result in record.results.values()) else 0)


def _one_phase(agents: list[RemoteAgent], number: int) -> None:
    """Run a phase; every other one has receives of another shape."""
    traffic = ({}, {"opcode": "SEND"}, {"opcode": "READ", "qps": 4}, {"opcode": "SEND", "wqe_batch": 2})[number % 4]
    for agent in agents:
        agent.samples.clear()
    begin_phase(agents, {**PLAIN, **traffic}, ends())
    time.sleep(0.05)
    stopped = [agent.ask("stop", drain_seconds=8, deadline_seconds=15) for agent in agents]
    assert all(each["drained"] and not each["failed_qps"] and not each["stragglers"] for each in stopped), stopped


def _after_phases(hosts: Path, count: int, minutes: float) -> dict[str, Any]:
    with two_agents(hosts) as agents:
        set_up(agents, PLAIN, ends())
        ends_at, done, before = time.monotonic() + 60 * minutes, 0, []
        engines = [agent.prepared["engine_pids"][0] for agent in agents]
        while done < count + FEW_PHASES and time.monotonic() < ends_at:
            if done == FEW_PHASES:
                before = [_held(agent, pid) for agent, pid in zip(agents, engines, strict=True)]
            _one_phase(agents, done)
            done += 1
        after = [_held(agent, pid) for agent, pid in zip(agents, engines, strict=True)]
        left = [agent.ask("destroy")["qps_left"] for agent in agents]
    found = [
        line
        for (one, kilobytes), (other, later) in zip(before, after, strict=True)
        for line in (
            *one.leaks(other, SETTLING_BYTES),
            *([f"engine {kilobytes} kB, then {later} kB"] if later > kilobytes + 1024 else []),
        )
    ]
    held = [f"{kilobytes} kB -> {later} kB" for (_, kilobytes), (_, later) in zip(before, after, strict=True)]
    return {"count": done - FEW_PHASES, "leaks": found, "engines": held, "left": left}


def _held(agent: RemoteAgent, pid: int) -> tuple[Footprint, int]:
    resident = agent.host.run(f"grep VmRSS /proc/{pid}/status").split()[1]
    return Footprint.of(agent), int(resident)


def _after_set_ups(hosts: Path, count: int, minutes: float) -> dict[str, Any]:
    with two_agents(hosts) as agents:
        ends_at, done, before = time.monotonic() + 60 * minutes, 0, []
        while done < count + FEW_PHASES and time.monotonic() < ends_at:
            if done == FEW_PHASES:
                before = [Footprint.of(agent) for agent in agents]
            set_up(agents, PLAIN, ends())
            for number in range(2):
                _one_phase(agents, number)
            left = [agent.ask("destroy")["qps_left"] for agent in agents]
            assert left == [0, 0], left
            done += 1
        after = [Footprint.of(agent) for agent in agents]
    found = [line for one, other in zip(before, after, strict=True) for line in one.leaks(other, SETTLING_BYTES)]
    available = [
        f"{one.available_bytes >> 10} -> {other.available_bytes >> 10} kB"
        for one, other in zip(before, after, strict=True)
    ]
    return {"count": done - FEW_PHASES, "leaks": found, "available": available}


if __name__ == "__main__":
    main()
