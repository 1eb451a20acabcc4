"""The work requests of a phase, built before its traffic begins.

The id of a work request tells the traffic loop what its completion proves, so no table of outstanding work is kept::

    bits 0-1    kind: RECEIVE, SEND (inside a round), SEND_END (the round's last, which frees its slots),
                ECHO (at both ends of an echo)
    bits 2-5    generation: number of the phase that built it, modulo 16
    bits 6-25   number of the queue
    bits 26-63  payload bytes that it proves delivered (only of sends, because a receive completion has its length)

A queue keeps its number for the whole run. A send queue is built for each phase, a receive queue only for receives of
another shape. So a queue whose generation differs did not post the request: the completion is a straggler.

In a flow of several opcodes, these are the bytes that went to the responder. ``Queue.returns`` has the bytes that READs
and atomics fetched, one entry per completion, because completions of a send queue arrive in posting order.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Sequence, Tuple

from .faults import AgentFault
from .objects import Buffers
from .pattern import GRH_BYTES, Chain, Proof, Request, fitting, send_chains
from .resources import UD_QKEY
from .totals import EndLayout
from .used_end import UsedEnd
from .verbs import Verbs
from .workload import ATOMICS, FETCHING, SENDS, Workload

RECEIVE, SEND, SEND_END, ECHO = 0, 1, 2, 3
KIND_MASK = 3
GENERATION_SHIFT, QUEUE_SHIFT, BYTES_SHIFT = 2, 6, 26
GENERATION_MASK = (1 << (QUEUE_SHIFT - GENERATION_SHIFT)) - 1
NO_GENERATION = GENERATION_MASK + 1
QUEUE_MASK = (1 << (BYTES_SHIFT - QUEUE_SHIFT)) - 1
MAX_PROVED_BYTES = (1 << (64 - BYTES_SHIFT)) - 1


class Queue:
    """A send or receive queue. One class serves both, and has slots, because the traffic loop must be fast."""

    __slots__ = (
        "alive",  # no completion has failed
        "base",  # index of its flow's first word in the shared totals
        "batch",  # work requests per chain
        "bytes",  # payload bytes of completions not yet added to the totals
        "chain_bytes",  # payload of each chain
        "chains",  # first work request of each chain, in posting order
        "count",  # completions not yet added to the totals
        "echoed",  # its timed rounds end with their echoes
        "generation",  # of its work requests
        "limit",  # rounds of sends, or chains of receives, that fit into the queue
        "listed",  # already on the list of queues whose completions are to be added
        "messages_per_signal",
        "nanoseconds_per_byte",  # of a paced queue, else 0
        "next",  # number of the next chain to post
        "outstanding",  # rounds of sends that have not completed
        "overhead",  # bytes of a receive completion that are no payload (GRH)
        "post",
        "posts",  # chains in a round
        "qp_word",  # index of its queue pair's word
        "refs",  # all work requests. They are kept alive, because chains link them by raw pointers
        "returned",  # entry of ``returns`` for the next completion
        "returns",  # with several opcodes, the fetched payload of each completion in turn
        "sends",
        "shared",  # a receive queue of many queue pairs
        "stagger",  # share of a round by which a paced queue is behind the first one of its flow
        "target",  # queue pair or shared receive queue
        "timed",  # completions, or echoes, prove that requests were carried out
        "used",  # completed receives that are not posted again yet
    )

    def __init__(self, sends: bool, base: int, qp_word: int, target: Any) -> None:
        self.sends, self.shared, self.alive, self.listed, self.timed = sends, False, True, False, False
        self.echoed = False
        self.nanoseconds_per_byte = self.stagger = 0.0
        self.base, self.qp_word, self.target = base, qp_word, target
        self.generation = NO_GENERATION
        if target is not None:
            self.post: Callable[[Any], None] = target.post_send if sends else target.post_recv
        self.limit = self.batch = self.posts = self.messages_per_signal = 1
        self.overhead = self.next = self.outstanding = self.used = self.count = self.bytes = self.returned = 0
        self.returns: List[Proof] = []
        self.chains: List[Any] = []
        self.chain_bytes: List[int] = []
        self.refs: List[Any] = []


def idle_queue() -> Queue:
    """Return a queue that posts nothing, and whose completions are all stragglers."""
    queue = Queue(True, 0, 0, None)
    queue.alive, queue.limit = False, 0
    return queue


def next_receive(queue: Queue, following: int, used: int) -> int:
    """Return which receive, in the order of posting, the next message takes.

    ``following`` is the chain to be posted next, and ``used`` the number of receives completed and not posted again.
    """
    return (following * queue.batch + used - queue.limit * queue.batch) % (len(queue.chains) * queue.batch)


def _send_flags(v: Verbs, workload: Workload, request: Request, first: bool) -> int:
    flags = v.e.IBV_SEND_SIGNALED if request.signalled else 0
    if workload.fence and first:
        flags |= v.e.IBV_SEND_FENCE
    if workload.max_inline_data >= request.message_bytes and request.opcode not in FETCHING:
        flags |= v.e.IBV_SEND_INLINE
    return int(flags)


_SharedRequest = Tuple[int, int, int, Request]
"""The id without the number of the queue, the opcode and the flags of the verbs, and the request."""


def build_queues(v: Verbs, part: UsedEnd, layout: EndLayout, generation: int) -> Dict[int, Queue]:
    """Build the queues of an end that a phase changes, by number. Other receive queues go on where they are."""
    end = part.end
    if end.requester:
        builder = _SendBuilder(v, part, generation)
        queues = {end.first_queue + pair: builder.build(pair, layout) for pair in range(part.qps)}
        return {**idle_queues(end.first_queue + part.qps, end.qps - part.qps), **queues}
    return {end.first_queue + pair: _receive_queue(v, part, layout, pair, generation) for pair in part.unfilled}


def idle_queues(first: int, count: int) -> Dict[int, Queue]:
    """Return idle queues from number ``first``."""
    return {number: idle_queue() for number in range(first, first + count)}


class _SendBuilder:
    """Builds the send queues of an end.

    A phase may have 10,000 work requests, so what all queue pairs share is worked out once.
    """

    def __init__(self, v: Verbs, part: UsedEnd, generation: int) -> None:
        self.v, self.workload, self.end, self.generation = v, part.workload, part.end, generation
        self.qps, self.flow_qps, self.timed, self.echoed = part.qps, part.flow_qps, part.timed, part.echoed
        chains = send_chains(self.workload, part.qps)
        requests = [request for chain in chains for request in chain.requests]
        proved = max(request.delivers.bytes for request in requests)
        if proved > MAX_PROVED_BYTES:
            message = f"a completion would prove {proved} bytes, and the agent counts at most {MAX_PROVED_BYTES}"
            raise AgentFault("unsupported", "post", message)
        self.opcodes = {
            "SEND": self.v.e.IBV_WR_SEND,
            "SEND_WITH_IMM": self.v.e.IBV_WR_SEND_WITH_IMM,
            "WRITE": self.v.e.IBV_WR_RDMA_WRITE,
            "WRITE_WITH_IMM": self.v.e.IBV_WR_RDMA_WRITE_WITH_IMM,
            "READ": self.v.e.IBV_WR_RDMA_READ,
            "FETCH_ADD": self.v.e.IBV_WR_ATOMIC_FETCH_AND_ADD,
            "CMP_SWP": self.v.e.IBV_WR_ATOMIC_CMP_AND_SWP,
        }
        self.remote: Dict[str, Any] = part.end.peer.get("buffers", {})
        self.chains = [self._shared(chain) for chain in chains]
        self.chain_bytes = [chain.total_bytes for chain in chains]
        self.returns = [each.returns for each in requests if each.signalled] if self.workload.mixed else []

    def _shared(self, chain: Chain) -> List[_SharedRequest]:
        """Return what all queue pairs share of a chain's requests, the last one first."""
        shared = []
        for position, request in enumerate(chain.requests):
            kind = SEND_END if request.ends_round else SEND
            proof = request.delivers.bytes << BYTES_SHIFT | id_of(0, self.generation, kind)
            flags = _send_flags(self.v, self.workload, request, position == 0)
            shared.append((proof, self.opcodes[request.opcode], flags, request))
        return shared[::-1]

    def build(self, pair: int, layout: EndLayout) -> Queue:
        """Build the send queue of a queue pair."""
        workload, number = self.workload, self.end.first_queue + pair
        queue = Queue(True, layout.base, layout.first_qp + pair, self.end.pairs[pair])
        queue.generation = self.generation
        queue.limit = fitting(workload.send_wq_depth, workload.wqe_batch * workload.signal_every)
        queue.batch, queue.posts = workload.wqe_batch, workload.signal_every
        queue.messages_per_signal = workload.messages_per_signal
        queue.returns, queue.chain_bytes = self.returns, self.chain_bytes
        queue.timed, queue.echoed = self.timed, self.echoed
        if workload.offered_bps:
            queue.nanoseconds_per_byte = 8e9 * self.flow_qps / workload.offered_bps
            queue.stagger = pair / self.qps
        for chain in self.chains:
            following = None
            for shared in chain:
                following = self._request(number, pair, shared, following)
                queue.refs.append(following)
            queue.chains.append(following)
        return queue

    def _request(self, number: int, pair: int, shared: _SharedRequest, following: Any) -> Any:
        proof, opcode, flags, request = shared
        wr = self.v.SendWR(
            wr_id=proof | number << QUEUE_SHIFT,
            opcode=opcode,
            num_sge=len(request.segments),
            imm_data=0,
            sg=_scatter(self.v, self.end.memory, pair, request.mr, request.segments),
            send_flags=flags,
            next_wr=following,
        )
        if request.opcode not in SENDS:
            target = pair * self.remote["per_qp"] + request.mr % self.remote["per_qp"]
            rkey, address = self.remote["rkeys"][target], self.remote["base"] + target * self.remote["stride"]
            if request.opcode in ATOMICS:
                wr.set_wr_atomic(rkey, address, 1)  # adds 1, or replaces 1 by 0
            else:
                wr.set_wr_rdma(rkey, address)
        elif self.end.address_handle is not None:
            wr.set_wr_ud(self.end.address_handle, self.end.peer["qps"][pair][0], UD_QKEY)
        return wr


