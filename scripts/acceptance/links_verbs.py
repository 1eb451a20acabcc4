#!/usr/bin/env python3
"""A slow link and a busy host on real verbs, judged against the calibration.

    scripts/acceptance/links_verbs.py --hosts HOSTS.yaml --rounds 5

Calibrates the links with plain traffic of the space `soft-roce-load`. Then it measures, in turn: as at the calibration,
with netem on one link, and beside busy loops on the second host. Each round has the calibrated
traffic, and the plain workload of the space with its chains of 16 KiB messages. A verdict is `latency` with the link,
normal or inconclusive. netem acts on what the first host sends, and on nothing else: a `pfifo` below it keeps packets
in order. Prints a table, asserts nothing.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from benchmarks.agent_driver import Host, read_inventory
from collie.app import sessions
from collie.campaign.calibrate import plain_load
from collie.campaign.choice import SearchChoice, TestbedChoice
from collie.campaign.events import Silence
from collie.campaign.single_run import JudgedRun
from collie.detect.symptom import Symptom
from collie.ports import Measured
from collie.wiring import ADAPTERS
from collie.workloads.workload import Opcode

SPACE, RECIPE = "soft-roce-load", "soft-roce"
SETTLE_SECONDS = 1.0
DELAYS = ("2ms", "2ms 1ms rate 10gbit", "40ms", "40ms 10ms rate 10gbit")
"""Delay and jitter, and a rate, as netem without one reorders packets. An emulated machine takes some 10 ms itself."""

HOGS = ("1 nice -n 0", "1 chrt -f 10")
"""Busy loops and how they are started. Traffic of a small load wakes before a loop of any nice value, and not before a
real-time one."""


@click.command()
@click.option("--hosts", type=click.Path(exists=True, path_type=Path), required=True)
@click.option("--rounds", default=5, show_default=True)
@click.option("--repeat", default=3, show_default=True, help="Runs of the calibration.")
@click.option("--delay", "delays", multiple=True, default=DELAYS, help="Delay and jitter of netem. Repeatable.")
@click.option("--hog", "hogs", multiple=True, default=HOGS, help="Busy loops and how they are started. Repeatable.")
def main(hosts: Path, rounds: int, repeat: int, delays: tuple[str, ...], hogs: tuple[str, ...]) -> None:
    """Measure what the module says."""
    choice = SearchChoice(TestbedChoice(hosts=str(hosts)), SPACE, recipe=RECIPE)
    found = read_inventory(hosts)
    with sessions.open_session(ADAPTERS, choice, Silence()) as opened:
        calibration = opened.calibrate(repeat, sizes=(16384,), opcodes=(Opcode.WRITE,))
    for link in calibration.links:
        half, most = 1e3 * link.median_seconds, 1e3 * link.p99_seconds
        click.echo(f"calibrated link {link.link}: half within {half:.1f} ms, 99% within {most:.1f} ms")
    click.echo("| condition | workload | verdicts | p50 ms | p99 ms | link named |\n|-|-|-|-|-|-|")
    rows: dict[tuple[str, str], list[JudgedRun]] = {}
    conditions = ("as calibrated", *(f"netem delay {each}" for each in delays), *(f"busy loops: {hog}" for hog in hogs))
    for _ in range(rounds):
        for condition in conditions:
            with disturbed(found, condition), sessions.open_session(ADAPTERS, choice, Silence(), calibration) as opened:
                plain = plain_load(opened.space)
                assert plain is not None
                for name, workload in (("one packet", plain), ("chains", opened.space.whole.base)):
                    run = opened.measure(workload)
                    rows.setdefault((condition, name), []).append(run)
                    click.echo(
                        f"{condition}, {name}: {run.verdict.reason if run.verdict is not None else run.result}",
                        err=True,
                    )
    for (condition, name), runs in rows.items():
        click.echo(row(condition, name, runs))


@contextmanager
def disturbed(hosts: list[Host], condition: str) -> Iterator[None]:
    """Slow down what the first host sends, or keep the CPU of the second one busy."""
    first, second = hosts
    if condition.startswith("netem"):
        link = f"$(ip -o -4 addr show to {first.data_address} | cut -d' ' -f2)"
        first.run(f"modprobe sch_netem; tc qdisc replace dev {link} root handle 1: {condition}")
        first.run(f"tc qdisc add dev {link} parent 1:1 pfifo limit 1000")
        end = (first, f"tc qdisc del dev {link} root")
    elif condition.startswith("busy loops"):
        count, start = condition.removeprefix("busy loops: ").split(maxsplit=1)
        loop = f"nohup {start} sh -c 'while :; do :; done' >/dev/null 2>&1 & echo $!"
        loops = second.run(f"for each in $(seq {count}); do {loop}; done").split()
        end = (second, f"kill {' '.join(loops)}")
    else:
        yield
        return
    try:
        time.sleep(SETTLE_SECONDS)
        yield
    finally:
        host, command = end
        host.run(command)


def row(condition: str, name: str, runs: list[JudgedRun]) -> str:
    """Return a row of the table."""
    verdicts = [run.verdict for run in runs if run.verdict is not None]
    counted = Counter("latency" if v.symptom is Symptom.LATENCY else v.symptom or v.outcome for v in verdicts)
    named = sum(v.symptom is Symptom.LATENCY and "link a-b is slow" in v.reason for v in verdicts)
    readings = [run.result.measurement.longest_latency for run in runs if isinstance(run.result, Measured)]
    timed = [reading for reading in readings if reading is not None]
    halves = [1e3 * each.median_seconds for each in timed if each.median_seconds is not None]
    mosts = [1e3 * each.p99_seconds for each in timed if each.p99_seconds is not None]
    times = [f"{min(each):.1f} to {max(each):.1f}" if each else "-" for each in (halves, mosts)]
    words = ", ".join(f"{count} {word}" for word, count in sorted(counted.items()))
    return f"| {condition} | {name} | {words} | {times[0]} | {times[1]} | {named} of {len(runs)} |"


if __name__ == "__main__":
    main()
