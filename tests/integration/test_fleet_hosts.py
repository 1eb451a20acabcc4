"""Fleets whose hosts fail, are lost or differ in what they can do."""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from collie import ports
from collie.campaign.fleet import ATTEMPTS, Battery, FailedAttempt, fitted
from collie.campaign.safety import Guard
from collie.counters.catalog import Catalog, Counter, CounterKind, Role, Unit
from collie.detect.measurement import Sample, Watch
from collie.detect.symptom import Symptom
from collie.errors import AgentError, CommandFailed, CommandTimeout, HostUnreachable, TestbedError
from collie.fleet.battery import BATTERY, Stage, rounds
from collie.fleet.judge import judge
from collie.hosts.session import Archive
from collie.hosts.testbed import HostsTestbed
from collie.inventory.hosts import Host, Pair
from collie.inventory.safety import SafetyLimits
from collie.readings.policy import WindowPolicy
from collie.testing.fake_agent import fake_agent_program
from collie.testing.fakes import FakeTestbed, Planted
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.pruning import Capabilities, Restriction
from collie.workloads.setup import SetUp
from collie.workloads.workload import Workload
from tests.support.local_remote import LocalRemote

PLAIN = BATTERY[:1]

ALWAYS = Mfs((Condition("qps", Op.AT_LEAST, 1),))
LOOPBACK = tuple(probe for probe in BATTERY if probe.stage is Stage.LOOPBACK)


def test_an_unreachable_host_is_left_out_and_named() -> None:
    hosts = tuple("abcdefgh")
    opened: list[FakeTestbed] = []

    def open_group(group: tuple[str, ...]) -> ports.Testbed:
        if "c" in group:
            raise HostUnreachable("c", "192.0.2.3", "no route")
        opened.append(FakeTestbed(noise=0.02, seed=len(opened)))
        return opened[-1]

    reported: list[FailedAttempt] = []
    survey = Battery(open_group, Guard(), 2, reported.append).run(rounds(hosts, PLAIN))
    assert list(survey.failures) == ["c"]
    assert survey.incomplete == {"c"}
    assert len(reported) == 1  # once gone, it is not asked again
    assert all(testbed.closed for testbed in opened)
    assert survey.catalog is not None
    verdict = judge(survey.readings, hosts, PLAIN, survey.catalog)
    assert verdict.unjudged == ("c",)
    assert len(verdict.standings) == 7


def test_a_host_that_dies_on_the_way_is_not_like_the_others() -> None:
    asked: list[str] = []

    def open_group(group: tuple[str, ...]) -> ports.Testbed:
        asked.extend(group)
        if "c" in group and asked.count("c") > 2:
            raise HostUnreachable("c", "192.0.2.3", "no route")
        return FakeTestbed(noise=0.02)

    survey = Battery(open_group, Guard(), 1, lambda _text: None).run(rounds(tuple("abcdefgh"), PLAIN))
    assert sum(reading.host == "c" for reading in survey.readings) == 2
    assert survey.incomplete == {"c"}


def test_a_host_that_cannot_run_what_others_can_is_named() -> None:
    mixed = tuple(probe for probe in BATTERY if probe.name in ("stream", "mixed sizes"))

    def open_group(group: tuple[str, ...]) -> ports.Testbed:
        refuses = lambda workload: "too many queue pairs" if "c" in group and workload.qps > 100 else None  # noqa: E731
        return FakeTestbed(noise=0.02, unsupported=refuses)

    survey = Battery(open_group, Guard(), 2, lambda _text: None).run(rounds(tuple("abcdef"), mixed))
    assert survey.incomplete == {"c"}
    assert survey.failures == {"c": "mixed sizes: too many queue pairs"}
    assert survey.left_out == {}


@pytest.mark.parametrize(
    ("error", "without"),
    [
        (CommandTimeout("h1/x", "hello", 1.0), {"h1/x"}),
        (HostUnreachable("h1/x", "h1", "no route"), {"h1/x", "h1/y"}),
    ],
)
def test_a_device_that_cannot_begin_leaves_the_others_of_its_machine_in(error: TestbedError, without: set[str]) -> None:
    endpoints = tuple(f"h{host}/{device}" for host in range(1, 6) for device in "xy")

    def open_group(hosts: tuple[str, ...]) -> ports.Testbed:
        if "h1/x" in hosts:
            raise error
        return FakeTestbed()

    survey = Battery(open_group, Guard(), 4, lambda _text: None).run(rounds(endpoints, PLAIN))
    assert {reading.host for reading in survey.readings} == set(endpoints) - without
    assert set(survey.failures) == {"h1/x"}


