"""What an RDMA subsystem is made of: NIC, PCIe, memory, host. One file under `subsystems/` describes one.

Every field is a physical quantity with its unit in its name; what a value does is in `docs/simulator.md`. Nothing here
knows an anomaly: those follow from the quantities (`model.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from collie.errors import UsageError
from collie.simulator.mechanism import Mechanism
from collie.simulator.pcie import usable_bytes_per_second
from collie.simulator.quantity import Bytes, Count, PerSecond, Rate, Seconds, Share
from collie.workloads.parse import parse_workload
from collie.workloads.workload import Workload

SUBSYSTEM_FOLDER = Path(__file__).parent / "subsystems"
"""The built-in subsystem files."""


class Part(BaseModel):
    """Base of all parts: immutable, unknown keys refused, the text below a field is its description."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class RelaxedOrdering(StrEnum):
    """Whether PCIe writes of the NIC may overtake each other (firmware setting `PCI_WR_ORDERING`)."""

    PER_MKEY = "per_mkey"
    """Only for memory regions that ask for it; the traffic here does not."""
    FORCED = "forced"


class Settings(Part):
    """What an operator can set; `--set NAME=VALUE` changes these alone."""

    firmware: str = Field(min_length=1)
    """Version of the NIC's firmware, for the report."""
    relaxed_ordering: RelaxedOrdering
    """PCIe write ordering."""
    pfc: bool
    """Whether a filling receive buffer pauses the peer; without, it drops."""


class Wire(Part):
    """The port and the network behind it."""

    line_rate_bps: Rate
    """Bits/s on the wire, each way."""
    round_trip_seconds: Seconds
    """From the sender's egress to the receiver and back to the sender, both NICs and one switch, without PCIe."""


class Engine(Part):
    """Processing units of the NIC. Rates are per direction: the send and the receive side have their own."""

    packets_per_second: PerSecond
    """Packets that a direction handles on its fast path."""
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
    read_bulk_packets: Count
    """READ responses from this length on are bulk; a queue pair that asks for nothing shorter is on the slow path."""
    read_requester_slow_packets_per_second: PerSecond
    """READ response packets that the requester places on its slow path."""
    read_responder_slow_packets_per_second: PerSecond
    """READ response packets that the responder makes on its slow path."""


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
    bulk_segment_bytes: Bytes
    """Segments from this size on fill the window of writes that strict ordering keeps in flight."""
    small_segment_bytes: Bytes
    """Segments up to this size are written through the strictly ordered short path."""
    sges_read_with_wqe: Count
    """Scatter/gather entries in the WQE's first block; later ones are read by a dependent read."""
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
    sharpness: float = Field(ge=1, le=16)
    """Exponent of the miss curve around its capacity: 1 as random traffic sees it, above 4 nearly a step, as LRU."""
    conflict_ratio: Share
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


class ReceiveWqeCache(Part):
    """The cache of posted receives."""

    entries: Count
    """Receive WQEs that it holds over all queues."""
    prefetch_wqes: Count
    """Receive WQEs that one doorbell makes the NIC fetch ahead."""
    resident_wqes_per_queue: Count
    """Receive WQEs of one queue that stay on chip until they are used."""
    fetch_seconds: Seconds
    """Time of a fetch on demand."""
    outstanding_fetches: Count
    """Fetches on demand at once."""


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

    @model_validator(mode="after")
    def _headroom(self) -> Self:
        if self.xoff_bytes > self.size_bytes:
            raise ValueError(f"xoff_bytes {self.xoff_bytes} lies above size_bytes {self.size_bytes}")
        return self


class Loopback(Part):
    """The path inside the NIC from its send side to its own receive side."""

    rate_bps: Rate
    """Bits/s that it carries."""
    bulk_message_bytes: Bytes
    """Messages from this size on are bulk; a queue pair that sends nothing shorter is streamed past the scheduler."""
    rate_limited: bool
    """Whether streamed queue pairs, too, yield to what arrives from the network."""


class Memory(Part):
    """Where buffers live."""

    bandwidth_bps: Rate
    """Bits/s of the memory that the NIC may use, reads and writes together."""
    far_latency_seconds: Seconds
    """Added to a PCIe transaction whose buffer is on another socket."""
    gpu_latency_seconds: Seconds
    """Added to a PCIe transaction whose buffer is GPU memory."""


class Host(Part):
    """The server."""

    sockets: int = Field(ge=1, le=8)
    """NUMA nodes that buffers can be on."""
    gpu: bool
    """Whether there is GPU memory that the NIC can reach."""


class Subsystem(Part):
    """One RDMA subsystem; both hosts of a testbed have the same."""

    name: str = Field(min_length=1)
    """Short name, as `--subsystem` takes it."""
    title: str = Field(min_length=1)
    """NIC, speed, CPU and slot in a few words."""
    settings: Settings
    wire: Wire
    engine: Engine
    pcie: Pcie
    context_cache: Cache
    """Queue pair contexts (ICM)."""
    translation_cache: TranslationCache
    receive_wqe_cache: ReceiveWqeCache
    send_wqe_cache: SendWqeCache
    receive_buffer: ReceiveBuffer
    loopback: Loopback
    memory: Memory
    host: Host

    def with_part(self, part: str, **changes: Any) -> Self:
        """Return a subsystem of which one part has other quantities; they are not validated again."""
        current: Part = getattr(self, part)
        return self.model_copy(update={part: current.model_copy(update=changes)})


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
    """A file under `subsystems/`: the hardware, and what is known to go wrong on it."""

    witnesses: tuple[Witness, ...]
    """One per mechanism, as it shows on this subsystem."""

    @field_validator("witnesses")
    @classmethod
    def _once_each(cls, witnesses: tuple[Witness, ...]) -> tuple[Witness, ...]:
        named = [witness.mechanism for witness in witnesses]
        if twice := {mechanism for mechanism in named if named.count(mechanism) > 1}:
            raise ValueError(f"more than one witness of {', '.join(sorted(twice))}")
        return witnesses

    def with_settings(self, changes: Mapping[str, str]) -> Self:
        """Return the subsystem with some settings changed.

        Raises:
            UsageError: no such setting, or no such value.
        """
        known = Settings.model_fields
        if unknown := [name for name in changes if name not in known]:
            raise UsageError(f"subsystem {self.name} has no setting {unknown[0]!r}; it has {', '.join(known)}")
        try:
            settings = Settings.model_validate({**self.settings.model_dump(), **changes})
        except ValidationError as failure:
            first = failure.errors()[0]
            raise UsageError(f"setting {first['loc'][0]}: {first['input']!r}: {first['msg']}") from None
        return self.model_copy(update={"settings": settings})
