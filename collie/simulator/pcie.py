"""PCI Express arithmetic: link rates, and bytes per transaction (Neugebauer et al., pcie-bench)."""

from __future__ import annotations

from typing import Final

WRITE_HEADER_BYTES: Final = 24
"""Of a memory write with 64-bit address: framing 4, sequence 2, header 16, LCRC 4, less the amortised part."""
READ_HEADER_BYTES: Final = 24
COMPLETION_HEADER_BYTES: Final = 20

_TLP_BPS_PER_LANE: Final = {3: 113.7e9 / 16, 4: 227.4e9 / 16, 5: 454.8e9 / 16, 6: 909.6e9 / 16}
"""Bits/s per lane for TLPs, after encoding and the share of flow control and acknowledgements (pcie-bench, x16).
Generation 6 is twice generation 5."""


def usable_bytes_per_second(generation: int, lanes: int) -> float:
    """TLP bytes/s of one direction: 28.4 GB/s for generation 4 x16."""
    return _TLP_BPS_PER_LANE[generation] * lanes / 8


def write_bytes(payload_bytes: int, max_payload_bytes: int) -> int:
    """Bytes upstream to write a payload to host memory."""
    return payload_bytes + WRITE_HEADER_BYTES * -(-payload_bytes // max_payload_bytes)


def read_bytes(payload_bytes: int, max_payload_bytes: int) -> int:
    """Bytes downstream, as completions, to read a payload from host memory."""
    return payload_bytes + COMPLETION_HEADER_BYTES * -(-payload_bytes // max_payload_bytes)
