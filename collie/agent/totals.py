"""The engine's totals in memory shared with the resident agent.

The engine only adds, the agent only reads: 64-bit words need no lock, and a sample taken between two additions is as
good as one taken just before or after. The one word that goes the other way is ``ATTENTION``: not zero means that a
command waits in the pipe, so that the traffic loop looks for it at the price of reading a word.
"""

from __future__ import annotations

import mmap
from typing import Any, Dict, List, NamedTuple

from .verbs import WC_STATUS

ATTENTION, ITERATIONS, IDLE_POLLS, QUEUE_EMPTY, POSTS, FLUSHED, POST_ERRORS, QUEUE_OUTSTANDING, QUEUE_LIMIT = range(9)
ERRORS = 10
ERROR_WORDS = 32
FIRST_END = ERRORS + ERROR_WORDS

POSTED_MESSAGES, POSTED_BYTES, COMPLETED_MESSAGES, DELIVERED_MESSAGES, DELIVERED_BYTES, FAILED_QPS = range(6)
RETURNED_MESSAGES, RETURNED_BYTES = 6, 7
END_WORDS = 8

WORDS = FIRST_END + 16 * END_WORDS


class EndLayout(NamedTuple):
    """Where one end of a flow keeps its words."""

    key: str
    base: int
    first_qp: int
    qps: int


class Totals:
    """Shared words: a header, 16 ends of flows, and one word per queue pair."""

    def __init__(self, ends: Dict[str, int]) -> None:
        """Lay out ``ends`` (flow key: number of queue pairs); at most 16."""
        first_qp = WORDS
        self.ends: List[EndLayout] = []
        for number, (key, qps) in enumerate(ends.items()):
            self.ends.append(EndLayout(key, FIRST_END + number * END_WORDS, first_qp, qps))
            first_qp += qps
        self._memory = mmap.mmap(-1, 8 * first_qp)
        self.words = memoryview(self._memory).cast("Q")

    def health(self) -> Dict[str, Any]:
        """Return the ``health`` object of a sample, but for ``cpu_seconds``."""
        words = self.words
        errors = {}
        for status in range(ERROR_WORDS):
            if words[ERRORS + status]:
                name = WC_STATUS[status] if status < len(WC_STATUS) else f"status {status}"
                errors[name] = words[ERRORS + status]
        return {
            "iterations": words[ITERATIONS],
            "idle_polls": words[IDLE_POLLS],
            "queue_empty": words[QUEUE_EMPTY],
            "queue_outstanding": words[QUEUE_OUTSTANDING],
            "queue_limit": words[QUEUE_LIMIT],
            "posts": words[POSTS],
            "errors": errors,
            "flushed": words[FLUSHED],
            "post_errors": words[POST_ERRORS],
        }

    def end(self, layout: EndLayout) -> Dict[str, Any]:
        """Return the totals of one end of a flow."""
        words, base = self.words, layout.base
        per_qp = words[layout.first_qp : layout.first_qp + layout.qps].tolist()
        return {
            "posted_messages": words[base + POSTED_MESSAGES],
            "posted_bytes": words[base + POSTED_BYTES],
            "completed_messages": words[base + COMPLETED_MESSAGES],
            "delivered_messages": words[base + DELIVERED_MESSAGES],
            "delivered_bytes": words[base + DELIVERED_BYTES],
            "returned_messages": words[base + RETURNED_MESSAGES],
            "returned_bytes": words[base + RETURNED_BYTES],
            "qp_messages": {"min": min(per_qp), "mean": round(sum(per_qp) / len(per_qp), 3), "max": max(per_qp)},
            "failed_qps": words[base + FAILED_QPS],
        }
