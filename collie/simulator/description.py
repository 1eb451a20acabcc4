"""The description of a subsystem."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from collie.simulator.hardware import Subsystem
from collie.simulator.subsystem import PARTS, SubsystemFile
from collie.workloads.units import format_bytes, format_rate


@dataclass(frozen=True, slots=True)
class QuantityInForce:
    """One quantity of one part, by name with unit. `setting` names the setting that decides its value."""

    name: str
    value: Any
    setting: str | None
    description: str

    @property
    def text(self) -> str:
        """The value with a readable unit: `64 KiB`, `0.83 us`, `200 Gbit/s`."""
        return quantity_text(self.name, self.value)


@dataclass(frozen=True, slots=True)
class DescribedPart:
    """One part of a subsystem with its quantities in schema order."""

    name: str
    description: str
    quantities: tuple[QuantityInForce, ...]


def describe(subsystem: SubsystemFile) -> tuple[DescribedPart, ...]:
    """Return every quantity of a subsystem by part, with its settings in force."""
    hardware, decided = subsystem.hardware, subsystem.decided
    return tuple(
        DescribedPart(
            name,
            Subsystem.model_fields[name].description or _summary(model),
            tuple(_quantities(hardware, name, decided)),
        )
        for name, model in PARTS.items()
    )


def quantity_text(name: str, value: Any) -> str:
    """Return a quantity with the unit at the end of its name."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return str(value)
    if name.endswith("_bytes"):
        return format_bytes(value)
    if name.endswith("_bps"):
        return format_rate(value)
    if name.endswith("_seconds"):
        return _duration(value)
    if name.endswith("_per_second"):
        return f"{value / 1e6:.4g} M/s" if value >= 1e6 else f"{value:,.0f} /s"
    return f"{value:,d}" if isinstance(value, int) else f"{value:g}"


def _duration(seconds: float) -> str:
    for unit, factor in (("ms", 1e3), ("us", 1e6)):
        # 0.83 us reads better than 830 ns, and 21.3 ns than 0.0213 us.
        if seconds * factor >= 0.1:
            return f"{seconds * factor:.4g} {unit}"
    return f"{seconds * 1e9:.4g} ns"


def _quantities(hardware: Subsystem, part: str, decided: dict[tuple[str, str], str]) -> Iterator[QuantityInForce]:
    model = getattr(hardware, part)
    for name, info in type(model).model_fields.items():
        yield QuantityInForce(name, getattr(model, name), decided.get((part, name)), info.description or "")


def _summary(model: type) -> str:
    return (model.__doc__ or "").partition("\n")[0]
