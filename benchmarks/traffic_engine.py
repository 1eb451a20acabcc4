"""Compare the agent's traffic engine with perftest on the two hosts of an inventory, in turn, with the same parameters.

    python benchmarks/traffic_engine.py --hosts hosts.yaml

Prints one row per operation and number of queue pairs: medians with their range over the rounds, and the ratio of the
medians. Rounds are interleaved, so that whatever else the machines do hits both alike. Then a second table: operations
for which perftest counts at the sender, counted at the receiver by the engine. Asserts nothing.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import time
from pathlib import Path
from typing import Any

from agent_driver import Host, Measured, RemoteAgent, measure, read_inventory

OPERATIONS = ("WRITE", "SEND", "READ")
OUTSTANDING_READS = 16
PERFTEST_PORT = 18515
MB = 1e6
# perftest prints MiB/s under the name of MB/sec; --report_gbits is unambiguous.
ROW = re.compile(r"^\s*(\d+)\s+(\d+)\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)\s*$", re.MULTILINE)


def perftest(server: Host, client: Host, operation: str, qps: int, options: argparse.Namespace) -> float:
    """Run one perftest pair and return its bytes per second."""
    flags = f"-d {server.device} -x {server.gid_index} -F -s {options.bytes} -D {options.seconds} -q {qps}"
    flags += f" -m {options.mtu} -t {options.depth} -l {options.batch} -Q {options.batch} -p {PERFTEST_PORT}"
    flags += " --report_gbits"
    if operation == "READ":
        flags += f" -o {OUTSTANDING_READS}"
    program = f"ib_{operation.lower()}_bw {flags}"
    listening = subprocess.Popen(server.argv(program), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(1.5)
        output = client.run(f"{program} {server.data_address}", timeout=options.seconds + 60)
        found = ROW.search(output)
        return float(found.group(4)) * 1e9 / 8 if found else float("nan")
    except subprocess.CalledProcessError:
        return float("nan")
    finally:
        try:
            listening.wait(10)
        except subprocess.TimeoutExpired:
            listening.kill()


def workload(operation: str, qps: int, options: argparse.Namespace, **more: Any) -> dict[str, Any]:
    """Return the same parameters as a workload."""
    return {
        "qp_type": "RC",
        "opcode": operation,
        "qps": qps,
        "messages": [options.bytes],
        "mtu": options.mtu,
        "send_wq_depth": options.depth,
        "recv_wq_depth": 512,  # perftest's own
        "wqe_batch": options.batch,
        "max_rd_atomic": OUTSTANDING_READS,
        "max_dest_rd_atomic": OUTSTANDING_READS,
        **more,
    }


def delivered(measured: Measured) -> float:
    """Return the bytes per second over all flows."""
    return sum(measured.bytes_per_second.values())


def spread(values: list[float]) -> str:
    """Return median and range in MB/s."""
    good = [value / MB for value in values if value == value]
    if not good:
        return "failed"
    return f"{statistics.median(good):7.2f} ({min(good):.2f}-{max(good):.2f})"


def compare(agents: list[RemoteAgent], options: argparse.Namespace) -> None:
    """Print the comparison with perftest."""
    print(f"{'RC':10} {'QPs':>3}  {'perftest MB/s':>24}  {'engine MB/s':>24}  ratio  engine CPU")
    client, server = (agent.host for agent in agents)
    for qps in options.qps:
        for operation in OPERATIONS:
            theirs, ours, cpu = [], [], 0.0
            for _ in range(options.rounds):
                theirs.append(perftest(server, client, operation, qps, options))
                measured = measure(agents, workload(operation, qps, options), options.seconds)
                ours.append(delivered(measured))
                cpu += sum(totals["health"]["cpu_seconds"] for totals in measured.totals)
            good = [value for value in theirs if value == value]
            ratio = statistics.median(ours) / statistics.median(good) if good else float("nan")
            share = cpu / (len(agents) * options.rounds * (options.seconds + 1))
            row = f"{operation:10} {qps:3d}  {spread(theirs):>24}  {spread(ours):>24}  {ratio:5.2f}  {share:10.0%}"
            print(row, flush=True)


def receivers(agents: list[RemoteAgent], options: argparse.Namespace) -> None:
    """Print what the receiver counted where the sender's completions prove nothing."""
    print(
        f"\n{'at receiver':12} {'bytes':>6}  {'posted msg/s':>12}  {'delivered msg/s':>15}  {'delivered MB/s':>14}  by"
    )
    for qp_type, operation, size in (
        ("UC", "WRITE", options.bytes),
        ("UC", "SEND", options.bytes),
        ("UD", "SEND", 1024),
    ):
        item = workload(operation, 1, options, qp_type=qp_type, messages=[size])
        measured = measure(agents, item, options.seconds)
        key = next(iter(measured.bytes_per_second))
        rate = measured.posted_per_second["a-b/requester"]
        print(
            f"{qp_type} {operation:9} {size:6d}  {rate:12.0f}  {measured.messages_per_second[key]:15.0f}  "
            f"{measured.bytes_per_second[key] / MB:14.2f}  {key}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=Path, required=True, help="inventory")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=4, help="of one measurement")
    parser.add_argument("--bytes", type=int, default=65536)
    parser.add_argument("--mtu", type=int, default=4096)
    parser.add_argument("--depth", type=int, default=128)
    parser.add_argument("--batch", type=int, default=1, help="perftest's -l and -Q")
    parser.add_argument("--qps", type=int, nargs="+", default=[1, 4])
    options = parser.parse_args()
    agents = [RemoteAgent(host) for host in read_inventory(options.hosts)]
    try:
        compare(agents, options)
        receivers(agents, options)
    finally:
        for agent in agents:
            agent.close()


if __name__ == "__main__":
    main()
