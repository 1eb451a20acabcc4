"""The answer of a gate in words, as its record keeps it for the report."""

from __future__ import annotations

from dataclasses import dataclass

from collie.detect.compare import Change


@dataclass(frozen=True, slots=True)
class AnsweredCase:
    """One case. `effect` and `confidence` are empty if unknown."""

    change: Change
    name: str
    title: str
    reason: str
    effect: str
    confidence: str
    command: str


@dataclass(frozen=True, slots=True)
class GateAnswer:
    """The answer.

    Attributes:
        headline: the answer in one line.
        differences: what is under test, with both values.
        cases: those that need attention first.
        notes: healthy neighbours, the search, and the cost.
    """

    headline: str
    baseline: str
    candidate: str
    differences: tuple[str, ...]
    cases: tuple[AnsweredCase, ...]
    notes: tuple[str, ...]
