"""The quantities of an RDMA subsystem: a NIC (`nic.py`), its port and slot, and the host around it.

Each field has its unit in its name. The text below a field is its description in `docs/reference/content.md`, and
`docs/explanation/simulator.md` has its effect. No quantity refers to an anomaly: anomalies follow from the quantities
(`model.py`).
"""

from __future__ import annotations

from typing import Any, Self

from pydantic import Field, StrictBool, model_validator

from collie.simulator.nic import (
    Acknowledgements,
    Arbiter,
    Cache,
    ControlVerbs,
    Delays,
    Engine,
    FlowTable,
    Loopback,
    Reads,
    ReceiveBuffer,
    ReceiveQueues,
    SendWqeCache,
    TranslationCache,
    TransmitStaging,
    WhenMissing,
)
from collie.simulator.pcie import usable_bytes_per_second
from collie.simulator.quantity import (
    Bytes,
    Count,
    HalfShare,
    Part,
    PathMtu,
    PcieLanes,
    PciePayload,
    Rate,
    Seconds,
    SecondsOrNone,
)


class Wire(Part):
    """The port and the network behind it."""

    line_rate_bps: Rate
    """Bits/s on the wire, each way."""
    round_trip_seconds: Seconds
    """From the sender's egress to the receiver and back, through both NICs and a switch, without PCIe."""
    minimum_mtu: PathMtu = 256
    """Smallest path MTU of a connection. A workload that asks for less gets this."""
    maximum_mtu: PathMtu = 4096
    """Largest path MTU that fits the port's Ethernet MTU. A connection takes the smaller one of both ends."""
    bit_error_ratio: HalfShare = 0.0
    """Share of bits that arrive wrong over this cable, either way, after forward error correction."""


class Pcie(Part):
    """The NIC's PCI Express slot."""

    generation: int = Field(ge=3, le=6)
    """PCI Express generation: 3 to 6."""
    lanes: PcieLanes
    """Link width."""
    max_payload_bytes: PciePayload
    """Largest payload of one write or completion (MPS)."""
    max_read_request_bytes: PciePayload
    """Largest read request (MRRS)."""
    read_tags: Count
    """Read requests in flight."""
    read_latency_seconds: Seconds
    """Round trip of a memory read on the NIC's socket, under load."""
    sges_read_with_wqe: Count
    """Scatter/gather entries in the WQE's first block. A dependent read fetches the later ones, and such a list is
    walked entry by entry."""
    strict_ordering: StrictBool
    """Whether no PCIe write of the NIC can overtake an earlier one."""
    bulk_segment_bytes: Bytes
    """Segments from this size on fill the window of writes that strict ordering keeps in flight."""
    small_segment_bytes: Bytes
    """Segments up to this size take the strictly ordered short path."""
    ordered_write_wait_seconds: Seconds
    """Delay of arriving writes by the read of a short segment behind a bulk one, where the list is walked."""
    ordered_read_wait_seconds: Seconds
    """Delay of that read and of those behind it."""
    idle_read_latency_seconds: Seconds = 0.43e-6
    """Round trip of a memory read on the NIC's socket, without load. [measured] NeoHost shows 0.37 to 0.49 us."""
    write_latency_seconds: Seconds = 0.2e-6
    """Way of a write or doorbell between host and NIC. [measured] About half of an idle read, which goes both ways."""

    @property
    def bytes_per_second(self) -> float:
        """TLP bytes/s that each direction can carry."""
        return usable_bytes_per_second(self.generation, self.lanes)


class HostMemory(Part):
    """The memory that holds the buffers."""

    bandwidth_bps: Rate
    """Bits/s of memory that the NIC can use, reads and writes together."""
    io_cache_bytes: Bytes
    """Part of the last-level cache that takes the NIC's writes (DDIO). Writes that fit need no memory bandwidth."""
    far_latency_seconds: Seconds
    """Extra latency of a PCIe transaction whose buffer is on another socket."""
    gpu_latency_seconds: Seconds
    """Extra latency of a PCIe transaction whose buffer is GPU memory."""


class SocketLink(Part):
    """The link between the sockets."""

    rate_bps: Rate
    """Payload bits/s, reads and writes together."""
    streamed_rate_bps: Rate
    """The same while RC streams read and write: the link flushes each write before its acknowledgement."""


class GpuBridge(Part):
    """The PCIe switch between NIC and GPU."""

    redirects: StrictBool
    """Whether access control (ACS) redirects traffic between NIC and GPU to the root complex."""
    contended_read_bps: Rate
    """Payload bits/s that the NIC reads through the root complex while it also writes for RC streams. Each write is
    flushed before its acknowledgement, which turns the root complex round."""
    contended_write_bps: Rate
    """Payload bits/s that the NIC writes there while it also reads."""


class HostHardware(Part):
    """The server."""

    sockets: int = Field(ge=1, le=8)
    """NUMA nodes that can hold buffers."""
    nic_per_socket: StrictBool
    """Whether every socket has its NIC, so that no buffer is far."""
    gpu: StrictBool
    """Whether the NIC can reach GPU memory."""
    posting_seconds: SecondsOrNone = 0.0
    """CPU time of the sending process for one posted message, alone or in a batch. 0 never limits."""


class Subsystem(Part):
    """The quantities of one RDMA subsystem."""

    name: str = Field(min_length=1, max_length=100)
    """Short name, as in `--subsystem`."""
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
    """Of RC queue pairs. UC sends no acknowledgement, so its fetches overlap with placement."""
    send_wqe_cache: SendWqeCache
    receive_buffer: ReceiveBuffer
    loopback: Loopback
    memory: HostMemory
    socket_link: SocketLink
    gpu_bridge: GpuBridge
    host: HostHardware
    flow_table: FlowTable = FlowTable()
    delays: Delays = Delays()
    control_verbs: ControlVerbs = ControlVerbs()

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.reliable_receives.when_missing is WhenMissing.DROP:
            raise ValueError("reliable_receives.when_missing: an RC message cannot be dropped; wait or withhold")
        if self.datagram_receives.when_missing is WhenMissing.WITHHOLD:
            raise ValueError("datagram_receives.when_missing: UD has no credits; wait or drop")
        return self

    def with_part(self, part: str, **changes: Any) -> Self:
        """Return a copy with other quantities in one part, without validation."""
        current: Part = getattr(self, part)
        return self.model_copy(update={part: current.model_copy(update=changes)})
