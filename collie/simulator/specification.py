"""The data sheet's bound for a workload."""

from __future__ import annotations

from collie.detect.bounds import Bound
from collie.simulator.hardware import Subsystem
from collie.simulator.traffic import traffic_of
from collie.workloads.workload import Workload


def specification(subsystem: Subsystem, workload: Workload) -> Bound:
    """Return the highest payload throughput that one receiving host can get from the network.

    It is the minimum of the line rate (less headers), each PCIe direction (less headers and work requests), and the
    packet rate. No flow gets more than its offered load.
    """
    t = traffic_of(subsystem, workload)
    pcie = subsystem.pcie.bytes_per_second
    # A host that sends and receives reads both kinds of work requests. READs are posted by the payload's sink.
    read = t.gather + (t.two_way if t.is_read else 1.0) * t.send_wqe + t.two_way * t.receives * t.receive_wqe
    rate = min(
        subsystem.wire.line_rate_bps / 8 / t.wire,
        pcie / t.place,
        pcie / read,
        subsystem.engine.packets_per_second / t.packets,
        t.offered,
    )
    return Bound(rate * t.payload * 8, rate * t.packets, "specification")
