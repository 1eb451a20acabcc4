"""Contents of buffers for the verification of payload.

Rules:

1. A source keeps its content for the whole run, so any message can be compared later. Bytes are pseudo-random by
   position, which reveals a byte in the wrong place.
2. The MRs of a queue pair have the same content. Queue pairs differ unless they share a receive queue.
3. A sink starts with the complement, which is wrong at every position. So each byte is right, untouched or wrong. Where
   a message has arrived, an untouched byte is wrong, too.
4. Only RC acknowledges arrival. UC, UD and shared receive queues do not reveal where a message went, so untouched bytes
   are not counted.
5. Memory that is both source and sink starts with the right bytes.
"""

from __future__ import annotations

import hashlib
from typing import Any, Dict, Iterator, NamedTuple, Optional, Tuple

from .pattern import MAX_REQUESTS, receive_plan, send_chains
from .workload import FETCHING, RECEIVING, SENDS, Workload

COMPLEMENT = bytes(255 - value for value in range(256))
# Distance between the contents of two queue pairs: a cache line.
SHIFT_BYTES = 64
SHOWN_BYTES = 16
FEW_BYTES = 64


class Tally(NamedTuple):
    """Bytes compared."""

    right: int
    wrong: int


class Content:
    """The right bytes of one flow's MRs."""

    def __init__(self, workload: Workload, qps: int, length: int) -> None:
        """Make content for MRs of ``length`` payload bytes."""
        self._apart = 0 if workload.srq else SHIFT_BYTES
        self._length = length
        self._bytes = hashlib.shake_128(b"collie").digest(length + self._apart * qps)

    def of(self, pair: int) -> bytes:
        """Return the content of each MR of a queue pair."""
        return self._bytes[pair * self._apart :][: self._length]


def is_sink(workload: Workload, requester: bool) -> bool:
    """Whether this end receives payload."""
    return bool(workload.opcodes & FETCHING if requester else workload.opcodes - FETCHING)


def is_source(workload: Workload, requester: bool) -> bool:
    """Whether this end supplies payload."""
    return is_sink(workload, not requester)


def landed(workload: Workload, requester: bool, qps: int, completed: int) -> Dict[int, int]:
    """Return the bytes of each MR of a queue pair that its first ``completed`` requests cover."""
    if workload.qp_type != "RC":
        return {}
    sequence = [request for chain in send_chains(workload, qps) for request in chain.requests]
    receives = [mr for chain in receive_plan(workload, workload.mrs_per_qp, qps).chains for mr in chain]
    covered: Dict[int, int] = {}
    taken = 0
    for number in range(min(completed, MAX_REQUESTS)):
        request = sequence[number % len(sequence)]
        mr = request.mr
        if request.opcode in SENDS:
            mr = receives[taken % len(receives)]
        taken += request.opcode in RECEIVING
        if (request.opcode in FETCHING) == requester and not (workload.srq and request.opcode in SENDS):
            covered[mr] = max(covered.get(mr, 0), request.message_bytes)
    return covered


def compare(found: bytes, right: bytes, untouched: Optional[bytes]) -> Tally:
    """Count right and wrong bytes. A byte equal to ``untouched`` is neither."""
    if found == right:
        return Tally(len(right), 0)
    if found == untouched:
        return Tally(0, 0)
    if len(found) <= FEW_BYTES:
        wrong = sum(1 for place in range(len(found)) if _is_wrong(place, found, right, untouched))
        return Tally(sum(1 for place, byte in enumerate(found) if byte == right[place]), wrong)
    middle = len(found) // 2
    left, rest = untouched and untouched[:middle], untouched and untouched[middle:]
    first, second = compare(found[:middle], right[:middle], left), compare(found[middle:], right[middle:], rest)
    return Tally(first.right + second.right, first.wrong + second.wrong)


def first_difference(found: bytes, right: bytes, untouched: Optional[bytes]) -> int:
    """Return the position of the first wrong byte. There must be one."""
    return next(place for place in range(len(found)) if _is_wrong(place, found, right, untouched))


def _is_wrong(place: int, found: bytes, right: bytes, untouched: Optional[bytes]) -> bool:
    return found[place] != right[place] and (untouched is None or found[place] != untouched[place])


class Verification:
    """Comparison of all MRs of one end."""

    def __init__(self, workload: Workload, requester: bool, qps: int, content: Content) -> None:
        self._content = content
        self._also_source = is_source(workload, requester)
        self._qps, self._mrs = qps, workload.mrs_per_qp
        self._workload, self._requester = workload, requester
        self._checked = self._wrong = 0
        self._first: Optional[Dict[str, Any]] = None

    def run(self, read: Any, completed: int) -> Dict[str, Any]:
        """Compare.

        Args:
            read: returns the payload bytes of an MR, by queue pair and number.
            completed: minimum of completed requests over the requester's queue pairs.
        """
        covered = landed(self._workload, self._requester, self._qps, completed)
        for pair in range(self._qps):
            right = self._content.of(pair)
            for mr in range(self._mrs):
                for part, untouched in self._parts(right, covered.get(mr, 0)):
                    self._compare((pair, mr), part.start, read(pair, mr)[part], right[part], untouched)
        return {"checked_bytes": self._checked, "wrong_bytes": self._wrong, "first_wrong": self._first}

    def _parts(self, right: bytes, covered: int) -> Iterator[Tuple[slice, Optional[bytes]]]:
        """Yield the covered part of an MR, then the rest with its initial content."""
        if covered:
            yield slice(0, covered), None
        if not self._also_source and covered < len(right):
            yield slice(covered, len(right)), right[covered:].translate(COMPLEMENT)

    def _compare(
        self, place: Tuple[int, int], start: int, found: bytes, right: bytes, untouched: Optional[bytes]
    ) -> None:
        tally = compare(found, right, untouched)
        self._checked += tally.right + tally.wrong
        self._wrong += tally.wrong
        if tally.wrong and self._first is None:
            offset = first_difference(found, right, untouched)
            written = slice(offset, offset + SHOWN_BYTES)
            self._first = {
                "qp": place[0],
                "mr": place[1],
                "offset": start + offset,
                "expected": right[written].hex(),
                "found": found[written].hex(),
            }
