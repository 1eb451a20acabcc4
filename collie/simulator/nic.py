"""The quantities of a NIC: its engines, caches, queues and buffers. `hardware.py` says how to read them."""

from __future__ import annotations

from enum import StrEnum
from typing import Self

from pydantic import Field, StrictBool, model_validator

from collie.simulator.quantity import Bytes, Count, HalfShare, Part, PerSecond, Rate, Seconds, SecondsOrNone, Sharpness


class Engine(Part):
    """Processing units of the NIC. Rates are per direction."""

    units_per_direction: Count
    """Units that process the packets of one direction in parallel."""
    unit_packets_per_second: PerSecond
    """Packets that one unit processes on its fast path."""
    placement_bps: Rate
    """Bits/s, headers included, that the unit scatters into host memory."""
    doorbells_per_second: PerSecond
    """Posts that the send scheduler serves: a doorbell, a queue pair to visit and a WQE fetch each."""
    wqe_fetches_per_qp: Count
    """PCIe reads for send WQEs in flight per queue pair."""
    wqe_fetch_bytes: Bytes
    """Bytes of one such read, which fetches several WQEs of one post."""
    visits_per_send_queue: Count
    """Visits that drain a backlogged send queue."""
    messages_per_ack: Count
    """RC messages that one acknowledgement covers."""
    completions_per_cqe_write: Count
    """Completions that one 64-byte PCIe write carries (CQE compression)."""
    streamed_message_bytes: Bytes
    """Shortest message with which a queue pair keeps the send side. After a shorter one the scheduler can yield: always
    from half this size down."""

    @property
    def packets_per_second(self) -> float:
        """Packets that all units of one direction process."""
        return self.units_per_direction * self.unit_packets_per_second


class Reads(Part):
    """State of outstanding RC READs."""

    bulk_packets: Count
    """Packets of a READ response of which half take the slow path. The first half as many take the fast path of any
    longer response, too."""
    requester_slow_packets_per_second: PerSecond
    """Response packets that the requester places on its slow path."""
    responder_slow_packets_per_second: PerSecond
    """Response packets that the responder generates on its slow path."""
    scatter_lists: Count
    """Queue pairs, both directions together, whose READs keep their long scatter lists on chip. With twice as many, no
    list stays."""
    scatter_wait_seconds: Seconds
    """Delay of placement per response packet of the host while a scatter list is fetched again."""
    requests_per_visit: Count
    """Most READ requests that one visit of the send scheduler starts."""
    pending_requests: Count
    """Room for the requests that the scheduler starts in one round over all queue pairs. With twice as many all spill
    to host memory, with as many a quarter."""
    spilled_packets_per_second: PerSecond
    """Response packets placed when each looks up its request in host memory."""


class Acknowledgements(Part):
    """The unit of RC acknowledgements."""

    contexts: Count
    """Queue pair ends whose state the unit holds. With twice as many, no state stays."""
    burst_messages: Count
    """Acknowledgements of one post that the unit receives without stopping the pipeline. Beyond, more and more of them
    stop it, and all from twice as many on."""
    small_message_bytes: Bytes
    """Messages up to this size are acknowledged one by one as they arrive, from twice this size on together."""
    bulk_message_bytes: Bytes
    """Messages from this size on hold the pipeline long enough to be blocked. Those of half this size do not."""
    wait_seconds: Seconds
    """Delay of arriving bulk packets by the acknowledgement of a small message."""
    blocks_data: StrictBool
    """Whether acknowledgements and arriving data share the unit."""


class Arbiter(Part):
    """The arbiter that switches the packet engine between sending and receiving RC traffic."""

    packets_per_second: PerSecond
    """Packets, both ways together, that pass while it switches for every burst."""
    burst_wqes: Count
    """Room for the work requests of one burst. With twice as many each forms its own burst, with as many a quarter."""
    queue_pairs: Count
    """Room for queue pair ends. With twice as many it loads one for every burst, with as many for a quarter of them."""
    quantum_bytes: Bytes
    """Messages up to this size are sent in one turn."""


class TransmitStaging(Part):
    """On-chip memory for RC packets of several segments until they are acknowledged."""

    size_bytes: Bytes
    """Capacity: one packet of the path MTU per active queue pair end."""
    queue_pairs: Count
    """Queue pair ends that are active at once."""
    sharpness: Sharpness
    """Exponent of the miss curve, as for a cache."""
    refill_seconds: Seconds
    """Time to assemble an evicted packet again."""


class Cache(Part):
    """An on-chip cache in front of a table in host memory."""

    entries: Count
    """Entries that it holds."""
    sharpness: Sharpness
    """Exponent of the miss curve around the capacity: 1 for random traffic, above 4 nearly a step, like LRU."""
    conflict_ratio: HalfShare
    """Share of lookups that miss by conflict (limited associativity) when the working set is as large as the cache."""
    miss_seconds: Seconds
    """Time to load a missed entry."""
    outstanding_misses: Count
    """Misses that can delay the receive pipeline at once."""
    look_ahead_ratio: float = Field(default=4.0, ge=1)
    """Entries, as a multiple of the capacity, that early lookups (SEND, READ and UC) can have in use. With as many,
    half of the early lookups leave the chip before use and wait as those of RC WRITEs do."""


class TranslationCache(Cache):
    """The cache of memory keys and page addresses (MPT and MTT)."""

    page_bytes: Bytes
    """Memory per entry: the page size of the registered memory."""
    look_ahead_messages: Count
    """Messages of one post whose lookups can overlap."""


