"""Confirmation: a suspicion becomes a finding when it shows again, on fresh queue pairs, k times of n.

A generator yields workloads and receives verdicts, so one code serves the simulator, real hosts and a table in a test.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from collie.detect.symptom import Symptom, Verdict
from collie.workloads.workload import Workload


@dataclass(frozen=True, slots=True)
class Confirmation:
    """How often a suspicion has to show again.

    Attributes:
        needed: runs that must show the same symptom.
        runs: runs at most that say anything.
        void_runs: inconclusive or failed runs at most; they count for neither side.
        fresh_siblings: runs of the plain sibling before a suspicion of low throughput is confirmed. On machines that
            drift, a bound measured minutes ago is no bound.

    With 2 of 3, an anomaly that shows 80 % of the time is confirmed with 0.8^2 (3 - 2 x 0.8) = 90 %, and a disturbance
    that struck once, and strikes 5 % of the runs, passes with 0.7 %.
    """

    needed: int = 2
    runs: int = 3
    void_runs: int = 3
    fresh_siblings: int = 0


Probes = Generator[Workload, Verdict | None, "Confirmed"]
"""Yields workloads; receives a verdict, or None when the run could not be set up; returns the result."""


@dataclass(frozen=True, slots=True)
class Confirmed:
    """Result of a confirmation.

    Attributes:
        confirmed: shown often enough.
        shown: the verdicts that showed the symptom.
        runs: runs that said anything.
    """

    confirmed: bool
    shown: tuple[Verdict, ...]
    runs: int


def confirm(workload: Workload, symptom: Symptom, policy: Confirmation) -> Probes:
    """Run a workload again until enough runs show the symptom, or too few can."""
    shown: list[Verdict] = []
    said = void = 0
    while len(shown) < policy.needed and policy.runs - said >= policy.needed - len(shown) and void <= policy.void_runs:
        verdict = yield workload
        if verdict is None or verdict.is_inconclusive:
            void += 1
            continue
        said += 1
        if verdict.symptom is symptom:
            shown.append(verdict)
    return Confirmed(len(shown) >= policy.needed, tuple(shown), said)
