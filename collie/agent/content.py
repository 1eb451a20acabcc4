"""Contents of buffers for the verification of payload.

Rules:

1. A source keeps its content for the whole run. Bytes are pseudo-random by position, which reveals misplaced bytes.
2. The MRs of a queue pair have the same content. Queue pairs differ unless they share a receive queue.
3. A sink starts with the complement of the right bytes, so each byte is right, untouched or wrong. Where a message has
   arrived, an untouched byte is wrong, too.
4. Only RC acknowledges arrival. With UC, UD and shared receive queues, untouched bytes are not counted.
5. Memory that is both source and sink starts with the right bytes.
"""

from __future__ import annotations

import hashlib
from itertools import product
from typing import Any, Callable, Dict, Iterator, Mapping, NamedTuple, Optional, Tuple

from .pattern import MAX_REQUESTS, receive_plan, send_chains
from .workload import FETCHING, RECEIVING, SENDS, Workload

COMPLEMENT = bytes(255 - value for value in range(256))
# Distance between the contents of two queue pairs: a cache line.
SHIFT_BYTES = 64
SHOWN_BYTES = 16
NOT_ZERO = bytes([0] + [1] * 255)


class Tally(NamedTuple):
    """Counts of compared bytes."""

    right: int
    wrong: int


class Content:
    """The right bytes of a flow's MRs."""

    def __init__(self, workload: Workload, qps: int, length: int) -> None:
        """Make ``length`` bytes per MR."""
        self._apart = 0 if workload.srq else SHIFT_BYTES
        self._length = length
        self._bytes = hashlib.shake_128(b"collie").digest(length + self._apart * qps)

    def of(self, pair: int) -> bytes:
        """Return the content of a queue pair's MRs."""
        return self._bytes[pair * self._apart :][: self._length]


def is_sink(workload: Workload, requester: bool) -> bool:
    """Whether this end receives payload."""
    return bool(workload.opcodes & FETCHING if requester else workload.opcodes - FETCHING)


def is_source(workload: Workload, requester: bool) -> bool:
    """Whether this end supplies payload."""
    return is_sink(workload, not requester)


def landed(workload: Workload, requester: bool, qps: int, completed: int, first_receive: int = 0) -> Dict[int, int]:
    """Return how many bytes of each MR, by its number, the first ``completed`` requests of a queue pair cover.

    ``first_receive`` is the receive that the first of them takes, in the order of posting.
    """
    if workload.qp_type != "RC":
        return {}
    sequence = [request for chain in send_chains(workload, qps) for request in chain.requests]
    receives = [mr for chain in receive_plan(workload, workload.mrs_per_qp, qps).chains for mr in chain]
    covered: Dict[int, int] = {}
    taken = first_receive
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
    return Tally(_differences(found, right).count(0), _wrong_places(found, right, untouched).count(1))


def first_difference(found: bytes, right: bytes, untouched: Optional[bytes]) -> int:
    """Return the position of the first wrong byte."""
    return _wrong_places(found, right, untouched).index(1)


def _wrong_places(found: bytes, right: bytes, untouched: Optional[bytes]) -> bytes:
    differs = _differences(found, right)
    if untouched is None:
        return differs
    both = int.from_bytes(differs, "little") & int.from_bytes(_differences(found, untouched), "little")
    return both.to_bytes(len(found), "little")


def _differences(one: bytes, other: bytes) -> bytes:
    """Return one byte per position: 1 where the inputs differ, else 0. Long integers compare all positions at once."""
    difference = int.from_bytes(one, "little") ^ int.from_bytes(other, "little")
    return difference.to_bytes(len(one), "little").translate(NOT_ZERO)


def verify(
    workload: Workload,
    requester: bool,
    content: Content,
    read: Callable[[int, int], bytes],
    qps: int,
    completed: int,
    first_receives: Mapping[int, int],
) -> Dict[str, Any]:
    """Compare all MRs of an end.

    ``read`` returns the payload of an MR by queue pair and number. ``completed`` is the smallest number of completed
    requests of any queue pair. ``first_receives`` has the first receive of a queue pair, if it is not 0.
    """
    landed_from = {first: landed(workload, requester, qps, completed, first) for first in {0, *first_receives.values()}}
    checked = wrong = 0
    first: Optional[Dict[str, Any]] = None
    for pair, mr in product(range(qps), range(workload.mrs_per_qp)):
        right, covered = content.of(pair), landed_from[first_receives.get(pair, 0)]
        for part, untouched in _parts(right, covered.get(mr, 0), is_source(workload, requester)):
            found = read(pair, mr)[part]
            tally = compare(found, right[part], untouched)
            checked += tally.right + tally.wrong
            wrong += tally.wrong
            if tally.wrong and first is None:
                offset = first_difference(found, right[part], untouched)
                window = slice(offset, offset + SHOWN_BYTES)
                first = {
                    "qp": pair,
                    "mr": mr,
                    "offset": part.start + offset,
                    "expected": right[part][window].hex(),
                    "found": found[window].hex(),
                }
    return {"checked_bytes": checked, "wrong_bytes": wrong, "first_wrong": first}


def _parts(right: bytes, covered: int, also_source: bool) -> Iterator[Tuple[slice, Optional[bytes]]]:
    """Yield slice and initial content of the covered part of an MR, whose initial content is None, then of the rest."""
    if covered:
        yield slice(0, covered), None
    if not also_source and covered < len(right):
        yield slice(covered, len(right)), right[covered:].translate(COMPLEMENT)
