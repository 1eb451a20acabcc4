"""RoCEv2 on the wire: bytes around the payload (IBTA 1.4, RoCEv2 annex; IEEE 802.3)."""

from __future__ import annotations

from typing import Final

from collie.workloads.workload import Opcode, QpType

PACKET_OVERHEAD_BYTES: Final = 82
"""Preamble and gap 20, Ethernet 14 + 4, IPv4 20, UDP 8, BTH 12, ICRC 4."""
RETH_BYTES: Final = 16
"""Remote address, in the first packet of a WRITE and in a READ request."""
AETH_BYTES: Final = 4
"""In acknowledgements, and in the first and last packet of a READ response."""
DETH_BYTES: Final = 8
"""In every UD packet."""
IMMEDIATE_BYTES: Final = 4
ACK_BYTES: Final = PACKET_OVERHEAD_BYTES + AETH_BYTES
READ_REQUEST_BYTES: Final = PACKET_OVERHEAD_BYTES + RETH_BYTES


def message_overhead_bytes(opcode: Opcode) -> int:
    """Bytes once per message, in the direction of its payload."""
    match opcode:
        case Opcode.WRITE:
            return RETH_BYTES
        case Opcode.WRITE_WITH_IMM:
            return RETH_BYTES + IMMEDIATE_BYTES
        case Opcode.FETCH_ADD | Opcode.CMP_SWP:
            return AETH_BYTES
        case Opcode.READ:
            return 2 * AETH_BYTES
        case Opcode.SEND_WITH_IMM:
            return IMMEDIATE_BYTES
        case Opcode.SEND:
            return 0


def packet_overhead_bytes(qp_type: QpType) -> int:
    """Bytes around the payload of every packet."""
    return PACKET_OVERHEAD_BYTES + (DETH_BYTES if qp_type is QpType.UD else 0)
