"""The traffic loop in Python: polls completions in batches, counts them, posts the next chains.

Rules:

1. Posting a chain is one Python call. Nothing is built while traffic runs.
2. Receives are posted again as soon as a chain is used up, before sends of the same batch of completions.
3. A failed completion ends its queue pair only. The run goes on and counts it.
4. A completion of an earlier phase's work request is a straggler. It is counted as that, and proves nothing.
5. An idle loop sleeps on the completion channels. With a NIC it polls for a moment first, because to wake takes longer
   than a round trip. Spinning takes the CPU from the kernel's half of a software device and from other virtual
   machines. Between two rdma_rxe machines with one CPU each, RC WRITE of 64 KiB reached 42 MB/s sleeping, 22 MB/s
   spinning, and 20 MB/s with sleeps of 100 us.
"""

from __future__ import annotations

import select
import sys
import time
from typing import Any, Dict, List, Mapping, Set, Type

from . import totals as t
from .objects import CompletionQueue
from .queues import (
    BYTES_SHIFT,
    GENERATION_MASK,
    GENERATION_SHIFT,
    KIND_MASK,
    QUEUE_MASK,
    QUEUE_SHIFT,
    RECEIVE,
    SEND_END,
    Queue,
    idle_queue,
    next_receive,
)
from .verbs import WC_FLUSHED

POLL_BATCH = 32
# The longest sleep. It limits the cost of a lost wake-up, and how late ``until`` is noticed.
IDLE_MILLISECONDS = 50


