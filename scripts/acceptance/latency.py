#!/usr/bin/env python3
"""Latency and offered load on real verbs: what timing costs, what perftest says, how evenly a load is posted.

    scripts/acceptance/latency.py overhead --rounds 9
    scripts/acceptance/latency.py overhead --hosts HOSTS.yaml --rounds 9
    scripts/acceptance/latency.py lateness
    scripts/acceptance/latency.py idle --hosts HOSTS.yaml --rounds 5
    scripts/acceptance/latency.py echo --hosts HOSTS.yaml --rounds 5
    scripts/acceptance/latency.py pacing --hosts HOSTS.yaml

`overhead` compares the agent with one that times nothing, in turn. Without hosts it drives the fake device of the
tests, which takes 0.4 us of the same CPU for a message, and the figure is CPU time per message. `lateness` offers it
few messages, so their latency is how late the loop posts them. `idle` compares the
latency of RC messages one at a time with that of perftest, which spins, and with `-e` sleeps: the median, and of READ
the range of 99 % over the rounds.
`echo` compares the echoes of UC and UD with the acknowledgements of RC at the same load. `pacing` measures a full
queue, and offers 20, 50 and 80 % of what it moved. Prints tables, asserts nothing.
"""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import click

from benchmarks.agent_driver import Host, RemoteAgent, begin, ends, read_inventory
from collie.agent.build import pack, sources
from collie.agent.paths import load_native
from collie.agent.report import PERIOD_SECONDS
from collie.agent.totals import ATTENTION
from collie.hosts.session import Archive
from collie.readings.latency import Histogram
from tests.support.data_paths import Loopback
from tests.support.fake_libraries import compiled

TIMED = ("collie/agent/queues.py", b"queue.timed, queue.echoed = self.timed, self.echoed", b"queue.timed = False")
PLAIN: dict[str, Any] = {"qp_type": "RC", "mtu": 4096, "timeout": 18, "max_rd_atomic": 16, "max_dest_rd_atomic": 16}
KEY = "a-b/requester"
KEY_IN_LOOPBACK = "a-a/requester"
WARM_UP_SECONDS = 1.0
PORTS = itertools.cycle(range(18600, 18700))
LISTEN_SECONDS = 1.5
ROUND_TRIPS = 1000
"""Of perftest. Of 200, the slowest two or three decide what 99 % is."""
SMALLEST = 2
"""Bytes of a message that stands for an acknowledgement, which has no payload."""
PROGRAMS = {"READ": "ib_read_lat", "WRITE": "ib_write_lat", "SEND": "ib_send_lat"}
# bytes, iterations, t_min, t_max, t_typical, t_avg, t_stdev, 99 %, ...
ROW = re.compile(r"^\s*\d+\s+\d+(?:\s+[\d.]+){2}\s+([\d.]+)(?:\s+[\d.]+){2}\s+([\d.]+)", re.MULTILINE)


def untimed() -> Archive:
    """Return the agent without timing."""
    files, (name, with_, without) = sources(), TIMED
    assert with_ in files[name], f"{name} has changed"
    return Archive.of(pack({**files, name: files[name].replace(with_, without)}))


@contextmanager
def two_agents(hosts: list[Host], archive: Archive | None = None) -> Iterator[list[RemoteAgent]]:
    """Start an agent on each host."""
    agents = [RemoteAgent(host, archive) for host in hosts]
    try:
        yield agents
    finally:
        for agent in agents:
            agent.close()