def test_a_host_that_is_late_once_is_asked_again() -> None:
    asked: list[tuple[str, ...]] = []

    def open_group(group: tuple[str, ...]) -> ports.Testbed:
        asked.append(group)
        if asked.count(group) == 1:
            raise CommandTimeout(group[0], "fingerprint", 20.0)
        return FakeTestbed(noise=0.02)

    survey = Battery(open_group, Guard(), 1, lambda _text: None).run(rounds(tuple("abcd"), PLAIN))
    assert survey.failures == {}
    assert survey.incomplete == set()
    assert {reading.host for reading in survey.readings} == set("abcd")


@dataclass
class _Real(FakeTestbed):
    """A testbed whose time is real."""

    @property
    def info(self) -> ports.TestbedInfo:
        return replace(super().info, virtual_time=False)


@pytest.mark.parametrize(("kind", "lanes", "runs"), [(_Real, 1, 12), (_Real, 2, 6), (_Real, 8, 6), (FakeTestbed, 1, 6)])
def test_groups_that_wait_for_each_other_take_longer(kind: type[FakeTestbed], lanes: int, runs: int) -> None:
    """Twelve ordered pairs of four hosts, two at once."""
    seconds = 30.0
    battery = Battery(lambda _group: kind(run_seconds=seconds), Guard(), lanes, lambda _text: None)
    assert battery.run(rounds(tuple("abcd"), PLAIN)).elapsed_seconds == pytest.approx(runs * seconds)


@pytest.mark.parametrize(
    ("error", "attempts"),
    [
        (CommandTimeout("c", "agent step hello", 44.0), 2),
        (AgentError("c", "conversation", "the agent ended"), 2),
        (CommandFailed("c", ["sftp"], 1, "no files"), 1),
    ],
)
def test_a_host_that_cannot_be_made_to_begin_is_not_asked_in_later_rounds(error: TestbedError, attempts: int) -> None:
    asked: list[str] = []

    def open_group(group: tuple[str, ...]) -> ports.Testbed:
        asked.extend(group)
        if "c" in group:
            raise error
        return FakeTestbed(noise=0.02)

    plan = rounds(tuple("abcdefgh"), PLAIN)
    assert sum("c" in group.hosts for groups in plan for group in groups) > 1
    survey = Battery(open_group, Guard(), 1, lambda _text: None).run(plan)
    assert asked.count("c") == attempts
    assert survey.incomplete == {"c"}
    assert survey.failures == {"c": str(error)}


def test_an_error_about_something_else_than_a_host_of_the_group_blames_no_host_by_itself() -> None:
    def open_group(group: tuple[str, ...]) -> ports.Testbed:
        if group == ("a", "b"):
            raise HostUnreachable("gate", "192.0.2.9", "no route")
        return FakeTestbed(noise=0.02)

    survey = Battery(open_group, Guard(), 1, lambda _text: None).run(rounds(tuple("abcdef"), PLAIN))
    assert survey.failures == {"a,b": "host gate (192.0.2.9) cannot be reached: no route"}
    assert survey.incomplete == set()


def test_a_storm_is_provoked_once_and_names_the_host() -> None:
    opened: list[FakeTestbed] = []

    def open_group(group: tuple[str, ...]) -> ports.Testbed:
        storm = [Planted(ALWAYS, Symptom.PAUSE, 0.5)] if group[1] == "c" else []
        opened.append(FakeTestbed(noise=0.02, planted=storm))
        return opened[-1]

    guard = Guard(SafetyLimits(pause_per_second=0.1))
    survey = Battery(open_group, guard, 1, lambda _text: None).run(rounds(tuple("abcdefgh"), LOOPBACK))
    assert all(testbed.runs == 1 for testbed in opened)
    assert survey.incomplete == {"c"}
    assert "host c sent pause" in survey.failures["c"]


def test_the_fleet_ends_with_its_pause_budget() -> None:
    storm = [Planted(ALWAYS, Symptom.PAUSE, 0.5)]
    guard = Guard(SafetyLimits(pause_per_campaign=1.0))
    opened: list[FakeTestbed] = []

    def open_group(_group: tuple[str, ...]) -> ports.Testbed:
        opened.append(FakeTestbed(planted=storm))
        return opened[-1]

    survey = Battery(open_group, guard, 1, lambda _text: None).run(rounds(tuple("abcdefgh"), PLAIN))
    assert survey.ended_by is not None
    assert "--max-pause" in survey.ended_by
    assert survey.runs < 16


