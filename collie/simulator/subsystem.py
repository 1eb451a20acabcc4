"""What an RDMA subsystem is made of: NIC, PCIe, memory, host. One file under `subsystems/` describes one.

Every field is a physical quantity with its unit in its name. `docs/explanation/simulator.md` has the effect of each.
Nothing here knows an anomaly: those follow from the quantities (`model.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from collie.errors import UsageError
from collie.simulator.mechanism import Mechanism
from collie.simulator.pcie import usable_bytes_per_second
from collie.simulator.quantity import Bytes, Count, HalfShare, PerSecond, Rate, Seconds, Sharpness
from collie.workloads.parse import parse_workload
from collie.workloads.pruning import Capabilities, Restriction
from collie.workloads.workload import Connection, Memory, Opcode, QpType, Workload

SUBSYSTEM_FOLDER = Path(__file__).parent / "subsystems"
"""The built-in subsystem files."""


class Part(BaseModel):
    """Base of all parts: immutable, unknown keys refused, the text below a field is its description."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Wire(Part):
    """The port and the network behind it."""

    line_rate_bps: Rate
    """Bits/s on the wire, each way."""
    round_trip_seconds: Seconds
    """From the sender's egress to the receiver and back to the sender, both NICs and one switch, without PCIe."""
    minimum_mtu: Bytes = 256
    """Path MTU below which a connection cannot be set; a workload that asks for less gets this."""
    maximum_mtu: Bytes = 4096
    """Largest path MTU that the port's Ethernet MTU leaves room for; a connection takes the lower one of both ends."""
    bit_error_ratio: HalfShare = 0.0
    """Bits that arrive wrong over the cable of this port, either way, after forward error correction."""


class Engine(Part):
    """Processing units of the NIC. Rates are per direction: the send and the receive side have their own."""

    units_per_direction: Count
    """Processing units that work on the packets of one direction at once."""
    unit_packets_per_second: PerSecond
    """Packets that one of them handles on its fast path."""
    placement_bps: Rate
    """Bits/s, headers included, at which the unit that scatters packets into host memory takes them from the port."""
    doorbells_per_second: PerSecond
    """Posts that the send scheduler serves: each is a doorbell, a queue pair to visit and a WQE fetch to start."""
    wqe_fetches_per_qp: Count
    """PCIe reads for send WQEs in flight per queue pair."""
    wqe_fetch_bytes: Bytes
    """Bytes of one such read: it brings several WQEs of one post."""
    visits_per_send_queue: Count
    """Visits in which a backlogged send queue is drained: one visit serves this fraction of its entries."""
    messages_per_ack: Count
    """RC messages that one acknowledgement covers."""
    completions_per_cqe_write: Count
    """Completions that one 64-byte PCIe write carries (CQE compression)."""
    streamed_message_bytes: Bytes
    """A queue pair that sends no message shorter than this is streamed: it keeps the send side for long bursts."""

    @property
    def packets_per_second(self) -> float:
        """Packets that all units of a direction handle."""
        return self.units_per_direction * self.unit_packets_per_second


class Reads(Part):
    """What the NIC keeps for RC READs on their way."""

    bulk_packets: Count
    """READ responses from this length on are bulk; a queue pair that asks for nothing shorter is on the slow path."""
    requester_slow_packets_per_second: PerSecond
    """Response packets that the requester places on its slow path."""
    responder_slow_packets_per_second: PerSecond
    """Response packets that the responder makes on its slow path."""
    scatter_lists: Count
    """Queue pairs, of both directions together, whose READs keep their long scatter lists on chip."""
    scatter_wait_seconds: Seconds
    """What a response packet that the host itself makes delays placement while a scatter list is fetched again."""
    requests_per_visit: Count
    """READ requests that one visit of the send scheduler starts at most."""
    pending_requests: Count
    """Requests that the scheduler may start in one round over all queue pairs without spilling them to host memory."""
    spilled_packets_per_second: PerSecond
    """Response packets placed when each has to look its request up in host memory."""


