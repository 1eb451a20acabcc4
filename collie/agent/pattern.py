"""Chains of work requests of a workload: arithmetic only, no verbs.

* Request *i* of a queue pair has opcode and size of entry ``i % len(turn)`` of the workload's ``turn``. Its payload is
  in MR ``i % mrs_per_qp`` of the queue pair and of its peer.
* A chain is ``wqe_batch`` linked requests, posted by one call. The device copies it, so a few chains serve the whole
  run and can be posted again while outstanding.
* A round is ``signal_every`` chains. Only its last request is signalled (all with ``sq_sig_all``), so a round's slots
  are freed together. The queue holds whole rounds only.
* Empty entries of a scatter list are left out: some devices read a length of 0 as 2 GiB.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm
from typing import List, NamedTuple, Sequence, Tuple, Union

from .workload import ATOMICS, FETCHING, Workload

GRH_BYTES = 40

# A work request takes 200 bytes and about 2 us to build (30 us on an emulated CPU), so these take two seconds at most.
MAX_REQUESTS = 1 << 16


class Proof(NamedTuple):
    """Payload that a completion proves to have arrived."""

    messages: int
    bytes: int


NOTHING = Proof(0, 0)


@dataclass(frozen=True)
class Request:
    """A work request with the lengths of its scatter list.

    Its completion proves that ``delivers`` bytes reached the flow's sink. ``returns`` bytes came back in a mixed flow.
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
        """Payload of the chain."""
        return sum(request.message_bytes for request in self.requests)


def split(message_bytes: int, sge_count: int, sge_split: Union[str, Sequence[int]]) -> Tuple[int, ...]:
    """Return the lengths of a message's scatter list, without empty entries.

    Listed bytes come first. The other entries share the rest evenly, and the first of them take the remainder. Without
    other entries, the last listed entry takes the rest.
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


def fitting(depth: int, requests: int) -> int:
    """Return how many chains or rounds can be outstanding."""
    return max(1, depth // requests)


def _distinct_chains(batch: int, turn: int, mrs: int, budget: int) -> int:
    """Return how many chains to build. Posted in turn, they repeat the workload's sequence of requests.

    Opcodes and sizes always repeat exactly. A ``budget`` of work requests can limit the number of MRs used.
    """
    mix = lcm(batch, turn) // batch
    exact = lcm(batch, turn, mrs) // batch
    if exact * batch <= budget:
        return exact
    covering = mix * (-(-mrs // (mix * batch)))
    affordable = mix * max(1, budget // (mix * batch))
    return min(covering, affordable)


def send_chains(workload: Workload, qps: int) -> Tuple[Chain, ...]:
    """Return the chains, in whole rounds, that each queue pair posts in turn."""
    batch, sequence = workload.wqe_batch, _Sequence(workload)
    total = sequence.round * _distinct_chains(
        sequence.round, len(sequence.turn), workload.mrs_per_qp, MAX_REQUESTS // qps
    )
    requests = [sequence.request(number) for number in range(total)]
    return tuple(Chain(tuple(requests[first : first + batch])) for first in range(0, total, batch))


class _Sequence:
    def __init__(self, workload: Workload) -> None:
        self.workload, self.turn = workload, workload.turn
        self.round = workload.wqe_batch * workload.signal_every
        self._mixed = workload.mixed

    def request(self, number: int) -> Request:
        workload, turn = self.workload, self.turn
        opcode, size = turn[number % len(turn)]
        ends_round = (number + 1) % self.round == 0
        signalled = workload.sq_sig_all or ends_round
        return Request(
            opcode=opcode,
            mr=number % workload.mrs_per_qp,
            # An atomic has one entry of 8 bytes (ibv_post_send(3)).
            segments=(size,) if opcode in ATOMICS else split(size, workload.sge_count, workload.sge_split),
            message_bytes=size,
            signalled=signalled,
            delivers=self._proof(number, returns=False) if signalled else NOTHING,
            returns=self._proof(number, returns=True) if signalled else NOTHING,
            ends_round=ends_round,
        )

    def _proof(self, number: int, *, returns: bool) -> Proof:
        turn = self.turn
        proved = (turn[n % len(turn)] for n in range(number + 1 - self.workload.messages_per_signal, number + 1))
        sizes = [size for opcode, size in proved if (self._mixed and opcode in FETCHING) == returns]
        return Proof(len(sizes), sum(sizes))


@dataclass(frozen=True)
class ReceivePlan:
    """Chains of MR numbers, and the number of chains to keep posted."""

    chains: Tuple[Tuple[int, ...], ...]
    chains_in_queue: int
    segments: Tuple[int, ...]

    @property
    def batch(self) -> int:
        """Receives per post."""
        return len(self.chains[0])


def receive_plan(workload: Workload, buffers: int, queues: int) -> ReceivePlan:
    """Plan the receives of one of ``queues`` receive queues. Each receive fits the largest message."""
    batch = min(workload.wqe_batch, workload.recv_wq_depth)
    budget = max(batch, MAX_REQUESTS // queues)
    count = max(1, min(-(-buffers // batch), budget // batch))
    chains = tuple(tuple((chain * batch + i) % buffers for i in range(batch)) for chain in range(count))
    segments = list(split(workload.largest_message, workload.sge_count, workload.sge_split))
    if workload.qp_type == "UD":
        segments[0] += GRH_BYTES
    return ReceivePlan(chains, fitting(workload.recv_wq_depth, batch), tuple(segments))


def payload_per_packet(workload: Workload) -> Tuple[float, float]:
    """Return the mean payload bytes and messages per packet."""
    sizes = [size for _, size in workload.turn]
    packets = sum(max(1, -(-size // workload.mtu)) for size in sizes)
    return sum(sizes) / packets, len(sizes) / packets


def group(needs: Sequence[int], capacity: int, reserve: int = 0) -> List[List[int]]:
    """Distribute queue pairs over completion queues. Return lists of indices into ``needs``.

    Args:
        needs: entries that each queue pair needs at most. One that needs more than ``capacity`` is alone in its list.
        capacity: entries of the largest completion queue.
        reserve: entries of every completion queue for a shared receive queue.
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
