"""What a data sheet promises for a workload: line rate, PCIe and message rate, as payload figures."""

from __future__ import annotations

from collie.detect.bounds import Bound
from collie.simulator.subsystem import Subsystem
from collie.simulator.traffic import traffic_of
from collie.workloads.workload import Workload


def specification(subsystem: Subsystem, workload: Workload) -> Bound:
    """Return the highest payload throughput that one receiving host could see from the network.

    The least of what the line carries around its headers, what PCIe carries each way around its own and beside the work
    requests, and the packet rate. No anomaly is needed to explain what stays under it.
    """
    t = traffic_of(subsystem, workload)
    pcie = subsystem.pcie.bytes_per_second
    # A host that also receives reads both kinds of work requests; the posts of READs stand with the payload's sink.
    read = t.gather + (t.two_way if t.is_read else 1.0) * t.send_wqe + t.two_way * t.receives * t.receive_wqe
    rate = min(
        subsystem.wire.line_rate_bps / 8 / t.wire,
        pcie / t.place,
        pcie / read,
        subsystem.engine.packets_per_second / t.packets,
    )
    return Bound(rate * t.payload * 8, rate * t.packets, "specification")
