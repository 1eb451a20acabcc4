"""How a workload becomes chains of work requests: pure arithmetic, no verbs.

* Request number *i* of a queue pair has the opcode and the size of entry ``i % len(turn)`` of the workload's ``turn``.
  It carries payload from MR ``i % mrs_per_qp`` of that pair, and to (from) the MR of the same number of the responder.
* ``wqe_batch`` requests are linked into one chain and posted by one call. A posted chain is copied into the queue, so
  the same few chains are posted in turn for the whole run, and a chain may be posted again while it is outstanding.
* ``signal_every`` chains make a round: the last request of a round is signalled, so its slots come free together, and a
  round is posted as soon as there is room for all of it. With ``sq_sig_all`` every request is signalled.
* The queue holds whole rounds only, so up to a round less one request of the depth stays unused.
* Entries of a scatter list that would be empty are left out: to some devices a length of zero means 2 GiB.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import List, NamedTuple, Sequence, Tuple, Union

from .workload import ATOMICS, FETCHING, Workload

GRH_BYTES = 40

# A work request costs some 2 us to build (30 us on an emulated CPU) and 200 bytes: this many take a second or two.
MAX_REQUESTS = 1 << 16


class Proof(NamedTuple):
    """What one completion proves to have arrived."""

    messages: int
    bytes: int


NOTHING = Proof(0, 0)


@dataclass(frozen=True)
class Request:
    """One work request: which MR, the lengths of its scatter list, and what its completion proves.

    ``delivers`` is what reached the sink of the flow; ``returns`` what, of a mixed flow, came back to the requester.
    """

    opcode: str
    mr: int
    segments: Tuple[int, ...]
    message_bytes: int
    signalled: bool
    delivers: Proof
    returns: Proof
    ends_round: bool


@dataclass(frozen=True)
class Chain:
    """Work requests posted by one call."""

    requests: Tuple[Request, ...]

    @property
    def total_bytes(self) -> int:
        """Payload of the whole chain."""
        return sum(request.message_bytes for request in self.requests)


def split(message_bytes: int, sge_count: int, sge_split: Union[str, Sequence[int]]) -> Tuple[int, ...]:
    """Return the lengths of the scatter list of one message, empty entries left out.

    Listed bytes come first, the rest is spread evenly over the remaining entries (the first ones take the odd bytes);
    if the list names every entry the rest goes to the last.
    """
    listed = [] if isinstance(sge_split, str) else list(sge_split)
    lengths: List[int] = []
    left = message_bytes
    for length in listed:
        lengths.append(min(length, left))
        left -= lengths[-1]
    spread = sge_count - len(lengths)
    if spread > 0:
        share, odd = divmod(left, spread)
        lengths += [share + (1 if index < odd else 0) for index in range(spread)]
    else:
        lengths[-1] += left
    return tuple(length for length in lengths if length) or (message_bytes,)


def _lcm(a: int, b: int) -> int:
    return a * b // gcd(a, b)


def fitting(depth: int, requests: int) -> int:
    """Return how many chains or rounds of so many requests may be outstanding at once."""
    return max(1, depth // requests)


def distinct_chains(batch: int, turn: int, mrs: int, budget: int) -> int:
    """Return how many chains (or rounds) to build so that posting them in turn repeats the sequence of requests.

    The turn of requests always repeats exactly. The turns of the MRs do where ``budget`` work requests allow it;
    otherwise every MR is used as far as the budget goes.
    """
    mix = _lcm(batch, turn) // batch
    exact = _lcm(batch, _lcm(turn, mrs)) // batch
    if exact * batch <= budget:
        return exact
    covering = mix * (-(-mrs // (mix * batch)))
    affordable = mix * max(1, budget // (mix * batch))
    return min(covering, affordable)


def send_chains(workload: Workload, qps: int) -> Tuple[Chain, ...]:
    """Return the chains that each requester's queue pair posts in turn: whole rounds."""
    batch, sequence = workload.wqe_batch, _Sequence(workload)
    total = sequence.round * distinct_chains(
        sequence.round, len(sequence.turn), workload.mrs_per_qp, MAX_REQUESTS // qps
    )
    requests = [sequence.request(number) for number in range(total)]
    return tuple(Chain(tuple(requests[first : first + batch])) for first in range(0, total, batch))


