"""Hard conditions of a simulated testbed, besides its noise. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

MAX_DRIFT: Final = 0.5

EVERY_MECHANISM: Final = "all"
"""Key of `Hardships.flaky` for the mechanisms that have no key of their own."""


@dataclass(frozen=True)
class Outliers:
    """Runs that differ for no cause in the workload.

    Attributes:
        share: share of all runs.
        pause: share of the time for which one host sends pause in such a run.
    """

    share: float
    pause: float

    def __post_init__(self) -> None:
        _require_share("outliers", self.share)
        _require_share("the pause of outliers", self.pause)

    def __str__(self) -> str:
        one_in = round(1.0 / self.share) if self.share else 1
        share = f"1/{one_in}" if one_in > 1 and 1.0 / one_in == self.share else self.share
        return f"{share}:{self.pause}"


@dataclass(frozen=True)
class Hardships:
    """What makes a simulated testbed harder to judge. By default nothing does.

    Attributes:
        flaky: share of the runs in which a mechanism shows, by the name of the mechanism or `EVERY_MECHANISM`.
        outliers: runs with a pause of unknown cause, or None.
        drift: share of the throughput that is lost over 10 h.
    """

    flaky: Mapping[str, float] = field(default_factory=dict)
    outliers: Outliers | None = None
    drift: float = 0.0

    def __post_init__(self) -> None:
        for name, share in self.flaky.items():
            _require_share(f"flaky {name}", share)
        if not 0.0 <= self.drift <= MAX_DRIFT:
            raise ValueError(f"drift is {self.drift}; expected 0 to {MAX_DRIFT}")

    def options(self) -> Iterator[tuple[str, object]]:
        """Yield the equivalent options of a command line, without defaults."""
        yield from (("flaky", f"{name}={share}") for name, share in sorted(self.flaky.items()))
        yield from (("outliers", self.outliers), ("drift", self.drift or None))

    def description(self) -> dict[str, object]:
        """Return plain values for the description of a testbed, without defaults."""
        found: dict[str, list[str]] = {}
        for name, value in self.options():
            if value is not None:
                found.setdefault(name, []).append(str(value))
        return {name: ", ".join(values) for name, values in found.items()}


def _require_share(name: str, value: float) -> None:
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"{name}: {value} is no share; expected 0 to 1")
