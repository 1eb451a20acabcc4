"""Runs the battery, the same probes for every host, on a fleet."""

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
from collie.ports import HostLost, Measured, RunResult, SetupFailed, Testbed, Unsupported, left_in_all
from collie.workloads.plan import ROLES
from collie.workloads.pruning import Capabilities
from collie.workloads.workload import Workload

ATTEMPTS: Final = 3
"""Limit on attempts at one probe in one group. Failed set-ups and unstable windows are repeated."""

OpenGroup = Callable[[tuple[str, ...]], Testbed]
"""Makes the testbed of a group from host names in order of their roles.

It must not contact the hosts, because only later steps can be interrupted.
"""

Approve = Callable[[Testbed], None]
"""Checks a testbed. Raises a TestbedError to refuse it."""


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """An attempt without a reading.

    Attributes:
        hosts: the host or hosts concerned, separated by commas.
        probe: None if the group could not begin, or could not go on.
    """

    hosts: str
    probe: str | None
    reason: str

    def __str__(self) -> str:
        return f"{self.hosts}, {self.probe}: {self.reason}" if self.probe else f"{self.hosts}: {self.reason}"


Notify = Callable[[FailedAttempt], None]


@dataclass
class BatteryResults:
    """The results of the battery.

    Attributes:
        catalog: counters of all groups.
        failures: reasons for failed runs, by the host or hosts concerned.
        incomplete: hosts that were lost, or lack readings of a probe that other hosts have.
        left_out: probes without any reading, with the reason.
        ended_by: reason for an early end.
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
        failure: the host concerned (all hosts of the group if unknown), and the reason.
        gone: the host that is unreachable, or whose device could not be opened.
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
    """Runs the battery, with at most `lanes` groups at once.

    A host that cannot be reached or opened is left out from then on. An interrupt closes every testbed, even during a
    run.
    """

    def __init__(
        self, open_group: OpenGroup, guard: Guard, lanes: int, notify: Notify, approve: Approve = lambda _testbed: None
    ) -> None:
        self._open_group = open_group
        self._guard = guard
        self._lanes = lanes
        self._notify = notify
        self._approve = approve
        self._opening = threading.Lock()
        self._open: list[Testbed] = []
        self._interrupted = False

    def run(self, rounds: Iterable[Sequence[Group]]) -> BatteryResults:
        """Run the groups of each round side by side."""
        results = BatteryResults()
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
                        _add(results, outcome)
                        unread |= _by_host(group, outcome)
                        if outcome.gone:
                            gone.add(outcome.gone)
                            about = {host for host in group.hosts if outcome.gone in (host, host_of(host))}
                            results.incomplete |= about
                    results.elapsed_seconds += _elapsed(outcomes, self._lanes)
            except BaseException:
                self._interrupt()
                raise
        if self._guard.spent:
            option = OPTIONS["pause_per_campaign"]
            results.ended_by = f"the pause that all hosts together may send is used up ({option})"
        _add_missing(results, unread)
        return results

    def _interrupt(self) -> None:
        with self._opening:
            self._interrupted = True
            opened = tuple(self._open)
        # in parallel, so that a silent host delays only its own testbed
        with ThreadPoolExecutor(max(1, len(opened))) as closing:
            list(closing.map(lambda testbed: testbed.close(), opened))

    def _measure(self, group: Group, number: int) -> _Outcome:
        outcome = _Outcome()
        try:
            testbed = self._opened(group.hosts)
        except TestbedError as error:
            self._failed(group, group.probes, error, outcome)
            outcome.gone = outcome.gone or _host_of_error(error, group)  # all attempts have failed
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
        try:
            return self._answering(hosts)
        except (AgentError, CommandTimeout):  # a host can be late once
            if self._interrupted:
                raise
            return self._answering(hosts)

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
        host = _host_of_error(error, group)
        named = host or ",".join(group.hosts)
        outcome.failure = named, str(error)
        outcome.gone = host_of(host) if host and isinstance(error, HostUnreachable | HostKeyMismatch) else None
        outcome.unread |= {probe.name: str(error) for probe in probes}
        if not self._interrupted:
            self._notify(FailedAttempt(named, None, str(error)))

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
            outcome.unread[probe.name] = _reason_without_reading(result)
            if isinstance(result, Unsupported):
                return
            self._notify(FailedAttempt(",".join(group.hosts), probe.name, outcome.unread[probe.name]))
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


def _host_of_error(error: TestbedError, group: Group) -> str | None:
    host = getattr(error, "host", None)
    return host if host in group.hosts else None


def _naming(watch: Watch, hosts: Sequence[str]) -> Watch:
    names = dict(zip(ROLES, hosts, strict=False))

    def named(sample: Sample) -> str | None:
        return watch(dataclasses.replace(sample, host=names.get(sample.host, sample.host)))

    return named


def _is_worth_repeating(result: RunResult) -> bool:
    """Return whether to try again. A stopped run would be stopped again, and a lost host stays lost."""
    return isinstance(result, SetupFailed) or (isinstance(result, Measured) and not result.measurement.stopped)


def _elapsed(outcomes: Iterable[_Outcome], lanes: int) -> float:
    """Return the duration of a round. Real groups follow each other on each lane. Simulated groups run in parallel."""
    ends = [0.0] * lanes
    together = 0.0
    for outcome in outcomes:
        if outcome.virtual_time:
            together = max(together, outcome.elapsed_seconds)
        else:
            heapreplace(ends, ends[0] + outcome.elapsed_seconds)
    return max(together, *ends)


def _add(results: BatteryResults, outcome: _Outcome) -> None:
    results.catalog = _merged(results.catalog, outcome.catalog)
    results.readings += outcome.readings
    results.runs += outcome.runs
    for host, left in outcome.left.items():
        results.left_behind[host] = left_in_all(results.left_behind.get(host, 0), left)
    if outcome.failure is not None:
        results.failures.setdefault(*outcome.failure)


def _merged(one: Catalog | None, other: Catalog | None) -> Catalog | None:
    """Merge two catalogs, because devices of one fleet can have different counters."""
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


def _add_missing(results: BatteryResults, unread: Mapping[tuple[str, str], str]) -> None:
    read = {(reading.probe, reading.host) for reading in results.readings}
    probes_read = {probe for probe, _ in read}
    for (probe, host), reason in unread.items():
        if probe not in probes_read:
            results.left_out[probe] = reason
        elif (probe, host) not in read:
            results.incomplete.add(host)
            results.failures.setdefault(host, f"{probe}: {reason}")


def _reason_without_reading(result: RunResult) -> str:
    if isinstance(result, Unsupported):
        return result.reason
    if not isinstance(result, Measured):
        return result.detail
    return f"stopped: {result.measurement.stopped}" if result.measurement.stopped else "the throughput did not settle"


def fitted(workload: Workload, able: Capabilities) -> Workload:
    """Return a workload reduced to a group's capabilities. Its path MTU is at most that of the smaller port."""
    changes: dict[str, Any] = {}
    for restriction in able.restrictions:
        value = changes.get(restriction.name, getattr(workload, restriction.name, None))
        if restriction.at_most is not None and isinstance(value, int) and value > restriction.at_most:
            changes[restriction.name] = restriction.at_most
    return dataclasses.replace(workload, **changes)