class Acknowledgements(Part):
    """The unit that answers RC messages and takes the peer's answers."""

    contexts: Count
    """Queue pair ends whose state it holds."""
    burst_messages: Count
    """Answers to one post that it takes without stopping the pipeline."""
    small_message_bytes: Bytes
    """Messages up to this size are answered one by one as they come."""
    bulk_message_bytes: Bytes
    """Messages from this size on hold the pipeline long enough to be blocked."""
    wait_seconds: Seconds
    """How long arriving bulk packets stand still for an answer to a small message."""
    blocks_data: bool
    """Whether answers and arriving data share the unit, or both directions have their own."""


class Arbiter(Part):
    """What switches the packet engine between sending and receiving of RC traffic."""

    packets_per_second: PerSecond
    """Packets, both ways together, that it passes while it switches for every burst."""
    burst_wqes: Count
    """Work requests of one post that are a single burst at most."""
    queue_pairs: Count
    """Queue pair ends that it holds ready; with more it loads one for every burst."""
    quantum_bytes: Bytes
    """Messages up to this size are sent in one turn; longer ones let the other direction in between."""


class TransmitStaging(Part):
    """Memory in which RC packets of several segments are put together and kept until they are acknowledged."""

    size_bytes: Bytes
    """Room: one packet of the path MTU per queue pair end whose turn it is."""
    queue_pairs: Count
    """Queue pair ends whose turn it is at once."""
    sharpness: Sharpness
    """As of a cache."""
    refill_seconds: Seconds
    """Time to gather a packet again that had to give way."""


class Pcie(Part):
    """The slot that the NIC sits in."""

    generation: int = Field(ge=3, le=6)
    """PCI Express generation: 3 to 6."""
    lanes: int = Field(ge=1, le=32)
    """Width."""
    max_payload_bytes: Bytes
    """Largest payload of one write or completion (MPS)."""
    max_read_request_bytes: Bytes
    """Largest read request (MRRS)."""
    read_tags: Count
    """Read requests in flight."""
    read_latency_seconds: Seconds
    """Round trip of a read of memory on the NIC's own socket, under load."""
    sges_read_with_wqe: Count
    """Scatter/gather entries in the WQE's first block; later ones are read by a dependent read."""
    strict_ordering: bool
    """Whether no PCIe write of the NIC may overtake an earlier one."""
    bulk_segment_bytes: Bytes
    """Segments from this size on fill the window of writes that strict ordering keeps in flight."""
    small_segment_bytes: Bytes
    """Segments up to this size are written through the strictly ordered short path."""
    ordered_write_wait_seconds: Seconds
    """How long strictly ordered writes stand still when a short segment follows a bulk one."""
    ordered_read_wait_seconds: Seconds
    """How long reads behind these writes stand still."""

    @property
    def bytes_per_second(self) -> float:
        """TLP bytes/s that each direction can carry."""
        return usable_bytes_per_second(self.generation, self.lanes)


class Cache(Part):
    """An on-chip cache in front of a table in host memory."""

    entries: Count
    """Entries that it holds."""
    sharpness: Sharpness
    """Exponent of the miss curve around its capacity: 1 as random traffic sees it, above 4 nearly a step, as LRU."""
    conflict_ratio: HalfShare
    """Share of lookups that miss by conflict (limited associativity) when the working set is as large as the cache."""
    miss_seconds: Seconds
    """Time until a missed entry is there."""
    outstanding_misses: Count
    """Misses that may hold up the receive pipeline at once; more wait."""


class TranslationCache(Cache):
    """The cache of memory keys and page addresses (MPT and MTT)."""

    page_bytes: Bytes
    """Memory that one entry covers: the page size of the registered memory."""
    look_ahead_messages: Count
    """Messages of one post whose lookups may overlap."""


class WhenMissing(StrEnum):
    """What happens to a message whose receive is not on chip."""

    WAIT = "wait"
    """It keeps the receive pipeline until the receive is there: the buffer fills."""
    WITHHOLD = "withhold"
    """The sender gets no credit, so that it slows down (RC alone has credits)."""
    DROP = "drop"
    """It is dropped without a word (UD may)."""


