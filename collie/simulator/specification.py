"""What a data sheet promises for a workload: line rate, PCIe and message rate, as payload figures."""

from __future__ import annotations

from collie.detect.bounds import Bound, packets_per_byte
from collie.simulator.pcie import write_bytes
from collie.simulator.subsystem import Subsystem
from collie.simulator.wire import data_bytes
from collie.workloads.workload import Workload


def specification(subsystem: Subsystem, workload: Workload) -> Bound:
    """Return the highest payload throughput that one receiving host could see from the network.

    The least of what the line carries around its headers, what PCIe writes carry around theirs, and the packet rate.
    """
    payload = sum(workload.messages)
    line = sum(data_bytes(size, workload.mtu, workload.qp_type, workload.opcode) for size in workload.messages)
    placed = sum(write_bytes(size, subsystem.pcie.max_payload_bytes) for size in workload.messages)
    per_byte = packets_per_byte(workload)
    bps = min(
        subsystem.wire.line_rate_bps * payload / line,
        subsystem.pcie.bytes_per_second * 8 * payload / placed,
        subsystem.engine.packets_per_second / per_byte * 8,
    )
    return Bound(bps, bps / 8 * per_byte, "specification")
