"""Sizes, times and rates of a subsystem file, and the base of its parts.

A quantity is a number in the unit of its field, or text with a unit.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from collie.workloads.units import parse_bytes, parse_rate, parse_seconds

Bytes = Annotated[int, BeforeValidator(parse_bytes), Field(ge=1)]
"""A size: `4096` or `4KiB`."""

PathMtu = Annotated[Literal[256, 512, 1024, 2048, 4096], BeforeValidator(parse_bytes)]
"""A path MTU of the InfiniBand architecture."""

PcieLanes = Literal[1, 2, 4, 8, 16, 32]
"""A link width of PCI Express."""

PciePayload = Annotated[Literal[128, 256, 512, 1024, 2048, 4096], BeforeValidator(parse_bytes)]
"""A size that the Device Control register of PCI Express can hold (MPS and MRRS)."""

Seconds = Annotated[float, BeforeValidator(parse_seconds), Field(gt=0, le=1)]
"""A time: `0.00000065` or `0.65us`."""

SecondsOrNone = Annotated[float, BeforeValidator(parse_seconds), Field(ge=0, le=1)]
"""A time that can be 0."""

Rate = Annotated[float, BeforeValidator(parse_rate), Field(ge=1e6, le=1e14)]
"""Bits per second: `200Gbit`."""

PerSecond = Annotated[float, Field(ge=1e3, le=1e12)]

Count = Annotated[int, Field(ge=1, le=1 << 40)]

HalfShare = Annotated[float, Field(ge=0, le=0.5)]

Sharpness = Annotated[float, Field(ge=1, le=16)]


class Part(BaseModel):
    """Base of all parts: immutable, and unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)