def window(
    agents: list[RemoteAgent], workload: Mapping[str, Any], seconds: float, period_seconds: float = PERIOD_SECONDS
) -> dict[str, Any]:
    """Run a workload. Return what its requester gained in the window, and the length of the window."""
    for agent in agents:
        agent.samples.clear()
    try:
        begin(agents, workload, ends(), period_seconds=period_seconds, data_path="native")
        time.sleep(WARM_UP_SECONDS + seconds + period_seconds)
    finally:
        for agent in agents:
            agent.ask("destroy", deadline_seconds=60)
    own = [sample for sample in agents[0].samples if sample["state"] == "running"]
    first, last = next(each for each in own if each["clock"] >= own[0]["clock"] + WARM_UP_SECONDS), own[-1]
    before, after = first["flows"][KEY], last["flows"][KEY]
    gained: dict[str, Any] = {name: after[name] - before[name] for name in ("posted_bytes", "completed_messages")}
    gained["seconds"] = last["clock"] - first["clock"]
    gained["latencies"] = Histogram.between(before["latencies"] or (), after["latencies"] or ())
    return gained


class OnFakeDevice(NamedTuple):
    """What the loop did within this process."""

    messages: int
    cpu_seconds: float
    latencies: Histogram


def on_fake_device(library: Path, seconds: float, *, timed: bool, **workload: Any) -> OnFakeDevice:
    """Run a workload within this process."""
    loop = Loopback(load_native(str(library)), timed=timed, **{**PLAIN, **workload})

    def end() -> None:
        loop.totals.words[ATTENTION] = 1
        os.write(loop.command, b"\n")

    timer = threading.Timer(seconds, end)
    timer.start()
    began, used = time.monotonic(), time.process_time()
    loop.traffic.serve()
    used = time.process_time() - used
    assert time.monotonic() - began >= seconds / 2
    timer.join()
    found = OnFakeDevice(
        loop.requester["completed_messages"],
        used,
        Histogram.between((), loop.read.times(KEY_IN_LOOPBACK, 0)["latencies"] or ()),
    )
    loop.totals.words[ATTENTION] = 0
    os.read(loop.control, 1)
    loop.traffic.drain(5.0)
    loop.close()
    return found


@click.group()
def main() -> None:
    """Measure what the module says."""


HOSTS = click.option("--hosts", type=click.Path(exists=True, path_type=Path), required=True)
ROUNDS = click.option("--rounds", default=5, show_default=True)
SECONDS = click.option("--seconds", default=3.0, show_default=True)


@main.command()
@click.option("--hosts", type=click.Path(exists=True, path_type=Path))
@ROUNDS
@SECONDS
def overhead(hosts: Path | None, rounds: int, seconds: float) -> None:
    """Messages/s with timing over those without it, in turn."""
    cells: list[dict[str, Any]] = [
        {"qp_type": qp_type, "opcode": opcode, "messages": [size], "qps": qps}
        for qp_type, opcode in (("RC", "WRITE"), ("RC", "READ"), ("UD", "SEND"))
        for size, qps in CELLS
    ]
    click.echo("| transport | opcode | bytes | queue pairs | timed | not timed | timed/not | ratios |")
    click.echo("|-|-|-|-|-|-|-|-|")
    with tempfile.TemporaryDirectory() as folder:
        library = compiled("libibverbs", Path(folder)) if hosts is None else None
        for cell in cells:
            rates = _alternate(hosts, library, cell, rounds, seconds)
            ratios = sorted(timed / plain for timed, plain in rates)
            timed, plain = (median(each) for each in zip(*rates, strict=True))
            click.echo(
                f"| {cell['qp_type']} | {cell['opcode']} | {cell['messages'][0]} | {cell['qps']} "
                f"| {timed:.0f} | {plain:.0f} | {median(ratios):.3f} | {ratios[0]:.3f} to {ratios[-1]:.3f} |"
            )


CELLS = ((64, 1), (64, 16), (4096, 1))


def _alternate(
    hosts: Path | None, library: Path | None, cell: dict[str, Any], rounds: int, seconds: float
) -> list[tuple[float, float]]:
    if library is not None:
        each = [
            [on_fake_device(library, seconds, timed=timed, **cell) for timed in (True, False)] for _ in range(rounds)
        ]
        return [tuple(one.messages / one.cpu_seconds for one in pair) for pair in each]
    assert hosts is not None
    found = read_inventory(hosts)
    with two_agents(found) as timed, two_agents(found, untimed()) as plain:
        each = [(window(timed, PLAIN | cell, seconds), window(plain, PLAIN | cell, seconds)) for _ in range(rounds)]
    return [tuple(one["completed_messages"] / one["seconds"] for one in pair) for pair in each]


