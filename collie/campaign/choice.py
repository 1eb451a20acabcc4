"""The options of a search or a gate, recorded with the campaign for a resume."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from collie.errors import StoreError
from collie.inventory.safety import SafetyLimits
from collie.plain import CODEC, typed
from collie.workloads.pruning import Capabilities

DEFAULT_SUBSYSTEM = "F"

MAX_PAIRS = 256
"""Limit on pairs side by side. Each takes a thread here and, on real hosts, an SSH connection per host."""

_USUAL_UNDER_TEST = ("firmware",)
_USUAL_FALSE_ALARM = 0.01

_ONCE_USUAL = "soft-roce"

GATE = "gate"
"""Key of a gate's options in the settings of a campaign."""


@dataclass(frozen=True)
class TestbedChoice:
    """Options for the testbed.

    Attributes:
        hosts: inventory file, or `lab`, or None for the simulator.
        subsystem: name or file of a simulated subsystem.
        noise: of simulated readings. 0 disables it.
        verify: compare payload on real hosts.
        victim: run a plain flow beside every workload on real hosts.
    """

    __test__ = False

    hosts: str | None = None
    subsystem: str = DEFAULT_SUBSYSTEM
    settings: Mapping[str, str] = field(default_factory=dict)
    noise: float = 1.0
    verify: bool = False
    victim: bool = False

    @property
    def is_simulated(self) -> bool:
        """Whether the testbed is the simulator."""
        return self.hosts is None

    def arguments(self) -> list[str]:
        """Return the equivalent words of a command line, without defaults."""
        options = [
            ("hosts", self.hosts),
            ("subsystem", self.subsystem if self.hosts is None else None),
            *(("set", f"{key}={value}") for key, value in self.settings.items()),
            ("noise", None if self.noise == 1.0 or self.hosts else self.noise),
        ]
        flags = [f"--{name}" for name, is_on in (("verify", self.verify), ("victim", self.victim)) if is_on]
        return [*_words(options), *flags]


