"""Set up, measure and tear down many queue pairs and regions, run after run, and say what is left of them.

Usage: python scripts/acceptance/scale.py --hosts FILE [--qps 1000] [--mrs-per-qp 10] [--runs 50]

Prints one line a run. Exit status 1 when objects, processes or open files have become more since the first run, or
memory less by more than the allowance.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.agent_driver import Footprint, RemoteAgent, read_inventory, scale_run

ALLOWED_BYTES = 16 << 20
"""Between the first run and the last; slabs and page tables of the kernel settle over the first runs."""


def main() -> int:
    """Run, print, and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=Path, required=True)
    parser.add_argument("--qps", type=int, default=1000)
    parser.add_argument("--mrs-per-qp", type=int, default=10)
    parser.add_argument("--runs", type=int, default=50)
    options = parser.parse_args()
    with ThreadPoolExecutor() as pool:
        agents = list(pool.map(RemoteAgent, read_inventory(options.hosts)))
    try:
        return _run(agents, options)
    finally:
        for agent in agents:
            agent.close()


def _run(agents: list[RemoteAgent], options: argparse.Namespace) -> int:
    first: list[Footprint] = []
    now = [Footprint.of(agent) for agent in agents]
    for number in range(1, options.runs + 1):
        began = time.monotonic()
        flow = scale_run(agents, options.qps, options.mrs_per_qp)["flows"]["a-b/requester"]
        seconds = time.monotonic() - began
        now = [Footprint.of(agent) for agent in agents]
        first = first or now
        memory = " ".join(f"{place.available_bytes >> 20} MiB" for place in now)
        print(f"run {number}: {seconds:.1f} s, {flow['completed_messages']} messages, available {memory}", flush=True)
    leaks = [leak for one, other in zip(first, now, strict=True) for leak in one.leaks(other, ALLOWED_BYTES)]
    print("\n".join(leaks) or f"nothing is left of {options.runs} runs")
    return 1 if leaks else 0


if __name__ == "__main__":
    sys.exit(main())
