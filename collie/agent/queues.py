"""Prebuilt send and receive queues of a run, posted by one call per chain.

A work request id holds the evidence of its completion, so the traffic loop needs no table of outstanding work::

    bits 0-1    kind: RECEIVE, SEND (inside a round), SEND_END (the round's last, which frees its slots)
    bits 2-23   number of the queue
    bits 24-63  payload bytes proved (sends only, because a receive completion has its length)

In a mixed flow these bytes went to the responder. ``returns`` of the queue has the fetched payload, one entry per
completion, because completions of a send queue arrive in posting order.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from .objects import Buffers
from .pattern import GRH_BYTES, Chain, Proof, ReceivePlan, Request, fitting, receive_plan, send_chains
from .resources import UD_QKEY, End, Resources
from .totals import EndLayout
from .verbs import Verbs
from .workload import ATOMICS, FETCHING, SENDS, Workload

RECEIVE, SEND, SEND_END = 0, 1, 2
KIND_MASK = 3
QUEUE_SHIFT, BYTES_SHIFT = 2, 24
QUEUE_MASK = (1 << (BYTES_SHIFT - QUEUE_SHIFT)) - 1


class Queue:
    """A send or receive queue: chains posted in turn.

    One flat object with plain slots for both directions, because the traffic loop uses little else.
    """

    __slots__ = (
        "alive",  # no completion has failed
        "base",  # index of its flow's words
        "batch",  # work requests per chain
        "bytes",  # of unsettled completions
        "chain_bytes",  # payload of each chain
        "chains",  # heads, in posting order
        "count",  # unsettled completions
        "limit",  # rounds of sends, or chains of receives, that fit
        "listed",  # on the list of queues to settle
        "messages_per_signal",
        "next",  # number of the next chain to post
        "outstanding",  # rounds of sends
        "overhead",  # bytes of a receive completion without payload
        "post",
        "posts",  # chains in a round
        "qp_word",  # index of its queue pair's word
        "refs",  # every work request: a head has only raw pointers to its chain
        "returned",  # entry of ``returns`` for the next completion
        "returns",  # in a mixed flow, the fetched payload of each completion in turn
        "sends",
        "shared",  # a receive queue of many queue pairs
        "target",  # queue pair or shared receive queue
        "used",  # receives completed and not posted again
    )

    def __init__(self, sends: bool, base: int, qp_word: int, target: Any) -> None:
        self.sends, self.shared, self.alive, self.listed = sends, False, True, False
        self.base, self.qp_word, self.target = base, qp_word, target
        self.post: Callable[[Any], None] = target.post_send if sends else target.post_recv
        self.limit = self.batch = self.posts = self.messages_per_signal = 1
        self.overhead = self.next = self.outstanding = self.used = self.count = self.bytes = self.returned = 0
        self.returns: List[Proof] = []
        self.chains: List[Any] = []
        self.chain_bytes: List[int] = []
        self.refs: List[Any] = []


def send_flags(v: Verbs, workload: Workload, request: Request, first: bool) -> int:
    """Return the flags of one send work request."""
    flags = v.e.IBV_SEND_SIGNALED if request.signalled else 0
    if workload.fence and first:
        flags |= v.e.IBV_SEND_FENCE
    if workload.max_inline_data >= request.message_bytes and request.opcode not in FETCHING:
        flags |= v.e.IBV_SEND_INLINE
    return int(flags)


def build_queues(resources: Resources, layouts: Sequence[EndLayout]) -> Tuple[List[Queue], Dict[int, int]]:
    """Build the queues of connected ``resources``. Also return the word index of each queue pair by qp_num."""
    queues: List[Queue] = []
    pair_words: Dict[int, int] = {}
    for place, end in enumerate(resources.ends):
        layout = layouts[place]
        pair_words.update({pair.qp_num: layout.first_qp + number for number, pair in enumerate(end.pairs)})
        if end.requester:
            builder = SendBuilder(resources, end)
            for pair in range(end.qps):
                queues.append(builder.build(len(queues), pair, layout))
        elif end.srq is not None:
            queues.append(shared_receive_queue(resources, end, layout, len(queues)))
        elif end.workload.receives:
            queues += receive_queues(resources, end, layout, len(queues))
    return queues, pair_words


class SendBuilder:
    """Builds the send queues of one requester's end."""

    def __init__(self, resources: Resources, end: End) -> None:
        self.v, self.workload, self.end = resources.v, end.workload, end
        self.chains = send_chains(self.workload, end.qps)
        self.opcodes = {
            "SEND": self.v.e.IBV_WR_SEND,
            "SEND_WITH_IMM": self.v.e.IBV_WR_SEND_WITH_IMM,
            "WRITE": self.v.e.IBV_WR_RDMA_WRITE,
            "WRITE_WITH_IMM": self.v.e.IBV_WR_RDMA_WRITE_WITH_IMM,
            "READ": self.v.e.IBV_WR_RDMA_READ,
            "FETCH_ADD": self.v.e.IBV_WR_ATOMIC_FETCH_AND_ADD,
            "CMP_SWP": self.v.e.IBV_WR_ATOMIC_CMP_AND_SWP,
        }
        self.remote: Dict[str, Any] = end.peer.get("buffers", {})

    def build(self, number: int, pair: int, layout: EndLayout) -> Queue:
        """Build queue ``number`` for queue pair ``pair`` of the end."""
        workload = self.workload
        queue = Queue(True, layout.base, layout.first_qp + pair, self.end.pairs[pair])
        queue.limit = fitting(workload.send_wq_depth, workload.wqe_batch * workload.signal_every)
        queue.batch, queue.posts = workload.wqe_batch, workload.signal_every
        queue.messages_per_signal = workload.messages_per_signal
        if workload.mixed:
            queue.returns = [item.returns for chain in self.chains for item in chain.requests if item.signalled]
        for chain in self.chains:
            queue.chains.append(self._chain(queue, number, pair, chain))
            queue.chain_bytes.append(chain.total_bytes)
        return queue

    def _chain(self, queue: Queue, number: int, pair: int, chain: Chain) -> Any:
        following = None
        for position in reversed(range(len(chain.requests))):
            following = self._request(number, pair, chain.requests[position], position == 0, following)
            queue.refs.append(following)
        return following

    def _request(self, number: int, pair: int, request: Request, first: bool, following: Any) -> Any:
        kind = SEND_END if request.ends_round else SEND
        wr = self.v.SendWR(
            wr_id=request.delivers.bytes << BYTES_SHIFT | number << QUEUE_SHIFT | kind,
            opcode=self.opcodes[request.opcode],
            num_sge=len(request.segments),
            imm_data=0,
            sg=scatter(self.v, self.end.buffers, pair, request.mr, request.segments),
            send_flags=send_flags(self.v, self.workload, request, first),
            next_wr=following,
        )
        if request.opcode not in SENDS:
            target = pair * self.remote["per_qp"] + request.mr % self.remote["per_qp"]
            rkey, address = self.remote["rkeys"][target], self.remote["base"] + target * self.remote["stride"]
            if request.opcode in ATOMICS:
                wr.set_wr_atomic(rkey, address, 1)  # adds 1, or swaps 1 for 0
            else:
                wr.set_wr_rdma(rkey, address)
        elif self.end.address_handle is not None:
            wr.set_wr_ud(self.end.address_handle, self.end.peer["qps"][pair][0], UD_QKEY)
        return wr


