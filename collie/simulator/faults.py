"""Faulty hosts of a simulated fleet: a fault changes only the hardware or the settings of one host.

The counters of that host and of its peers follow from the model (`model.evaluate_between`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from collie.errors import UsageError
from collie.fleet.fault import Fault, FaultKind
from collie.simulator.subsystem import SubsystemFile

MTU_OF_ETHERNET_1500: Final = 1024
"""The largest path MTU that fits into an Ethernet MTU of 1500 bytes (IBTA 1.4, RoCEv2 annex)."""
BIT_ERROR_RATIO: Final = 1e-9
"""Ratio of a bad cable after forward error correction. IEEE 802.3 allows 1e-12."""
MEMORY_LEFT: Final = 0.2
"""Share of memory bandwidth that a program on a busy channel leaves to the NIC."""


COMPONENTS: Final[Mapping[FaultKind, str]] = {
    FaultKind.PCIE_HALF_WIDTH: "PCIe",
    FaultKind.WRONG_MTU: "path MTU",
    FaultKind.RELAXED_ORDERING_OFF: "PCIe",
    FaultKind.BIT_ERRORS: "cable",
    FaultKind.PFC_OFF: "receive buffer",
    FaultKind.BUSY_MEMORY: "memory",
    FaultKind.OLD_FIRMWARE: "acknowledgement unit",
}
"""The faulty component by its name in catalogs. Ground truth, only for scoring. PFC is a property of the receive
buffer. F's older firmware differs in its acknowledgement unit (paper, #10)."""


_TUNED: Final = ("firmware", "relaxed_ordering")


def tuned(subsystem: SubsystemFile) -> SubsystemFile:
    """Return a subsystem as a fleet operator configures it: newest firmware, and relaxed ordering where it helps."""
    wanted = {name: tuple(subsystem.settings[name].options)[-1] for name in _TUNED if name in subsystem.settings}
    return subsystem.with_settings(wanted)


def faulty(subsystem: SubsystemFile, fault: Fault) -> SubsystemFile:
    """Return one faulty host of a fleet of `subsystem`.

    Raises:
        UsageError: the subsystem cannot have this fault, or the whole fleet has it.
    """
    match fault.kind:
        case FaultKind.PCIE_HALF_WIDTH:
            return _narrow(subsystem)
        case FaultKind.WRONG_MTU:
            return subsystem.with_part("wire", maximum_mtu=MTU_OF_ETHERNET_1500)
        case FaultKind.RELAXED_ORDERING_OFF:
            return _with_first_option(subsystem, "relaxed_ordering")
        case FaultKind.BIT_ERRORS:
            return subsystem.with_part("wire", bit_error_ratio=fault.size or BIT_ERROR_RATIO)
        case FaultKind.PFC_OFF:
            return _without_pfc(subsystem)
        case FaultKind.BUSY_MEMORY:
            left = fault.size or MEMORY_LEFT
            return subsystem.with_part("memory", bandwidth_bps=left * subsystem.memory.bandwidth_bps)
        case FaultKind.OLD_FIRMWARE:
            return _with_first_option(subsystem, "firmware")


def _narrow(subsystem: SubsystemFile) -> SubsystemFile:
    if subsystem.pcie.lanes == 1:
        raise UsageError(f"subsystem {subsystem.name} has one PCIe lane; it cannot be trained at half its width")
    return subsystem.with_part("pcie", lanes=subsystem.pcie.lanes // 2)


def _with_first_option(subsystem: SubsystemFile, name: str) -> SubsystemFile:
    setting = subsystem.settings.get(name)
    if setting is None or setting.value == (first := next(iter(setting.options))):
        raise UsageError(f"subsystem {subsystem.name} has no other {name.replace('_', ' ')} to fall back to")
    return subsystem.with_settings({name: first})


def _without_pfc(subsystem: SubsystemFile) -> SubsystemFile:
    if not subsystem.hardware.receive_buffer.lossless:
        raise UsageError(f"PFC is off on all of subsystem {subsystem.name}; no side of it can lack it")
    return subsystem.with_part("receive_buffer", lossless=False)
