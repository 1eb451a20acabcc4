"""Compare the agent's data paths with perftest on the hosts of an inventory, in turn, with the same parameters.

    python benchmarks/traffic_engine.py --hosts hosts.yaml                       # every cell, loopback and between two
    python benchmarks/traffic_engine.py --hosts hosts.yaml --place loopback --only "RC WRITE"

One row per cell: operation, message size, and ``wqe_batch``, which is perftest's post list (``-l``) and CQ moderation
(``-Q``); one queue pair, the same depth. Messages/s are medians over rounds; rounds are interleaved, so that whatever
else the machines do hits all alike. Where nothing is acknowledged (UC, UD) both count what the sender's device took.
User CPU time is that of the processes that drive traffic, at both ends, while they do. Prints Markdown and asserts
nothing. With ``--record`` an interrupted comparison is not lost.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import re
import shlex
import statistics
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agent_driver import Host, RemoteAgent, ends, measure, read_inventory

PATHS = ("native", "pyverbs")
PERFTEST = "perftest"
OUTSTANDING_READS = 16
RECV_DEPTH = 512  # perftest's own
MTU = 4096
SIZES = (64, 1024, 65536)
BATCHES = (1, 16, 64)
SAMPLE_SECONDS = 0.5
FIRST_PORT = 18515
# perftest prints bandwidth with two digits; the last column, Mpps, has six.
ROW = re.compile(r"^\s*(\d+)\s+(\d+)\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)\s*$", re.MULTILINE)
LOOPBACK = [[{"flow": "a-a", "role": "requester"}, {"flow": "a-a", "role": "responder"}]]

# Runs on a host: starts perftest, says when a server listens, and in the end what it printed and what share of a CPU
# it used outside of the kernel in the middle of its traffic, which ends just before the program does.
WRAPPER = """
import json, os, subprocess, sys, time
port, listen, seconds = int(sys.argv[1]), sys.argv[2] == "server", float(sys.argv[3])
run = subprocess.Popen(sys.argv[4:], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
stat = open("/proc/%d/stat" % run.pid)
seen, deadline = [], time.monotonic() + 60
while run.poll() is None and time.monotonic() < deadline:
    if listen:
        tables = [line.split() for name in ("tcp", "tcp6") for line in open("/proc/net/" + name)]
        listen = not any(row[3] == "0A" and row[1].endswith(":%04X" % port) for row in tables)
        if not listen:
            print("listening", flush=True)
    stat.seek(0)
    try:
        seen.append((time.monotonic(), int(stat.read().rpartition(")")[2].split()[11])))
    except (OSError, IndexError):
        break
    time.sleep(0.1)
run.kill()
printed, end = run.communicate()[0], time.monotonic()
middle = [row for row in seen if end - 0.9 * seconds < row[0] < end - 0.3]
share = 0.0
if len(middle) > 1:
    share = (middle[-1][1] - middle[0][1]) / os.sysconf("SC_CLK_TCK") / (middle[-1][0] - middle[0][0])
print(json.dumps({"printed": printed, "user_share": share}))
"""


@dataclass(frozen=True)
class Cell:
    """What all contenders run."""

    qp_type: str
    opcode: str
    message_bytes: int
    batch: int

    @property
    def operation(self) -> str:
        """Such as ``RC WRITE``."""
        return f"{self.qp_type} {self.opcode}"


@dataclass(frozen=True)
class Run:
    """One measurement of one contender.

    Attributes:
        user_microseconds: user CPU time per message.
        queue_fill: how full the send queue was, mean over all times it was filled again; perftest does not say.
    """

    place: str
    cell: Cell
    contender: str
    messages_per_second: float
    user_microseconds: float
    queue_fill: float | None = None


def cells() -> Iterator[Cell]:
    for opcode, size, batch in itertools.product(("WRITE", "SEND", "READ"), SIZES, BATCHES):
        yield Cell("RC", opcode, size, batch)
    for size, batch in itertools.product(SIZES[:2], BATCHES):  # a datagram is one packet
        yield Cell("UD", "SEND", size, batch)
    for size, batch in itertools.product(SIZES, BATCHES):
        yield Cell("UC", "WRITE", size, batch)


class Emulator:
    """What the process of an emulated host takes of this machine.

    Hosts that share their machine with other work go now fast, now slow, and all contenders with them. Messages per
    second of the emulator's own CPU time hold still.
    """

    def __init__(self, pid: int | None) -> None:
        self._pid = pid
        self._seen: list[tuple[float, float]] = []
        if pid is not None:
            threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            ticks = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()[11:13]
            self._seen.append((time.monotonic(), sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")))
            time.sleep(0.1)

    def share(self, window: tuple[float, float]) -> float:
        """Return the CPU time over wall time in a window of the monotonic clock; 1 without an emulator."""
        inside = [seen for seen in self._seen if window[0] <= seen[0] <= window[1]]
        if len(inside) < 2:
            return 1.0
        return (inside[-1][1] - inside[0][1]) / (inside[-1][0] - inside[0][0])


class Perftest:
    """perftest between two hosts, which may be one."""

    def __init__(self, server: Host, client: Host, depth: int, seconds: int) -> None:
        self._server, self._client, self._depth, self._seconds = server, client, depth, seconds
        self._ports = itertools.cycle(range(FIRST_PORT, FIRST_PORT + 100))  # one that just closed cannot be bound

    def run(self, place: str, cell: Cell, emulator: Emulator) -> Run | None:
        """Run once; None when it fails."""
        flags = f"-D {self._seconds} -c {cell.qp_type} -F -s {cell.message_bytes} -m {MTU} -t {self._depth}"
        flags += f" --report_gbits -l {cell.batch} -Q {cell.batch}" if cell.batch > 1 else " --report_gbits -Q 1"
        flags += f" -o {OUTSTANDING_READS}" if cell.opcode == "READ" else ""
        found = self._pair(f"ib_{cell.opcode.lower()}_bw {flags}")
        end = time.monotonic()
        row = ROW.search(found[0]) if found else None
        if found is None or row is None or not float(row.group(5)):
            return None
        rate = float(row.group(5)) * 1e6
        share = emulator.share((end - 0.3 - 0.75 * self._seconds, end - 0.3 - 0.25 * self._seconds))
        return Run(place, cell, PERFTEST, rate / share, found[1] / rate * 1e6)

    def _pair(self, program: str) -> tuple[str, float] | None:
        """Return what the client printed and the user CPU time of both ends per second."""
        port = next(self._ports)
        server = self._start(self._server, program, port, "server")
        started = [server]
        try:
            assert server.stdout is not None
            server.stdout.readline()
            client = self._start(self._client, f"{program} {self._server.data_address}", port, "client")
            started.append(client)
            reported = [json.loads(process.communicate(timeout=90)[0].splitlines()[-1]) for process in (client, server)]
        except (subprocess.TimeoutExpired, ValueError, IndexError):
            return None
        finally:
            for process in started:
                process.kill()
                process.wait()
        return reported[0]["printed"], reported[0]["user_share"] + reported[1]["user_share"]

    def _start(self, host: Host, program: str, port: int, role: str) -> subprocess.Popen[str]:
        words = [*program.split(), "-p", str(port), "-d", host.device, "-x", str(host.gid_index)]
        command = shlex.join([host.python, "-c", WRAPPER, str(port), role, str(self._seconds), *words])
        return subprocess.Popen(
            host.argv(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )


def workload(cell: Cell, depth: int) -> dict[str, Any]:
    """Return the same parameters as a workload."""
    return {
        "qp_type": cell.qp_type,
        "opcode": cell.opcode,
        "messages": [cell.message_bytes],
        "mtu": MTU,
        "send_wq_depth": depth,
        "recv_wq_depth": RECV_DEPTH,
        "wqe_batch": cell.batch,
        "max_rd_atomic": OUTSTANDING_READS,
        "max_dest_rd_atomic": OUTSTANDING_READS,
    }


def user_microseconds(agents: Sequence[RemoteAgent]) -> float:
    """Return the engines' user CPU time per message while traffic ran, in microseconds."""
    seconds, messages = 0.0, 0
    for agent in agents:
        first, *_, last = [sample for sample in agent.samples if sample["state"] == "running"]
        seconds += last["health"]["cpu_user_seconds"] - first["health"]["cpu_user_seconds"]
        for key, flow in last["flows"].items():
            if key.endswith("/requester"):
                messages += flow["posted_messages"] - first["flows"][key]["posted_messages"]
    return seconds / messages * 1e6 if messages else math.nan


def engine(
    place: str, agents: list[RemoteAgent], path: str, cell: Cell, options: argparse.Namespace, emulator: Emulator
) -> Run:
    """Run the agent's engine once."""
    measured = measure(
        agents,
        workload(cell, options.depth),
        options.seconds,
        warm_up=0.5,
        flows=LOOPBACK if len(agents) == 1 else ends(),
        data_path=path,
        period_seconds=SAMPLE_SECONDS,
    )
    rates = measured.messages_per_second if cell.qp_type == "RC" else measured.posted_per_second
    health = measured.totals[0]["health"]
    fill = health["queue_outstanding"] / health["queue_limit"] if health["queue_limit"] else None
    rate = next(iter(rates.values())) / emulator.share(measured.window)
    return Run(place, cell, path, rate, user_microseconds(agents), fill)


def wanted(cell: Cell, options: argparse.Namespace) -> bool:
    """Say whether a cell was asked for."""
    batch, size = cell.batch in options.batch, cell.message_bytes in options.bytes
    return cell.operation.startswith(options.only) and batch and size


def compare(place: str, agents: list[RemoteAgent], options: argparse.Namespace) -> Iterator[Run]:
    """Measure every cell asked for, contenders in turn."""
    perftest = Perftest(agents[-1].host, agents[0].host, options.depth, options.seconds)
    emulator = Emulator(options.emulator)
    for number in range(options.rounds):
        for cell in cells():
            if wanted(cell, options):
                run = perftest.run(place, cell, emulator)
                if run:
                    yield run
                yield engine(place, agents, PATHS[0], cell, options, emulator)
                if number < options.pyverbs_rounds:
                    yield engine(place, agents, PATHS[1], cell, options, emulator)


def median(runs: Sequence[Run], contender: str, what: str) -> float:
    """Return the median of an attribute over a contender's runs, NaN without any."""
    values = [getattr(run, what) for run in runs if run.contender == contender]
    return statistics.median(values) if values else math.nan


def table(place: str, runs: Sequence[Run]) -> None:
    """Print the medians of all runs in one place, and how native compares."""
    titles = ["cell", "bytes", "batch", "perftest msg/s", "native", "ratio", "pyverbs", "ratio"]
    titles += ["us/msg perftest", "native", "pyverbs", "queue", "rounds"]
    print(f"\n{place}\n\n| {' | '.join(titles)} |\n|---|{'---:|' * (len(titles) - 1)}")
    ratios, costs = [], []
    for cell in cells():
        here = [run for run in runs if run.place == place and run.cell == cell]
        if not here:
            continue
        theirs, native, pyverbs = (median(here, name, "messages_per_second") for name in (PERFTEST, *PATHS))
        cpu = [median(here, name, "user_microseconds") for name in (PERFTEST, *PATHS)]
        rounds = sum(run.contender == PATHS[0] for run in here)
        ratios += [native / theirs] if native == native and theirs == theirs else []
        costs += [cpu[1] / cpu[0]] if cpu[0] > 0 else []
        print(
            f"| {cell.operation} | {cell.message_bytes} | {cell.batch} | {theirs:.0f} | {native:.0f} "
            f"| {native / theirs:.2f} | {pyverbs:.0f} | {pyverbs / theirs:.2f} | {cpu[0]:.1f} | {cpu[1]:.1f} "
            f"| {cpu[2]:.1f} | {median(here, PATHS[0], 'queue_fill'):.0%} | {rounds} |"
        )
    if ratios:
        print(f"\nnative/perftest: geometric mean {statistics.geometric_mean(ratios):.3f}, ", end="")
        print(f"lowest {min(ratios):.2f} of {len(ratios)} cells", end="")
        print(f". User CPU per message, native/perftest: highest {max(costs):.2f}" if costs else "")


def recorded(path: Path) -> list[Run]:
    """Return the runs of a file that ``--record`` has written."""
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [Run(**{**row, "cell": Cell(**row["cell"])}) for row in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=Path, required=True, help="inventory")
    parser.add_argument("--place", choices=("loopback", "between", "both"), default="both")
    parser.add_argument("--only", default="", help="cells whose operation begins so, such as 'RC WRITE' or 'UD'")
    parser.add_argument("--bytes", type=int, nargs="+", default=SIZES, help="only these message sizes")
    parser.add_argument("--batch", type=int, nargs="+", default=BATCHES, help="only these batches")
    parser.add_argument("--rounds", type=int, default=5, help="0: only print what --record has")
    parser.add_argument("--pyverbs-rounds", type=int, default=5, help="of the rounds, how many measure pyverbs too")
    parser.add_argument("--seconds", type=int, default=2, help="of one measurement")
    parser.add_argument("--depth", type=int, default=128)
    parser.add_argument(
        "--emulator",
        type=int,
        help="process of the first host, which is emulated here: messages per second of its CPU time",
    )
    parser.add_argument("--record", type=Path, help="JSON lines: add every run to them, and count those there already")
    options = parser.parse_args()
    runs = recorded(options.record) if options.record else []
    agents = [RemoteAgent(host) for host in read_inventory(options.hosts)] if options.rounds else []
    places = [("loopback", agents[:1]), ("between", agents)]
    try:
        for place, chosen in places:
            if agents and options.place in (place, "both"):
                for run in compare(place, chosen, options):
                    runs.append(run)
                    if options.record:
                        with options.record.open("a") as file:
                            file.write(json.dumps(asdict(run)) + "\n")
    finally:
        for agent in agents:
            agent.close()
    for place, _ in places:
        if any(run.place == place for run in runs):
            table(place, runs)


if __name__ == "__main__":
    main()
