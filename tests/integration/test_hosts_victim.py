"""A victim beside every workload, on hosts that only pretend."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from collie import ports
from collie.errors import TestbedError
from collie.hosts.testbed import HostsTestbed
from collie.inventory.hosts import Host, Pair
from collie.ports import Measured, Unsupported
from collie.readings.victim import ALONE_RUNS
from collie.testing.testbed_suite import TestbedSuite
from collie.workloads.plan import MAX_PARTNERS
from collie.workloads.workload import Direction, Opcode, QpType, Workload
from tests.integration.hosts_rig import ARCHIVE, CATALOG, PAIR, QUICK, Rig, local, received


def with_victim(directory: Path, pair: Pair = PAIR, **behaviour: Any) -> Rig:
    """A testbed with a victim beside every run; every agent behaves as told."""
    testbed = HostsTestbed(pair, local(directory), lambda driver: CATALOG, policy=QUICK, archive=ARCHIVE, victim=True)
    rig = Rig(directory, testbed)
    for host in pair.hosts:
        rig.behave(host.machine, **behaviour)
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
        assert received(result) == {"a": None, "b": pytest.approx(16e9, rel=0.05)}


def test_the_victim_has_an_engine_and_a_cpu_for_itself(tmp_path: Path) -> None:
    rig = with_victim(tmp_path, usable_cpus=4)
    rig.testbed.measure(Workload(qps=1000), 1)
    rig.testbed.close()
    for host in ("left", "right"):
        prepared = json.loads((tmp_path / host / "prepared").read_text())
        assert prepared["processes"] == 3
        assert {flow["flow"]: flow.get("apart", False) for flow in prepared["flows"]} == {"a-b": False, "victim": True}


def test_a_victim_that_cannot_be_measured_alone_is_named_and_not_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rig = with_victim(tmp_path, counters={"hw_counters": {"rcvd_pkts": 1000, "send_err": 500}})
    results = [rig.testbed.measure(Workload(), run) for run in (1, 2)]
    rig.testbed.close()
    assert rig.asked("left").count("prepare") == 2 + ALONE_RUNS
    note = (
        "the victim's loss is unknown: alone, from left (host a) to right (host b), it could not be measured: "
        "host a: error counter send_err moved; host b: error counter send_err moved"
    )
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == [note]
    for result in results:
        assert isinstance(result, Measured)
        assert result.measurement.victim is not None
        assert result.measurement.victim.alone_bps is None
        assert note in result.measurement.notes


def test_a_victim_with_a_load_is_offered_no_more_and_its_messages_are_timed(tmp_path: Path) -> None:
    make = partial(HostsTestbed, policy=QUICK, archive=ARCHIVE, victim=True)
    rig = Rig(tmp_path, make(PAIR, local(tmp_path), lambda driver: CATALOG, victim_bps=2 * 10**9))
    for host in PAIR.hosts:
        rig.behave(host.name, bytes_per_second=2e9, data_path="native", latencies=[[20_000, 1000]])
    result = rig.testbed.measure(Workload(), 1)
    rig.testbed.close()
    assert isinstance(result, Measured)
    victim = result.measurement.victim
    assert victim is not None
    assert victim.offered_bps == 2 * 10**9
    assert victim.alone_bps == pytest.approx(2e9, rel=0.05)
    assert victim.beside_bps == pytest.approx(2e9, rel=0.05)
    assert received(result)["b"] == pytest.approx(16e9, rel=0.05)
    assert victim.latency is not None
    assert victim.latency.median_seconds == pytest.approx(20e-6, rel=0.07)
    assert "victim" not in result.measurement.latency


def test_a_stay_at_home_workload_has_a_victim_at_home(tmp_path: Path) -> None:
    rig = with_victim(tmp_path)
    result = rig.testbed.measure(Workload(remote=False, loopback=True), 1)
    rig.testbed.close()
    assert isinstance(result, Measured)
    assert result.measurement.victim is not None
    assert result.measurement.victim.alone_bps == pytest.approx(8e9, rel=0.05)
    assert rig.asked("right") == []


def test_a_group_of_rails_has_its_victim_between_the_other_ports(tmp_path: Path) -> None:
    names = ["left/one", "right/one", "left/two", "right/two"]
    a, b, c, d = (Host(name, name, "192.0.2.1", "rxe0", python=sys.executable) for name in names)
    rig = with_victim(tmp_path, Pair(a, b, (c, d)), bytes_per_second=2e9, victim_keeps=0.5)
    result = rig.testbed.measure(Workload(), 1)
    rig.testbed.close()
    assert isinstance(result, Measured)
    measured = result.measurement
    assert measured.victim is not None
    assert measured.victim.beside_bps == pytest.approx(8e9, rel=0.05)
    assert "the plain flow runs between the other ports, left/two to right/two" in measured.notes
    # A device of each host for the workload, the other for the victim, which ran alone before.
    assert [rig.asked(machine).count("prepare") for machine in ("left", "right")] == [2 + ALONE_RUNS] * 2


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
    names = [f"host-{number}" for number in range(MAX_PARTNERS + 1)]
    first, second, *more = (Host(name, name, "192.0.2.1", "rxe0", python=sys.executable) for name in names)
    rig = with_victim(tmp_path, Pair(first, second, tuple(more)))
    full = Workload(requesters=MAX_PARTNERS, direction=Direction.BIDIRECTIONAL, loopback=True)
    result = rig.testbed.measure(full, 1)
    rig.testbed.close()
    assert isinstance(result, Unsupported)
    assert "no room for a victim" in result.reason
    assert "prepare" not in rig.asked("host-2")
