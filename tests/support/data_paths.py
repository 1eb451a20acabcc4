"""Data paths on a fake libibverbs."""

from __future__ import annotations

from functools import partial
from typing import Any

from collie.agent.library import Library, VerbsError
from collie.agent.native import NativeVerbs
from collie.agent.paths import DataPath
from collie.agent.traffic import Traffic

GID = "0000:0000:0000:0000:0000:ffff:c000:0201"
PATIENCE_SECONDS = 30.0
TRAFFIC: dict[str, dict[str, Any]] = {
    "RC WRITE": {"opcode": "WRITE"},
    "RC WRITE in chains": {"opcode": "WRITE", "wqe_batch": 8, "mrs_per_qp": 3, "messages": [64, 100, 2000]},
    "RC WRITE_WITH_IMM": {"opcode": "WRITE_WITH_IMM"},
    "RC SEND": {"opcode": "SEND", "messages": [4096, 100]},
    "RC SEND, one receive queue for all": {"opcode": "SEND", "srq": True, "wqe_batch": 4},
    "RC READ": {"opcode": "READ", "max_rd_atomic": 16, "max_dest_rd_atomic": 16},
    "RC SEND, every option": {
        "opcode": "SEND_WITH_IMM",
        "messages": [64, 100, 2000],
        "wqe_batch": 8,
        "sge_count": 4,
        "sge_split": [8],
        "mrs_per_qp": 5,
        "max_inline_data": 128,
        "sq_sig_all": True,
        "fence": True,
    },
    "RC FETCH_ADD": {"opcode": "FETCH_ADD", "messages": [8]},
    "RC CMP_SWP": {"opcode": "CMP_SWP", "messages": [8]},
    "RC WRITE, a signal every 4 chains": {"opcode": "WRITE", "wqe_batch": 2, "signal_every": 4},
    "RC READ and WRITE in turn": {
        "opcode": "READ",
        "more_opcodes": ["WRITE"],
        "messages": [64, 100, 2000],
        "wqe_batch": 4,
    },
    "UC WRITE": {"qp_type": "UC", "opcode": "WRITE"},
    "UC SEND": {"qp_type": "UC", "opcode": "SEND"},
    "UD SEND": {"qp_type": "UD", "opcode": "SEND", "messages": [1024, 64]},
    "UD SEND, one receive queue for all": {"qp_type": "UD", "opcode": "SEND", "srq": True},
}


def python_path(library: str) -> DataPath:
    """The reference loop, over the same library: pyverbs itself has no place for a fake one."""
    return DataPath("python", NativeVerbs(Library(library)), partial(Traffic, VerbsError), "")
