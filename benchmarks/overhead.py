"""Where the time of a run goes that is not its window, on real hosts.

    python benchmarks/overhead.py --hosts lab
    python benchmarks/overhead.py --hosts hosts.yaml --qps 1 --qps 500 --runs 20
    python benchmarks/overhead.py --hosts lab --qps 1000 --mrs-per-qp 10

Each number of queue pairs has two rows: `fresh`, runs on set-ups of their own, and `phase`, further phases of one
set-up.

Listens to the conversations with the agents: each step lasts from the first host's request to the last host's answer.
`traffic` is from the last start to the first stop, and holds the warm-up, the window, and `settling`: how long a run
was watched longer because its rate had not settled in the window. What is left of a run is the controller's own.
`beyond` is all of a run but its window, and `set-up` that without settling; the warm-up is part of both. A run is timed
from the end of the one before it, so nothing that overlaps two runs is counted as free.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from statistics import median

import click

from collie.app import inventories
from collie.content.catalogs import load_catalog
from collie.hosts.testbed import HostsTestbed
from collie.inventory.hosts import Host
from collie.ports import Channel, Completed, Measured, Remote
from collie.readings.policy import WindowPolicy
from collie.ssh.remote import SshRemote
from collie.wiring import ADAPTERS
from collie.workloads.setup import SetUp
from collie.workloads.workload import Opcode, Workload

WARM_UP_SECONDS = WindowPolicy().warm_up_seconds
MOST_BYTES = 64 << 20
"""Of all regions of a host. A machine of the lab has 768 MiB."""
STEPS = ("prepare", "connect", "phase", "start", "traffic", "stop", "destroy")


class Log:
    """When each step was first asked for and last answered, since the last `take`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spans: dict[str, list[float]] = {}

    def note(self, step: str) -> None:
        """Widen the span of a step to now."""
        with self._lock:
            now = time.monotonic()
            span = self._spans.setdefault(step, [now, now])
            span[1] = now

    def take(self) -> dict[str, float]:
        """Return the seconds of each step, and begin anew."""
        with self._lock:
            spans, self._spans = self._spans, {}
        seconds = {step: end - begin for step, (begin, end) in spans.items()}
        if "start" in spans:
            after = min((spans[step][0] for step in ("stop", "destroy") if step in spans), default=spans["start"][1])
            seconds["traffic"] = after - spans["start"][1]
        return seconds


class HeardChannel:
    """A channel whose requests and answers are noted."""

    def __init__(self, channel: Channel, log: Log) -> None:
        self._channel, self._log = channel, log
        self._asked: dict[int, str] = {}

    def send_line(self, line: str) -> None:
        """Note a request. The line before the first one is the agent's loader."""
        if line.startswith("{"):
            request = json.loads(line)
            self._asked[request["id"]] = request["do"]
            self._log.note(request["do"])
        self._channel.send_line(line)

    def read_line(self, timeout_seconds: float) -> str | None:
        """Note an answer."""
        line = self._channel.read_line(timeout_seconds)
        if line is not None and line.startswith("{") and '"event"' not in line[:12]:
            answered = json.loads(line).get("id")
            if answered in self._asked:
                self._log.note(self._asked[answered])
        return line

    def stderr_tail(self) -> str:
        """Pass on."""
        return self._channel.stderr_tail()

    def close(self) -> None:
        """Pass on."""
        self._channel.close()


class HeardRemote:
    """A remote whose channels are listened to."""

    def __init__(self, remote: Remote, log: Log) -> None:
        self._remote, self._log = remote, log

    @property
    def name(self) -> str:
        """The host's name."""
        return self._remote.name

    def run(self, argv: Sequence[str], timeout_seconds: float) -> Completed:
        """Pass on."""
        return self._remote.run(argv, timeout_seconds)

    def put(self, data: bytes, path: str) -> None:
        """Pass on."""
        self._remote.put(data, path)

    def open(self, argv: Sequence[str]) -> Channel:
        """Listen from the first line on."""
        return HeardChannel(self._remote.open(argv), self._log)

    def close(self) -> None:
        """Pass on."""
        self._remote.close()


def rows(
    testbed: HostsTestbed, log: Log, workload: Workload, runs: int, on: SetUp | None = None
) -> list[dict[str, float]]:
    """Return the steps of each run, its whole and its window; the first run, which warms up, is left out.

    They READ and WRITE in turn. With `on` they are phases, and the first one makes the set-up.
    """
    measured: list[dict[str, float]] = []
    ended = time.monotonic()
    for run in range(runs + 1):
        log.take()
        traffic = workload if run % 2 else workload.with_(opcode=Opcode.READ)
        result = testbed.measure(traffic, run, None, on)
        if on is not None and isinstance(result, Measured):
            on = on.after(traffic) if result.stands else SetUp(workload)
        began, ended = ended, time.monotonic()
        if not isinstance(result, Measured):
            click.echo(f"{workload.qps} QPs: {result}", err=True)
            continue
        row = {**log.take(), "window": result.measurement.window_seconds, "run": ended - began}
        row["settling"] = max(0.0, row["traffic"] - WARM_UP_SECONDS - row["window"])
        row["beyond"] = row["run"] - row["window"]
        row["set-up"] = row["beyond"] - row["settling"]
        measured.append(row)
    return measured[1:]


@click.command()
@click.option("--hosts", default="lab", show_default=True, help="Inventory, or `lab`.")
@click.option("--qps", "counts", multiple=True, type=int, default=(1, 32, 500), show_default=True)
@click.option("--mrs-per-qp", default=1, show_default=True)
@click.option("--runs", default=5, show_default=True, help="Per number of queue pairs.")
def main(hosts: str, counts: tuple[int, ...], mrs_per_qp: int, runs: int) -> None:
    """Print the median seconds of each step per number of queue pairs, and what a run costs beyond its window."""
    log = Log()

    def connect(host: Host) -> Remote:
        return HeardRemote(SshRemote(host), log)

    testbed = HostsTestbed(
        inventories.first_pair(inventories.open_inventory(ADAPTERS, hosts)),
        connect,
        load_catalog,
        policy=WindowPolicy(),
    )
    columns = (*STEPS, "window", "settling", "run", "beyond", "set-up")
    click.echo("  ".join(f"{name:>8}" for name in ("QPs", "", *columns, "worst", "a minute")))
    try:
        for qps in counts:
            size = min(16384, max(4096, MOST_BYTES // (qps * mrs_per_qp) // 4096 * 4096))
            workload = Workload(
                qps=qps,
                mrs_per_qp=mrs_per_qp,
                mr_bytes=size,
                messages=(size,),
                send_wq_depth=max(1, 128 // qps),
                recv_wq_depth=1,
            )
            for name, on in (("fresh", None), ("phase", SetUp(workload))):
                found = rows(testbed, log, workload, runs, on)
                if not found:
                    continue
                values = [median(row.get(column, 0.0) for row in found) for column in columns]
                figures = (*values, max(row["set-up"] for row in found), 60 / median(row["run"] for row in found))
                click.echo("  ".join([f"{qps:>8}", f"{name:>8}", *(f"{figure:8.2f}" for figure in figures)]))
    finally:
        testbed.close()


if __name__ == "__main__":
    main()
