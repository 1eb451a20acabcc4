"""Results of commands for tests of their output."""

from __future__ import annotations

from dataclasses import dataclass, field

from collie.search.discriminating_counters import DiscriminatingCounter


@dataclass(frozen=True)
class FixedScore:
    mechanisms: dict[str, str | None] = field(default_factory=lambda: {"a1": "receive_wqe_cache", "a2": None})
    planted: tuple[str, ...] = ("receive_wqe_cache", "loopback")
    found: tuple[str, ...] = ("receive_wqe_cache",)
    missed: tuple[str, ...] = ("loopback",)
    false: int = 1


TELLING = DiscriminatingCounter("pressure", "receive WQE cache", 1234.5, "receives that had to be fetched")