def scatter(v: Verbs, buffers: Optional[Buffers], pair: int, mr: int, segments: Sequence[int]) -> List[Any]:
    """Return SGEs of consecutive ``segments`` of one MR."""
    assert buffers is not None, "an end has buffers once it is created"
    address, lkey = buffers.local(pair, mr)
    entries = []
    for length in segments:
        entries.append(v.SGE(address, length, lkey))
        address += length
    return entries


def receive_queues(resources: Resources, end: End, layout: EndLayout, first_number: int) -> List[Queue]:
    """Build the receive queue of each queue pair of a responder's end."""
    workload, v = end.workload, resources.v
    overhead = GRH_BYTES if workload.qp_type == "UD" else 0
    queues = []
    for pair in range(end.qps):
        plan = receive_plan(workload, workload.mrs_per_qp, end.qps)
        queue = Queue(False, layout.base, layout.first_qp + pair, end.pairs[pair])
        queue.overhead = overhead
        _fill(v, queue, plan, end, first_number + pair, [(pair, mr) for mr in range(workload.mrs_per_qp)])
        queues.append(queue)
    return queues


def shared_receive_queue(resources: Resources, end: End, layout: EndLayout, number: int) -> Queue:
    """Build the shared receive queue of ``end``, over all its MRs in turn."""
    workload = end.workload
    plan = receive_plan(workload, workload.mrs_per_qp * end.qps, 1)
    queue = Queue(False, layout.base, layout.first_qp, end.srq)
    queue.shared = True
    queue.overhead = GRH_BYTES if workload.qp_type == "UD" else 0
    places = [divmod(number, workload.mrs_per_qp) for number in range(workload.mrs_per_qp * end.qps)]
    _fill(resources.v, queue, plan, end, number, places)
    return queue


def _fill(v: Verbs, queue: Queue, plan: ReceivePlan, end: End, number: int, places: List[Tuple[int, int]]) -> None:
    queue.batch, queue.limit = plan.batch, plan.chains_in_queue
    for chain in plan.chains:
        following = None
        for mr in reversed(chain):
            sges = scatter(v, end.buffers, *places[mr], plan.segments)
            following = v.RecvWR(wr_id=number << QUEUE_SHIFT | RECEIVE, num_sge=len(sges), sg=sges, next_wr=following)
            queue.refs.append(following)
        queue.chains.append(following)
