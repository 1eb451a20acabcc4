"""A paced loop in C on the fake device, in a process whose clock `tests/contract/fake_sleeps.c` moves.

    LD_PRELOAD=CLOCK OVERSLEEP=NANOSECONDS python -m tests.support.oversleeping DEVICE CLOCK MESSAGES_PER_SECOND

Prints the median latency, and the share of the time in which the loop slept.
"""

from __future__ import annotations

import json
import sys
import time
from ctypes import CDLL, c_int64

from collie.agent.paths import load_native
from collie.readings.latency import Histogram
from tests.support.data_paths import Loopback

MESSAGES = 400


def main() -> None:
    """Run the loop as the module says."""
    device, clock, rate = sys.argv[1:]
    slept = c_int64.in_dll(CDLL(clock), "slept")
    loop = Loopback(load_native(device), opcode="WRITE", messages=[64], qps=1, offered_bps=8 * 64 * int(rate))
    began = time.monotonic()
    loop.serve(lambda: loop.requester["completed_messages"] >= MESSAGES)
    latencies = Histogram.between((), loop.read.times("a-a/requester", 0)["latencies"])
    found = {
        "median_seconds": (latencies.quantile(0.5) or 0.0) / 1e9,
        "asleep_ratio": slept.value / 1e9 / (time.monotonic() - began),
    }
    loop.close()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
