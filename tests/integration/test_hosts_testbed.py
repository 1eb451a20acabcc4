"""Sessions, runs and checks against agents that only pretend: everything about real hosts but the hosts."""

from __future__ import annotations

import json
import re
import stat
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from collie import ports
from collie.counters.catalog import Catalog, Counter, Kind, Role, Unit
from collie.detect.bounds import UNBOUNDED
from collie.detect.measurement import Measurement
from collie.errors import AgentError, CommandFailed, HostUnreachable, TestbedError
from collie.hosts import HostsTestbed, State, WindowPolicy, check_hosts
from collie.hosts.check import Finding
from collie.hosts.session import Archive, HostSession
from collie.hosts.testbed import SystemClock
from collie.hosts.victim import ALONE_RUNS
from collie.hosts.watch import watch
from collie.inventory.hosts import Host, Pair
from collie.ports import Channel, Completed, HostLost, Measured, Remote, SetupFailed, Unsupported
from collie.search.objective import rank
from collie.ssh import LocalRemote
from collie.testing.fake_agent import fake_agent_program
from collie.testing.testbed_suite import TestbedSuite
from collie.workloads.plan import MOST_PARTNERS
from collie.workloads.workload import Direction, Memory, Opcode, QpType, Workload

CATALOG = Catalog(
    "rxe",
    (
        Counter("rcvd_pkts", "hw_counters", Unit.PACKETS, Kind.PERFORMANCE, "software", role=Role.RX_PACKETS),
        Counter("send_err", "hw_counters", Unit.EVENTS, Kind.ERROR, "software"),
        Counter("tx_pause", "hw_counters", Unit.MICROSECONDS, Kind.PAUSE, "wire", role=Role.TX_PAUSE),
    ),
)
QUICK = WindowPolicy(
    period_seconds=0.01, warm_up_seconds=0.03, window_seconds=0.1, patience_seconds=0.1, averaging_seconds=0.5
)
ARCHIVE = Archive.of(fake_agent_program())
PAIR = Pair(
    Host("left", "mgmt-left", "192.0.2.1", "rxe0", python=sys.executable),
    Host("right", "mgmt-right", "192.0.2.1", "rxe0", python=sys.executable),
)
GROUP = Pair(
    PAIR.a,
    PAIR.b,
    tuple(Host(name, f"mgmt-{name}", "192.0.2.1", "rxe0", python=sys.executable) for name in ("third", "fourth")),
)


ONE_HOST = Pair(replace(PAIR.a, name="server/rxe0"), replace(PAIR.a, name="server/rxe1", device="rxe1"))
"""Two devices of one host: two agents in one home directory."""


@dataclass(frozen=True)
class Rig:
    """A testbed whose hosts are directories of this machine."""

    directory: Path
    testbed: HostsTestbed

    def behave(self, host: str, **behaviour: Any) -> None:
        (self.directory / host / "behaviour.json").write_text(json.dumps(behaviour))

    def asked(self, host: str) -> list[str]:
        file = self.directory / host / "asked"
        return file.read_text().split() if file.exists() else []


def local(directory: Path) -> Callable[[Host], Remote]:
    def connect(host: Host) -> Remote:
        (directory / host.machine).mkdir(exist_ok=True)
        return LocalRemote(host.name, directory / host.machine)

    return connect


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    for host in (PAIR.a, PAIR.b):
        (tmp_path / host.name).mkdir()
    testbed = HostsTestbed(PAIR, local(tmp_path), lambda driver: CATALOG, policy=QUICK, archive=ARCHIVE)
    yield Rig(tmp_path, testbed)
    testbed.close()


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Rig]:
    for host in GROUP.hosts:
        (tmp_path / host.name).mkdir()
    testbed = HostsTestbed(GROUP, local(tmp_path), lambda driver: CATALOG, policy=QUICK, archive=ARCHIVE)
    yield Rig(tmp_path, testbed)
    testbed.close()


@pytest.fixture
def one_host(tmp_path: Path) -> Iterator[Rig]:
    (tmp_path / "server").mkdir()
    testbed = HostsTestbed(ONE_HOST, local(tmp_path), lambda driver: CATALOG, policy=QUICK, archive=ARCHIVE)
    rig = Rig(tmp_path, testbed)
    rig.behave("server", devices=["rxe0", "rxe1"])
    yield rig
    testbed.close()


class TestHostsTestbed(TestbedSuite):
    __test__ = True
    unsupported = Workload(numa_node=1)

    @pytest.fixture
    def testbed(self, rig: Rig) -> ports.Testbed:
        return rig.testbed

    @pytest.fixture
    def storm(self, rig: Rig) -> Workload:
        rig.behave("right", counters={"hw_counters": {"rcvd_pkts": 1000, "tx_pause": 900_000}})
        return Workload()


class TestGroupOfHosts(TestbedSuite):
    """Three and more hosts, and one alone."""

    __test__ = True
    workloads = (
        Workload(requesters=3),
        Workload(responders=3, opcode=Opcode.READ),
        Workload(responders=2, direction=Direction.BIDIRECTIONAL, loopback=True, opcode=Opcode.SEND),
        Workload(remote=False, loopback=True),
        Workload(),
    )
    unsupported = Workload(requesters=4)

    @pytest.fixture
    def testbed(self, group: Rig) -> ports.Testbed:
        return group.testbed


class TestTwoDevicesOfOneHost(TestbedSuite):
    """Loopback across ports is promised what every pair is."""

    __test__ = True
    workloads = (*TestbedSuite.workloads, Workload(direction=Direction.BIDIRECTIONAL, loopback=True))
    unsupported = Workload(numa_node=1)

    @pytest.fixture
    def testbed(self, one_host: Rig) -> ports.Testbed:
        return one_host.testbed

    @pytest.fixture
    def storm(self, one_host: Rig) -> Workload:
        one_host.behave("server", devices=["rxe0", "rxe1"], counters={"hw_counters": {"tx_pause": 900_000}})
        return Workload()


