"""Shares of packets and messages from counters: lost, refused, repeated. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from collie.counters.catalog import Catalog, Counter, Role
from collie.workloads.plan import streams
from collie.workloads.workload import QpType, Workload


def total(chosen: Sequence[Counter], counters: Mapping[str, float | None]) -> float | None:
    """Return the sum of the known rates, if any."""
    known = [value for counter in chosen if (value := counters[counter.name]) is not None]
    return sum(known) if known else None


def loss_ratio(catalog: Catalog, counters: Mapping[str, float | None]) -> float | None:
    """Return dropped and out-of-sequence packets over all received packets. None if a counter is unreadable."""
    lost = catalog.of_role(Role.DISCARD, Role.OUT_OF_SEQUENCE)
    received = total(catalog.of_role(Role.RX_PACKETS), counters)
    if not lost or not received or any(counters[counter.name] is None for counter in lost):
        return None
    # After an RNR NAK, the next packet under way is out of sequence, although none was lost. Loss excludes it.
    reordered = total(catalog.of_role(Role.OUT_OF_SEQUENCE), counters) or 0.0
    not_ready = total(catalog.of_role(Role.RNR_NAK), counters) or 0.0
    dropped = total(catalog.of_role(Role.DISCARD), counters) or 0.0
    return (dropped + max(0.0, reordered - not_ready)) / received


def rnr_ratio(
    role: str, bps: float | None, workload: Workload, catalog: Catalog, counters: Mapping[str, float | None]
) -> float | None:
    """Return the share of arriving messages refused with an RNR NAK. None for UC and UD, which drop such messages."""
    refused = total(catalog.of_role(Role.RNR_NAK), counters)
    needing = sum(opcode.consumes_receive for opcode, _ in workload.turn) / len(workload.turn)
    if workload.qp_type in {QpType.UC, QpType.UD} or not needing or bps is None or refused is None:
        return None
    here = [stream for stream in streams(workload) if stream.sink == role]
    requests = bps / 8 / sum(stream.per_request for stream in here)  # per second, of each flow
    arrived = refused + needing * requests * sum(not stream.returned for stream in here)
    return refused / arrived if arrived > 0 else 0.0


def repeat_ratio(catalog: Catalog, counters: Mapping[str, float | None]) -> float | None:
    """Return the share of duplicates among arriving packets."""
    repeated = total([counter for counter in catalog.counters if counter.canonical == "duplicate_request"], counters)
    received = total(catalog.of_role(Role.RX_PACKETS), counters)
    return None if repeated is None or not received else repeated / received
