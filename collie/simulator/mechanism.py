"""Names of the limited resources that anomalies come from."""

from __future__ import annotations

from enum import StrEnum


class Mechanism(StrEnum):
    """What runs short. The numbers are rows of Table 2 of the paper."""

    RECEIVE_WQE_PREFETCH = "receive_wqe_prefetch"
    """#1: receives posted in large batches overrun the prefetcher, and UD packets wait for their receive WQE."""
    READ_SLOW_PATH = "read_slow_path"
    """#3: long READ responses in many small packets overrun the slow path of the packet engine."""
    TRANSLATION_CACHE = "translation_cache"
    """#7: memory keys and addresses of inbound RC WRITEs miss the translation cache."""
    CONTEXT_CACHE = "context_cache"
    """#8: queue pair contexts of inbound RC WRITEs miss the context cache."""
    STRICT_ORDERING = "strict_ordering"
    """#9: short PCIe writes wait for bulk ones, and reads wait for both."""
    LOOPBACK_INCAST = "loopback_incast"
    """#13: streamed loopback traffic and traffic from the network together exceed PCIe."""
