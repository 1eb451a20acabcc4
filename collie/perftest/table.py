"""perftest's own table of results, filled from a measurement of Collie.

The layout is that of perftest 4.5 and 25.01: `RESULT_FMT` and `REPORT_FMT` of its `perftest_parameters.h`. A test that
lasts a time, as Collie's do, has no peak, for which perftest prints 0.00.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from collie.errors import UsageError
from collie.perftest.options import PROGRAMS
from collie.perftest.parse import ParsedCommands, read
from collie.workloads.workload import Direction, Workload

ALL_SIZES = tuple(1 << power for power in range(1, 24))
"""Message sizes of a test with `-a`: 2 B to 8 MiB."""

_RULE = "-" * 87
_NAMES = {"ib_write_bw": "RDMA_Write", "ib_send_bw": "Send", "ib_read_bw": "RDMA_Read", "ib_atomic_bw": "Atomic"}
_MIB = 8 * (1 << 20)


@dataclass(frozen=True, slots=True)
class Row:
    """One row. `messages` were completed in the window, `delivered_bps` is over both directions."""

    size_bytes: int
    messages: int
    delivered_bps: float


def sizes_of(line: str) -> tuple[ParsedCommands, ...]:
    """Read a command line: one workload, or with `-a` one for each of `ALL_SIZES`.

    Raises:
        UsageError: as for `parse.read`.
    """
    if not {"-a", "--all"}.intersection(line.split()):
        return (read(line),)
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageError(f"{error} in perftest line: {line}") from None
    rest = [word for word in words if word not in ("-a", "--all")]
    return tuple(read(shlex.join([*rest, "-s", str(size)])) for size in ALL_SIZES)


def report(line: str, workload: Workload, device: str, rows: Sequence[Row]) -> Iterator[str]:
    """Yield the lines of perftest's report. `--report_gbits` in the line chooses the unit, as in perftest."""
    program = PROGRAMS[workload.opcode][0]
    both = " Bidirectional" if workload.direction is Direction.BIDIRECTIONAL else ""
    gbits = "--report_gbits" in line.split()
    unit, divisor = ("Gb/sec", 1e9) if gbits else ("MB/sec", _MIB)
    yield _RULE
    yield f"{'':20}{_NAMES[program]}{both} BW Test"
    yield f" Dual-port       : OFF\t\tDevice         : {device}"
    yield f" Number of qps   : {workload.qps}\t\tTransport type : IB"
    yield f" Connection type : {workload.qp_type}\t\tUsing SRQ      : {'ON' if workload.srq else 'OFF'}"
    yield f" TX depth        : {workload.send_wq_depth}"
    yield f" Mtu             : {workload.mtu}[B]"
    yield _RULE
    yield f" #bytes     #iterations    BW peak[{unit}]    BW average[{unit}]   MsgRate[Mpps]"
    for row in rows:
        rate = row.delivered_bps / 8 / row.size_bytes / 1e6
        average = row.delivered_bps / divisor
        counts = f" {row.size_bytes:<7d}    {row.messages:<10d}       "
        yield f"{counts}{0:<7.2f}            {average:<7.2f}\t\t   {rate:<7.6f}"
    yield _RULE
