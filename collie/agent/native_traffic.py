"""The compiled traffic loop: queues in the layout of ``native/traffic.c``.

The shared object receives the functions of libibverbs as pointers.
"""

from __future__ import annotations

import ctypes
import os
import time
from ctypes import POINTER, c_double, c_int, c_int32, c_int64, c_uint32, c_uint64, c_void_p
from typing import Any, Dict, Iterable, List, Mapping, Tuple

from .abi import members
from .echoes import PairEchoes
from .library import Library, VerbsError
from .nic_clock import ClockStruct, typed
from .objects import CompletionQueue
from .queues import NO_GENERATION, Queue, next_receive
from .resources import ECHOES
from .work_requests import lay_out


class ProofStruct(ctypes.Structure):
    """``struct proof``."""

    _fields_ = members(c_uint64, "bytes messages")


class TimedStruct(ctypes.Structure):
    """``struct timed``."""

    _fields_ = [("since", c_int64), ("following", c_uint64)]


class EchoStruct(ctypes.Structure):
    """``struct echo``."""

    _fields_ = [("since", c_int64), *members(c_uint32, "number unused")]


class QueueStruct(ctypes.Structure):
    """``struct queue``."""

    _fields_ = [
        ("target", c_void_p),
        ("chains", POINTER(c_void_p)),
        ("chain_bytes", POINTER(c_uint64)),
        ("returns", POINTER(ProofStruct)),
        *members(c_void_p, "post totals pair_word"),
        ("timed", POINTER(TimedStruct)),
        ("echoes", POINTER(EchoStruct)),
        *members(c_double, "nanoseconds_per_byte stagger"),
        *members(c_uint64, "count bytes offered"),
        ("due", c_int64),
        *members(c_uint32, "chain_count next limit batch posts messages_per_signal overhead outstanding"),
        *members(c_uint32, "used sends shared alive listed return_count returned generation"),
        *members(c_uint32, "timed_first timed_count until_posted until_completed reported waiting next_echo"),
    ]


class CompletionQueueStruct(ctypes.Structure):
    """``struct completion_queue``."""

    _fields_ = [("cq", c_void_p), ("channel", c_void_p), ("fd", c_int32), ("stamped", c_uint32)]


class PairStruct(ctypes.Structure):
    """``struct pair``."""

    _fields_ = [
        *members(c_void_p, "word target echo echo_receive"),
        *members(c_uint32, "qp_num failed echoes_out unused"),
    ]


class PollFd(ctypes.Structure):
    """``struct pollfd``."""

    _fields_ = [("fd", c_int), ("events", ctypes.c_short), ("revents", ctypes.c_short)]


class TrafficStruct(ctypes.Structure):
    """``struct traffic``."""

    _fields_ = [
        ("words", c_void_p),
        ("queues", POINTER(QueueStruct)),
        ("cqs", POINTER(CompletionQueueStruct)),
        ("pairs", POINTER(PairStruct)),
        ("sleepers", POINTER(PollFd)),
        ("waiting", POINTER(c_void_p)),
        ("clock", POINTER(ClockStruct)),
        *members(c_void_p, "get_cq_event ack_cq_events"),
        *members(c_int64, "began now reviewed spin oversleep gap"),
        *members(c_uint64, "rounds echo_rounds"),
        ("echo_budget", c_double),
        *members(c_uint32, "queue_count cq_count pair_count sending"),
        ("control", c_int32),
        *members(c_uint32, "waiting_count paced every echo_every echo_number echoes_out fresh busy rounds_out"),
    ]


class TrafficObject:
    """Functions of the shared object."""

    def __init__(self, loaded: ctypes.CDLL, library: Library) -> None:
        pointer = POINTER(TrafficStruct)
        self.init = typed(loaded.collie_traffic_init, None, pointer)
        self.admit = typed(loaded.collie_traffic_admit, None, pointer, c_uint32)
        self.end_echoes = typed(loaded.collie_traffic_end_echoes, None, pointer)
        self.receive_echoes = typed(loaded.collie_traffic_receive_echoes, None, pointer, c_uint32, c_uint32)
        self.begin = typed(loaded.collie_traffic_begin, None, pointer)
        self.run = typed(loaded.collie_traffic_run, c_int, pointer, c_int64)
        self.library = library


