"""Sixty plain workloads on real hosts: none of them may be called anomalous.

    .venv/bin/python scripts/acceptance/plain_workloads.py --hosts lab --calibrate 2    calibrates first, and keeps it
    .venv/bin/python scripts/acceptance/plain_workloads.py --hosts lab                  judges by what has been kept
    .venv/bin/python scripts/acceptance/plain_workloads.py --hosts lab --every 4 --from 1     15 of them

Twelve message sizes from 64 B to 1 MiB, most of them between those that were calibrated; WRITE, SEND and READ; RC, UC
and UD. Prints one line per workload. Exit code 1 when one is anomalous.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator

from collie.app import sessions
from collie.campaign.calibrate import plain_traffic
from collie.campaign.choice import SearchChoice, TestbedChoice
from collie.campaign.single_run import JudgedRun
from collie.ports import Measured
from collie.testing.fakes import ListSink
from collie.wiring import ADAPTERS
from collie.workloads.space import Space
from collie.workloads.units import format_bytes
from collie.workloads.workload import Opcode, QpType, Workload

SIZES = (64, 200, 700, 1500, 3000, 6000, 12_000, 30_000, 65_536, 150_000, 400_000, 1_048_576)
OPCODES = (Opcode.WRITE, Opcode.SEND, Opcode.READ)
UC_SIZES = tuple(size for size in SIZES if size not in {200, 6000})
UD_SIZES = (64, 700, 1500, 3000)
CALIBRATED_SIZES = (64, 1024, 4096, 65_536, 1_048_576)


def plain_workloads(space: Space) -> Iterator[Workload]:
    """Yield the sixty."""
    shapes = [(QpType.RC, opcode, size) for size in SIZES for opcode in OPCODES]
    shapes += [(QpType.UC, opcode, size) for size in UC_SIZES for opcode in OPCODES[:2]]
    shapes += [(QpType.UD, Opcode.SEND, size) for size in UD_SIZES]
    for qp_type, opcode, size in shapes:
        workload = plain_traffic(space, qp_type, opcode, size)
        assert workload is not None, f"{space.name} has no plain {qp_type} {opcode} of {size} bytes"
        yield workload


def main() -> int:
    """Judge them."""
    options = _options()
    choice = SearchChoice(TestbedChoice(hosts=options.hosts), "soft-roce")
    if options.calibrate:
        began = time.monotonic()
        made = sessions.calibrate(ADAPTERS, choice, options.calibrate, ListSink(), CALIBRATED_SIZES, OPCODES)
        if made.failure:
            raise made.failure
        print(f"calibrated in {time.monotonic() - began:.0f} s, kept in {made.path}", flush=True)
    outcomes: Counter[str] = Counter()
    with sessions.open_session(ADAPTERS, choice, ListSink()) as bench:
        workloads = list(plain_workloads(bench.space))[options.first :: options.every]
        for workload in workloads:
            judged = bench.judge(workload)
            outcomes[_outcome(judged)] += 1
            print(_line(judged), flush=True)
    print(f"{len(workloads)} plain workloads: " + ", ".join(f"{count} {name}" for name, count in outcomes.items()))
    return 1 if outcomes["anomalous"] else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", required=True)
    parser.add_argument("--calibrate", type=int, default=0, metavar="REPEATS")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--from", dest="first", type=int, default=0)
    return parser.parse_args()


def _outcome(judged: JudgedRun) -> str:
    return str(judged.verdict.outcome) if judged.verdict is not None else type(judged.result).__name__


def _line(judged: JudgedRun) -> str:
    workload, verdict = judged.workload, judged.verdict
    steady = judged.result.measurement.stable if isinstance(judged.result, Measured) else False
    reason = verdict.reason if verdict is not None else str(judged.result)
    shape = f"{workload.qp_type} {workload.opcode:5} {format_bytes(workload.messages[0]):>9}"
    return f"{shape}  {_outcome(judged):12} {'' if steady else 'unsteady: '}{reason}"


if __name__ == "__main__":
    sys.exit(main())
