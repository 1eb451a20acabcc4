"""Compare the agent's data paths with perftest on the hosts of an inventory, in turn, with the same parameters.

    python benchmarks/traffic_engine.py --hosts hosts.yaml                       # every cell, loopback and between two
    python benchmarks/traffic_engine.py --hosts hosts.yaml --place loopback --only "RC WRITE"

One row per cell: operation, message size, and ``wqe_batch``, which is perftest's post list (``-l``) and CQ moderation
(``-Q``); one queue pair, the same depth. Messages/s are medians over rounds; rounds are interleaved, so that whatever
else the machines do hits all alike. Where nothing is acknowledged (UC, UD) both count what the sender's device took.
User CPU time is that of the processes that drive traffic, at both ends; of perftest, less what a run of five messages
takes. Prints Markdown and asserts nothing. With ``--record`` an interrupted comparison is not lost.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import re
import shlex
import statistics
import subprocess
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
FIRST_PORT = 18515
# perftest prints bandwidth with two digits; the last column, Mpps, has six.
ROW = re.compile(r"^\s*(\d+)\s+(\d+)\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)\s*$", re.MULTILINE)
LOOPBACK = [[{"flow": "a-a", "role": "requester"}, {"flow": "a-a", "role": "responder"}]]

# Runs on a host: starts perftest, says when a server listens, then what it printed and the user CPU time it took.
WRAPPER = """
import json, resource, subprocess, sys, time
port, listen = int(sys.argv[1]), sys.argv[2] == "server"
run = subprocess.Popen(sys.argv[3:], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
while listen and run.poll() is None:
    tables = [line.split() for name in ("tcp", "tcp6") for line in open("/proc/net/" + name)]
    if any(row[3] == "0A" and row[1].endswith(":%04X" % port) for row in tables):
        break
    time.sleep(0.05)
print("listening", flush=True)
try:
    printed = run.communicate(timeout=60)[0]
except subprocess.TimeoutExpired:
    run.kill()
    printed = "timeout"
user = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
print(json.dumps({"printed": printed, "user_seconds": user}))
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
    for opcode, size, batch in itertools.product(("WRITE", "SEND", "READ"), (64, 1024, 65536), (1, 16, 64)):
        yield Cell("RC", opcode, size, batch)
    for size, batch in itertools.product((64, 1024), (1, 16, 64)):
        yield Cell("UD", "SEND", size, batch)
    for size, batch in itertools.product((64, 1024, 65536), (1, 16, 64)):
        yield Cell("UC", "WRITE", size, batch)


class Perftest:
    """perftest between two hosts, which may be one."""

    def __init__(self, server: Host, client: Host, depth: int, seconds: int) -> None:
        self._server, self._client, self._depth, self._seconds = server, client, depth, seconds
        self._ports = itertools.cycle(range(FIRST_PORT, FIRST_PORT + 100))  # one that just closed cannot be bound
        self._start_up: dict[str, float] = {}

    def run(self, place: str, cell: Cell) -> Run | None:
        """Run once; None when it fails."""
        name = cell.operation
        if name not in self._start_up:
            few = self._pair(Cell(cell.qp_type, cell.opcode, 64, 1), "-n 5")
            self._start_up[name] = few[1] if few else 0.0
        found = self._pair(cell, f"-D {self._seconds}")
        row = ROW.search(found[0]) if found else None
        if found is None or row is None or not float(row.group(5)):
            return None
        rate = float(row.group(5)) * 1e6
        used = max(0.0, found[1] - self._start_up[name])
        return Run(place, cell, PERFTEST, rate, used / (rate * self._seconds) * 1e6)

    def _pair(self, cell: Cell, length: str) -> tuple[str, float] | None:
        flags = f"{length} -c {cell.qp_type} -F -s {cell.message_bytes} -m {MTU} -t {self._depth} --report_gbits"
        flags += f" -l {cell.batch} -Q {cell.batch}" if cell.batch > 1 else " -Q 1"
        flags += f" -o {OUTSTANDING_READS}" if cell.opcode == "READ" else ""
        port = next(self._ports)
        program = f"ib_{cell.opcode.lower()}_bw -p {port} {flags}"
        server = self._start(self._server, program, port, "server")
        try:
            assert server.stdout is not None
            server.stdout.readline()
            client = self._start(self._client, f"{program} {self._server.data_address}", port, "client")
            told = [json.loads(process.communicate(timeout=90)[0].splitlines()[-1]) for process in (client, server)]
        except (subprocess.TimeoutExpired, ValueError, IndexError):
            return None
        finally:
            server.kill()
            server.wait()
        return told[0]["printed"], told[0]["user_seconds"] + told[1]["user_seconds"]

    @staticmethod
    def _start(host: Host, program: str, port: int, role: str) -> subprocess.Popen[str]:
        words = [*program.split(), "-d", host.device, "-x", str(host.gid_index)]
        command = shlex.join([host.python, "-c", WRAPPER, str(port), role, *words])
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
        first, *_, last = [sample for sample in agent.samples if sample["phase"] == "running"]
        seconds += last["health"]["cpu_user_seconds"] - first["health"]["cpu_user_seconds"]
        for key, flow in last["flows"].items():
            if key.endswith("/requester"):
                messages += flow["posted_messages"] - first["flows"][key]["posted_messages"]
    return seconds / messages * 1e6 if messages else math.nan


def engine(place: str, agents: list[RemoteAgent], path: str, cell: Cell, options: argparse.Namespace) -> Run:
    """Run the agent's engine once."""
    flows = LOOPBACK if len(agents) == 1 else ends()
    wanted = workload(cell, options.depth)
    measured = measure(agents, wanted, options.seconds, warm_up=0.5, flows=flows, data_path=path)
    rates = measured.messages_per_second if cell.qp_type == "RC" else measured.posted_per_second
    health = measured.totals[0]["health"]
    fill = health["queue_outstanding"] / health["queue_limit"] if health["queue_limit"] else None
    return Run(place, cell, path, next(iter(rates.values())), user_microseconds(agents), fill)


def compare(place: str, agents: list[RemoteAgent], options: argparse.Namespace) -> Iterator[Run]:
    """Measure every cell asked for, contenders in turn."""
    perftest = Perftest(agents[-1].host, agents[0].host, options.depth, options.seconds)
    for number in range(options.rounds):
        for cell in cells():
            if cell.operation.startswith(options.only):
                run = perftest.run(place, cell)
                if run:
                    yield run
                yield engine(place, agents, PATHS[0], cell, options)
                if number < options.pyverbs_rounds:
                    yield engine(place, agents, PATHS[1], cell, options)


def median(runs: Sequence[Run], contender: str, what: str) -> float:
    """Return the median of an attribute over a contender's runs, NaN without any."""
    values = [getattr(run, what) for run in runs if run.contender == contender]
    return statistics.median(values) if values else math.nan


def table(place: str, runs: Sequence[Run]) -> None:
    """Print the medians of all runs in one place, and how native compares."""
    titles = ["cell", "bytes", "batch", "perftest msg/s", "native", "ratio", "pyverbs", "ratio"]
    titles += ["us/msg perftest", "native", "pyverbs", "queue", "rounds"]
    print(f"\n{place}\n\n| {' | '.join(titles)} |\n|---|{'---:|' * (len(titles) - 1)}")
    ratios = []
    for cell in cells():
        here = [run for run in runs if run.place == place and run.cell == cell]
        if not here:
            continue
        theirs, native, pyverbs = (median(here, name, "messages_per_second") for name in (PERFTEST, *PATHS))
        cpu = [median(here, name, "user_microseconds") for name in (PERFTEST, *PATHS)]
        rounds = sum(run.contender == PATHS[0] for run in here)
        ratios += [native / theirs] if native == native and theirs == theirs else []
        print(
            f"| {cell.operation} | {cell.message_bytes} | {cell.batch} | {theirs:.0f} | {native:.0f} "
            f"| {native / theirs:.2f} | {pyverbs:.0f} | {pyverbs / theirs:.2f} | {cpu[0]:.1f} | {cpu[1]:.1f} "
            f"| {cpu[2]:.1f} | {median(here, PATHS[0], 'queue_fill'):.0%} | {rounds} |"
        )
    if ratios:
        print(f"\nnative/perftest: geometric mean {statistics.geometric_mean(ratios):.3f}, ", end="")
        print(f"lowest {min(ratios):.2f} of {len(ratios)} cells")


def recorded(path: Path) -> list[Run]:
    """Return the runs of a file that ``--record`` has written."""
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [Run(**{**row, "cell": Cell(**row["cell"])}) for row in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=Path, required=True, help="inventory")
    parser.add_argument("--place", choices=("loopback", "between", "both"), default="both")
    parser.add_argument("--only", default="", help="cells whose operation begins so, such as 'RC WRITE' or 'UD'")
    parser.add_argument("--rounds", type=int, default=5, help="0: only print what --record has")
    parser.add_argument("--pyverbs-rounds", type=int, default=5, help="of the rounds, how many measure pyverbs too")
    parser.add_argument("--seconds", type=int, default=2, help="of one measurement")
    parser.add_argument("--depth", type=int, default=128)
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
