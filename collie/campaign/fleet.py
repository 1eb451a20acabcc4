"""The battery on a fleet: open each group's testbed, run its probes, collect the readings."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from heapq import heapreplace
from typing import Any, Final

from collie.campaign.safety import OPTIONS, Guard, LimitUsage
from collie.counters.catalog import SOFTWARE_DRIVERS, Catalog
from collie.detect.measurement import Sample, Watch
from collie.errors import AgentError, CommandTimeout, HostKeyMismatch, HostUnreachable, TestbedError
from collie.fleet.battery import Group, Probe
from collie.fleet.reading import HostReading, readings_of
from collie.inventory.hosts import host_of
from collie.ports import HostLost, Measured, RunResult, SetupFailed, Testbed, Unsupported
from collie.workloads.plan import ROLES
from collie.workloads.pruning import Capabilities
from collie.workloads.workload import Workload

ATTEMPTS: Final = 3
"""Limit on runs of one probe in one group: set-ups can fail and windows can be unstable."""
_OPENINGS: Final = 2
"""Attempts to open a group, because a host can be late once."""

OpenGroup = Callable[[tuple[str, ...]], Testbed]
"""Makes the testbed of a group from host names in order of their roles.

Raises a TestbedError on failure. It must not contact the hosts: later steps can be interrupted.
"""

Approve = Callable[[Testbed], None]
"""Approves a testbed before any run. Raises a TestbedError to refuse."""

Notify = Callable[[str], None]
"""Receives progress messages."""


@dataclass
class BatteryResults:
    """The results of the battery.

    Attributes:
        catalog: counters of all groups, or None when none could be opened.
        failures: reasons, by the host or hosts concerned.
        incomplete: lost hosts, and those without readings in a probe that others have. `failures` has the reasons.
        left_out: probes without any reading, with the reason.
        ended_by: reason for an early end, or None.
        left_behind: queue pairs of Collie that a host still lists, or None where it did not answer.
    """

    catalog: Catalog | None = None
    readings: list[HostReading] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    incomplete: set[str] = field(default_factory=set)
    left_out: dict[str, str] = field(default_factory=dict)
    ended_by: str | None = None
    runs: int = 0
    elapsed_seconds: float = 0.0
    left_behind: dict[str, int | None] = field(default_factory=dict)


@dataclass
class _Outcome:
    """The results of one group.

    Attributes:
        failure: the host concerned, or all of the group where unknown, and the reason.
        gone: an unreachable host, or a device of it that did not begin. It is left out from then on.
        virtual_time: the group's time is computed, not waited for.
        unread: probes without readings, with the reason.
    """

    catalog: Catalog | None = None
    readings: list[HostReading] = field(default_factory=list)
    failure: tuple[str, str] | None = None
    gone: str | None = None
    unread: dict[str, str] = field(default_factory=dict)
    runs: int = 0
    elapsed_seconds: float = 0.0
    virtual_time: bool = False
    left: Mapping[str, int | None] = field(default_factory=dict)


class Battery:
    """Runs the battery.

    A host that cannot be reached or opened is left out from then on. The others continue. On an interrupt, every open
    or opening testbed is closed under its runs.

    Args:
        open_group: makes the testbed of a group.
        guard: the safety limits over all groups together.
        lanes: limit on groups that measure at once.
        tell: receives failures and progress.
        approve: approves each testbed first.
    """

    def __init__(
        self, open_group: OpenGroup, guard: Guard, lanes: int, tell: Notify, approve: Approve = lambda _testbed: None
    ) -> None:
        self._open_group = open_group
        self._guard = guard
        self._lanes = lanes
        self._tell = tell
        self._approve = approve
        self._opening = threading.Lock()
        self._open: list[Testbed] = []
        self._interrupted = False

    def run(self, rounds: Iterable[Sequence[Group]]) -> BatteryResults:
        """Run the rounds, with the groups of each side by side."""
        survey = BatteryResults()
        unread: dict[tuple[str, str], str] = {}
        gone: set[str] = set()
        number = 1
        with ThreadPoolExecutor(self._lanes, thread_name_prefix="fleet") as executor:
            try:
                for groups in rounds:
                    if self._guard.spent:
                        break
                    able = [group for group in groups if gone.isdisjoint([*group.hosts, *map(host_of, group.hosts)])]
                    numbers = []
                    for group in able:
                        numbers.append(number)
                        number += ATTEMPTS * len(group.probes)
                    outcomes = list(executor.map(self._measure, able, numbers))
                    for group, outcome in zip(able, outcomes, strict=True):
                        _add(survey, outcome)
                        unread |= _by_host(group, outcome)
                        if outcome.gone:
                            gone.add(outcome.gone)
                            about = {host for host in group.hosts if outcome.gone in (host, host_of(host))}
                            survey.incomplete |= about
                    survey.elapsed_seconds += _elapsed(outcomes, self._lanes)
            except BaseException:
                self._interrupt()
                raise
        if self._guard.spent:
            survey.ended_by = f"the pause that all hosts together may send is used up ({OPTIONS['pause_per_campaign']})"
        _note_what_is_missing(survey, unread)
        return survey

    def _interrupt(self) -> None:
        with self._opening:
            self._interrupted = True
            opened = tuple(self._open)
        # at once, because a silent host delays only its testbed
        with ThreadPoolExecutor(max(1, len(opened))) as closing:
            list(closing.map(lambda testbed: testbed.close(), opened))

    def _measure(self, group: Group, number: int) -> _Outcome:
        outcome = _Outcome()
        try:
            testbed = self._opened(group.hosts)
        except TestbedError as error:
            self._failed(group, group.probes, error, outcome)
            outcome.gone = outcome.gone or _named(error, group)  # all attempts have failed
            return outcome
        try:
            outcome.catalog, able = testbed.info.catalog, testbed.capabilities
            outcome.virtual_time = testbed.info.virtual_time
            for index, probe in enumerate(group.probes):
                if probe.needs_hardware and outcome.catalog.driver in SOFTWARE_DRIVERS:
                    outcome.unread[probe.name] = f"{outcome.catalog.driver} is software and has no {probe.stresses}"
                    continue
                try:
                    self._probe(testbed, able, group, probe, number + ATTEMPTS * index, outcome)
                except TestbedError as error:
                    self._failed(group, group.probes[index:], error, outcome)
                    break
        finally:
            outcome.left = self._close(testbed)
        return outcome

    def _opened(self, hosts: tuple[str, ...]) -> Testbed:
        """Open the testbed of a group, with a second attempt when a host is late or its agent ends."""
        for attempt in range(1, _OPENINGS + 1):
            try:
                return self._answering(hosts)
            except (AgentError, CommandTimeout):
                if attempt == _OPENINGS or self._interrupted:
                    raise
        raise AssertionError("unreachable")

    def _answering(self, hosts: tuple[str, ...]) -> Testbed:
        testbed = self._open_group(hosts)
        with self._opening:
            self._open.append(testbed)  # first of all, so that an interrupt can close it while it waits for hosts
        try:
            self._require_going_on()
            self._approve(testbed)
            _ = testbed.info, testbed.capabilities
        except BaseException:
            self._close(testbed)
            raise
        return testbed

    def _close(self, testbed: Testbed) -> Mapping[str, int | None]:
        left = testbed.close()
        with self._opening:
            self._open.remove(testbed)
        return left

    def _require_going_on(self) -> None:
        if self._interrupted:
            raise TestbedError("interrupted")

    def _failed(self, group: Group, probes: Iterable[Probe], error: TestbedError, outcome: _Outcome) -> None:
        who = _named(error, group)
        named = who or ",".join(group.hosts)
        outcome.failure = named, str(error)
        outcome.gone = host_of(who) if who and isinstance(error, HostUnreachable | HostKeyMismatch) else None
        outcome.unread |= {probe.name: str(error) for probe in probes}
        if not self._interrupted:
            self._tell(f"{named}: {error}")

    def _probe(
        self, testbed: Testbed, able: Capabilities, group: Group, probe: Probe, number: int, outcome: _Outcome
    ) -> None:
        workload = fitted(probe.workload, able)
        for run in range(number, number + ATTEMPTS):
            self._require_going_on()
            if self._guard.spent:
                return
            result = self._guarded(testbed, workload, run, group.hosts)
            outcome.runs += 1
            outcome.elapsed_seconds += result.elapsed_seconds
            is_last = run == number + ATTEMPTS - 1
            if isinstance(result, Measured) and (result.measurement.stable or is_last):
                read = list(readings_of(result.measurement, workload, group.hosts, probe, run))
                outcome.readings += read
                if read:
                    outcome.unread.pop(probe.name, None)
                    return
            outcome.unread[probe.name] = _why_nothing(result)
            if isinstance(result, Unsupported):
                return
            self._tell(f"{','.join(group.hosts)}, {probe.name}: {outcome.unread[probe.name]}")
            if isinstance(result, HostLost):
                outcome.failure = result.host, f"{probe.name}: {result.detail}"
            if not _is_worth_repeating(result):
                return

    def _guarded(self, testbed: Testbed, workload: Workload, run: int, hosts: tuple[str, ...]) -> RunResult:
        watch = self._guard.watch(virtual_time=testbed.info.virtual_time)
        try:
            result = testbed.measure(workload, run, watch and _naming(watch, hosts))
        except TestbedError:
            self._guard.account(LimitUsage(), watch)
            raise
        self._guard.account(self._guard.usage(result), watch)
        return result


def _named(error: TestbedError, group: Group) -> str | None:
    who = getattr(error, "host", None)
    return who if who in group.hosts else None


def _naming(watch: Watch, hosts: Sequence[str]) -> Watch:
    names = dict(zip(ROLES, hosts, strict=False))

    def named(sample: Sample) -> str | None:
        return watch(dataclasses.replace(sample, host=names.get(sample.host, sample.host)))

    return named


def _is_worth_repeating(result: RunResult) -> bool:
    """Whether to run a probe again: not after a stop, which would recur, or a lost host."""
    return isinstance(result, SetupFailed) or (isinstance(result, Measured) and not result.measurement.stopped)


def _elapsed(outcomes: Iterable[_Outcome], lanes: int) -> float:
    """Return the duration of a round. Groups follow each other on each lane, simulated ones run in parallel."""
    ends = [0.0] * lanes
    together = 0.0
    for outcome in outcomes:
        if outcome.virtual_time:
            together = max(together, outcome.elapsed_seconds)
        else:
            heapreplace(ends, ends[0] + outcome.elapsed_seconds)
    return max(together, *ends)


def _add(survey: BatteryResults, outcome: _Outcome) -> None:
    survey.catalog = _merged(survey.catalog, outcome.catalog)
    survey.readings += outcome.readings
    survey.runs += outcome.runs
    for host, left in outcome.left.items():
        survey.left_behind[host] = _left_in_all(survey.left_behind.get(host, 0), left)
    if outcome.failure is not None:
        survey.failures.setdefault(*outcome.failure)


def _left_in_all(before: int | None, now: int | None) -> int | None:
    """Add the queue pairs left by consecutive agents, each of which knows only its queue pairs."""
    known = (before or 0) + (now or 0)
    return known if known or None not in (before, now) else None


def _merged(one: Catalog | None, other: Catalog | None) -> Catalog | None:
    """Return a catalog of both: devices of one fleet can have different counters."""
    if one is None or other is None or one == other:
        return one or other
    known = {counter.name for counter in one.counters}
    more = tuple(counter for counter in other.counters if counter.name not in known)
    return dataclasses.replace(one, counters=one.counters + more) if more else one


def _by_host(group: Group, outcome: _Outcome) -> dict[tuple[str, str], str]:
    names = dict(zip(ROLES, group.hosts, strict=False))
    return {
        (probe.name, names[role]): outcome.unread[probe.name]
        for probe in group.probes
        if probe.name in outcome.unread
        for role in probe.under_test
    }


def _note_what_is_missing(survey: BatteryResults, unread: Mapping[tuple[str, str], str]) -> None:
    """Note probes without any reading, and hosts without readings that others have."""
    read = {(reading.probe, reading.host) for reading in survey.readings}
    telling = {probe for probe, _ in read}
    for (probe, host), why in unread.items():
        if probe not in telling:
            survey.left_out[probe] = why
        elif (probe, host) not in read:
            survey.incomplete.add(host)
            survey.failures.setdefault(host, f"{probe}: {why}")


def _why_nothing(result: RunResult) -> str:
    if isinstance(result, Unsupported):
        return result.reason
    if not isinstance(result, Measured):
        return result.detail
    return f"stopped: {result.measurement.stopped}" if result.measurement.stopped else "the window shows no one level"


def fitted(workload: Workload, able: Capabilities) -> Workload:
    """Return a workload reduced to a group's capabilities.

    A connection also takes the path MTU of the port with the smaller one.
    """
    changes: dict[str, Any] = {}
    for restriction in able.restrictions:
        value = changes.get(restriction.name, getattr(workload, restriction.name, None))
        if restriction.at_most is not None and isinstance(value, int) and value > restriction.at_most:
            changes[restriction.name] = restriction.at_most
    return dataclasses.replace(workload, **changes)
