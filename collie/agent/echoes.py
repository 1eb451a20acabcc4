"""Echoes: a responder sends back the number of a message, and so proves that it has it.

With UC and UD, a completion proves only that the device took the request. So a timed round ends with immediate data,
the number of its echo. The responder returns the number without payload, on the same queue pair. Only the loop in C
does so (``native/traffic.c``). This file builds the work requests.

RC needs no echoes, because its completion is the acknowledgement of the responder's device. An echo would also break
the queue pair of the responder once that of the requester is broken, and add errors that no workload brought about.
"""

from __future__ import annotations

import ctypes
import mmap
from typing import Any, List, NamedTuple, Optional

from .objects import PAGE, step
from .pattern import GRH_BYTES
from .queues import ECHO, id_of
from .resources import ECHOES, UD_QKEY, End
from .used_end import UsedEnd
from .verbs import Verbs


class PairEchoes(NamedTuple):
    """The work request of a queue pair's echoes: a responder's send, or a receive of which `missing` must be posted."""

    pair: Any
    request: Any
    sends: bool
    missing: int = 0


class Echoes:
    """Builds the echoes of an engine, and owns the memory for the headers of UD's."""

    def __init__(self, v: Verbs, pd: Any) -> None:
        self._v, self._pd = v, pd
        self._header: Any = None
        self._address = 0
        self._memory: Optional[mmap.mmap] = None

    def build(self, part: UsedEnd) -> List[PairEchoes]:
        """Build what all queue pairs of a part's end need, and count its receives as posted."""
        if not part.echoed:
            return []
        return self._receives(part.end) if part.end.requester else self._sends(part.end)

    def _receives(self, end: End) -> List[PairEchoes]:
        sges = [self._header_sge()] if end.workload.qp_type == "UD" else []
        built = []
        for number, pair in enumerate(end.pairs):
            wr_id = id_of(end.first_queue + number, 0, ECHO)
            receive = self._v.RecvWR(wr_id=wr_id, num_sge=len(sges), sg=sges, next_wr=None)
            built.append(PairEchoes(pair, receive, False, 0 if end.echoes_posted[number] else ECHOES))
            end.echoes_posted[number] = True
        return built

    def _sends(self, end: End) -> List[PairEchoes]:
        e = self._v.e
        built = []
        for number, pair in enumerate(end.pairs):
            wr_id = id_of(end.first_queue + (0 if end.srq is not None else number), 0, ECHO)
            send = self._v.SendWR(
                wr_id=wr_id,
                opcode=e.IBV_WR_SEND_WITH_IMM,
                num_sge=0,
                imm_data=0,
                sg=[],
                send_flags=e.IBV_SEND_SIGNALED,
                next_wr=None,
            )
            if end.address_handle is not None:
                send.set_wr_ud(end.address_handle, end.peer["qps"][number][0], UD_QKEY)
            built.append(PairEchoes(pair, send, True))
        return built

    def _header_sge(self) -> Any:
        if self._header is None:
            self._memory = mmap.mmap(-1, PAGE)
            self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
            with step("reg_mr"):
                access = self._v.e.IBV_ACCESS_LOCAL_WRITE
                self._header = self._v.MR(self._pd, GRH_BYTES, access, address=self._address)
        return self._v.SGE(self._address, GRH_BYTES, self._header.lkey)

    def close(self) -> None:
        """Deregister the memory."""
        if self._header is not None:
            self._header.close()
            self._header = None