class ReceiveQueues(Part):
    """How posted receives of one kind of queue pair come on chip."""

    prefetch_wqes: Count
    """Receives of one post that the prefetcher takes; a larger post overruns it."""
    resident_wqes_per_queue: Count
    """Receives of one queue that survive on chip from their prefetch to their use."""
    overrun_wait_seconds: Seconds
    """How long a message waits whose prefetched receive was overrun."""
    window_wqes_per_queue: Count
    """Receives of a long ring that are kept ahead in shared room; a ring of half as many stays with its queue pair."""
    slot_bytes: Bytes
    """Room that one receive takes there at least; more when its scatter list is longer."""
    size_bytes: Bytes
    """Shared room for receives of all queues of this kind."""
    sharpness: Sharpness
    """As of a cache."""
    conflict_ratio: HalfShare
    """As of a cache."""
    on_demand_wqes: Count
    """Posts of at most this many receives are not prefetched but fetched as their messages come."""
    look_ahead_bytes: Bytes
    """Fetches of one queue in flight: one per so many bytes of its path MTU."""
    fetch_seconds: Seconds
    """Time of a fetch on demand."""
    outstanding_fetches: Count
    """Fetches on demand at once."""
    when_missing: WhenMissing
    """What a message does meanwhile."""


class SendWqeCache(Part):
    """The cache of posted sends."""

    entries: Count
    """Send WQEs that it holds over all queues."""


class ReceiveBuffer(Part):
    """Where packets wait for placement."""

    size_bytes: Bytes
    """Room for all packets of the lossless priority."""
    xoff_bytes: Bytes
    """Fill level at which the peer is paused."""
    lossless: bool
    """Whether a filling buffer pauses the peer (PFC); without, it drops."""

    @model_validator(mode="after")
    def _headroom(self) -> Self:
        if self.xoff_bytes > self.size_bytes:
            raise ValueError(f"xoff_bytes {self.xoff_bytes} lies above size_bytes {self.size_bytes}")
        return self


class Loopback(Part):
    """The path inside the NIC from its send side to its own receive side."""

    rate_bps: Rate
    """Bits/s that it carries."""
    rate_limited: bool
    """Whether streamed queue pairs, too, yield to what arrives from the network."""


class HostMemory(Part):
    """Where buffers live."""

    bandwidth_bps: Rate
    """Bits/s of the memory that the NIC may use, reads and writes together."""
    io_cache_bytes: Bytes
    """Part of the last-level cache that takes the NIC's writes (DDIO); what fits there needs no memory."""
    far_latency_seconds: Seconds
    """Added to a PCIe transaction whose buffer is on another socket."""
    gpu_latency_seconds: Seconds
    """Added to a PCIe transaction whose buffer is GPU memory."""


class SocketLink(Part):
    """The link between the sockets, crossed by what the NIC reads and writes on the far one."""

    rate_bps: Rate
    """Payload bits/s, reads and writes together."""
    streamed_rate_bps: Rate
    """The same while RC streams both read and write: each write is flushed over the link before it is acknowledged."""


class GpuBridge(Part):
    """The PCIe switch that NIC and GPU share."""

    redirects: bool
    """Whether access control (ACS) sends traffic between NIC and GPU up to the root complex."""
    contended_read_bps: Rate
    """Payload bits/s that the NIC reads through the root complex while it also writes for RC streams: the write of each
    message is flushed before its acknowledgement, which turns the root complex round."""
    contended_write_bps: Rate
    """Payload bits/s that it writes there while it also reads."""


class HostHardware(Part):
    """The server."""

    sockets: int = Field(ge=1, le=8)
    """NUMA nodes that buffers can be on."""
    nic_per_socket: bool
    """Whether every socket has a NIC of its own, so that no buffer is far."""
    gpu: bool
    """Whether there is GPU memory that the NIC can reach."""


