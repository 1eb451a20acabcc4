"""The phases that an anomaly needs before it.

A workload can show an anomaly as a later phase of a set-up and not alone. Then a phase before it left something behind.
`shortest_history` finds what: it takes phases away as long as the anomaly still shows (delta debugging, Zeller and
Hildebrandt 2002). The order of the phases stays the same.

Invariant: the kept phases brought the anomaly when they were asked. The search ends when no single phase can be taken
away. That is the shortest history if each phase is needed or not whatever else ran, as with a cache that one of them
filled. It need not be if several phases together do what one other phase does alone.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from itertools import pairwise
from typing import TypeVar

T = TypeVar("T")

HistoryProbes = Generator[tuple[T, ...], bool, tuple[T, ...] | None]
"""Yields phases to run first on a new set-up, and receives whether the anomaly shows after them."""


def shortest_history(before: Sequence[T]) -> HistoryProbes[T]:
    """Return the phases that bring an anomaly, or None if not even all phases before it do.

    No phases mean that the set-up suffices. The whole history is asked first, because most suspicions that show only
    once are disturbances. One of n phases takes at most 2 + 2 log2 n probes.
    """
    kept = tuple(before)
    if not (yield kept):
        return None
    if not kept or (yield ()):
        return ()
    failed = {kept, ()}
    parts = 2
    while len(kept) > 1:
        for candidate in _shorter(kept, parts):
            if candidate in failed:
                continue
            if (yield candidate):
                parts = max(2, parts - 1) if 2 * len(candidate) > len(kept) else 2
                kept = candidate
                break
            failed.add(candidate)
        else:
            if parts == len(kept):
                break
            parts = min(2 * parts, len(kept))
    return kept


def _shorter(kept: tuple[T, ...], parts: int) -> list[tuple[T, ...]]:
    """Return each of some equal parts, the last first, and then the rest without each of them.

    The last phases are the likeliest, because each phase also replaces what the ones before it left.
    """
    ends = [len(kept) * part // parts for part in range(parts + 1)]
    pieces = [kept[begin:end] for begin, end in reversed(list(pairwise(ends)))]
    rests = [kept[:begin] + kept[end:] for begin, end in pairwise(ends)]
    return pieces if parts == 2 else [*pieces, *rests]
