"""Which faults strike, how often, and the table of what came of them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from random import Random

LEAST = 3
"""How often every kind strikes at least."""


def drawn(kinds: Sequence[str], count: int, rng: Random) -> list[str]:
    """Draw kinds in random order, each `LEAST` times and the rest by chance.

    Raises:
        ValueError: so few faults leave a kind out.
    """
    if count < LEAST * len(kinds):
        raise ValueError(f"{len(kinds)} kinds, each {LEAST} times, are {LEAST * len(kinds)} faults, not {count}")
    chosen = [*kinds] * LEAST + rng.choices(kinds, k=count - LEAST * len(kinds))
    rng.shuffle(chosen)
    return chosen


def grouped(kinds: Iterable[str], size: int, last: frozenset[str]) -> list[list[str]]:
    """Share faults among campaigns.

    Args:
        kinds: in the order in which they were drawn.
        size: how many strike one campaign at most.
        last: after these no campaign goes on.
    """
    groups: list[list[str]] = []
    ending = []
    for kind in kinds:
        if kind in last:
            ending.append(kind)
        elif groups and len(groups[-1]) < size:
            groups[-1].append(kind)
        else:
            groups.append([kind])
    for index, kind in enumerate(ending):
        if index < len(groups):
            groups[index].append(kind)
        else:
            groups.append([kind])
    return groups


@dataclass
class Tally:
    """What came of each kind.

    Attributes:
        outcomes: by kind, in words.
        violations: with the kind and the number of the fault before each.
    """

    outcomes: dict[str, Counter[str]] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)

    def add(self, kind: str, outcome: str, violations: Sequence[str]) -> None:
        """Count one fault."""
        self.outcomes.setdefault(kind, Counter())[outcome] += 1
        self.violations += [f"fault {self.faults}, {kind}: {each}" for each in violations]

    @property
    def faults(self) -> int:
        """How many have struck."""
        return sum(found.total() for found in self.outcomes.values())

    def table(self) -> str:
        """Return kind, times and outcomes in Markdown."""
        lines = ["| fault | times | what came of it |", "| --- | --- | --- |"]
        for kind, found in sorted(self.outcomes.items()):
            reported = "; ".join(f"{outcome} ({times})" for outcome, times in found.most_common())
            lines.append(f"| {kind.replace('_', ' ')} | {found.total()} | {reported} |")
        return "\n".join([*lines, f"\n{self.faults} faults, {len(self.violations)} violations."])