class Subsystem(Part):
    """The quantities of one RDMA subsystem; both hosts of a testbed have the same."""

    name: str = Field(min_length=1)
    """Short name, as `--subsystem` takes it."""
    title: str = Field(min_length=1)
    """NIC, speed, CPU and slot in a few words."""
    wire: Wire
    engine: Engine
    reads: Reads
    acknowledgements: Acknowledgements
    arbiter: Arbiter
    transmit_staging: TransmitStaging
    pcie: Pcie
    context_cache: Cache
    """Queue pair contexts (ICM)."""
    translation_cache: TranslationCache
    datagram_receives: ReceiveQueues
    """Of UD queue pairs."""
    reliable_receives: ReceiveQueues
    """Of RC queue pairs. UC owes no answer, so its fetches overlap with placement."""
    send_wqe_cache: SendWqeCache
    receive_buffer: ReceiveBuffer
    loopback: Loopback
    memory: HostMemory
    socket_link: SocketLink
    gpu_bridge: GpuBridge
    host: HostHardware

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.reliable_receives.when_missing is WhenMissing.DROP:
            raise ValueError("reliable_receives.when_missing: an RC message cannot be dropped; wait or withhold")
        if self.datagram_receives.when_missing is WhenMissing.WITHHOLD:
            raise ValueError("datagram_receives.when_missing: UD has no credits; wait or drop")
        return self

    def with_part(self, part: str, **changes: Any) -> Self:
        """Return a subsystem of which one part has other quantities; they are not validated again."""
        current: Part = getattr(self, part)
        return self.model_copy(update={part: current.model_copy(update=changes)})


MODELLED_QP_TYPES: Final = (QpType.RC, QpType.UC, QpType.UD)


def lacks(subsystem: Subsystem, workload: Workload) -> str | None:
    """Say what a workload needs that the subsystem or the model of it does not have, or None."""
    if workload.partners > 1:
        return f"the simulator has two hosts, not {workload.partners + 1}"
    if not workload.remote:
        return "the simulator does not model loopback without traffic between hosts"
    if not subsystem.host.gpu and Memory.GPU in (workload.memory, workload.peer_memory):
        return f"subsystem {subsystem.name} has no GPU"
    node = max(workload.numa_node, workload.peer_numa_node)
    if node >= subsystem.host.sockets:
        return f"subsystem {subsystem.name} has no NUMA node {node}; it has {subsystem.host.sockets}"
    if workload.qp_type not in MODELLED_QP_TYPES:
        return f"subsystem {subsystem.name} has no {workload.qp_type}; it has {', '.join(MODELLED_QP_TYPES)}"
    if workload.connection is not Connection.OUT_OF_BAND:
        return f"the model of subsystem {subsystem.name} knows no RDMA-CM; its queue pairs are connected out of band"
    if workload.huge_pages:
        page = subsystem.translation_cache.page_bytes
        return f"the model of subsystem {subsystem.name} knows pages of {page} bytes, no others"
    if workload.opcode.is_atomic:
        return f"the model of subsystem {subsystem.name} knows no atomics ({workload.opcode})"
    if workload.more_opcodes:
        return f"the model of subsystem {subsystem.name} knows one opcode at a time, not {', '.join(workload.opcodes)}"
    return None


def capabilities(subsystem: Subsystem) -> Capabilities:
    """Return what `lacks` says dimension by dimension."""
    name, sockets = subsystem.name, subsystem.host.sockets
    found = [
        *(Restriction(end, "the simulator has two hosts", at_most=1) for end in ("requesters", "responders")),
        Restriction("remote", "the simulator does not model loopback alone", only=(True,)),
        Restriction("qp_type", "the simulator models no other", only=tuple(kind.value for kind in MODELLED_QP_TYPES)),
        Restriction(
            "opcode",
            "the simulator models no atomics",
            only=tuple(opcode.value for opcode in Opcode if not opcode.is_atomic),
        ),
        Restriction("connection", "the simulator models no RDMA-CM", only=(Connection.OUT_OF_BAND.value,)),
        Restriction("more_opcodes", "the simulator models one opcode at a time", only=()),
    ]
    nodes = f"subsystem {name} has {sockets} NUMA node{'s' * (sockets > 1)}"
    found += [Restriction(node, nodes, at_most=sockets - 1) for node in ("numa_node", "peer_numa_node")]
    if not subsystem.host.gpu:
        only = (Memory.DRAM.value,)
        found += [Restriction(end, f"subsystem {name} has no GPU", only=only) for end in ("memory", "peer_memory")]
    return Capabilities(tuple(found))