class Endless(FakeTestbed):
    """Measures until it is closed."""

    reached = threading.Event()

    def measure(
        self, workload: Workload, run: int, watch: Watch | None = None, on: SetUp | None = None
    ) -> ports.RunResult:
        self.wait()
        return super().measure(workload, run, watch)

    def wait(self) -> None:
        self.reached.set()
        while not self.closed:
            time.sleep(0.01)


class EndlessToOpen(Endless):
    """Says what it is when it is closed."""

    @property
    def info(self) -> ports.TestbedInfo:
        self.wait()
        raise HostUnreachable("a", "192.0.2.1", "cut off")


class EndlessToLookAt(Endless):
    """Tells who else uses its ports when it is closed."""

    def foreign_uses(self) -> tuple[ports.ForeignUse, ...]:
        self.wait()
        raise HostUnreachable("a", "192.0.2.1", "cut off")


@pytest.mark.usefixtures("heeded")
@pytest.mark.parametrize("kind", [Endless, EndlessToOpen, EndlessToLookAt])
def test_an_interruption_closes_what_is_open_or_being_opened(kind: type[Endless]) -> None:
    opened: list[FakeTestbed] = []
    reached, ended = threading.Event(), threading.Event()

    def open_group(_group: tuple[str, ...]) -> ports.Testbed:
        testbed = kind()
        testbed.reached = reached
        opened.append(testbed)
        return testbed

    def look(testbed: ports.Testbed) -> None:
        testbed.foreign_uses()

    def interrupt() -> None:
        reached.wait()
        while not ended.is_set():
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            ended.wait(10.0)  # Python drops the exception of a signal that interrupts a finalizer

    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    with pytest.raises(KeyboardInterrupt):
        Battery(open_group, Guard(), 2, lambda _text: None, look).run(rounds(tuple("abcd"), PLAIN))
    ended.set()
    interrupting.join()
    assert opened
    assert all(testbed.closed for testbed in opened)


def test_groups_may_expose_different_counters() -> None:
    """What one pair lacks another may have; judging names its component all the same."""
    extra = Counter("extra", "model", Unit.EVENTS, CounterKind.DIAGNOSTIC, "PCIe")

    class More(FakeTestbed):
        @property
        def info(self) -> ports.TestbedInfo:
            found = super().info
            return replace(found, catalog=replace(found.catalog, counters=(*found.catalog.counters, extra)))

    def open_group(group: tuple[str, ...]) -> ports.Testbed:
        return More(noise=0.02) if "d" in group else FakeTestbed(noise=0.02)

    survey = Battery(open_group, Guard(), 1, lambda _text: None).run(rounds(tuple("abcd"), PLAIN))
    assert survey.catalog is not None
    assert survey.catalog.find("extra") == extra


def test_queue_pairs_that_one_group_left_are_not_forgotten_with_the_next() -> None:
    class Leaving(FakeTestbed):
        left: Mapping[str, int | None] = {}

        def close(self) -> Mapping[str, int | None]:
            super().close()
            return self.left

    numbers = iter([3, 0, None])

    def open_group(_group: tuple[str, ...]) -> ports.Testbed:
        opened = Leaving()
        opened.left = {"a": next(numbers, 0), "b": None}
        return opened

    survey = Battery(open_group, Guard(), 1, lambda _text: None).run(rounds(tuple("abcd"), PLAIN))
    assert survey.left_behind == {"a": 3, "b": None}


def test_a_run_that_cannot_be_set_up_is_tried_again_and_then_said() -> None:
    opened = FakeTestbed(setup_failure_ratio=1.0)
    reported: list[FailedAttempt] = []
    survey = Battery(lambda _group: opened, Guard(), 1, reported.append).run(
        [rounds(("a", "b", "c", "d"), PLAIN)[0][:1]]
    )
    assert survey.runs == opened.runs == ATTEMPTS == len(reported)
    assert survey.readings == []
    assert set(survey.left_out) == {"stream"}


