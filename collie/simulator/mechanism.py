"""Names of the limited resources behind anomalies."""

from __future__ import annotations

from enum import StrEnum


class Mechanism(StrEnum):
    """A limited resource. The numbers are rows of Table 2 of the paper."""

    DATAGRAM_PREFETCH = "datagram_prefetch"
    """#1: receives posted in large batches overrun the prefetcher, and UD packets wait for their receive WQE."""
    DATAGRAM_RECEIVE_CACHE = "datagram_receive_cache"
    """#2, #15: the receives of many UD queue pairs do not stay on chip."""
    READ_SLOW_PATH = "read_slow_path"
    """#3: long READ responses in many small packets overrun the slow path of the packet engine."""
    READ_SCATTER_LISTS = "read_scatter_lists"
    """#4: long scatter lists of READs are fetched repeatedly, behind the responses that the host generates."""
    RELIABLE_PREFETCH = "reliable_prefetch"
    """#5: RC receives posted in large batches overrun the prefetcher before a longer message is complete."""
    RELIABLE_RECEIVE_CACHE = "reliable_receive_cache"
    """#6, #17: the receives of many RC queue pairs do not stay on chip."""
    TRANSLATION_CACHE = "translation_cache"
    """#7: memory keys and addresses of inbound RC WRITEs miss the translation cache."""
    CONTEXT_CACHE = "context_cache"
    """#8: queue pair contexts of inbound RC WRITEs miss the context cache."""
    STRICT_ORDERING = "strict_ordering"
    """#9: short PCIe writes wait for bulk ones, and reads wait for both."""
    ACKNOWLEDGEMENT_BLOCKING = "acknowledgement_blocking"
    """#10: acknowledgements of small messages block arriving bulk messages, because both directions share the unit."""
    SOCKET_LINK = "socket_link"
    """#11: reads and writes of far memory collide on the link between the sockets."""
    PEER_TO_PEER_REDIRECT = "peer_to_peer_redirect"
    """#12: traffic between NIC and GPU goes through the root complex."""
    LOOPBACK_INCAST = "loopback_incast"
    """#13: streamed loopback traffic and traffic from the network together exceed PCIe."""
    TRANSMIT_STAGING = "transmit_staging"
    """#14: packets of several segments do not stay on chip until they are acknowledged."""
    PENDING_READS = "pending_reads"
    """#16: more READ requests are started than stay on chip, and each response packet looks up its request."""
    DUPLEX_ARBITER = "duplex_arbiter"
    """#18: the packet engine switches between sending and receiving for every burst."""
    IDLE_FLOWS = "idle_flows"
    """Not in the paper: queue pairs that went idle after an earlier phase slow down the lookup of arriving packets."""
