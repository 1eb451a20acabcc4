"""Strictly ordered PCIe: the waits of short reads between bulk transfers.

Under strict ordering a read pushes all earlier writes to memory, and later writes wait behind it. A scatter/gather list
within one block of its WQE is known at once: its reads are issued in long runs, and their waits overlap. A longer list
is walked entry by entry while the message is gathered. A short entry behind a bulk one then breaks the run: its read
waits alone for the writes in flight, and so does all that follows.
"""

from __future__ import annotations

from collections.abc import Sequence

from collie.workloads.workload import Workload


def bulk_share(segment_bytes: int, bulk_bytes: int) -> float:
    """Return the share of the window that a segment fills: 0 up to three quarters of `bulk_bytes`, then up to 1."""
    return min(1.0, max(0.0, 4.0 * segment_bytes / bulk_bytes - 3.0))


def small_share(segment_bytes: int, small_bytes: int) -> float:
    """Return the degree to which a segment takes the short path: 1 up to `small_bytes`, 0 from twice that on."""
    return min(1.0, max(0.0, 2.0 - segment_bytes / small_bytes))


def distinct_segments(workload: Workload) -> list[int]:
    """Return the bytes of the scatter/gather entries of all messages in order, equal neighbours merged.

    Entries that share a remainder evenly differ by at most one byte, so one stands for all.
    """
    leading = () if isinstance(workload.sge_split, str) else workload.sge_split[: workload.sge_count]
    sharing = workload.sge_count - len(leading)
    sizes = []
    for rest in workload.messages:
        for size in leading:
            taken = min(size, rest)
            if taken:
                sizes.append(taken)
            rest -= taken
        if rest and sharing:
            sizes.append(max(1, rest // sharing))
        elif rest:
            sizes[-1] += rest  # the last entry takes the remainder
    return sizes


def bulk_then_small(segments: Sequence[int], bulk_bytes: int, small_bytes: int) -> float:
    """Count short segments behind a bulk one, per pass over the request vector, which repeats."""
    waits = 0.0
    filled = 0  # largest segment since the window was last drained
    for _ in range(2):  # the vector repeats: the second pass starts with the window of the first
        waits = 0.0
        for size in segments:
            if size >= filled:
                filled = size
            elif small := small_share(size, small_bytes):
                waits += bulk_share(filled, bulk_bytes) * small
                filled = size
    return waits
