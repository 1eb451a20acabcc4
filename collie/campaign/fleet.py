"""The battery on a fleet: every group's testbed opened, its probes run, what they read collected."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

from collie.campaign.safety import Guard
from collie.counters.catalog import Catalog
from collie.errors import TestbedError
from collie.fleet.battery import Group, Probe
from collie.fleet.reading import Reading, readings_of
from collie.ports import HostLost, Measured, PairLost, RunResult, SetupFailed, Testbed, Unsupported
from collie.workloads.pruning import Capabilities
from collie.workloads.workload import Workload

ATTEMPTS: Final = 3
"""Runs of one probe in one group before it is given up: a set-up fails now and then, a window is not always stable."""

OpenGroup = Callable[[tuple[str, ...]], Testbed]
"""Opens the testbed of hosts that measure together, by name and in order of their roles.

It raises a TestbedError when it cannot be had.
"""

Told = Callable[[str], None]
"""Is told in words what happens."""


@dataclass
class Survey:
    """What the battery has read.

    Attributes:
        catalog: of the counters; None when no group could be opened.
        readings: of all hosts.
        failures: what went wrong, by the host or hosts concerned.
        left_out: probes of which nothing could be read, and why.
        runs: made.
        elapsed_seconds: of testbed time: groups of one round measure at once.
        left_behind: queue pairs of ours that a host still lists; None where it could not be asked.
    """

    catalog: Catalog | None = None
    readings: list[Reading] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    runs: int = 0
    elapsed_seconds: float = 0.0
    left_behind: dict[str, int | None] = field(default_factory=dict)


@dataclass
class _Outcome:
    """What came of one group."""

    catalog: Catalog | None = None
    readings: list[Reading] = field(default_factory=list)
    failure: tuple[str, str] | None = None
    left_out: dict[str, str] = field(default_factory=dict)
    runs: int = 0
    elapsed_seconds: float = 0.0
    left: Mapping[str, int | None] = field(default_factory=dict)


class Battery:
    """Runs the battery.

    A host that cannot be reached is left out from then on; the others go on without it.

    Args:
        open_group: opens the testbed of a group.
        guard: the safety limits, over all groups together.
        lanes: groups that measure at once, at most.
        tell: hears what goes wrong, and how far it is.
    """

    def __init__(self, open_group: OpenGroup, guard: Guard, lanes: int, tell: Told) -> None:
        self._open_group = open_group
        self._guard = guard
        self._lanes = lanes
        self._tell = tell
        self._accounting = threading.Lock()

    def run(self, rounds: Iterable[Sequence[Group]]) -> Survey:
        """Run some rounds, the groups of each side by side."""
        survey = Survey()
        gone: set[str] = set()
        number = 1
        with ThreadPoolExecutor(self._lanes, thread_name_prefix="fleet") as executor:
            for groups in rounds:
                able = [group for group in groups if gone.isdisjoint(group.hosts)]
                numbers = []
                for group in able:
                    numbers.append(number)
                    number += ATTEMPTS * len(group.probes)
                outcomes = list(executor.map(self._measure, able, numbers))
                for group, outcome in zip(able, outcomes, strict=True):
                    gone |= _added(survey, group, outcome)
                survey.elapsed_seconds += max((outcome.elapsed_seconds for outcome in outcomes), default=0.0)
        read = {reading.probe for reading in survey.readings}
        survey.left_out = {name: why for name, why in survey.left_out.items() if name not in read}
        return survey

    def _measure(self, group: Group, number: int) -> _Outcome:
        outcome = _Outcome()
        try:
            testbed = self._open_group(group.hosts)
        except TestbedError as error:
            outcome.failure = self._failed(group, error)
            return outcome
        try:
            outcome.catalog = testbed.info.catalog
            able = testbed.capabilities
            for index, probe in enumerate(group.probes):
                self._probe(testbed, able, group, probe, number + ATTEMPTS * index, outcome)
        except TestbedError as error:
            outcome.failure = self._failed(group, error)
        finally:
            outcome.left = testbed.close()
        return outcome

    def _failed(self, group: Group, error: TestbedError) -> tuple[str, str]:
        """Return which host a failure is about, or all of the group where nobody can tell, and what it is."""
        who = getattr(error, "host", None)
        named = who if who in group.hosts else ",".join(group.hosts)
        self._tell(f"{named}: {error}")
        return named, str(error)

    def _probe(
        self, testbed: Testbed, able: Capabilities, group: Group, probe: Probe, number: int, outcome: _Outcome
    ) -> None:
        workload = fitted(probe.workload, able)
        for run in range(number, number + ATTEMPTS):
            result = self._guarded(testbed, workload, run)
            outcome.runs += 1
            outcome.elapsed_seconds += result.elapsed_seconds
            if isinstance(result, HostLost):
                raise TestbedError(f"host {result.host} was lost: {result.detail}")
            if isinstance(result, PairLost):
                raise TestbedError(f"{result.pair} was lost: {result.detail}")
            is_last = run == number + ATTEMPTS - 1
            if isinstance(result, Measured) and (result.measurement.stable or is_last):
                read = list(readings_of(result.measurement, group.hosts, probe, run, testbed.info.catalog))
                outcome.readings += read
                if read:
                    return
            outcome.left_out[probe.name] = _why_nothing(result)
            if isinstance(result, Unsupported):
                return
            self._tell(f"{','.join(group.hosts)}, {probe.name}: {outcome.left_out[probe.name]}")

    def _guarded(self, testbed: Testbed, workload: Workload, run: int) -> RunResult:
        with self._accounting:
            watch = self._guard.watch()
        result = testbed.measure(workload, run, watch)
        with self._accounting:
            self._guard.account(result)
        return result


def _added(survey: Survey, group: Group, outcome: _Outcome) -> set[str]:
    """Add what came of a group; return the hosts that are gone."""
    survey.catalog = survey.catalog or outcome.catalog
    survey.readings += outcome.readings
    survey.left_out |= outcome.left_out
    survey.runs += outcome.runs
    survey.left_behind |= outcome.left
    if outcome.failure is None:
        return set()
    named, cause = outcome.failure
    survey.failures.setdefault(named, cause)
    return {named} & set(group.hosts)


def _why_nothing(result: Measured | SetupFailed | Unsupported) -> str:
    if isinstance(result, Unsupported):
        return result.reason
    if isinstance(result, SetupFailed):
        return result.detail
    return f"stopped: {result.measurement.stopped}" if result.measurement.stopped else "the window shows no one level"


def fitted(workload: Workload, able: Capabilities) -> Workload:
    """Return a workload with everything that a group can do less of brought down to what it can do.

    So it is with the path MTU, which a connection takes from the port that lets less through.
    """
    changes: dict[str, Any] = {}
    for restriction in able.restrictions:
        value = changes.get(restriction.name, getattr(workload, restriction.name, None))
        if restriction.at_most is not None and isinstance(value, int) and value > restriction.at_most:
            changes[restriction.name] = restriction.at_most
    return dataclasses.replace(workload, **changes)
