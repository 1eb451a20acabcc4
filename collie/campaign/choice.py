"""What a user says about a search or a gate: written into the campaign, so that a resumed one is the same."""

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
"""That measure side by side: each takes a thread here and, on real hosts, an SSH connection per host."""

_USUAL_UNDER_TEST = ("firmware",)
_USUAL_FALSE_ALARM = 0.01

_ONCE_USUAL = "soft-roce"

GATE = "gate"
"""Under which name the settings of a campaign hold what only a gate has."""


@dataclass(frozen=True)
class TestbedChoice:
    """What a user says about the testbed.

    Attributes:
        hosts: inventory file, or `lab`; None for the simulator.
        subsystem: name or file of a simulated subsystem.
        settings: changes to it.
        noise: of simulated readings; 0 switches it off.
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
        """Whether nothing real is touched."""
        return self.hosts is None

    def arguments(self) -> list[str]:
        """Return the words of a command line that say the same, without what is usual."""
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
    """What a user says about a search; written into the campaign, so that a resumed one is the same.

    Attributes:
        testbed: where.
        space, recipe: names or files; None for the testbed's usual ones.
        fix: dimensions fixed to a value, as the user wrote them.
        limit: ordered dimensions limited from above, as the user wrote them.
        known: `nsdi22` or a campaign whose anomalies need not be found again.
        budget: as written; None for the recipe's.
        seed: of every random choice.
        safety: limits that the user wants tighter than the site's.
        shared_port: go on although somebody else uses a port.
        capabilities: what the testbed could do when the campaign began, by which its space was pruned; None before a
            testbed was asked, and in campaigns of a Collie that did not ask.
        pairs: of hosts that measure side by side.
        scheduler: address of the dask scheduler whose workers drive the pairs; None for the controller itself.
        terms: space of an application that names none, as the hosts suggested it when the campaign began; None before.
        calibrated: the campaign began with a calibration that `collie hosts calibrate` had kept; else it makes its own.
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
        """Return the words behind `collie search` that say the same, without what is usual."""
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
        """Return plain values from which `from_settings` makes the same choice."""
        return cast("dict[str, Any]", CODEC.write(self))

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> SearchChoice:
        """Inverse of `to_settings`, for what is on record.

        Campaigns on hosts that name no space or recipe are from when all hosts were searched as if they were emulated.

        Raises:
            StoreError: they are none, or none that a command line could have said: somebody else made that campaign.
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
        """Return the same choice with a space and a recipe, where it names none."""
        return dataclasses.replace(
            self, space=self.space or space, recipe=self.recipe or recipe, terms=self.terms or space
        )


@dataclass(frozen=True)
class GateChoice:
    """What a user says about a gate; kept with its record, so that a resumed one is the same.

    Attributes:
        search: of the candidate: its testbed, and space and recipe of the baseline.
        baseline: campaign to compare with.
        baseline_hosts: inventory on which the baseline can be measured now; None without one.
        under_test: in what the two may differ.
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
        """Return the words behind `collie gate` that say the same, without what is usual or the baseline's."""
        own = [
            ("baseline", self.baseline),
            ("baseline-hosts", self.baseline_hosts),
            ("under-test", None if self.under_test == _USUAL_UNDER_TEST else ",".join(self.under_test)),
            ("false-alarm", None if self.false_alarm == _USUAL_FALSE_ALARM else self.false_alarm),
        ]
        search = dataclasses.replace(self.search, space=None, recipe=None, known=None, fix=(), limit=())
        return [*_words(own), *search.arguments()]

    def to_settings(self) -> dict[str, Any]:
        """Return plain values from which `from_settings` makes the same choice; those of a search, and one more."""
        own = CODEC.write(dataclasses.replace(self, search=SearchChoice()))
        del own["search"]
        return {**self.search.to_settings(), GATE: own}

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> GateChoice:
        """Inverse of `to_settings`.

        Raises:
            StoreError: they are none: somebody else made that campaign.
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
