"""The earlier phases of a set-up that bring an anomaly, found by delta debugging (Zeller and Hildebrandt, 2002).

Terms. A *history* is a sequence of workloads, run one after another on one set-up. It *brings* an anomaly if the
workload of the anomaly, run after it on the same set-up, is anomalous.

The search keeps a history that brings the anomaly, and divides it into parts. It keeps a part, or else all but one
part, that still brings the anomaly. If none does, the parts get smaller. It ends when no single phase can be left out.
The phases keep their order. If exactly one phase matters, it takes about 2 log2(n) questions for n phases. At most it
takes about n^2.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from itertools import pairwise

from collie.workloads.workload import Workload

History = tuple[Workload, ...]
Questions = Generator[History, bool, bool]


def shortest_history(history: Sequence[Workload], workload: Workload) -> Generator[History, bool, History | None]:
    """Find a history of which each phase is needed. No shorter one results from leaving out a single phase.

    Yields:
        Workloads to run in order on one new set-up, as large as that of the whole history. The last is `workload`.

    Receives:
        Whether the last run was anomalous. The caller repeats a run without a verdict, and an anomaly that does not
        always show.

    Returns:
        The history, empty if the set-up alone brings the anomaly. None if the whole history does not bring it.
    """
    asked: dict[History, bool] = {}

    def brings(kept: History) -> Questions:
        if kept not in asked:
            asked[kept] = yield (*kept, workload)
        return asked[kept]

    kept, parts = tuple(history), 2
    if not (yield from brings(kept)):
        return None
    if (yield from brings(())):
        return ()
    while len(kept) > 1:
        for candidate, further in _shorter(kept, parts):
            if (yield from brings(candidate)):
                kept, parts = candidate, further
                break
        else:
            if parts == len(kept):
                break
            parts = min(2 * parts, len(kept))
    return kept


def _shorter(history: History, parts: int) -> Iterator[tuple[History, int]]:
    """Yield each part, and then the rest without each part, with the number of parts to divide it into."""
    ends = [len(history) * number // parts for number in range(parts + 1)]
    places = list(pairwise(ends))
    yield from ((history[begin:end], min(2, end - begin)) for begin, end in places)
    yield from ((history[:begin] + history[end:], max(2, parts - 1)) for begin, end in places)