def test_devices_of_one_host_are_parties_and_their_traffic_is_on_record_as_loopback(one_host: Rig) -> None:
    info = one_host.testbed.info
    assert info.name == "server/rxe0,server/rxe1"
    assert list(info.description["hosts"]) == ["server/rxe0", "server/rxe1"]
    assert info.description["loopback_across_ports"] == {"server": ["server/rxe0", "server/rxe1"]}
    assert [taken.fields["link.path"] for taken in info.fingerprints.values()] == ["loopback across ports"] * 2
    result = one_host.testbed.measure(Workload(), 1)
    assert isinstance(result, Measured)
    assert _received(result) == {"a": None, "b": pytest.approx(8e9, rel=0.05)}
    assert "a-b is loopback across ports of server" in result.measurement.notes
    alone = one_host.testbed.measure(Workload(remote=False, loopback=True), 2)
    assert isinstance(alone, Measured)
    assert not any("across ports" in note for note in alone.measurement.notes)
    assert one_host.testbed.close() == {"server/rxe0": 0, "server/rxe1": 0}


def test_traffic_between_hosts_is_no_loopback(rig: Rig) -> None:
    assert "loopback_across_ports" not in rig.testbed.info.description
    assert "link.path" not in rig.testbed.info.fingerprints["left"].fields
    result = rig.testbed.measure(Workload(), 1)
    assert isinstance(result, Measured)
    assert not any("across ports" in note for note in result.measurement.notes)


