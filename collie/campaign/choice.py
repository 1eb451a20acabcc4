"""The options of a search or a gate."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from collie.campaign.hardships import Hardships
from collie.errors import StoreError
from collie.inventory.safety import SafetyLimits
from collie.plain import CODEC, typed
from collie.workloads.pruning import Capabilities

DEFAULT_SUBSYSTEM = "F"

MAX_PAIRS = 256
"""Limit on pairs that measure in parallel. Each takes a thread and, on real hosts, an SSH connection per host."""

_DEFAULT_UNDER_TEST = ("firmware",)
_DEFAULT_FALSE_ALARM = 0.01

_EARLIER_SPACE, _EARLIER_RECIPE = "soft-roce", "soft-roce-annealing"

GATE = "gate"
"""Key of a gate's options in the settings of a campaign."""


@dataclass(frozen=True)
class TestbedChoice:
    """Options for the testbed.

    Attributes:
        hosts: inventory file, or `lab`, or None for the simulator.
        subsystem: name or file of a simulated subsystem.
        noise: factor on the noise of simulated readings. 0 disables it.
        hardships: of the simulator.
        verify: compare payload on real hosts.
        victim: run a plain flow beside every workload.
        victim_bps: payload bits/s that the plain flow offers. 0: it keeps its send queue full.
    """

    __test__ = False

    hosts: str | None = None
    subsystem: str = DEFAULT_SUBSYSTEM
    settings: Mapping[str, str] = field(default_factory=dict)
    noise: float = 1.0
    verify: bool = False
    victim: bool = False
    hardships: Hardships = field(default_factory=Hardships)
    victim_bps: int = 0

    @property
    def is_simulated(self) -> bool:
        """Whether the testbed is the simulator."""
        return self.hosts is None

    def with_absolute_paths(self) -> TestbedChoice:
        """Return the same choice for any working directory."""
        subsystem = _absolute(self.subsystem) or DEFAULT_SUBSYSTEM
        return dataclasses.replace(self, hosts=_absolute(self.hosts), subsystem=subsystem)

    def arguments(self) -> list[str]:
        """Return the equivalent options of a command line, without defaults."""
        options = [
            ("hosts", self.hosts),
            ("subsystem", self.subsystem if self.hosts is None else None),
            *(("set", f"{key}={value}") for key, value in self.settings.items()),
            ("noise", None if self.noise == 1.0 or self.hosts else self.noise),
        ]
        return [*_words(options), *self.conditions()]

    def conditions(self) -> list[str]:
        """Return those options that change what runs on the same testbed show."""
        options = [
            *(() if self.hosts else self.hardships.options()),
            ("victim-load", f"{self.victim_bps}bit" if self.victim_bps else None),
        ]
        flags = [f"--{name}" for name, is_on in (("verify", self.verify), ("victim", self.victim)) if is_on]
        return [*_words(options), *flags]


