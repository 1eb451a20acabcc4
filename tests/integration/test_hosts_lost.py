"""Agents that die, hosts that are gone or lock up, and what is left in the end, on hosts that only pretend."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from collie.clock import SystemClock
from collie.errors import AgentError, HostUnreachable, TestbedError
from collie.hosts.session import Archive, HostSession
from collie.hosts.testbed import STALE_FAILURES, HostsTestbed
from collie.hosts.timing import HostTiming
from collie.inventory.hosts import Host
from collie.ports import Channel, Completed, HostLost, Measured, SetupFailed
from collie.testing.fake_agent import fake_agent_program
from collie.workloads.workload import Workload
from tests.integration.hosts_rig import ARCHIVE, CATALOG, ONE_HOST, PAIR, QUICK, Rig, Unreachable, local
from tests.support.local_remote import LocalRemote


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


def test_an_agent_that_dies_twice_ends_the_testbed_and_its_last_output_is_reported(rig: Rig) -> None:
    rig.behave("right", die="start")
    with pytest.raises(AgentError, match=r"host right: .*out of cheese"):
        rig.testbed.measure(Workload(), 1)
    assert rig.asked("left")[-1] == "destroy"


def test_an_unreachable_host_is_named_after_finite_tries(tmp_path: Path) -> None:
    gone = Unreachable(PAIR.b)
    here = local(tmp_path)
    testbed = HostsTestbed(
        PAIR,
        lambda host: gone if host is PAIR.b else here(host),
        lambda driver: CATALOG,
        archive=ARCHIVE,
        timing=HostTiming(start_pauses_seconds=(0.01, 0.02)),
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

    def mend(self, hosts: Sequence[Host]) -> tuple[str, ...]:
        return ()


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
    assert "host right does not answer" in lost.detail
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


def test_where_one_set_up_after_another_fails_agents_are_started_anew(rig: Rig) -> None:
    """Addresses are read when an agent starts: one that has gone and come back may have another index."""
    rig.behave(
        "right", fail={"connect": {"kind": "setup", "step": "modify_qp", "message": "m", "errno_name": "EINVAL"}}
    )
    results = [rig.testbed.measure(Workload(), run) for run in range(1, STALE_FAILURES + 1)]
    assert all(isinstance(result, SetupFailed) for result in results)
    assert [rig.asked(host).count("hello") for host in ("left", "right")] == [1, 1]
    rig.behave("right")
    assert isinstance(rig.testbed.measure(Workload(), STALE_FAILURES + 1), Measured)
    assert [rig.asked(host).count("hello") for host in ("left", "right")] == [2, 2]


def test_a_port_that_is_down_when_agents_are_started_anew_is_a_failed_set_up_until_it_is_up(rig: Rig) -> None:
    error = {"kind": "setup", "step": "modify_qp", "message": "modify_qp: Invalid argument", "errno_name": "EINVAL"}
    rig.behave("right", fail={"connect": error})
    for run in range(1, STALE_FAILURES + 1):
        rig.testbed.measure(Workload(), run)
    rig.behave("right", port={"state": "DOWN"})
    for run in (STALE_FAILURES + 1, STALE_FAILURES + 2):
        result = rig.testbed.measure(Workload(), run)
        assert isinstance(result, SetupFailed)
        assert "DOWN" in result.detail
    rig.behave("right")
    assert isinstance(rig.testbed.measure(Workload(), STALE_FAILURES + 3), Measured)


def _hellos(rig: Rig) -> list[dict[str, Any]]:
    return [session.request("hello") for session in rig.testbed._sessions.values()]


def test_queue_pairs_left_at_the_end_are_reported_by_host(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.behave("right", qps_left=2)
    rig.testbed.measure(Workload(), 1)
    assert rig.testbed.close() == {"left": 0, "right": 2}
    assert "host right: 2 queue pairs of pids [7] are left" in caplog.text


def test_an_agent_that_gives_no_account_leaves_the_answer_unknown(rig: Rig) -> None:
    rig.behave("right", die="bye")
    rig.testbed.measure(Workload(), 1)
    assert rig.testbed.close() == {"left": 0, "right": None}


def test_a_testbed_without_contact_left_nothing(rig: Rig) -> None:
    assert rig.testbed.close() == {"left": 0, "right": 0}


def _with_agents(session: HostSession, directory: Path, reports: Sequence[int | None]) -> HostSession:
    """Start and end agents that leave so many queue pairs. None stands for one that does not report."""
    for left in reports:
        behaviour: dict[str, Any] = {"die": "bye"} if left is None else {"qps_left": left}
        (directory / "behaviour.json").write_text(json.dumps(behaviour))
        assert session.info
        session.abandon()
    return session


@pytest.mark.parametrize(
    ("reports", "in_all"),
    [((3, 0), 3), ((3, 2), 5), ((3, None), 3), ((None, 3), 3), ((None, 0), None), ((0, None), None)],
)
def test_what_one_agent_left_is_not_gone_because_the_next_left_nothing(
    tmp_path: Path, reports: Sequence[int | None], in_all: int | None
) -> None:
    host = Host("left", "mgmt-left", "192.0.2.1", "rxe0", python=sys.executable)
    session = HostSession(host, LocalRemote(host.name, tmp_path), Archive.of(fake_agent_program()), SystemClock())
    assert _with_agents(session, tmp_path, reports).close() == in_all


class Kernel(LocalRemote):
    """A remote whose kernel lists queue pairs of a process, fewer at each look."""

    def __init__(self, directory: Path, listed: Sequence[int]) -> None:
        super().__init__("left", directory)
        self._listed = list(listed)

    def run(self, argv: Sequence[str], timeout_seconds: float) -> Completed:
        if argv[0] != "rdma":
            return super().run(argv, timeout_seconds)
        count = self._listed.pop(0) if len(self._listed) > 1 else self._listed[0]
        pairs = [{"lqpn": number, "pid": 7 if number < count else 8} for number in range(9)]
        return Completed(0, json.dumps(pairs), "")


@pytest.mark.parametrize(
    ("reports", "listed", "left"), [((3,), (3, 1, 0), 0), ((3,), (3, 2), 2), ((None, 3), (3, 1, 0), None)]
)
def test_the_kernel_is_waited_for_until_it_has_let_go_of_what_was_left(
    tmp_path: Path, reports: Sequence[int | None], listed: Sequence[int], left: int | None
) -> None:
    timing = HostTiming(release_seconds=0.5, release_period_seconds=0.01)
    host = Host("left", "mgmt-left", "192.0.2.1", "rxe0", python=sys.executable)
    archive = Archive.of(fake_agent_program())
    session = HostSession(host, Kernel(tmp_path, listed), archive, SystemClock(), timing)
    assert _with_agents(session, tmp_path, reports).close() == left


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
