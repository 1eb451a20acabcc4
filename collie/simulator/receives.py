"""Receive work requests on their way on chip: what comes late, and the time that it takes."""

from __future__ import annotations

from typing import Final, NamedTuple

from collie.simulator.caches import pushed_out
from collie.simulator.demand import receive_queues
from collie.simulator.hardware import Subsystem
from collie.simulator.nic import ReceiveQueues, WhenMissing
from collie.simulator.numbers import Numbers, Quantity
from collie.simulator.pcie import COMPLETION_HEADER_BYTES
from collie.simulator.traffic import TrafficArrays


class Receives(NamedTuple):
    """Costs of the receives of one message.

    Attributes:
        fetches: PCIe reads. One read fetches several receives of one post.
        wqe_read: seconds of PCIe downstream for them.
        on_demand: receives that are not prefetched, because their posts are small.
        withheld, waiting, dropping: time of such a receive that is missing: at the sender, in the pipeline, or before
            the drop.
        pushed_out: receives that an overrun of the prefetcher pushed out before use.
        fetched_again: time to fetch those.
    """

    fetches: Quantity
    wqe_read: Quantity
    on_demand: Quantity
    withheld: Quantity
    waiting: Quantity
    dropping: Quantity
    pushed_out: Quantity
    fetched_again: Quantity


_NONE: Final = Receives(*[0.0] * len(Receives._fields))


def receives_of(subsystem: Subsystem, t: TrafficArrays, n: Numbers) -> Receives:
    """Compute the costs of the receives of one message."""
    if not n.anywhere(t.receives):
        return _NONE
    fetches = t.receives / n.least(t.wqe_batch, n.most(1.0, subsystem.engine.wqe_fetch_bytes // t.receive_wqe))
    on_demand = withheld = waiting = dropping = 0.0
    for queues, used in receive_queues(subsystem, t):
        late = used * t.receives * n.least(1.0, queues.on_demand_wqes / t.wqe_batch)
        took = late * queues.fetch_seconds / (n.most(1.0, t.mtu / queues.look_ahead_bytes) * queues.outstanding_fetches)
        on_demand = on_demand + late
        withheld = withheld + took * (queues.when_missing is WhenMissing.WITHHOLD)
        waiting = waiting + took * (queues.when_missing is WhenMissing.WAIT)
        dropping = dropping + took * (queues.when_missing is WhenMissing.DROP)
    datagram, reliable = subsystem.datagram_receives, subsystem.reliable_receives
    # One packet of RC consumes its receive at once. The later packets of a longer message need the receive again.
    returning = t.is_rc * t.several_packets * _share_pushed_out(reliable, t, n)
    demanding = t.is_ud * _share_pushed_out(datagram, t, n)
    return Receives(
        fetches=fetches,
        wqe_read=(t.receives * t.receive_wqe + COMPLETION_HEADER_BYTES * fetches) / subsystem.pcie.bytes_per_second,
        on_demand=on_demand,
        withheld=withheld,
        waiting=waiting,
        dropping=dropping,
        pushed_out=returning + demanding,
        fetched_again=returning * reliable.overrun_wait_seconds + demanding * datagram.overrun_wait_seconds,
    )


def _share_pushed_out(queues: ReceiveQueues, t: TrafficArrays, n: Numbers) -> Quantity:
    long_queue = pushed_out(n, t.recv_depth, queues.resident_wqes_per_queue)
    return t.receives * pushed_out(n, t.wqe_batch, queues.prefetch_wqes) * long_queue
