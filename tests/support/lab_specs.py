"""Specifications of labs for tests."""

from __future__ import annotations

import dataclasses

from collie.lab import spec


def make_spec(count: int = 2, accelerator: str = "tcg") -> spec.LabSpec:
    return spec.LabSpec(
        release="bookworm",
        image="bookworm-0123456789ab",
        accelerator=accelerator,
        memory_mib=768,
        vcpus=1,
        sockets="/run/net",
        machines=tuple(spec.MachineSpec(index, 22022 + index) for index in range(count)),
    )


def two_devices() -> spec.LabSpec:
    first, *others = make_spec().machines
    return dataclasses.replace(make_spec(), machines=(dataclasses.replace(first, devices=2), *others))