@dataclass(frozen=True)
class SearchChoice:
    """Options of a search, recorded with the campaign for a resume.

    Attributes:
        space, recipe: names or files, or None for the testbed's defaults.
        fix: dimensions fixed to a value, as given.
        limit: ordered dimensions limited from above, as given.
        known: `nsdi22` or a campaign with known anomalies.
        budget: as given, or None for the recipe's.
        seed: of every random choice.
        safety: limits tighter than the site's.
        shared_port: continue on a port in other use.
        capabilities: capabilities at the start of the campaign, which pruned its space. None before the testbed reports
            them, and in old campaigns.
        pairs: pairs of hosts that measure side by side.
        scheduler: address of the dask scheduler whose workers drive the pairs, or None for the controller.
        terms: space of an application without one, as the hosts suggested it at the start. None before.
        calibrated: the campaign began with a stored calibration of `collie hosts calibrate`.
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

    def with_absolute_paths(self) -> SearchChoice:
        """Return the same choice for a reader in any working directory."""

        def absolute(name: str | None) -> str | None:
            named_file = name is not None and ("/" in name or name.endswith((".yaml", ".yml")) or os.path.isdir(name))
            return str(Path(name).absolute()) if name is not None and named_file else name

        testbed = dataclasses.replace(
            self.testbed,
            hosts=absolute(self.testbed.hosts),
            subsystem=absolute(self.testbed.subsystem) or DEFAULT_SUBSYSTEM,
        )
        return dataclasses.replace(
            self, testbed=testbed, space=absolute(self.space), recipe=absolute(self.recipe), known=absolute(self.known)
        )

    def arguments(self) -> list[str]:
        """Return the equivalent words behind `collie search`, without defaults."""
        return [*self.testbed.arguments(), *_words(self._options()), *(["--shared-port"] if self.shared_port else [])]

    def _options(self) -> Iterator[tuple[str, object]]:
        yield from (("space", self.space), ("recipe", self.recipe), ("known", self.known))
        yield from (("fix", each) for each in self.fix)
        yield from (("limit", each) for each in self.limit)
        yield from (("budget", self.budget), ("seed", self.seed))
        yield from (("pairs", None if self.pairs == 1 else self.pairs), ("scheduler", self.scheduler))
        for name, limit, unit in (
            ("max-pause-per-second", self.safety.pause_per_second, "s"),
            ("max-pause", self.safety.pause_per_campaign, "s"),
            ("max-rate", self.safety.rate_bps, "bit"),
        ):
            yield name, None if limit is None else f"{limit:f}{unit}"

    def to_settings(self) -> dict[str, Any]:
        """Return plain values for `from_settings`."""
        return cast("dict[str, Any]", CODEC.write(self))

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> SearchChoice:
        """Inverse of `to_settings`.

        Recorded campaigns on hosts without a space or recipe are older than these options and used Soft-RoCE's.

        Raises:
            StoreError: another program wrote the settings.
        """
        said = {name: value for name, value in settings.items() if name != GATE}
        try:
            chosen: SearchChoice = typed(cls, said)
            if not 1 <= chosen.pairs <= MAX_PAIRS:
                raise ValueError(f"pairs is {chosen.pairs}; expected 1 to {MAX_PAIRS}")
            if chosen.testbed.noise < 0:
                raise ValueError(f"noise is {chosen.testbed.noise}; expected 0 or more")
        except ValueError as error:
            raise StoreError(f"the settings of the campaign are those of no search: {error!s:.300}") from None
        return chosen if chosen.testbed.is_simulated else chosen.naming(_ONCE_USUAL, _ONCE_USUAL)

    def naming(self, space: str, recipe: str) -> SearchChoice:
        """Return the same choice with a space and a recipe in place of missing ones."""
        return dataclasses.replace(
            self, space=self.space or space, recipe=self.recipe or recipe, terms=self.terms or space
        )


@dataclass(frozen=True)
class GateChoice:
    """Options of a gate, recorded for a resume.

    Attributes:
        search: of the candidate: its testbed, and the baseline's space and recipe.
        baseline: campaign to compare with.
        baseline_hosts: inventory for measuring the baseline now, if any.
        under_test: permitted differences between the two.
        false_alarm: chance of any false alarm.
    """

    search: SearchChoice
    baseline: str
    baseline_hosts: str | None = None
    under_test: tuple[str, ...] = _USUAL_UNDER_TEST
    false_alarm: float = _USUAL_FALSE_ALARM

    def with_absolute_paths(self) -> GateChoice:
        """Return the same choice for a reader in any working directory."""
        there = SearchChoice(TestbedChoice(hosts=self.baseline_hosts)).with_absolute_paths().testbed.hosts
        return dataclasses.replace(
            self,
            search=self.search.with_absolute_paths(),
            baseline=str(Path(self.baseline).absolute()),
            baseline_hosts=there,
        )

    def arguments(self) -> list[str]:
        """Return the equivalent words behind `collie gate`, without defaults and the baseline's options."""
        own = [
            ("baseline", self.baseline),
            ("baseline-hosts", self.baseline_hosts),
            ("under-test", None if self.under_test == _USUAL_UNDER_TEST else ",".join(self.under_test)),
            ("false-alarm", None if self.false_alarm == _USUAL_FALSE_ALARM else self.false_alarm),
        ]
        search = dataclasses.replace(self.search, space=None, recipe=None, known=None, fix=(), limit=())
        return [*_words(own), *search.arguments()]

    def to_settings(self) -> dict[str, Any]:
        """Return plain values for `from_settings`: those of a search, and one more."""
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


def _words(options: Iterable[tuple[str, object]]) -> Iterator[str]:
    for name, value in options:
        if value is not None:
            yield f"--{name}"
            yield str(value)