def test_of_a_group_only_devices_of_one_host_are_loopback(tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    mixed = Pair(ONE_HOST.a, PAIR.b, (ONE_HOST.b,))
    testbed = HostsTestbed(mixed, local(tmp_path), lambda driver: CATALOG, policy=QUICK, archive=ARCHIVE)
    Rig(tmp_path, testbed).behave("server", devices=["rxe0", "rxe1"])
    paths = {name: taken.fields.get("link.path") for name, taken in testbed.info.fingerprints.items()}
    result = testbed.measure(Workload(responders=2), 1)
    testbed.close()
    assert paths == {**dict.fromkeys(("server/rxe0", "server/rxe1"), "loopback across ports"), "right": None}
    assert isinstance(result, Measured)
    assert "a-c is loopback across ports of server" in result.measurement.notes


def test_each_device_of_a_host_is_looked_at_for_others_and_named(one_host: Rig) -> None:
    one_host.behave("server", devices=["rxe0", "rxe1"], qps=[STRANGER])
    assert [(use.host, use.device) for use in one_host.testbed.other_uses() if use.forbids] == [
        ("server/rxe0", "rxe0"),
        ("server/rxe1", "rxe1"),
    ]


def with_victim(directory: Path, pair: Pair = PAIR, **behaviour: Any) -> Rig:
    """A testbed with a victim beside every run; every agent behaves as told."""
    testbed = HostsTestbed(pair, local(directory), lambda driver: CATALOG, policy=QUICK, archive=ARCHIVE, victim=True)
    rig = Rig(directory, testbed)
    for host in pair.hosts:
        rig.behave(host.name, **behaviour)
    return rig


class TestHostsWithVictim(TestbedSuite):
    """A victim beside a workload changes nothing of what is promised."""

    __test__ = True
    workloads = (*TestbedSuite.workloads, Workload(remote=False, loopback=True))
    unsupported = Workload(numa_node=1)

    @pytest.fixture
    def testbed(self, tmp_path: Path) -> Iterator[ports.Testbed]:
        testbed = with_victim(tmp_path).testbed
        testbed.measure(Workload(), 0)  # else the first watch would see the runs of the victim alone, too
        testbed.measure(Workload(remote=False, loopback=True), 0)
        yield testbed
        testbed.close()


def test_a_receiver_gets_the_sum_of_its_senders_and_a_sender_serves_each_receiver(group: Rig) -> None:
    into_one, from_one = (group.testbed.measure(w, 1) for w in (Workload(requesters=3), Workload(responders=3)))
    assert isinstance(into_one, Measured)
    assert isinstance(from_one, Measured)
    assert _received(into_one) == {"a": None, "b": pytest.approx(24e9, rel=0.05), "c": None, "d": None}
    assert _received(from_one) == {"a": None, **dict.fromkeys("bcd", pytest.approx(8e9, rel=0.05))}


def test_a_host_without_a_part_is_left_in_peace(group: Rig) -> None:
    result = group.testbed.measure(Workload(remote=False, loopback=True), 1)
    assert isinstance(result, Measured)
    assert _received(result) == {"a": pytest.approx(8e9, rel=0.05)}
    assert [group.asked(host.name) for host in GROUP.hosts[1:]] == [[], [], []]


def _received(result: Measured) -> dict[str, float | None]:
    return {host.host: host.delivered_bps for host in result.measurement.hosts}


def test_the_catalog_is_chosen_by_the_driver_and_the_hosts_are_described(rig: Rig) -> None:
    info = rig.testbed.info
    assert (info.kind, info.name, info.catalog) == ("hosts", "left,right", CATALOG)
    assert info.description["hosts"]["left"]["kernel"] == "6.1.0"
    assert "pid" not in info.description["hosts"]["left"]
    assert rig.testbed.specification(Workload()) == UNBOUNDED


def test_hosts_with_different_drivers_are_no_pair(tmp_path: Path) -> None:
    program = fake_agent_program().replace(b'"driver": "rxe"', b'"driver": Path.cwd().name')
    testbed = HostsTestbed(PAIR, local(tmp_path), lambda driver: CATALOG, archive=Archive.of(program))
    with pytest.raises(TestbedError, match="different drivers: left, right"):
        _ = testbed.info
    testbed.close()


def test_a_driver_that_nobody_described_is_sampled_under_its_own_names(tmp_path: Path) -> None:
    for host in (PAIR.a, PAIR.b):
        (tmp_path / host.name).mkdir()
        advances = {"hw_counters": {"strange": 500, "rcvd_pkts": 1000}, "ethtool": {f"only_{host.name}": 1}}
        (tmp_path / host.name / "behaviour.json").write_text(json.dumps({"counters": advances}))
    testbed = HostsTestbed(PAIR, local(tmp_path), lambda driver: None, policy=QUICK, archive=ARCHIVE)
    catalog = testbed.info.catalog
    assert catalog.driver == "rxe"
    assert {counter.name for counter in catalog.counters} == {"strange", "rcvd_pkts", "only_left", "only_right"}
    results = [testbed.measure(Workload(), run) for run in (1, 2)]
    measured = [result.measurement for result in results if isinstance(result, Measured)]
    assert [run.host("b").counters["strange"] for run in measured] == [pytest.approx(500, rel=0.3)] * 2
    assert all(run.host("b").counters["only_left"] is None for run in measured)
    assert all(run.problems == () for run in measured)
    ranked = {objective.counter: objective.rises for objective in rank(catalog, [*measured, faster(measured[0])])}
    assert ranked["strange"] is True
    testbed.close()


def faster(measurement: Measurement) -> Measurement:
    hosts = [replace(host, counters={n: r and 3 * r for n, r in host.counters.items()}) for host in measurement.hosts]
    return replace(measurement, hosts=tuple(hosts))


def test_seldom_refreshed_counters_make_the_window_longer(tmp_path: Path) -> None:
    slow = replace(CATALOG.counters[0], refresh_seconds=0.05)
    catalog = Catalog("rxe", (slow,))
    testbed = HostsTestbed(PAIR, local(tmp_path), lambda driver: catalog, policy=QUICK, archive=ARCHIVE)
    result = testbed.measure(Workload(), 1)
    assert isinstance(result, Measured)
    assert result.measurement.window_seconds == pytest.approx(0.2, abs=0.03)
    assert result.measurement.host("b").counters["rcvd_pkts"] == pytest.approx(1000, rel=0.3)
    testbed.close()


def test_the_agent_is_shipped_once_for_its_owner_alone(rig: Rig) -> None:
    rig.testbed.measure(Workload(), 1)
    file = rig.directory / "left" / ARCHIVE.path
    assert file.read_bytes() == ARCHIVE.data
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    written = file.stat().st_mtime_ns
    second = HostsTestbed(PAIR, local(rig.directory), lambda driver: CATALOG, policy=QUICK, archive=ARCHIVE)
    second.measure(Workload(), 1)
    second.close()
    assert file.stat().st_mtime_ns == written


def test_a_run_measures_what_the_sink_received(rig: Rig) -> None:
    rig.behave("left", bytes_per_second=2e9)
    result = rig.testbed.measure(Workload(), 1)
    assert isinstance(result, Measured)
    a, b = result.measurement.hosts
    assert a.delivered_bps is None
    assert b.delivered_bps == pytest.approx(16e9, rel=0.05)
    assert b.delivered_pps == pytest.approx(2e9 / 4096, rel=0.05)
    assert b.counters["rcvd_pkts"] == pytest.approx(1000, rel=0.2)
    assert b.counters["send_err"] is None
    assert result.measurement.stable
    health = result.measurement.health
    assert (health.idle_poll_ratio, health.queue_fill_ratio, health.data_path) == (0.5, 0.75, "native")


def test_traffic_that_swings_about_one_level_is_averaged_for_longer(rig: Rig) -> None:
    rig.behave("left", swing=0.25)
    result = rig.testbed.measure(Workload(), 1)
    assert isinstance(result, Measured)
    assert result.measurement.stable
    assert result.measurement.window_seconds > 2 * QUICK.window_seconds
    assert result.measurement.host("b").delivered_bps == pytest.approx(8e9, rel=0.05)


def test_traffic_that_no_average_can_settle_is_not_waited_for(rig: Rig) -> None:
    rig.behave("left", swing=0.9)
    result = rig.testbed.measure(Workload(), 1)
    assert isinstance(result, Measured)
    assert not result.measurement.stable
    assert result.measurement.series[-1].seconds < QUICK.window_seconds + QUICK.averaging_seconds


def test_the_steps_of_a_run_come_in_order(rig: Rig) -> None:
    rig.testbed.measure(Workload(), 1)
    assert rig.asked("left") == ["hello", "prepare", "connect", "start", "stop", "destroy"]
    assert rig.asked("right") == ["hello", "prepare", "connect", "start", "destroy"]
    rig.testbed.close()
    assert rig.asked("left")[-1] == "bye"


def test_queue_pairs_have_as_much_time_to_go_as_to_come(rig: Rig) -> None:
    few, many = Workload(), Workload(qps=500, mrs_per_qp=8)
    allowed = []
    for run, workload in enumerate((few, many)):
        rig.testbed.measure(workload, run)
        steps = dict(line.split() for line in (rig.directory / "left" / "deadlines").read_text().splitlines())
        allowed.append({step: float(seconds) for step, seconds in steps.items()})
    longer = {step: allowed[1][step] - allowed[0][step] for step in ("prepare", "connect", "destroy")}
    assert longer["destroy"] == pytest.approx(longer["prepare"]) == pytest.approx(longer["connect"])
    assert longer["destroy"] > 10.0


def test_both_directions_and_loopback_find_their_peers(rig: Rig) -> None:
    workload = Workload(direction=Direction.BIDIRECTIONAL, loopback=True, opcode=Opcode.SEND)
    result = rig.testbed.measure(workload, 1)
    assert isinstance(result, Measured)
    a, b = result.measurement.hosts
    assert a.delivered_bps == pytest.approx(8e9, rel=0.05)
    assert b.delivered_bps == pytest.approx(16e9, rel=0.05)


def test_a_step_that_fails_is_a_failed_set_up_with_a_countable_cause(rig: Rig) -> None:
    error = {
        "kind": "setup",
        "step": "create_qp",
        "message": "create_qp: Cannot allocate memory",
        "errno_name": "ENOMEM",
    }
    rig.behave("right", fail={"prepare": error})
    result = rig.testbed.measure(Workload(), 1)
    assert isinstance(result, SetupFailed)
    assert result.cause == "create_qp ENOMEM"
    assert "right" in result.detail
    assert rig.asked("left")[-1] == rig.asked("right")[-1] == "destroy"


def test_what_the_device_cannot_do_is_unsupported(rig: Rig) -> None:
    error = {"kind": "unsupported", "step": "register", "message": "no GPU here", "errno_name": None}
    rig.behave("left", fail={"prepare": error})
    result = rig.testbed.measure(Workload(memory=Memory.GPU), 1)
    assert isinstance(result, Unsupported)
    assert "no GPU here" in result.reason


def test_an_engine_that_dies_fails_the_run_at_once(rig: Rig) -> None:
    rig.behave("left", engine_dies=True)
    result = rig.testbed.measure(Workload(), 1)
    assert isinstance(result, SetupFailed)
    assert result.cause == "engine died"
    assert "signal 9" in result.detail


def test_an_agent_that_dies_once_is_replaced_and_the_run_repeated(rig: Rig) -> None:
    rig.behave("right", die="start", die_times=1)
    assert isinstance(rig.testbed.measure(Workload(), 1), Measured)
    assert rig.asked("right").count("hello") == 2
    assert rig.asked("left").count("hello") == 1
    assert rig.asked("left").count("destroy") == 2


def test_an_agent_that_dies_twice_ends_the_testbed_and_its_last_words_are_told(rig: Rig) -> None:
    rig.behave("right", die="start")
    with pytest.raises(AgentError, match=r"host right: .*out of cheese"):
        rig.testbed.measure(Workload(), 1)
    assert rig.asked("left")[-1] == "destroy"


def test_a_stop_that_fails_takes_nothing_from_a_complete_window(rig: Rig) -> None:
    error = {"kind": "timeout", "step": "stop", "message": "stop took longer than 10 s", "errno_name": None}
    rig.behave("left", fail={"stop": error})
    assert isinstance(rig.testbed.measure(Workload(), 1), Measured)


def test_a_host_without_samples_voids_the_run(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collie.hosts.run.LATE_SECONDS", 0.1)
    rig.behave("left", silent=True)
    result = rig.testbed.measure(Workload(), 1)
    assert isinstance(result, Measured)
    assert result.measurement.problems == ("host a sent no samples",)


def test_a_step_without_an_answer_fails_the_run_and_the_next_one_starts_anew(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("collie.hosts.protocol.GRACE_SECONDS", -9.5)  # of a deadline of 10 s
    rig.behave("left", hang="start")
    result = rig.testbed.measure(Workload(), 1)
    assert isinstance(result, SetupFailed)
    assert result.cause == "agent step start timeout"
    rig.behave("left")
    assert isinstance(rig.testbed.measure(Workload(), 2), Measured)


def test_error_counters_that_move_void_the_run(rig: Rig) -> None:
    rig.behave("right", counters={"hw_counters": {"rcvd_pkts": 1000, "send_err": 100}})
    result = rig.testbed.measure(Workload(), 1)
    assert isinstance(result, Measured)
    assert result.measurement.problems == ("host b: error counter send_err moved",)


def test_a_host_without_any_data_path_is_one_clear_message(rig: Rig) -> None:
    rig.behave("right", data_paths=[])
    with pytest.raises(TestbedError, match=r"host right .*no native here.*no pyverbs here.*install python3-pyverbs"):
        rig.testbed.measure(Workload(), 1)


def test_the_hosts_file_can_force_a_data_path(tmp_path: Path) -> None:
    pair = Pair(replace(PAIR.a, data_path="pyverbs"), PAIR.b)
    testbed = HostsTestbed(pair, local(tmp_path), lambda driver: CATALOG, policy=QUICK, archive=ARCHIVE)
    result = testbed.measure(Workload(), 1)
    assert isinstance(result, Measured)
    assert result.measurement.health.data_path == "native, pyverbs"
    testbed.close()


@pytest.mark.parametrize("program", ["/bin/false", "/no/such/python", "/bin/echo"])
def test_an_interpreter_that_is_none_is_one_clear_message(tmp_path: Path, program: str) -> None:
    pair = Pair(PAIR.a, replace(PAIR.b, python=program))
    testbed = HostsTestbed(pair, local(tmp_path), lambda driver: CATALOG, archive=ARCHIVE)
    with pytest.raises(CommandFailed, match=f"host right: `{program} -c") as caught:
        testbed.measure(Workload(), 1)
    testbed.close()
    assert len(str(caught.value).splitlines()) == 1


class Unreachable:
    """A remote that was never there, or is gone."""

    def __init__(self, host: Host) -> None:
        self.name = host.name
        self.tries = 0

    def run(self, argv: object, timeout_seconds: float) -> Completed:
        self.tries += 1
        raise HostUnreachable(self.name, "mgmt", "No route to host")

    def put(self, data: bytes, path: str) -> None:
        raise HostUnreachable(self.name, "mgmt", "No route to host")

    def open(self, argv: object) -> Channel:
        raise HostUnreachable(self.name, "mgmt", "No route to host")

    def close(self) -> None:
        pass


def test_an_unreachable_host_is_named_after_finite_tries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collie.hosts.session.START_PAUSES_SECONDS", (0.01, 0.02))
    gone = Unreachable(PAIR.b)
    here = local(tmp_path)
    testbed = HostsTestbed(
        PAIR, lambda host: gone if host is PAIR.b else here(host), lambda driver: CATALOG, archive=ARCHIVE
    )
    with pytest.raises(HostUnreachable, match="host right"):
        testbed.measure(Workload(), 1)
    assert gone.tries == 3
    testbed.close()


class Lockable:
    """A local remote that can stop answering, and is its own reviver."""

    def __init__(self, directory: Path, host: Host) -> None:
        self.name, self.directory = host.name, directory
        self.remote = LocalRemote(host.name, directory)
        self.revived: list[str] = []

    @property
    def locked(self) -> bool:
        return (self.directory / "behaviour.json").exists()

    def run(self, argv: Sequence[str], timeout_seconds: float) -> Completed:
        if self.locked and argv[0] == "true":
            raise HostUnreachable(self.name, "mgmt", "no answer")
        return self.remote.run(argv, timeout_seconds)

    def put(self, data: bytes, path: str) -> None:
        self.remote.put(data, path)

    def open(self, argv: Sequence[str]) -> Channel:
        return self.remote.open(argv)

    def close(self) -> None:
        self.remote.close()

    def revive(self, host: Host) -> None:
        self.revived.append(host.name)
        (self.directory / "behaviour.json").unlink()


@pytest.mark.parametrize("step", ["prepare", "start", "destroy"])
def test_a_host_that_locks_up_is_brought_back_and_its_run_is_a_finding(tmp_path: Path, step: str) -> None:
    for host in PAIR.hosts:
        (tmp_path / host.name).mkdir()
    right, here = Lockable(tmp_path / "right", PAIR.b), local(tmp_path)
    testbed = HostsTestbed(
        PAIR,
        lambda host: right if host is PAIR.b else here(host),
        lambda driver: CATALOG,
        policy=QUICK,
        archive=ARCHIVE,
        reviver=right,
    )
    (tmp_path / "right" / "behaviour.json").write_text(json.dumps({"die": step}))
    lost = testbed.measure(Workload(), 1)
    assert isinstance(lost, HostLost)
    assert (lost.host, right.revived) == ("right", ["right"])
    assert "host right answers nobody" in lost.detail
    assert isinstance(testbed.measure(Workload(), 2), Measured)
    testbed.close()


def test_a_host_with_two_devices_is_brought_back_once(tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    both = [Lockable(tmp_path / "server", host) for host in ONE_HOST.hosts]
    testbed = HostsTestbed(
        ONE_HOST,
        lambda host: both[host is ONE_HOST.b],
        lambda driver: CATALOG,
        policy=QUICK,
        archive=Archive.of(fake_agent_program().replace(b'[DEVICE["name"]]', b'["rxe0", "rxe1"]')),
        reviver=both[0],
    )
    (tmp_path / "server" / "behaviour.json").write_text('{"devices": ["rxe0", "rxe1"], "die": "start"}')
    lost = testbed.measure(Workload(), 1)
    assert isinstance(lost, HostLost)
    assert (lost.host, len(both[0].revived)) == ("server", 1)
    assert isinstance(testbed.measure(Workload(), 2), Measured)
    testbed.close()


def test_an_agent_that_dies_on_a_host_that_answers_costs_no_host(rig: Rig) -> None:
    rig.testbed._reviver = Lockable(rig.directory / "nowhere", PAIR.b)
    rig.behave("right", die="start", die_times=1)
    assert isinstance(rig.testbed.measure(Workload(), 1), Measured)


def test_closing_ends_the_agents(rig: Rig) -> None:
    rig.testbed.measure(Workload(), 1)
    pids = [facts["pid"] for facts in _hellos(rig)]
    rig.testbed.close()
    deadline = time.monotonic() + 5
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def _hellos(rig: Rig) -> list[dict[str, Any]]:
    return [session.request("hello") for session in rig.testbed._sessions.values()]


def states(tmp_path: Path, host: Host) -> dict[str, State]:
    return {finding.item: finding.state for finding in check_hosts([host], local(tmp_path), ARCHIVE)}


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collie.hosts.check.CLOCK_SECONDS", 0.3)


@pytest.mark.usefixtures("no_waiting")
def test_check_finds_a_good_host_good(tmp_path: Path) -> None:
    found = states(tmp_path, PAIR.a)
    needed = {"ssh", "python", "agent", "data path", "device", "port", "gid", "mtu", "clock"}
    assert needed <= set(found)
    assert {item: found[item] for item in needed} == dict.fromkeys(needed, State.OK)


@pytest.mark.usefixtures("no_waiting")
@pytest.mark.parametrize(
    ("change", "item", "command"),
    [
        ({"device": "rxe7"}, "device", "rdma link add rxe7 type rxe netdev"),
        ({"ib_port": 2}, "port", "rdma link"),
        ({"data_address": "192.0.2.9"}, "gid", "ip address add 192.0.2.9/24 dev eth1"),
        ({"gid_index": 5}, "gid", "gid_index: 3"),
        ({"python": "/bin/false"}, "python", "python3"),
    ],
)
def test_check_says_what_is_missing_and_what_mends_it(
    tmp_path: Path, change: dict[str, Any], item: str, command: str
) -> None:
    found = check_hosts([replace(PAIR.a, **change)], local(tmp_path), ARCHIVE)
    missing = [finding for finding in found if finding.state is State.MISSING]
    assert [finding.item for finding in missing] == [item]
    assert command in missing[0].command


@pytest.mark.usefixtures("no_waiting")
@pytest.mark.parametrize(
    ("link_layer", "gid_index", "state", "command"),
    [
        ("Ethernet", 3, State.ADVICE, "ip address add 192.0.2.9/24 dev eth1"),
        ("InfiniBand", 3, State.OK, ""),
        ("InfiniBand", None, State.MISSING, "in the hosts file: gid_index: 3"),
        ("InfiniBand", 7, State.MISSING, "in the hosts file: gid_index: 3"),
    ],
)
def test_check_does_not_ask_for_a_gid_that_a_run_needs_not(
    tmp_path: Path, link_layer: str, gid_index: int | None, state: State, command: str
) -> None:
    (tmp_path / "left").mkdir()
    (tmp_path / "left" / "behaviour.json").write_text(json.dumps({"port": {"link_layer": link_layer}}))
    host = replace(PAIR.a, data_address="192.0.2.9", gid_index=gid_index)
    found = {finding.item: finding for finding in check_hosts([host], local(tmp_path), ARCHIVE)}
    assert (found["gid"].state, found["gid"].command) == (state, command)


@pytest.mark.usefixtures("no_waiting")
@pytest.mark.parametrize(
    ("usable", "forced", "state", "command"),
    [
        ([], None, State.MISSING, "apt-get install libibverbs1 python3-pyverbs"),
        (["native"], "pyverbs", State.MISSING, "apt-get install python3-pyverbs"),
        (["pyverbs"], None, State.ADVICE, "apt-get install gcc libc6-dev"),
        (["pyverbs"], "pyverbs", State.ADVICE, "apt-get install gcc libc6-dev"),
        (["native", "pyverbs"], "pyverbs", State.OK, ""),
    ],
)
def test_check_says_which_data_path_a_host_will_use(
    tmp_path: Path, usable: list[str], forced: str | None, state: State, command: str
) -> None:
    (tmp_path / "left").mkdir()
    (tmp_path / "left" / "behaviour.json").write_text(json.dumps({"data_paths": usable}))
    host = replace(PAIR.a, data_path=forced)
    found = {finding.item: finding for finding in check_hosts([host], local(tmp_path), ARCHIVE)}
    assert (found["data path"].state, found["data path"].command) == (state, command)


def test_check_of_an_unreachable_host_is_one_finding(tmp_path: Path) -> None:
    found = check_hosts([PAIR.a], Unreachable, ARCHIVE)
    assert [(finding.item, finding.state) for finding in found] == [("ssh", State.MISSING)]
    assert "No route to host" in found[0].detail
    assert found[0].command.startswith("here: ssh -v ")


PFC = Catalog(
    "rxe",
    (
        Counter("drops", "ethtool", Unit.PACKETS, Kind.DIAGNOSTIC, "buffer", role=Role.DISCARD),
        Counter("tx_prio3_pause", "ethtool", Unit.MICROSECONDS, Kind.PAUSE, "buffer", role=Role.TX_PAUSE),
    ),
)


def check_with(tmp_path: Path, counters: dict[str, dict[str, int]], catalog: Catalog | None) -> dict[str, Finding]:
    (tmp_path / "left").mkdir()
    (tmp_path / "left" / "behaviour.json").write_text(json.dumps({"counters": counters}))
    found = check_hosts([PAIR.a], local(tmp_path), ARCHIVE, catalog_for=lambda driver: catalog)
    return {finding.item: finding for finding in found}


@pytest.mark.usefixtures("no_waiting")
def test_check_counts_counters_and_says_that_flow_control_is_off(tmp_path: Path) -> None:
    found = check_with(tmp_path, {"ethtool": {"drops": 1, "new_one": 1}}, PFC)
    assert found["counters"].detail == "1 of 2 of catalog rxe; 1 unknown, such as new_one"
    assert found["flow control"].state is State.ADVICE
    assert "dev eth1" in found["flow control"].command


@pytest.mark.usefixtures("no_waiting")
def test_check_says_nothing_of_flow_control_that_is_on(tmp_path: Path) -> None:
    found = check_with(tmp_path, {"ethtool": {"drops": 1, "tx_prio3_pause": 1}}, PFC)
    assert found["counters"].detail == "2 of 2 of catalog rxe"
    assert "flow control" not in found


@pytest.mark.usefixtures("no_waiting")
def test_check_says_that_nobody_has_described_a_driver(tmp_path: Path) -> None:
    found = check_with(tmp_path, {"hw_counters": {"a": 1, "b": 1}}, None)
    assert found["counters"].state is State.ADVICE
    assert "its 2 counters are read under their own names" in found["counters"].detail


def test_watching_shows_rates_and_what_is_unusual(tmp_path: Path) -> None:
    (tmp_path / "left").mkdir()
    (tmp_path / "left" / "behaviour.json").write_text('{"idle_counters": {"hw_counters": {"rcvd_pkts": 1000}}}')
    readings = watch([PAIR.a], local(tmp_path), lambda driver: CATALOG, 0.1, archive=ARCHIVE)
    first, second = next(readings), next(readings)
    (reading,) = second
    assert first[0].host == reading.host == "left"
    assert list(reading.rates) == ["rcvd_pkts", "send_err", "tx_pause"]
    assert reading.rates["rcvd_pkts"] == pytest.approx(1000, rel=0.3)
    assert reading.rates["send_err"] is None
    assert reading.unusual["rcvd_pkts"] is None  # nobody knows it yet
    readings.close()


ACROSS = {"all/accept_local": 0, "all/rp_filter": 0, "all/arp_ignore": 0, "eth1/rp_filter": 0, "eth1/arp_ignore": 1}


@pytest.mark.usefixtures("no_waiting")
@pytest.mark.parametrize(
    ("rules", "state", "command"),
    [
        ({**ACROSS, "eth1/accept_local": 0, "all/accept_local": 1}, State.OK, ""),
        (
            {**ACROSS, "eth1/accept_local": 0, "all/rp_filter": 1},
            State.ADVICE,
            "sysctl -w net.ipv4.conf.eth1.accept_local=1 net.ipv4.conf.eth1.rp_filter=2",
        ),
        (ACROSS, None, ""),  # the kernel does not tell
    ],
)
def test_check_says_whether_one_port_of_a_host_reaches_another(
    tmp_path: Path, rules: dict[str, int], state: State | None, command: str
) -> None:
    class WithRules(LocalRemote):
        def run(self, argv: Sequence[str], timeout_seconds: float) -> Completed:
            if not argv[-1].startswith("/proc/sys/net/ipv4/conf/"):
                return super().run(argv, timeout_seconds)
            asked = [path.removeprefix("/proc/sys/net/ipv4/conf/") for path in argv[1:]]
            known = [f"{rules[path]}\n" for path in asked if path in rules]
            return Completed(0 if len(known) == len(asked) else 1, "".join(known), "")

    (tmp_path / "server").mkdir()
    (tmp_path / "server" / "behaviour.json").write_text('{"devices": ["rxe0", "rxe1"]}')
    hosts = ONE_HOST.hosts

    def connect(host: Host) -> Remote:
        return WithRules(host.name, tmp_path / host.machine)

    found = [one for one in check_hosts(hosts, connect, ARCHIVE, pairs=[ONE_HOST]) if one.item == "other ports"]
    assert [(one.host, one.state, one.command) for one in found] == (
        [] if state is None else [(host.name, state, command) for host in hosts]
    )


STRANGER = {"qpn": 17, "type": "RC", "state": "RTS", "pid": 4711, "comm": "ib_write_bw"}


def test_traffic_of_others_and_their_processes_are_seen(rig: Rig) -> None:
    rig.behave("right", idle_counters={"hw_counters": {"rcvd_pkts": 9500}}, qps=[STRANGER, {**STRANGER, "qpn": 18}])
    traffic, owner = rig.testbed.other_uses()
    assert (traffic.host, traffic.device, traffic.forbids) == ("right", "rxe0", True)
    assert re.fullmatch(r"rcvd_pkts advances by 9,[45]\d\d packets/s without a run of ours", traffic.detail)
    assert (owner.host, owner.forbids) == ("right", True)
    assert owner.detail == "ib_write_bw (pid 4711) has 2 queue pairs ready to carry traffic"


@pytest.mark.parametrize(
    ("pair", "forbids"),
    [
        ({**STRANGER, "type": "GSI", "pid": None, "comm": "ib_core"}, None),
        ({**STRANGER, "state": "INIT"}, None),
        ({**STRANGER, "pid": None, "comm": "nvme_rdma"}, False),
        ({**STRANGER, "pid": None, "comm": None}, True),
    ],
)
def test_only_queue_pairs_of_processes_forbid_to_begin(rig: Rig, pair: dict[str, Any], forbids: bool | None) -> None:
    rig.behave("left", qps=[pair], idle_counters={"hw_counters": {"rcvd_pkts": 20}})
    assert [use.forbids for use in rig.testbed.other_uses()] == ([] if forbids is None else [forbids])


def test_a_kernel_that_lists_no_queue_pairs_is_worth_a_warning(rig: Rig) -> None:
    rig.behave("left", qps=None)
    [use] = rig.testbed.other_uses()
    assert not use.forbids
    assert "does not list queue pairs" in use.detail


def test_a_run_after_an_idle_window_is_as_any_other(rig: Rig) -> None:
    rig.testbed.other_uses()
    result = rig.testbed.measure(Workload(), 1)
    assert isinstance(result, Measured)
    assert result.measurement.stable


def test_what_is_left_at_the_end_is_told_by_host(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.behave("right", qps_left=2)
    rig.testbed.measure(Workload(), 1)
    assert rig.testbed.close() == {"left": 0, "right": 2}
    assert "host right: 2 queue pairs of pids [7] are left" in caplog.text


def test_an_agent_that_gives_no_account_leaves_the_answer_unknown(rig: Rig) -> None:
    rig.behave("right", die="bye")
    rig.testbed.measure(Workload(), 1)
    assert rig.testbed.close() == {"left": 0, "right": None}


def test_a_testbed_that_contacted_nobody_left_nothing(rig: Rig) -> None:
    assert rig.testbed.close() == {"left": 0, "right": 0}


def test_hosts_have_fingerprints_host_a_first(rig: Rig) -> None:
    rig.behave("right", fingerprint={"nic.firmware": "2.0"})
    found = rig.testbed.info.fingerprints
    assert list(found) == ["left", "right"]
    assert [found[name].fields["nic.firmware"] for name in found] == ["1.0", "2.0"]


@pytest.mark.usefixtures("no_waiting")
def test_check_advises_when_the_hosts_of_a_pair_are_not_alike(tmp_path: Path) -> None:
    def alike() -> Finding:
        return check_hosts([PAIR.a, PAIR.b], local(tmp_path), ARCHIVE, pairs=[PAIR])[-1]

    assert (alike().host, alike().item, alike().state) == ("left,right", "alike", State.OK)
    (tmp_path / "right" / "behaviour.json").write_text('{"fingerprint": {"nic.firmware": "2.0"}}')
    assert alike().state is State.ADVICE
    assert "nic.firmware: 1.0 and 2.0" in alike().detail


@pytest.mark.parametrize("wrong", [0, 16])
def test_wrong_payload_is_counted_and_placed_when_asked_for(tmp_path: Path, wrong: int) -> None:
    for host in (PAIR.a, PAIR.b):
        (tmp_path / host.name).mkdir()
        (tmp_path / host.name / "behaviour.json").write_text(json.dumps({"wrong_bytes": wrong}))
    testbed = HostsTestbed(PAIR, local(tmp_path), lambda driver: CATALOG, policy=QUICK, archive=ARCHIVE, verify=True)
    try:
        result = testbed.measure(Workload(), 1)
    finally:
        testbed.close()
    assert isinstance(result, Measured)
    assert result.measurement.wrong_bytes == wrong
    place = "host b, a-b/responder: wrong payload from byte 100 of region 0 of queue pair 3: bb instead of aa"
    assert (place in result.measurement.notes) == bool(wrong)


def test_payload_is_not_compared_unless_asked_for(rig: Rig) -> None:
    result = rig.testbed.measure(Workload(), 1)
    assert isinstance(result, Measured)
    assert result.measurement.wrong_bytes is None
    assert "verify" not in rig.asked("right")


def test_a_victim_that_nothing_disturbs_loses_nothing(tmp_path: Path) -> None:
    rig = with_victim(tmp_path)
    result = rig.testbed.measure(Workload(), 1)
    rig.testbed.close()
    assert isinstance(result, Measured)
    assert result.measurement.victim is not None
    assert result.measurement.victim.lost_ratio == pytest.approx(0.0, abs=0.05)


def test_the_victim_counts_for_itself_and_is_measured_alone_once(tmp_path: Path) -> None:
    rig = with_victim(tmp_path, bytes_per_second=2e9, victim_keeps=0.25)
    workload = Workload(opcode=Opcode.SEND)
    assert rig.testbed.info.kind == "hosts"  # the agents are up
    results = [rig.testbed.measure(workload, run) for run in (1, 2)]
    rig.testbed.close()
    assert rig.asked("left").count("prepare") == 2 + ALONE_RUNS
    # What the runs alone take is testbed time: that of the run before which they came.
    assert results[0].elapsed_seconds > (1 + ALONE_RUNS) * (QUICK.warm_up_seconds + QUICK.window_seconds)
    for result in results:
        assert isinstance(result, Measured)
        victim = result.measurement.victim
        assert victim is not None
        assert victim.alone_bps == pytest.approx(16e9, rel=0.05)
        assert victim.beside_bps == pytest.approx(4e9, rel=0.05)
        assert victim.lost_ratio == pytest.approx(0.75, abs=0.05)
        assert _received(result) == {"a": None, "b": pytest.approx(16e9, rel=0.05)}


def test_a_stay_at_home_workload_has_a_victim_at_home(tmp_path: Path) -> None:
    rig = with_victim(tmp_path)
    result = rig.testbed.measure(Workload(remote=False, loopback=True), 1)
    rig.testbed.close()
    assert isinstance(result, Measured)
    assert result.measurement.victim is not None
    assert result.measurement.victim.alone_bps == pytest.approx(8e9, rel=0.05)
    assert rig.asked("right") == []


def test_there_is_no_victim_beside_what_packets_count(tmp_path: Path) -> None:
    rig = with_victim(tmp_path)
    result = rig.testbed.measure(Workload(qp_type=QpType.UC), 1)
    rig.testbed.close()
    assert isinstance(result, Measured)
    assert result.measurement.victim is None
    assert any("UC WRITE" in note for note in result.measurement.notes)
    assert rig.asked("left").count("prepare") == 1


def test_a_victim_that_safety_does_not_allow_ends_everything(tmp_path: Path) -> None:
    rig = with_victim(tmp_path)
    with pytest.raises(TestbedError, match=r"the victim alone was stopped \(too fast\); measure without --victim"):
        rig.testbed.measure(Workload(), 1, lambda sample: "too fast")
    rig.testbed.close()


def test_the_payload_of_the_victim_is_no_payload_of_the_workload(tmp_path: Path) -> None:
    for host in (PAIR.a, PAIR.b):
        (tmp_path / host.name).mkdir()
        (tmp_path / host.name / "behaviour.json").write_text(json.dumps({"wrong_bytes": 16}))
    testbed = HostsTestbed(
        PAIR, local(tmp_path), lambda driver: CATALOG, policy=QUICK, archive=ARCHIVE, verify=True, victim=True
    )
    result = testbed.measure(Workload(), 1)
    testbed.close()
    assert isinstance(result, Measured)
    assert result.measurement.wrong_bytes == 16
    placed = [note.split(":")[0] for note in result.measurement.notes if "wrong payload" in note]
    assert placed == ["host b, a-b/responder", "host b, victim/responder"]


def test_an_agent_without_room_for_a_victim_is_not_asked(tmp_path: Path) -> None:
    names = [f"host-{number}" for number in range(MOST_PARTNERS + 1)]
    first, second, *more = (Host(name, name, "192.0.2.1", "rxe0", python=sys.executable) for name in names)
    rig = with_victim(tmp_path, Pair(first, second, tuple(more)))
    full = Workload(requesters=MOST_PARTNERS, direction=Direction.BIDIRECTIONAL, loopback=True)
    result = rig.testbed.measure(full, 1)
    rig.testbed.close()
    assert isinstance(result, Unsupported)
    assert "no room for a victim" in result.reason
    assert "prepare" not in rig.asked("host-2")


def test_what_one_agent_left_is_not_gone_because_the_next_left_nothing(tmp_path: Path) -> None:
    host = Host("left", "mgmt-left", "192.0.2.1", "rxe0", python=sys.executable)
    session = HostSession(host, LocalRemote(host.name, tmp_path), Archive.of(fake_agent_program()), SystemClock())
    for left in (3, 0):
        (tmp_path / "behaviour.json").write_text(json.dumps({"qps_left": left}))
        assert session.facts
        session.abandon()
    assert session.close() == 3


def test_a_testbed_that_is_closed_under_its_run_starts_no_agent_again(rig: Rig) -> None:
    rig.behave("left", hang="connect")
    with ThreadPoolExecutor(1) as other:
        run = other.submit(rig.testbed.measure, Workload(), 1)
        while "connect" not in rig.asked("left"):
            time.sleep(0.01)
        rig.testbed.close()
        with pytest.raises(TestbedError):
            run.result()
    assert rig.asked("left").count("hello") == 1
    with pytest.raises(TestbedError, match="is closed"):
        rig.testbed.measure(Workload(), 2)