class _Unsettled(FakeTestbed):
    """A testbed whose runs have one throughput at their beginning and another at their end."""

    def measure(
        self, workload: Workload, run: int, watch: Watch | None = None, on: SetUp | None = None
    ) -> ports.RunResult:
        result = super().measure(workload, run, watch)
        assert isinstance(result, ports.Measured)
        return replace(result, measurement=replace(result.measurement, stable=False))


def test_a_run_without_one_throughput_is_tried_again_and_said() -> None:
    reported: list[FailedAttempt] = []
    survey = Battery(lambda _group: _Unsettled(), Guard(), 1, reported.append).run(
        [rounds(("a", "b", "c", "d"), PLAIN)[0][:1]]
    )
    assert survey.runs == ATTEMPTS
    assert [str(each) for each in reported] == ["a,b, stream: the throughput did not settle"] * (ATTEMPTS - 1)
    assert survey.readings  # of the last run


class _Dying(FakeTestbed):
    """A testbed whose first run sends pause, and then is no more."""

    def measure(
        self, workload: Workload, run: int, watch: Watch | None = None, on: SetUp | None = None
    ) -> ports.RunResult:
        if run == 1 and watch is not None:
            watch(Sample(1.0, "a", {"tx_pause_ratio": 0.9}))
            raise AgentError("a", "conversation", "the agent ended")
        return super().measure(workload, run, watch)


def test_the_pause_of_a_group_that_is_lost_counts_once() -> None:
    guard = Guard(SafetyLimits(pause_per_campaign=1.0))
    survey = Battery(lambda _group: _Dying(), guard, 1, lambda _text: None).run(rounds(tuple("abcdef"), PLAIN))
    assert guard.pause_seconds == pytest.approx(0.9)
    assert survey.ended_by is None
    assert {reading.host for reading in survey.readings} == set("abcdef")


def test_the_safety_limits_hold_over_the_whole_fleet() -> None:
    guard = Guard(SafetyLimits(rate_bps=1e9))
    survey = Battery(lambda _group: FakeTestbed(), guard, 1, lambda _text: None).run(rounds(tuple("abcd"), PLAIN))
    assert survey.readings == []
    assert guard.stopped_runs == survey.runs
    assert "--max-rate" in survey.left_out["stream"]


def test_a_workload_is_brought_down_to_what_a_group_can_do() -> None:
    able = Capabilities((Restriction("mtu", "1500", at_most=1024), Restriction("total_mrs", "memory", at_most=1)))
    assert fitted(Workload(mtu=4096, qps=8), able) == Workload(mtu=1024, qps=8)


def test_real_hosts_go_the_same_way(tmp_path: Path) -> None:
    """Agents that pretend, on four hosts; one counts errors and packets that the others do not."""
    catalog = Catalog(
        "rxe",
        (
            Counter(
                "rcvd_pkts", "hw_counters", Unit.PACKETS, CounterKind.PERFORMANCE, "software", role=Role.RX_PACKETS
            ),
            Counter("send_err", "hw_counters", Unit.EVENTS, CounterKind.ERROR, "cable"),
        ),
    )
    hosts = ("h1", "h2", "h3", "h4")
    for name in hosts:
        (tmp_path / name).mkdir()
        errors = 5000 if name == "h3" else 0
        behaviour = {"counters": {"hw_counters": {"rcvd_pkts": 1000, "send_err": errors}}}
        (tmp_path / name / "behaviour.json").write_text(json.dumps(behaviour))
    policy = WindowPolicy(
        period_seconds=0.02, warm_up_seconds=0.02, window_seconds=0.1, patience_seconds=0.0, averaging_seconds=0.0
    )

    def open_group(group: tuple[str, ...]) -> ports.Testbed:
        a, b = (Host(name, f"mgmt-{name}", "192.0.2.1", "rxe0", python=sys.executable) for name in group)
        return HostsTestbed(
            Pair(a, b),
            lambda host: LocalRemote(host.name, tmp_path / host.name),
            lambda _driver: catalog,
            policy=policy,
            archive=Archive.of(fake_agent_program()),
        )

    survey = Battery(open_group, Guard(), 2, lambda _text: None).run(rounds(hosts, PLAIN))
    assert survey.failures == {}
    assert survey.left_behind == dict.fromkeys(hosts, 0)
    assert survey.catalog is not None
    verdict = judge(survey.readings, hosts, PLAIN, survey.catalog)
    assert [(standing.host, standing.component) for standing in verdict.odd] == [("h3", "cable")]