class _Sequence:
    """The work requests of one queue pair in the order of posting."""

    def __init__(self, workload: Workload) -> None:
        self.workload, self.turn = workload, workload.turn
        self.round = workload.wqe_batch * workload.signal_every
        self._mixed = workload.mixed

    def request(self, number: int) -> Request:
        """Return the request of this number, from 0."""
        workload, turn = self.workload, self.turn
        opcode, size = turn[number % len(turn)]
        ends_round = (number + 1) % self.round == 0
        signalled = workload.sq_sig_all or ends_round
        return Request(
            opcode=opcode,
            mr=number % workload.mrs_per_qp,
            # The list of an atomic has one entry of 8 bytes (ibv_post_send(3)).
            segments=(size,) if opcode in ATOMICS else split(size, workload.sge_count, workload.sge_split),
            message_bytes=size,
            signalled=signalled,
            delivers=self._proof(number, returns=False) if signalled else NOTHING,
            returns=self._proof(number, returns=True) if signalled else NOTHING,
            ends_round=ends_round,
        )

    def _proof(self, number: int, *, returns: bool) -> Proof:
        """Return what the completion of a request proves for one direction of the payload."""
        turn = self.turn
        proved = (turn[n % len(turn)] for n in range(number + 1 - self.workload.messages_per_signal, number + 1))
        sizes = [size for opcode, size in proved if (self._mixed and opcode in FETCHING) == returns]
        return Proof(len(sizes), sum(sizes))


@dataclass(frozen=True)
class ReceivePlan:
    """Receives of one queue: ``chains`` of MR numbers, and how many chains to keep posted."""

    chains: Tuple[Tuple[int, ...], ...]
    chains_in_queue: int
    segments: Tuple[int, ...]

    @property
    def batch(self) -> int:
        """Receives per posting call."""
        return len(self.chains[0])


def receive_plan(workload: Workload, buffers: int, queues: int) -> ReceivePlan:
    """Plan the receives of a queue over ``buffers`` MRs: each fits the largest message, scattered as it is gathered."""
    batch = min(workload.wqe_batch, workload.recv_wq_depth)
    budget = max(batch, MAX_REQUESTS // queues)
    count = max(1, min(-(-buffers // batch), budget // batch))
    chains = tuple(tuple((chain * batch + i) % buffers for i in range(batch)) for chain in range(count))
    segments = list(split(workload.largest_message, workload.sge_count, workload.sge_split))
    if workload.qp_type == "UD":
        segments[0] += GRH_BYTES
    return ReceivePlan(chains, fitting(workload.recv_wq_depth, batch), tuple(segments))


def payload_per_packet(workload: Workload) -> Tuple[float, float]:
    """Return the mean payload bytes per packet and mean messages per packet of the mix, at the workload's MTU."""
    sizes = [size for _, size in workload.turn]
    packets = sum(max(1, -(-size // workload.mtu)) for size in sizes)
    return sum(sizes) / packets, len(sizes) / packets


def group(needs: Sequence[int], capacity: int, reserve: int = 0) -> List[List[int]]:
    """Distribute queue pairs over completion queues, in order.

    Args:
        needs: entries each queue pair may fill at worst.
        capacity: the largest completion queue.
        reserve: entries that every completion queue needs besides (a shared receive queue).

    Returns:
        Lists of indices into ``needs``; a single need above the capacity has a list of its own.
    """
    groups: List[List[int]] = []
    used = 0
    for index, need in enumerate(needs):
        if not groups or used + need > capacity:
            groups.append([])
            used = reserve
        groups[-1].append(index)
        used += need
    return groups