@dataclass(frozen=True)
class SearchChoice:
    """Options of a search, recorded with the campaign for a resume.

    Attributes:
        space, recipe: names or files, or None for the testbed's defaults.
        fix, limit: dimensions fixed to a value, and limits of ordered ones, as given.
        known: `nsdi22` or a campaign with known anomalies.
        known_elsewhere: whether they are those of another testbed, so that this one has to show them. False in old
            campaigns, which skipped them.
        budget: the budget as given, or None for the recipe's budget.
        phases: limit on the search's proposals on one set-up, or None for the recipe's. Older campaigns had one each.
        scheduler: address of the dask scheduler whose workers drive the pairs.
        terms: space for an application file that names no space, as the hosts suggested at the start.
        calibrated: whether the campaign began with a calibration recorded by `collie hosts calibrate`.
        capabilities: the testbed's capabilities at the start. They pruned the space. None in old campaigns.
    """

    testbed: TestbedChoice = field(default_factory=TestbedChoice)
    space: str | None = None
    recipe: str | None = None
    fix: tuple[str, ...] = ()
    limit: tuple[str, ...] = ()
    known: str | None = None
    budget: str | None = None
    seed: int = 0
    safety: SafetyLimits = field(default_factory=SafetyLimits)
    shared_port: bool = False
    pairs: int = 1
    scheduler: str | None = None
    terms: str | None = None
    calibrated: bool = False
    capabilities: Capabilities | None = None
    phases: int | None = None
    known_elsewhere: bool = False

    def with_absolute_paths(self) -> SearchChoice:
        """Return the same choice for any working directory."""
        space, recipe, known = map(_absolute, (self.space, self.recipe, self.known))
        return dataclasses.replace(
            self, testbed=self.testbed.with_absolute_paths(), space=space, recipe=recipe, known=known
        )

    def arguments(self) -> list[str]:
        """Return the equivalent options of `collie search`, without defaults."""
        return [*self.testbed.arguments(), *_words(self._options()), *(["--shared-port"] if self.shared_port else [])]

    def _options(self) -> Iterator[tuple[str, object]]:
        yield from (("space", self.space), ("recipe", self.recipe), ("known", self.known))
        yield from (("fix", each) for each in self.fix)
        yield from (("limit", each) for each in self.limit)
        yield from (("budget", self.budget), ("phases", self.phases), ("seed", self.seed))
        yield from (("pairs", None if self.pairs == 1 else self.pairs), ("scheduler", self.scheduler))
        for name, limit, unit in (
            ("max-pause-per-second", self.safety.pause_per_second, "s"),
            ("max-pause", self.safety.pause_per_campaign, "s"),
            ("max-rate", self.safety.rate_bps, "bit"),
        ):
            yield name, None if limit is None else f"{limit:f}{unit}"

    def to_settings(self) -> dict[str, Any]:
        """Return plain values."""
        return cast("dict[str, Any]", CODEC.write(self))

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> SearchChoice:
        """Inverse of `to_settings`.

        Older campaigns on hosts record no space and no recipe. They used those for Soft-RoCE of their time.

        Raises:
            StoreError: another program wrote the settings.
        """
        own = {"phases": 1} | {name: value for name, value in settings.items() if name != GATE}
        try:
            chosen: SearchChoice = typed(cls, own)
            if not 1 <= chosen.pairs <= MAX_PAIRS:
                raise ValueError(f"pairs is {chosen.pairs}; expected 1 to {MAX_PAIRS}")
            if chosen.testbed.noise < 0:
                raise ValueError(f"noise is {chosen.testbed.noise}; expected 0 or more")
        except ValueError as error:
            raise StoreError(f"the settings of the campaign are those of no search: {error!s:.300}") from None
        return chosen if chosen.testbed.is_simulated else chosen.naming(_EARLIER_SPACE, _EARLIER_RECIPE)

    def naming(self, space: str, recipe: str) -> SearchChoice:
        """Return the same choice, with this space and this recipe where the choice names none."""
        return dataclasses.replace(
            self, space=self.space or space, recipe=self.recipe or recipe, terms=self.terms or space
        )


@dataclass(frozen=True)
class GateChoice:
    """Options of a gate, recorded for a resume.

    The search has the candidate's testbed and the baseline's space and recipe. `false_alarm` is the accepted chance of
    at least one false alarm. With `baseline_hosts` the baseline is measured again.
    """

    search: SearchChoice
    baseline: str
    baseline_hosts: str | None = None
    under_test: tuple[str, ...] = _DEFAULT_UNDER_TEST
    false_alarm: float = _DEFAULT_FALSE_ALARM

    def with_absolute_paths(self) -> GateChoice:
        """Return the same choice for any working directory."""
        return dataclasses.replace(
            self,
            search=self.search.with_absolute_paths(),
            baseline=str(Path(self.baseline).absolute()),
            baseline_hosts=_absolute(self.baseline_hosts),
        )

    def arguments(self) -> list[str]:
        """Return the equivalent options of `collie gate`, without defaults and the baseline's options."""
        own = [
            ("baseline", self.baseline),
            ("baseline-hosts", self.baseline_hosts),
            ("under-test", None if self.under_test == _DEFAULT_UNDER_TEST else ",".join(self.under_test)),
            ("false-alarm", None if self.false_alarm == _DEFAULT_FALSE_ALARM else self.false_alarm),
        ]
        search = dataclasses.replace(self.search, space=None, recipe=None, known=None, fix=(), limit=())
        return [*_words(own), *search.arguments()]

    def to_settings(self) -> dict[str, Any]:
        """Return the settings of the search, with the options of the gate under `GATE`."""
        own = CODEC.write(dataclasses.replace(self, search=SearchChoice()))
        del own["search"]
        return {**self.search.to_settings(), GATE: own}

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> GateChoice:
        """Inverse of `to_settings`.

        Raises:
            StoreError: another program wrote the settings.
        """
        try:
            chosen: GateChoice = typed(cls, {**typed(Mapping[str, Any], settings[GATE]), "search": {}})
        except ValueError as error:
            raise StoreError(f"the settings of the campaign are those of no gate: {error!s:.300}") from None
        return dataclasses.replace(chosen, search=SearchChoice.from_settings(settings))


def _absolute(name: str | None) -> str | None:
    named_file = name is not None and ("/" in name or name.endswith((".yaml", ".yml")) or os.path.isdir(name))
    return str(Path(name).absolute()) if name is not None and named_file else name


def _words(options: Iterable[tuple[str, object]]) -> Iterator[str]:
    for name, value in options:
        if value is not None:
            yield f"--{name}"
            yield str(value)