PARTS: Final = {
    name: info.annotation
    for name, info in Subsystem.model_fields.items()
    if isinstance(info.annotation, type) and issubclass(info.annotation, Part)
}
"""Model of every part by its name."""

Changes = Mapping[str, Mapping[str, Any]]
"""Part, field, value."""


class Setting(Part):
    """Something that an operator can set: firmware, BIOS, driver or switch configuration."""

    value: str = Field(min_length=1)
    """The option in force."""
    options: Mapping[str, Changes] = Field(min_length=1)
    """What each option changes of the quantities; an empty change is the hardware as described."""
    cures: tuple[Mechanism, ...] = ()
    """Mechanisms that some option removes."""

    @model_validator(mode="after")
    def _known(self) -> Self:
        self.changes(self.value)
        return self

    def changes(self, option: str) -> Changes:
        """Return what an option changes.

        Raises:
            ValueError: there is no such option.
        """
        if option not in self.options:
            raise ValueError(f"{option!r} is no option; one of {', '.join(self.options)}")
        return self.options[option]


class Witness(Part):
    """A workload that shows one mechanism at work on this subsystem: ground truth, for scoring alone."""

    mechanism: Mechanism
    """The limited resource."""
    title: str = Field(min_length=1)
    """What it does to the traffic."""
    workload: Mapping[str, Any]
    """Fields that differ from a workload's defaults."""

    @field_validator("workload")
    @classmethod
    def _readable(cls, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        _, complaints = parse_workload(raw)
        if complaints:
            raise ValueError("; ".join(text for _, text in complaints))
        return raw

    @cached_property
    def trigger(self) -> Workload:
        """The workload."""
        workload, _ = parse_workload(self.workload)
        assert workload is not None  # checked by the validator
        return workload


class SubsystemFile(Subsystem):
    """A file under `subsystems/`: the hardware, what can be set on it, and what is known to go wrong on it."""

    settings: Mapping[str, Setting]
    """By name; `--set NAME=OPTION` changes one."""
    witnesses: tuple[Witness, ...]
    """One per mechanism, as it shows on this subsystem with its settings as they are in the file."""

    @field_validator("witnesses")
    @classmethod
    def _once_each(cls, witnesses: tuple[Witness, ...]) -> tuple[Witness, ...]:
        named = [witness.mechanism for witness in witnesses]
        if twice := {mechanism for mechanism in named if named.count(mechanism) > 1}:
            raise ValueError(f"more than one witness of {', '.join(sorted(twice))}")
        return witnesses

    @model_validator(mode="after")
    def _options_fit(self) -> Self:
        for name, setting in self.settings.items():
            for option in setting.options:
                try:
                    self._changed({name: option})
                except (ValidationError, ValueError) as failure:
                    text = failure.errors()[0]["msg"] if isinstance(failure, ValidationError) else str(failure)
                    raise ValueError(f"settings.{name}.options.{option}: {text}") from None
        return self

    @property
    def hardware(self) -> Subsystem:
        """The quantities with every setting in force."""
        return self._changed({name: setting.value for name, setting in self.settings.items()})

    def with_settings(self, changes: Mapping[str, str]) -> Self:
        """Return the file with some settings changed.

        Raises:
            UsageError: no such setting, or no such option.
        """
        settings = dict(self.settings)
        for name, option in changes.items():
            if name not in settings:
                known = ", ".join(settings) or "none"
                raise UsageError(f"subsystem {self.name} has no setting {name!r}; it has {known}")
            try:
                settings[name].changes(option)
            except ValueError as error:
                raise UsageError(f"setting {name}: {error}") from None
            settings[name] = settings[name].model_copy(update={"value": option})
        return self.model_validate({**self.model_dump(), "settings": settings})

    def _changed(self, chosen: Mapping[str, str]) -> Subsystem:
        parts = {name: getattr(self, name) for name in Subsystem.model_fields}
        for name, option in chosen.items():
            for part, fields in self.settings[name].changes(option).items():
                if part not in PARTS:
                    raise ValueError(f"there is no part {part!r}; one of {', '.join(PARTS)}")
                parts[part] = PARTS[part].model_validate({**parts[part].model_dump(), **fields})
        return Subsystem.model_construct(**parts)