@main.command()
@ROUNDS
@SECONDS
def lateness(rounds: int, seconds: float) -> None:
    """Latency of a few RC WRITEs of 64 B a second on the fake device: medians over the rounds."""
    click.echo("| messages/s | median us | 90% us | CPU |\n|-|-|-|-|")
    with tempfile.TemporaryDirectory() as folder:
        library = compiled("libibverbs", Path(folder))
        for rate in (20, 50, 250, 1000, 5000):
            load = {"opcode": "WRITE", "messages": [64], "qps": 1, "offered_bps": 8 * 64 * rate}
            each = [on_fake_device(library, seconds, timed=True, **load) for _ in range(rounds)]
            quantiles = [median((one.latencies.quantile(share) or 0.0) / 1e3 for one in each) for share in (0.5, 0.9)]
            share = median(one.cpu_seconds for one in each) / seconds
            click.echo(f"| {rate} | {quantiles[0]:.1f} | {quantiles[1]:.1f} | {share:.1%} |")


@main.command()
@HOSTS
@ROUNDS
@SECONDS
@click.option("--period", default=PERIOD_SECONDS, show_default=True, help="Seconds between samples of the agent.")
def idle(hosts: Path, rounds: int, seconds: float, period: float) -> None:
    """Latency of RC messages one at a time: the agent, perftest, and perftest -e, in turn.

    perftest prints half of a ping-pong, and the whole READ. An acknowledgement is half of a ping-pong of 2 B.
    """
    found = read_inventory(hosts)
    columns = "opcode | bytes | agent us | perftest us | -e us | agent/perftest | agent/-e | 99%: agent | 99%: perftest"
    click.echo(f"| {columns} |\n|-|-|-|-|-|-|-|-|-|")
    with two_agents(found) as agents:
        for opcode, size in itertools.product(PROGRAMS, (64, 4096, 65536)):
            workload = PLAIN | {"opcode": opcode, "messages": [size], "send_wq_depth": 1}
            ours: list[Quantiles] = []
            theirs: dict[str, list[Quantiles]] = (
                {"": [], "-e": []} if opcode != "WRITE" else {"": []}
            )  # it has no events
            for _ in range(rounds):
                timed = window(agents, workload, seconds, period)["latencies"]
                ours.append(Quantiles(*((timed.quantile(share) or 0.0) / 1e3 for share in (0.5, 0.99))))
                for option, kept in theirs.items():
                    kept.append(_round_trip(found, opcode, size, option))
            own, spins = (median(each.typical for each in kept) for kept in (ours, theirs[""]))
            sleeps = median(each.typical for each in theirs["-e"]) if "-e" in theirs else None
            words = [opcode, size, f"{own:.0f}", f"{spins:.0f}", f"{sleeps:.0f}" if sleeps else "-"]
            words += [f"{own / spins:.2f}", f"{own / sleeps:.2f}" if sleeps else "-"]
            words += [_range(kept) if opcode == "READ" else "-" for kept in (ours, theirs[""])]
            click.echo(f"| {' | '.join(map(str, words))} |")


class Quantiles(NamedTuple):
    """Microseconds within which half and 99 % of the messages complete."""

    typical: float
    p99: float


def _range(kept: list[Quantiles]) -> str:
    found = sorted(each.p99 for each in kept)
    return f"{found[0]:.0f} to {found[-1]:.0f}"


