"""What a user says about a search: written into the campaign, so that a resumed one is the same."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from collie.inventory.safety import SafetyLimits
from collie.workloads.pruning import Capabilities

DEFAULT_SUBSYSTEM = "F"

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
            ("noise", None if self.noise == 1.0 else self.noise),
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
    calibrated: bool = False
    capabilities: Capabilities | None = None

    def with_absolute_paths(self) -> SearchChoice:
        """Return the same choice for a reader in any working directory."""

        def absolute(name: str | None) -> str | None:
            named_file = name is not None and ("/" in name or name.endswith((".yaml", ".yml")) or Path(name).is_dir())
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
        yield "pairs", None if self.pairs == 1 else self.pairs
        for name, limit, unit in (
            ("max-pause-per-second", self.safety.pause_per_second, "s"),
            ("max-pause", self.safety.pause_per_campaign, "s"),
            ("max-rate", self.safety.rate_bps, "bit"),
        ):
            yield name, None if limit is None else f"{limit:f}{unit}"

    def to_settings(self) -> dict[str, Any]:
        """Return plain values from which `from_settings` makes the same choice."""
        return dataclasses.asdict(self)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> SearchChoice:
        """Inverse of `to_settings`."""
        values = {name: value for name, value in settings.items() if name != GATE}
        values["testbed"] = TestbedChoice(**values["testbed"])
        values["safety"] = SafetyLimits(**values.get("safety", {}))
        if values.get("capabilities") is not None:
            values["capabilities"] = Capabilities.from_plain(values["capabilities"])
        values["fix"], values["limit"] = tuple(values["fix"]), tuple(values["limit"])
        return cls(**values)


def _words(options: Iterable[tuple[str, object]]) -> Iterator[str]:
    for name, value in options:
        if value is not None:
            yield f"--{name}"
            yield str(value)
