"""Runs on pretended hosts: steps, readings and failures."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from collie.errors import CommandFailed, TestbedError
from collie.hosts.testbed import HostsTestbed
from collie.hosts.timing import HostTiming
from collie.inventory.hosts import Pair
from collie.ports import Measured, SetupFailed, Unsupported
from collie.workloads.workload import Direction, Memory, Opcode, Workload
from tests.integration.hosts_rig import ARCHIVE, CATALOG, PAIR, QUICK, Rig, local, rigged


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
    assert rig.asked("left") == ["hello", "prepare", "connect", "phase", "start", "stop", "destroy"]
    assert rig.asked("right") == ["hello", "prepare", "connect", "phase", "start", "destroy"]
    rig.testbed.close()
    assert rig.asked("left")[-1] == "bye"


def test_queue_pairs_have_as_much_time_to_go_as_to_come(rig: Rig) -> None:
    few, many = Workload(), Workload(qps=500, mrs_per_qp=8)
    allowed = []
    for run, workload in enumerate((few, many)):
        rig.testbed.measure(workload, run)
        steps = dict(line.split() for line in (rig.directory / "left" / "deadlines").read_text().splitlines())
        allowed.append({step: float(seconds) for step, seconds in steps.items()})
    longer = {step: allowed[1][step] - allowed[0][step] for step in ("prepare", "connect", "phase", "destroy")}
    assert (
        longer["destroy"]
        == pytest.approx(longer["prepare"])
        == pytest.approx(longer["connect"])
        == pytest.approx(longer["phase"])
    )
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


def test_a_stop_that_fails_takes_nothing_from_a_complete_window(rig: Rig) -> None:
    error = {"kind": "timeout", "step": "stop", "message": "stop took longer than 10 s", "errno_name": None}
    rig.behave("left", fail={"stop": error})
    assert isinstance(rig.testbed.measure(Workload(), 1), Measured)


def test_a_host_without_samples_voids_the_run(tmp_path: Path) -> None:
    with rigged(tmp_path, PAIR, HostTiming(late_seconds=0.1)) as rig:
        rig.behave("left", silent=True)
        result = rig.testbed.measure(Workload(), 1)
    assert isinstance(result, Measured)
    assert result.measurement.problems == ("host a sent no samples",)


def test_a_step_without_an_answer_fails_the_run_and_the_next_one_starts_anew(
    tmp_path: Path,
) -> None:
    with rigged(tmp_path, PAIR, HostTiming(grace_seconds=-9.5)) as rig:  # of a deadline of 10 s
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