class NativeTraffic:
    """All queues of an engine, driven in C, with the interface of ``traffic.Traffic``."""

    def __init__(
        self,
        functions: TrafficObject,
        slots: int,
        cqs: List[CompletionQueue],
        words: Any,
        pair_words: Dict[int, int],
        control: int,
        spin_seconds: float = 0.0,
    ) -> None:
        self._functions = functions
        self._base = ctypes.addressof((c_uint64 * len(words)).from_buffer(words))
        # They own the work requests and the arrays that the structures point to.
        self._admitted: Dict[int, Tuple[Queue, QueueStruct]] = {}
        self._echoes: Dict[int, PairEchoes] = {}
        self._places = {number: place for place, number in enumerate(sorted(pair_words))}
        self._queues = (QueueStruct * slots)(*(QueueStruct(generation=NO_GENERATION, sends=1) for _ in range(slots)))
        self._struct = TrafficStruct(
            words=self._base,
            queues=self._queues,
            cqs=(CompletionQueueStruct * len(cqs))(
                *(CompletionQueueStruct(cq.cq.address, cq.channel.address, cq.fd, cq.clock is not None) for cq in cqs)
            ),
            pairs=(PairStruct * len(pair_words))(
                *(PairStruct(word=self._word(word), qp_num=number) for number, word in sorted(pair_words.items()))
            ),
            sleepers=(PollFd * (len(cqs) + 1))(),
            waiting=(c_void_p * slots)(),
            clock=next((ctypes.pointer(cq.clock) for cq in cqs if cq.clock is not None), None),
            get_cq_event=ctypes.cast(functions.library.get_cq_event, c_void_p),
            ack_cq_events=ctypes.cast(functions.library.ack_cq_events, c_void_p),
            spin=int(spin_seconds * 1e9),
            queue_count=slots,
            cq_count=len(cqs),
            pair_count=len(pair_words),
            control=control,
        )
        functions.init(self._struct)

    def _word(self, index: int) -> int:
        return self._base + 8 * index

    def _queue(self, queue: Queue) -> QueueStruct:
        if queue.chains:
            lay_out(queue.chains)
        count, returns = len(queue.chains), queue.returns
        return QueueStruct(
            target=queue.target and queue.target.address,
            chains=(c_void_p * count)(*(head.address for head in queue.chains)),
            chain_bytes=(c_uint64 * count)(*queue.chain_bytes),
            returns=(ProofStruct * len(returns))(*(ProofStruct(proof.bytes, proof.messages) for proof in returns)),
            return_count=len(returns),
            totals=self._word(queue.base),
            pair_word=self._word(queue.qp_word),
            chain_count=count,
            limit=queue.limit,
            batch=queue.batch,
            posts=queue.posts,
            messages_per_signal=queue.messages_per_signal,
            overhead=queue.overhead,
            sends=queue.sends,
            shared=queue.shared,
            alive=queue.alive,
            timed=(TimedStruct * queue.limit)() if queue.timed and not queue.echoed else None,
            echoes=(EchoStruct * ECHOES)() if queue.timed and queue.echoed else None,
            nanoseconds_per_byte=queue.nanoseconds_per_byte,
            stagger=queue.stagger,
            generation=queue.generation,
        )

    def admit(self, queues: Mapping[int, Queue]) -> None:
        """Put new queues in the place of others, by number. Fill those that receive."""
        for number, queue in queues.items():
            laid_out = self._queue(queue)
            self._queues[number] = laid_out
            self._admitted[number] = queue, laid_out
            if queue.target is not None:
                self._functions.admit(self._struct, number)

    def end_echoes(self) -> None:
        """Send no echoes until `admit_echoes`, because what their work requests point to may be destroyed."""
        self._functions.end_echoes(self._struct)

    def admit_echoes(self, echoes: Iterable[PairEchoes]) -> None:
        """Give queue pairs the work requests of their echoes, and post receives for those to come."""
        for each in echoes:
            lay_out([each.request])
            self._echoes[each.pair.qp_num] = each
            place = self._places[each.pair.qp_num]
            driven = self._struct.pairs[place]
            driven.target = each.pair.address
            driven.echo = each.request.address if each.sends else None
            driven.echo_receive = None if each.sends else each.request.address
            self._functions.receive_echoes(self._struct, place, each.missing)

    def next_receive(self, number: int) -> int:
        """Return which receive of a queue, in the order of posting, the next message takes."""
        driven = self._queues[number]
        return next_receive(self._admitted[number][0], driven.next, driven.used)

    def begin(self) -> None:
        """Fill every send queue."""
        self._functions.begin(self._struct)

    def serve(self) -> None:
        """Drive traffic until a command waits."""
        self._run(0)

    def drain(self, seconds: float) -> bool:
        """Stop posting sends. Return whether all completed and all completion queues were empty within ``seconds``."""
        self._struct.sending = 0
        return self._run(time.monotonic_ns() + int(seconds * 1e9))

    def _run(self, drain_until: int) -> bool:
        answer: int = self._functions.run(self._struct, drain_until)
        if answer < 0:
            raise VerbsError(-answer, f"poll_cq: {os.strerror(-answer)}")
        return answer > 0
