"""Acceptance of `collie sweep` on the lab: 16 sizes of RC WRITE, SEND and READ, against perftest over the same sizes.

    python scripts/acceptance/sweep.py [--sizes 64,128,...] [--rounds 1] [--seconds 2]

The lab must be up. Prints the time of each sweep, the rates of both programs size by size, and the median ratio.
perftest runs the same workload (`collie.perftest`), as its client on host a and its server on host b.
"""

from __future__ import annotations

import argparse
import csv
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from collie.cli.main import run as collie
from collie.content.inventory import load_inventory
from collie.content.spaces import load_space
from collie.inventory.hosts import Host
from collie.lab import lab
from collie.perftest.case import in_perftest
from collie.perftest.command import PerftestCommand
from collie.report.perftest import command_line
from collie.workloads.feature import Mfs
from collie.workloads.sweep import Headroom
from collie.workloads.workload import Opcode, Workload
from tests.lab.test_perftest import ssh

SPACE = load_space("soft-roce")
SIZES = tuple(sorted([*(1 << power for power in range(6, 19)), 3 << 6, 3 << 9, 3 << 12]))
OPCODES = (Opcode.WRITE, Opcode.SEND, Opcode.READ)


def swept(opcode: Opcode, sizes: list[int], folder: Path) -> tuple[dict[int, float], float]:
    """Return the rates in bits/s by size, and the seconds that the command took."""
    path, began = folder / f"{opcode}.csv", time.monotonic()
    values = ",".join(map(str, sizes))
    words = ["sweep", "--hosts", "lab", "--x", f"message_bytes={values}", "--fix", f"opcode={opcode}"]
    code = collie([*words, "--halvings", "0", "-o", str(path), "--format", "json"])
    if code:
        raise SystemExit(f"collie sweep ended with {code}")
    with path.open(newline="", encoding="utf-8") as file:
        rows = {int(row["message_bytes"]): float(row["delivered_bps"] or 0) for row in csv.DictReader(file)}
    return rows, time.monotonic() - began


def perftest(workload: Workload, hosts: dict[str, Host], folder: Path, seconds: int) -> float:
    """Return the rate of perftest for a workload, in bits/s, or 0 if it does not tell."""
    case = in_perftest("size", workload, None, Mfs(()), SPACE)
    (pair,) = case.anomaly.pairs
    server = _begin(pair.server, hosts, folder, seconds)
    time.sleep(1.0)
    client = _begin(pair.client, hosts, folder, seconds)
    said, _ = client.communicate(timeout=60)
    server.communicate(timeout=60)
    row = next((line.split() for line in said.splitlines() if line.split()[:1] == [str(workload.messages[0])]), None)
    return float(row[3]) * 1e9 if row else 0.0


def _begin(command: PerftestCommand, hosts: dict[str, Host], folder: Path, seconds: int) -> subprocess.Popen[str]:
    host = hosts[command.role]
    values = {"DEVICE": host.device, "GID": "1", "NODE": "0"}
    settings = {f"{name}_{role.upper()}": value for role in hosts for name, value in values.items()}
    settings["ADDRESS_B"] = str(hosts["b"].data_address)
    shell = " ".join(f"{name}={shlex.quote(value)}" for name, value in settings.items())
    text = f"{shell}; {command_line(command, 0, str(seconds))}"
    words = [*shlex.split(ssh(host, folder)), "-p", str(host.port), f"{host.user}@{host.address}", text]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def main() -> int:
    """Sweep, run perftest over the same sizes, and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=lambda text: [int(each) for each in text.split(",")], default=list(SIZES))
    parser.add_argument("--rounds", type=int, default=1, help="of each perftest, of which the median counts")
    parser.add_argument("--seconds", type=int, default=2)
    options = parser.parse_args()
    inventory = load_inventory(Path(str(lab.status().inventory)))
    pair = inventory.pairs[0]
    hosts = dict(zip("ab", pair.hosts, strict=False))
    ratios: list[float] = []
    whole = 0.0
    with tempfile.TemporaryDirectory(prefix="collie-sweep-") as temporary:
        folder = Path(temporary)
        os.chdir(folder)
        for opcode in OPCODES:
            rates, seconds = swept(opcode, options.sizes, folder)
            whole += seconds
            print(f"{opcode}: {len(rates)} sizes in {seconds:.0f} s", flush=True)
            for size, rate in rates.items():
                room = Headroom(SPACE, ("messages",))
                workload = room.make(SPACE.base.with_(opcode=opcode, messages=(size,)))
                theirs = median(perftest(workload, hosts, folder, options.seconds) for _ in range(options.rounds))
                if theirs:
                    ratios.append(rate / theirs)
                print(f"  {size:>8} {rate / 1e6:9.1f} Mbit/s, perftest {theirs / 1e6:9.1f}", flush=True)
    print(f"all: {whole:.0f} s; median ratio {median(ratios):.3f} over {len(ratios)} sizes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