class Traffic:
    """All queues of an engine."""

    def __init__(
        self,
        post_error: Type[Exception],
        slots: int,
        cqs: List[CompletionQueue],
        words: Any,
        pair_words: Dict[int, int],
        control: int,
        spin_seconds: float = 0.0,
    ) -> None:
        """Drive ``slots`` queues, all idle at first.

        Args:
            post_error: exception of a failed post.
            slots: number of queues.
            cqs: all completion queues.
            words: the words of ``Totals``.
            pair_words: word index of each queue pair by qp_num, for shared receive queues.
            control: descriptor that becomes readable when a command waits.
            spin_seconds: how long to poll after a completion before sleeping.
        """
        self.sending = False
        self._queues = [idle_queue() for _ in range(slots)]
        self._cqs, self._words = cqs, words
        self._pair_words = pair_words
        self._post_error = post_error
        self._failed_pairs: Set[int] = set()
        self._spin_seconds = spin_seconds
        self._sleeper = select.poll()
        self._sleeper.register(control, select.POLLIN)
        self._by_fd = {cq.fd: cq for cq in cqs}
        for fd in self._by_fd:
            self._sleeper.register(fd, select.POLLIN)

    def admit(self, queues: Mapping[int, Queue]) -> None:
        """Put new queues in the place of others, by number. Fill those that receive."""
        for number, queue in queues.items():
            self._queues[number] = queue
            for _ in range(0 if queue.sends else queue.limit):
                self._post(queue)

    def next_receive(self, number: int) -> int:
        """Return which receive of a queue, in the order of posting, the next message takes."""
        queue = self._queues[number]
        return next_receive(queue, queue.next, queue.used)

    def begin(self) -> None:
        """Fill every send queue."""
        self.sending = True
        self._settle_sends([queue for queue in self._queues if queue.sends])

    def outstanding(self) -> int:
        """Return the rounds of sends outstanding on working queue pairs."""
        return sum(queue.outstanding for queue in self._queues if queue.sends and queue.alive)

    def serve(self) -> None:
        """Drive traffic until a command waits."""
        self._run(0.0)

    def drain(self, seconds: float) -> bool:
        """Stop posting sends. Return whether all completed and all completion queues were empty within ``seconds``."""
        self.sending = False
        return self._run(time.monotonic() + seconds)

    def _run(self, drain_until: float) -> bool:
        words, polls = self._words, [cq.cq.poll for cq in self._cqs]
        armed, busy_at = False, time.monotonic()
        while not words[t.ATTENTION]:
            found = 0
            for poll in polls:
                count, completions = poll(POLL_BATCH)
                if count:
                    found += count
                    self._account(completions)
            words[t.ITERATIONS] += 1
            if drain_until and not found and not self.outstanding():
                return True
            if drain_until and time.monotonic() > drain_until:
                return False
            if found:
                busy_at = time.monotonic() if self._spin_seconds else 0.0
                continue
            words[t.IDLE_POLLS] += 1
            if self._spin_seconds and time.monotonic() - busy_at < self._spin_seconds:
                continue
            if armed:
                self._sleep()
            else:
                # A completion from before arming raises no event, so poll once more.
                for cq in self._cqs:
                    cq.cq.req_notify()
            armed = not armed
        return False

    def _sleep(self) -> None:
        for fd, _ in self._sleeper.poll(IDLE_MILLISECONDS):
            cq = self._by_fd.get(fd)
            if cq is not None:
                cq.channel.get_cq_event(cq.cq)
                cq.cq.ack_events(1)

    def _account(self, completions: List[Any]) -> None:
        """Add up completions in each queue first, then once per queue in the shared words, which cost more."""
        queues = self._queues
        receives: List[Queue] = []
        sends: List[Queue] = []
        for completion in completions:
            wr_id = completion.wr_id
            queue = queues[wr_id >> QUEUE_SHIFT & QUEUE_MASK]
            if wr_id >> GENERATION_SHIFT & GENERATION_MASK != queue.generation:
                self._words[t.STRAGGLERS] += 1
                continue
            if completion.status:
                self._failed(queue, completion)
                continue
            kind = wr_id & KIND_MASK
            queue.count += 1
            if kind == RECEIVE:
                queue.bytes += completion.byte_len - queue.overhead
                if queue.shared:
                    self._words[self._pair_words[completion.qp_num]] += 1
            else:
                queue.bytes += wr_id >> BYTES_SHIFT
                if kind == SEND_END:
                    queue.outstanding -= 1
            if not queue.listed:
                queue.listed = True
                (sends if queue.sends else receives).append(queue)
        if receives:
            self._settle_receives(receives)
        if sends:
            self._settle_sends(sends)

    def _settle_receives(self, queues: List[Queue]) -> None:
        words = self._words
        for queue in queues:
            count, base = queue.count, queue.base
            words[base + t.DELIVERED_MESSAGES] += count
            words[base + t.DELIVERED_BYTES] += queue.bytes
            if not queue.shared:
                words[queue.qp_word] += count
            queue.used += count
            queue.count = queue.bytes = 0
            queue.listed = False
            while queue.used >= queue.batch and queue.alive:
                queue.used -= queue.batch
                self._post(queue)

    def _settle_sends(self, queues: List[Queue]) -> None:
        words = self._words
        for queue in queues:
            base = queue.base
            if queue.count:
                messages = queue.count * queue.messages_per_signal
                words[queue.qp_word] += messages
                words[base + t.COMPLETED_MESSAGES] += messages
                if queue.returns:
                    messages -= self._settle_returns(queue)
                words[base + t.DELIVERED_MESSAGES] += messages
                words[base + t.DELIVERED_BYTES] += queue.bytes
                if self.sending:
                    words[t.QUEUE_EMPTY] += queue.outstanding == 0
                    words[t.QUEUE_OUTSTANDING] += queue.outstanding
                    words[t.QUEUE_LIMIT] += queue.limit
            queue.count = queue.bytes = 0
            queue.listed = False
            while queue.outstanding < queue.limit and self.sending and queue.alive:
                queue.outstanding += 1
                for _ in range(queue.posts):
                    words[base + t.POSTED_BYTES] += queue.chain_bytes[queue.next]
                    words[base + t.POSTED_MESSAGES] += queue.batch
                    self._post(queue)

    def _settle_returns(self, queue: Queue) -> int:
        """Count the payload that a mixed flow fetched. Return the number of its messages."""
        words, base = self._words, queue.base
        messages = 0
        for _ in range(queue.count):
            proof = queue.returns[queue.returned]
            queue.returned = queue.returned + 1 if queue.returned + 1 < len(queue.returns) else 0
            messages += proof.messages
            words[base + t.RETURNED_BYTES] += proof.bytes
        words[base + t.RETURNED_MESSAGES] += messages
        return messages

    def _post(self, queue: Queue) -> None:
        chain = queue.chains[queue.next]
        queue.next = queue.next + 1 if queue.next + 1 < len(queue.chains) else 0
        self._words[t.POSTS] += 1
        try:
            queue.post(chain)
        except self._post_error as error:
            if not self._words[t.POST_ERRORS]:
                sys.stderr.write(f"first failed post: {error}\n")
            self._words[t.POST_ERRORS] += 1
            self._end(queue)

    def _failed(self, queue: Queue, completion: Any) -> None:
        if completion.status == WC_FLUSHED:
            self._words[t.FLUSHED] += 1
        else:
            self._words[t.ERRORS + min(completion.status, t.ERROR_WORDS - 1)] += 1
        if not queue.shared:
            self._end(queue)
        elif completion.qp_num not in self._failed_pairs:  # the shared queue still serves other queue pairs
            self._failed_pairs.add(completion.qp_num)
            self._words[queue.base + t.FAILED_QPS] += 1

    def _end(self, queue: Queue) -> None:
        if queue.alive:
            queue.alive = False
            self._words[queue.base + t.FAILED_QPS] += 1
