"""Subsystem files: quantities, settings, and a witness of each mechanism."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, Field, ValidationError, field_validator, model_validator

from collie.errors import UsageError
from collie.simulator.hardware import Subsystem
from collie.simulator.mechanism import Mechanism
from collie.simulator.quantity import Part
from collie.suggest import did_you_mean
from collie.workloads.parse import parse_workload
from collie.workloads.setup import SetUp, made_for_all
from collie.workloads.workload import Workload

SUBSYSTEM_FOLDER = Path(__file__).parent / "subsystems"
"""The built-in subsystem files."""

PARTS: Final = {
    name: info.annotation
    for name, info in Subsystem.model_fields.items()
    if isinstance(info.annotation, type) and issubclass(info.annotation, Part)
}

Changes = Mapping[str, Mapping[str, Any]]
"""Part, field, value."""


class Setting(Part):
    """An option that an operator can set: firmware, BIOS, driver or switch configuration."""

    value: str = Field(min_length=1)
    """The option in force."""
    options: Mapping[str, Changes] = Field(min_length=1)
    """Changes of the quantities per option. An empty change leaves the hardware as described."""
    cures: tuple[Mechanism, ...] = ()
    """Mechanisms that some option removes."""

    @model_validator(mode="after")
    def _known(self) -> Self:
        self.changes(self.value)
        return self

    def changes(self, option: str) -> Changes:
        """Return the changes of one option.

        Raises:
            ValueError: the option is unknown.
        """
        if option not in self.options:
            raise ValueError(f"{option!r} is no option; one of {', '.join(self.options)}")
        return self.options[option]


def _readable(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    _, complaints = parse_workload(raw)
    if complaints:
        raise ValueError("; ".join(text for _, text in complaints))
    return raw


def _workload(fields: Mapping[str, Any]) -> Workload:
    workload, _ = parse_workload(fields)
    assert workload is not None  # the validator has checked it
    return workload


WorkloadFields = Annotated[Mapping[str, Any], AfterValidator(_readable)]


class Witness(Part):
    """A workload that shows one mechanism on this subsystem: ground truth, only for scoring."""

    mechanism: Mechanism
    """The limited resource."""
    title: str = Field(min_length=1)
    """Effect on the traffic."""
    workload: WorkloadFields
    """Fields that differ from a workload's defaults."""
    before: tuple[WorkloadFields, ...] = ()
    """Workloads, in the same form, that run before it on one set-up. The mechanism shows only after them."""

    @model_validator(mode="after")
    def _one_set_up(self) -> Self:
        if self.on is not None:
            for workload in (self.trigger, *self.on.before):
                if misfit := self.on.misfit(workload):
                    raise ValueError(f"before: no set-up serves all of these workloads: {misfit}")
        return self

    @cached_property
    def trigger(self) -> Workload:
        """The workload."""
        return _workload(self.workload)

    @cached_property
    def on(self) -> SetUp | None:
        """The set-up that the workload is the last phase of, if it needs earlier ones."""
        before = tuple(map(_workload, self.before))
        return SetUp(made_for_all((self.trigger, *before)), before) if before else None


class SubsystemFile(Subsystem):
    """A file under `subsystems/`: the hardware, its settings, and its known mechanisms."""

    settings: Mapping[str, Setting]
    """By name; `--set NAME=OPTION` changes one."""
    witnesses: tuple[Witness, ...]
    """One per mechanism. It shows the mechanism under the settings of the file."""

    @field_validator("witnesses")
    @classmethod
    def _once_each(cls, witnesses: tuple[Witness, ...]) -> tuple[Witness, ...]:
        named = [witness.mechanism for witness in witnesses]
        if twice := {mechanism for mechanism in named if named.count(mechanism) > 1}:
            raise ValueError(f"more than one witness of {', '.join(sorted(twice))}")
        return witnesses

    @model_validator(mode="after")
    def _options_fit(self) -> Self:
        for name, setting in self.settings.items():
            for option in setting.options:
                try:
                    self._changed({name: option})
                except (ValidationError, ValueError) as failure:
                    text = failure.errors()[0]["msg"] if isinstance(failure, ValidationError) else str(failure)
                    raise ValueError(f"settings.{name}.options.{option}: {text}") from None
        return self

    @property
    def hardware(self) -> Subsystem:
        """The quantities with every setting in force."""
        return self._changed({name: setting.value for name, setting in self.settings.items()})

    @property
    def decided(self) -> dict[tuple[str, str], str]:
        """The setting that decides a quantity, by part and field. Of several settings the last one wins."""
        return {
            (part, field): name
            for name, setting in self.settings.items()
            for part, fields in setting.changes(setting.value).items()
            for field in fields
        }

    def overridden(self) -> Iterator[tuple[str, str, str]]:
        """Yield part, field and setting of each quantity that an option in force changes to another value."""
        hardware = self.hardware
        for (part, field), name in self.decided.items():
            if getattr(getattr(self, part), field) != getattr(getattr(hardware, part), field):
                yield part, field, name

    def with_settings(self, changes: Mapping[str, str]) -> Self:
        """Return the file with some settings changed.

        Raises:
            UsageError: a setting or an option is unknown.
        """
        settings = dict(self.settings)
        for name, option in changes.items():
            if name not in settings:
                hint = did_you_mean(name, settings) or f"; it has {', '.join(settings) or 'none'}"
                raise UsageError(f"subsystem {self.name} has no setting {name!r}{hint}")
            try:
                settings[name].changes(option)
            except ValueError as error:
                raise UsageError(f"subsystem {self.name}, setting {name}: {error}") from None
            settings[name] = settings[name].model_copy(update={"value": option})
        return self.model_validate({**self.model_dump(), "settings": settings})

    def _changed(self, chosen: Mapping[str, str]) -> Subsystem:
        parts = {name: getattr(self, name) for name in Subsystem.model_fields}
        for name, option in chosen.items():
            for part, fields in self.settings[name].changes(option).items():
                if part not in PARTS:
                    raise ValueError(f"there is no part {part!r}; one of {', '.join(PARTS)}")
                parts[part] = PARTS[part].model_validate({**parts[part].model_dump(), **fields})
        return Subsystem.model_construct(**parts)
