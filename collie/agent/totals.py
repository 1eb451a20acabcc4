"""The engine's totals, in memory shared with the resident agent.

Only the engine writes totals, so a 64-bit word needs no lock. The agent sets ``ATTENTION`` when a command waits.
"""

from __future__ import annotations

import mmap
from operator import add
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from .histogram import BUCKETS, Histogram, sparse
from .verbs import WC_STATUS

ATTENTION, ITERATIONS, IDLE_POLLS, QUEUE_EMPTY, POSTS, FLUSHED, POST_ERRORS, QUEUE_OUTSTANDING, QUEUE_LIMIT = range(9)
STRAGGLERS = 9
ERRORS = 10
ERROR_WORDS = 32
# Control verbs, which a thread beside the loop counts, and the errno of the one that failed.
NEW_MRS, NEW_QPS, NEW_AHS, QP_ERRORS, CONTROL_ERRNO = (ERRORS + ERROR_WORDS + number for number in range(5))
# Whether the device's clock ends what is timed, else the host's does.
NIC_CLOCK = CONTROL_ERRNO + 1
FIRST_END = NIC_CLOCK + 1

POSTED_MESSAGES, POSTED_BYTES, COMPLETED_MESSAGES, DELIVERED_MESSAGES, DELIVERED_BYTES, FAILED_QPS = range(6)
RETURNED_MESSAGES, RETURNED_BYTES = 6, 7
# Rounds that have not completed, and CLOCK_MONOTONIC when one last did, or when the first of them was posted.
ROUNDS_OUT, PROGRESS_AT = 8, 9
LATENCIES = 10
GAPS = LATENCIES + BUCKETS
END_WORDS = GAPS + BUCKETS


class EndLayout(NamedTuple):
    """Position of a flow end's words."""

    key: str
    base: int
    first_qp: int
    qps: int


class Totals:
    """Shared words: a header, the flow ends, and one word per queue pair."""

    def __init__(self, ends: Dict[str, int]) -> None:
        """Lay out ``ends`` (flow key: queue pairs)."""
        first_qp = FIRST_END + len(ends) * END_WORDS
        self.ends: List[EndLayout] = []
        for number, (key, qps) in enumerate(ends.items()):
            self.ends.append(EndLayout(key, FIRST_END + number * END_WORDS, first_qp, qps))
            first_qp += qps
        self.words = memoryview(mmap.mmap(-1, 8 * first_qp)).cast("Q")

    def restart(self) -> None:
        """Set all totals to 0, for the next phase. Only the engine does this."""
        first = ATTENTION + 1
        self.words[first:] = memoryview(bytes(8 * (len(self.words) - first))).cast("Q")


_LOOP = {
    "iterations": ITERATIONS,
    "idle_polls": IDLE_POLLS,
    "queue_empty": QUEUE_EMPTY,
    "queue_outstanding": QUEUE_OUTSTANDING,
    "queue_limit": QUEUE_LIMIT,
    "posts": POSTS,
}
_EVENTS = {
    "stragglers": STRAGGLERS,
    "flushed": FLUSHED,
    "post_errors": POST_ERRORS,
    "new_mrs": NEW_MRS,
    "new_qps": NEW_QPS,
    "new_ahs": NEW_AHS,
    "qp_errors": QP_ERRORS,
}
_END = {
    "posted_messages": POSTED_MESSAGES,
    "posted_bytes": POSTED_BYTES,
    "completed_messages": COMPLETED_MESSAGES,
    "delivered_messages": DELIVERED_MESSAGES,
    "delivered_bytes": DELIVERED_BYTES,
    "returned_messages": RETURNED_MESSAGES,
    "returned_bytes": RETURNED_BYTES,
    "failed_qps": FAILED_QPS,
}


class RunTotals:
    """Sums over the engines of a run, for the queue pairs that its phase uses."""

    def __init__(self, parts: Sequence[Totals], sharing: Optional[Sequence[Totals]] = None) -> None:
        """Add up ``parts``. Figures of the loop are those of the engines ``sharing`` the flows, by default of all.

        The engine of a flow that is apart is mostly idle, and would hide that the others are busy.
        """
        self._parts, self._sharing = parts, parts if sharing is None else sharing
        self._ends: Dict[str, List[Tuple[Totals, EndLayout]]] = {}
        self.use([{layout.key: layout.qps for layout in part.ends} for part in parts])

    def use(self, shares: Sequence[Mapping[str, int]]) -> None:
        """Count the first queue pairs of each end from now on: for each engine, their number by the end's key."""
        self._ends = {}
        for part, share in zip(self._parts, shares):  # noqa: B905 - Python 3.9 has no `strict`
            for layout in part.ends:
                if layout.key in share:
                    used = layout._replace(qps=share[layout.key])
                    self._ends.setdefault(layout.key, []).append((part, used))

    @property
    def qps(self) -> Dict[str, int]:
        """Queue pairs of each flow end."""
        return {key: sum(layout.qps for _, layout in places) for key, places in self._ends.items()}

    def health(self) -> Dict[str, Any]:
        """Return the ``health`` object of a sample without CPU times."""
        errors = {}
        for status in range(ERROR_WORDS):
            count = self._sum(ERRORS + status)
            if count:
                errors[WC_STATUS[status] if status < len(WC_STATUS) else f"status {status}"] = count
        failed = max(part.words[CONTROL_ERRNO] for part in self._parts)
        loop = {name: sum(part.words[word] for part in self._sharing) for name, word in _LOOP.items()}
        events = {name: self._sum(word) for name, word in _EVENTS.items()}
        return {**loop, **events, "control_verb_errno": failed, "errors": errors}

    def _sum(self, word: int) -> int:
        return sum(part.words[word] for part in self._parts)

    def end(self, key: str) -> Dict[str, Any]:
        """Return a flow end's totals, with the spread over its queue pairs."""
        places = self._ends[key]
        per_qp = [
            count
            for part, layout in places
            for count in part.words[layout.first_qp : layout.first_qp + layout.qps].tolist()
        ]
        return {
            **{name: sum(part.words[layout.base + word] for part, layout in places) for name, word in _END.items()},
            "qp_messages": {"min": min(per_qp), "mean": round(sum(per_qp) / len(per_qp), 3), "max": max(per_qp)},
        }

    def times(self, key: str, now: int) -> Dict[str, Any]:
        """Return the timed part of a requester's totals. ``now`` is CLOCK_MONOTONIC in nanoseconds.

        ``gaps`` has the times in which an engine completed nothing of the flow although requests were outstanding, and
        ``open_gap`` the longest that has not ended yet, in nanoseconds. ``latency_clock`` is ``nic`` if the devices of
        all engines end their rounds, else ``host``.
        """
        begun = [
            part.words[layout.base + PROGRESS_AT]
            for part, layout in self._ends[key]
            if part.words[layout.base + ROUNDS_OUT]
        ]
        return {
            "latencies": self._histogram(key, LATENCIES),
            "gaps": self._histogram(key, GAPS),
            "open_gap": max(0, now - min(begun, default=now)),
            "latency_clock": "nic" if all(part.words[NIC_CLOCK] for part, _ in self._ends[key]) else "host",
        }

    def _histogram(self, key: str, word: int) -> Histogram:
        counts = [0] * BUCKETS
        for part, layout in self._ends[key]:
            first = layout.base + word
            counts = list(map(add, counts, part.words[first : first + BUCKETS].tolist()))
        return sparse(counts)
