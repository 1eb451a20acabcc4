"""Cures of mechanisms. A cure makes the quantity behind a mechanism ideal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from collie.simulator.hardware import Subsystem
from collie.simulator.mechanism import Mechanism
from collie.simulator.subsystem import Changes

S = TypeVar("S", bound=Subsystem)

_AMPLE: Final = 1 << 50

CURES: Final[Mapping[Mechanism, Changes]] = {
    Mechanism.DATAGRAM_PREFETCH: {"datagram_receives": {"prefetch_wqes": _AMPLE}},
    Mechanism.DATAGRAM_RECEIVE_CACHE: {"datagram_receives": {"size_bytes": _AMPLE}},
    Mechanism.READ_SLOW_PATH: {"reads": {"bulk_packets": _AMPLE}},
    Mechanism.READ_SCATTER_LISTS: {"reads": {"scatter_lists": _AMPLE}},
    Mechanism.RELIABLE_PREFETCH: {"reliable_receives": {"prefetch_wqes": _AMPLE}},
    Mechanism.RELIABLE_RECEIVE_CACHE: {"reliable_receives": {"size_bytes": _AMPLE}},
    Mechanism.TRANSLATION_CACHE: {"translation_cache": {"entries": _AMPLE}},
    Mechanism.CONTEXT_CACHE: {"context_cache": {"entries": _AMPLE}},
    Mechanism.STRICT_ORDERING: {"pcie": {"strict_ordering": False}},
    Mechanism.ACKNOWLEDGEMENT_BLOCKING: {"acknowledgements": {"blocks_data": False}},
    Mechanism.SOCKET_LINK: {"socket_link": {"rate_bps": _AMPLE, "streamed_rate_bps": _AMPLE}},
    Mechanism.PEER_TO_PEER_REDIRECT: {"gpu_bridge": {"redirects": False}},
    Mechanism.LOOPBACK_INCAST: {"loopback": {"rate_limited": True}},
    Mechanism.TRANSMIT_STAGING: {"transmit_staging": {"size_bytes": _AMPLE}},
    Mechanism.PENDING_READS: {"reads": {"pending_requests": _AMPLE}},
    Mechanism.DUPLEX_ARBITER: {"arbiter": {"queue_pairs": _AMPLE}},
    Mechanism.IDLE_FLOWS: {"flow_table": {"idle_entries": _AMPLE}},
    Mechanism.ACKNOWLEDGEMENT_TIMER: {"delays": {"acknowledgement_timer_seconds": 0.0}},
    Mechanism.COLD_REGIONS: {"delays": {"cold_region_seconds": 0.0}},
    Mechanism.LONG_LISTS: {"delays": {"long_list_seconds": 0.0}},
    Mechanism.LOOPBACK_BURSTS: {"delays": {"loopback_burst_seconds": 0.0}},
    Mechanism.NEW_REGIONS: {"control_verbs": {"region_seconds": 0.0, "regions_per_second": _AMPLE}},
    Mechanism.NEW_QUEUE_PAIRS: {"control_verbs": {"queue_pair_seconds": 0.0, "queue_pairs_per_second": _AMPLE}},
    Mechanism.NEW_ADDRESS_HANDLES: {"control_verbs": {"address_handle_seconds": 0.0}},
    Mechanism.QUEUE_PAIR_ERRORS: {"control_verbs": {"error_seconds": 0.0}},
}
"""The quantity behind each mechanism, and a value at which it limits nothing."""


def cured(subsystem: S, mechanisms: Iterable[Mechanism]) -> S:
    """Return a subsystem with some mechanisms cured."""
    for mechanism in mechanisms:
        for part, changes in CURES[mechanism].items():
            subsystem = subsystem.with_part(part, **changes)
    return subsystem
