"""Shares of packets and messages that counters tell: lost, turned away, sent twice. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from collie.counters.catalog import Catalog, Counter, Role
from collie.workloads.plan import streams
from collie.workloads.workload import QpType, Workload


def total(chosen: Sequence[Counter], counters: Mapping[str, float | None]) -> float | None:
    """Return the sum of those rates that are known; None when none is."""
    known = [value for counter in chosen if (value := counters[counter.name]) is not None]
    return sum(known) if known else None


def loss_ratio(catalog: Catalog, counters: Mapping[str, float | None]) -> float | None:
    """Return dropped and out-of-sequence packets over all received.

    Args:
        catalog: the counters that the host has; one of them that could not be read leaves the ratio unknown.
        counters: rates.
    """
    lost = catalog.of_role(Role.DISCARD, Role.OUT_OF_SEQUENCE)
    received = total(catalog.of_role(Role.RX_PACKETS), counters)
    if not lost or not received or any(counters[counter.name] is None for counter in lost):
        return None
    # After a receiver-not-ready NAK the next packet under way is out of sequence, though nothing was lost.
    reordered = total(catalog.of_role(Role.OUT_OF_SEQUENCE), counters) or 0.0
    not_ready = total(catalog.of_role(Role.RNR_NAK), counters) or 0.0
    dropped = total(catalog.of_role(Role.DISCARD), counters) or 0.0
    return (dropped + max(0.0, reordered - not_ready)) / received


def rnr_ratio(
    role: str, bps: float | None, workload: Workload, catalog: Catalog, counters: Mapping[str, float | None]
) -> float | None:
    """Return the share of arriving messages that were turned away: a message that gets in after all counts once more.

    Only acknowledged transports turn messages away; UC and UD drop them.
    """
    refused = total(catalog.of_role(Role.RNR_NAK), counters)
    needing = sum(opcode.consumes_receive for opcode, _ in workload.turn) / len(workload.turn)
    if workload.qp_type in {QpType.UC, QpType.UD} or not needing or bps is None or refused is None:
        return None
    here = [stream for stream in streams(workload) if stream.sink == role]
    requests = bps / 8 / sum(stream.per_request for stream in here)  # per second, of each flow
    arrived = refused + needing * requests * sum(not stream.returned for stream in here)
    return refused / arrived if arrived > 0 else 0.0


def repeat_ratio(catalog: Catalog, counters: Mapping[str, float | None]) -> float | None:
    """Return the share of arriving packets that had come before."""
    repeated = total([counter for counter in catalog.counters if counter.canonical == "duplicate_request"], counters)
    received = total(catalog.of_role(Role.RX_PACKETS), counters)
    return None if repeated is None or not received else repeated / received