def _round_trip(hosts: list[Host], opcode: str, size: int, option: str) -> Quantiles:
    """Return the time of a message and of its answer that perftest prints. Only medians can be added up."""
    sizes = (size,) if opcode == "READ" else (size, SMALLEST)
    words = f"{PROGRAMS[opcode]} -n {ROUND_TRIPS} -F -m 4096 -u 18 {option}"
    printed = [perftest(hosts, f"{words} -s {each}") for each in sizes]
    return Quantiles(*map(sum, zip(*printed, strict=True)))


@main.command()
@HOSTS
@ROUNDS
@SECONDS
def echo(hosts: Path, rounds: int, seconds: float) -> None:
    """Median latency of SENDs at a load: echoes of UC and UD, and acknowledgements of RC, in turn."""
    click.echo("| bytes | messages/s | RC us | UC us | UD us | UC/RC | UD/RC |\n|-|-|-|-|-|-|-|")
    with two_agents(read_inventory(hosts)) as agents:
        for size, rate in itertools.product((64, 4096), (50, 500)):
            medians: dict[str, list[float]] = {"RC": [], "UC": [], "UD": []}
            for _ in range(rounds):
                for qp_type, kept in medians.items():
                    load = {"messages": [size], "offered_bps": 8 * size * rate}
                    found = window(agents, PLAIN | {"qp_type": qp_type, "opcode": "SEND", **load}, seconds)
                    kept.append(found["latencies"].quantile(0.5) / 1e3)
            reliable, *others = (median(kept) for kept in medians.values())
            ratios = [f"{other / reliable:.2f}" for other in others]
            words = [size, rate, *(f"{each:.0f}" for each in (reliable, *others)), *ratios]
            click.echo(f"| {' | '.join(map(str, words))} |")


def perftest(hosts: list[Host], program: str) -> Quantiles:
    """Return the latencies that perftest prints.

    On an emulated CPU it now and then prints `inf`, because it cannot measure the frequency. Then it runs again.
    """
    for _ in range(5):
        if row := ROW.search(_perftest(hosts, program)):
            return Quantiles(*map(float, row.groups()))
    raise click.ClickException(f"{program} printed no latency five times")


def _perftest(hosts: list[Host], program: str) -> str:
    server, client = hosts[1], hosts[0]
    words = f"{program} -p {next(PORTS)}"
    listening = subprocess.Popen(
        server.argv(f"{words} -d {server.device} -x {server.gid_index}"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        time.sleep(LISTEN_SECONDS)
        printed = client.run(f"{words} -d {client.device} -x {client.gid_index} {server.data_address}")
        listening.wait(20)
    finally:
        listening.kill()
        listening.wait()
    return printed


@main.command()
@HOSTS
@SECONDS
def pacing(hosts: Path, seconds: float) -> None:
    """Error of the posted load at 20, 50 and 80 % of what full queues move."""
    click.echo("| opcode | bytes | queue pairs | full, Mbit/s | share | error | p50 ms | p99 ms |\n|-|-|-|-|-|-|-|-|")
    cells = [("WRITE", 64, 1), ("WRITE", 4096, 1), ("WRITE", 64, 8), ("READ", 64, 1), ("READ", 4096, 1)]
    with two_agents(read_inventory(hosts)) as agents:
        for opcode, size, qps in cells:
            workload = PLAIN | {"opcode": opcode, "messages": [size], "qps": qps, "send_wq_depth": 32}
            full = window(agents, workload, seconds)
            most = 8 * size * full["completed_messages"] / full["seconds"]
            for share in (0.2, 0.5, 0.8):
                offered = int(share * most)
                found = window(agents, workload | {"offered_bps": offered}, seconds)
                error = abs(8 * found["posted_bytes"] / found["seconds"] / offered - 1)
                p50, p99 = (found["latencies"].quantile(each) for each in (0.5, 0.99))
                words = [opcode, size, qps, f"{most / 1e6:.3f}", f"{share:.0%}", f"{error:.1%}"]
                words += [f"{value / 1e6:.1f}" if value else "-" for value in (p50, p99)]
                click.echo(f"| {' | '.join(map(str, words))} |")


if __name__ == "__main__":
    main()