class WhenMissing(StrEnum):
    """The fate of a message whose receive is not on chip."""

    WAIT = "wait"
    """The message holds the receive pipeline until the receive is loaded: the buffer fills."""
    WITHHOLD = "withhold"
    """The sender gets no credit and slows down. Only RC has credits."""
    DROP = "drop"
    """The message is dropped without notice. Only UD allows it."""


class ReceiveQueues(Part):
    """Receives of one kind of queue pair on their way on chip."""

    prefetch_wqes: Count
    """Receives of one post for which the prefetcher has room. With twice as many it is overrun fully, with as many by a
    quarter."""
    resident_wqes_per_queue: Count
    """Receives of one queue for which there is room from prefetch to use. With twice as many none stays on chip, with
    as many three quarters do."""
    overrun_wait_seconds: Seconds
    """Time for which the fetch unit is busy with a receive that an overrun pushed out."""
    window_wqes_per_queue: Count
    """Receives of a long ring that the NIC prefetches into shared memory. Of a shorter ring more are still on chip, so
    that half a ring needs a quarter of the room."""
    slot_bytes: Bytes
    """Smallest shared memory of one receive."""
    size_bytes: Bytes
    """Shared memory for the receives of all queues of this kind."""
    sharpness: Sharpness
    """Exponent of the miss curve, as for a cache."""
    conflict_ratio: HalfShare
    """Share of conflict misses, as for a cache."""
    on_demand_wqes: Count
    """So many receives of each post are not prefetched but fetched on demand."""
    look_ahead_bytes: Bytes
    """A queue has one fetch in flight per this many bytes of its path MTU."""
    fetch_seconds: Seconds
    """Time of a fetch on demand."""
    outstanding_fetches: Count
    """Fetches on demand that can be in flight."""
    when_missing: WhenMissing
    """The fate of the message meanwhile."""


class FlowTable(Part):
    """The table in which each arriving packet finds its queue pair.

    A queue pair that goes idle between two phases leaves its entry behind until the set-up ends.
    """

    idle_entries: Count = 1 << 40
    """Room for entries of idle queue pair ends. With twice as many every lookup walks over them, with as many a
    quarter. The default never limits."""
    walk_seconds: Seconds = 60e-9
    """Time of such a walk, for each arriving packet."""


class Delays(Part):
    """Waits that use up no resource: they cost latency, and throughput only where few messages are outstanding.

    The defaults delay nothing.
    """

    acknowledgement_timer_seconds: SecondsOrNone = 0.0
    """Period of the timer by which acknowledgements leave while too many queue pair ends are active. Without it, each
    leaves as soon as its message has arrived."""
    acknowledgement_timer_ends: Count = 1 << 40
    """Room for active queue pair ends. With twice as many the timer serves all, with as many a quarter."""
    cold_region_seconds: SecondsOrNone = 0.0
    """Wait for the key of a memory region that left the chip, if PCIe is fully used. With less use it is shorter in
    proportion."""
    cold_regions: Count = 1 << 40
    """Room for the keys of regions. With twice as many all leave the chip, with as many a quarter."""
    long_list_seconds: SecondsOrNone = 0.0
    """Wait of a long scatter/gather list behind the payload on PCIe, if PCIe is fully used."""
    long_list_entries: Count = 1 << 40
    """Entries of the shortest such list."""
    loopback_burst_seconds: SecondsOrNone = 0.0
    """Time for which a burst of streamed loopback traffic keeps arrivals from the network from being placed."""


class ControlVerbs(Part):
    """The firmware that carries out control verbs, and the entries that they invalidate on chip.

    The defaults cost nothing.
    """

    region_seconds: SecondsOrNone = 0.0
    """Firmware time to register and deregister a memory region."""
    queue_pair_seconds: SecondsOrNone = 0.0
    """Firmware time to create and destroy a queue pair."""
    address_handle_seconds: SecondsOrNone = 0.0
    """Firmware time to create and destroy an address handle. 0 where the driver makes them alone."""
    held_ratio: HalfShare = 0.0
    """Share of that time for which the firmware holds up all messages of the host, to invalidate entries on chip."""
    regions_per_second: Count = 1 << 40
    """New regions/s with which half of the translation lookups miss that would otherwise hit."""
    queue_pairs_per_second: Count = 1 << 40
    """New queue pairs/s with which half of the context lookups miss that would otherwise hit."""
    error_seconds: SecondsOrNone = 0.0
    """Time for which an error of a queue pair holds up all messages of the host. The next error waits for its end."""


class SendWqeCache(Part):
    """The cache of posted sends."""

    entries: Count
    """Send WQEs of all queues that the cache holds."""


class ReceiveBuffer(Part):
    """The buffer of packets that wait for placement."""

    size_bytes: Bytes
    """Capacity for all packets of the lossless priority."""
    xoff_bytes: Bytes
    """Fill level at which the host pauses its peer."""
    lossless: StrictBool
    """Whether a filling buffer pauses the peer (PFC). Otherwise it drops packets."""

    @model_validator(mode="after")
    def _headroom(self) -> Self:
        if self.xoff_bytes > self.size_bytes:
            raise ValueError(f"xoff_bytes {self.xoff_bytes} lies above size_bytes {self.size_bytes}")
        return self


class Loopback(Part):
    """The path inside the NIC from its send side to its receive side."""

    rate_bps: Rate
    """Bits/s that the path carries."""
    rate_limited: StrictBool
    """Whether streamed queue pairs also yield to arrivals from the network."""
