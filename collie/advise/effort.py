"""A bound on work in steps, so that every machine gives the same answer."""

from __future__ import annotations

from collections.abc import Callable

from collie.workloads.workload import Workload

QUESTION_STEPS = 50_000
CHECK_STEPS = 500_000
"""Limit for one application: ten seconds. A real application with three kinds of traffic takes 35,000 steps."""


class Undecided(Exception):
    """The bound was reached before an answer."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        super().__init__(f"more than {steps:,} combinations of values")


class Effort:
    """A budget of steps, also counted in `whole`. A step evaluates one condition or constraint for one workload."""

    def __init__(self, steps: int = QUESTION_STEPS, whole: Effort | None = None) -> None:
        self._steps = self._left = steps
        self._whole = whole

    def part(self) -> Effort:
        """Return the budget of one question."""
        return Effort(QUESTION_STEPS, self)

    def spend(self, steps: int = 1) -> None:
        """Spend some steps. Raises `Undecided` when none are left."""
        if self._whole is not None:
            self._whole.spend(steps)
        self._left -= steps
        if self._left < 0:
            raise Undecided(self._steps)

    def counted(self, holds: Callable[[Workload], bool]) -> Callable[[Workload], bool]:
        """Return the same predicate, which spends a step at each call."""

        def ask(workload: Workload) -> bool:
            self.spend()
            return holds(workload)

        return ask
