"""The budget of a campaign."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from collie.errors import UsageError
from collie.workloads.units import format_count, format_seconds, parse_seconds


class BudgetSpent(Exception):
    """The next run would exceed a budget: `budget`, or `pause budget`."""

    def __init__(self, what: str = "budget") -> None:
        self.what = what
        super().__init__(f"the {what} is spent")


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of a campaign. The first one reached ends it. Runs of every purpose count."""

    seconds: float = math.inf
    runs: int | None = None

    def spent(self, elapsed_seconds: float, runs: int) -> bool:
        """Whether no further run can begin."""
        return elapsed_seconds >= self.seconds or (self.runs is not None and runs >= self.runs)

    def is_within(self, other: Budget) -> bool:
        """Whether another budget allows all that this one does."""
        return self.seconds <= other.seconds and (self.runs or math.inf) <= (other.runs or math.inf)

    def share(self, elapsed_seconds: float, runs: int) -> float:
        """Return the used share, 0..1."""
        by_time = elapsed_seconds / self.seconds if self.seconds else 1.0
        by_runs = runs / self.runs if self.runs else 0.0
        return min(1.0, max(by_time, by_runs))

    @property
    def as_option(self) -> str:
        """The value of `--budget`, times in whole minutes: `45m`, `3h`, `800runs`."""
        if self.runs is not None:
            return f"{self.runs}runs"
        minutes = math.ceil(self.seconds / 60)
        return f"{minutes}m" if minutes % 60 else f"{minutes // 60}h"

    def __str__(self) -> str:
        return format_count(self.runs, "run") if self.runs is not None else format_seconds(self.seconds)


def parse_budget(text: str) -> Budget:
    """Parse `10h`, `45m`, `90s` or `800runs`.

    Raises:
        UsageError: `text` is not a budget, or is a budget that allows no run.
    """
    if match := re.fullmatch(r"\s*(\d+)\s*runs?\s*", text):
        budget = Budget(runs=int(match[1]))
    else:
        try:
            budget = Budget(seconds=parse_seconds(text))
        except ValueError:
            raise UsageError(
                f"budget {text!r} is neither a time nor a number of runs; write 10h, 45m or 800runs"
            ) from None
    if budget.spent(0.0, 0):
        raise UsageError(f"budget {text!r} allows no run; write 10h, 45m or 800runs")
    return budget