def id_of(number: int, generation: int, kind: int) -> int:
    """Return the id of a work request that proves no bytes."""
    return number << QUEUE_SHIFT | generation << GENERATION_SHIFT | kind


def _scatter(v: Verbs, buffers: Buffers, pair: int, mr: int, segments: Sequence[int]) -> List[Any]:
    address, lkey = buffers.local(pair, mr)
    entries = []
    for length in segments:
        entries.append(v.SGE(address, length, lkey))
        address += length
    return entries


def _receive_queue(v: Verbs, part: UsedEnd, layout: EndLayout, first: int, generation: int) -> Queue:
    """Build the receive queue of queue pair ``first``, or of all if they share one, over their MRs in turn."""
    end, workload, plan = part.end, part.workload, part.receives
    assert plan is not None, "a queue pair without receives is not unfilled"
    number = end.first_queue + first
    queue = Queue(False, layout.base, layout.first_qp + first, end.pairs[first] if end.srq is None else end.srq)
    queue.shared = end.srq is not None
    queue.generation = generation
    queue.overhead = GRH_BYTES if workload.qp_type == "UD" else 0
    pairs = range(part.qps) if queue.shared else range(first, first + 1)
    places = [(pair, mr) for pair in pairs for mr in range(workload.mrs_per_qp)]
    queue.batch, queue.limit = plan.batch, plan.chains_in_queue
    wr_id = id_of(number, generation, RECEIVE)
    for chain in plan.chains:
        following = None
        for place in reversed(chain):
            sges = _scatter(v, end.memory, *places[place], plan.segments)
            following = v.RecvWR(wr_id=wr_id, num_sge=len(sges), sg=sges, next_wr=following)
            queue.refs.append(following)
        queue.chains.append(following)
    return queue
