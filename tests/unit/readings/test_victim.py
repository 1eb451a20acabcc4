"""What the victim is, and which ceilings hold beside one."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from collie.app import cases, testbeds
from collie.campaign.choice import SearchChoice, TestbedChoice
from collie.campaign.single_run import Case
from collie.detect.bounds import Calibration, CalibrationPoint
from collie.detect.symptom import Symptom
from collie.readings.victim import NAME, victim, victim_flow, why_none
from collie.store import calibrations
from collie.testing.fakes import FakeTestbed
from collie.wiring import ADAPTERS
from collie.workloads.feature import Mfs
from collie.workloads.plan import flows
from collie.workloads.workload import Opcode, QpType, Workload
from tests.support.campaigns import SPACE


@pytest.mark.parametrize("remote", [True, False])
def test_the_victim_goes_the_way_that_it_goes_alone(remote: bool) -> None:
    (alone,) = flows(victim(1024, remote=remote))
    workload = Workload(remote=remote, loopback=not remote, opcode=Opcode.READ, requesters=1)
    assert victim_flow(workload) == dataclasses.replace(alone, label=NAME)
    assert victim_flow(workload).name not in {flow.name for flow in flows(workload)}


def test_a_victim_is_one_plain_queue_pair_that_starves_for_seconds_before_it_fails() -> None:
    alone = victim(1024, remote=True)
    assert (alone.qp_type, alone.opcode, alone.qps, alone.mtu) == (QpType.RC, Opcode.WRITE, 1, 1024)
    assert (alone.messages, alone.bytes_outstanding, alone.offered_bps) == ((65536,), 1 << 20, 0)
    assert 4.096e-6 * 2**alone.timeout * alone.retry_cnt == pytest.approx(1.88, abs=0.01)
    assert victim(1024, remote=True, offered_bps=8).offered_bps == 8


def test_a_victim_on_the_other_rail_goes_the_way_of_the_second_pair_of_ports() -> None:
    workload = Workload(rails=2)
    _first, second = flows(workload)
    assert victim_flow(workload, other_rail=True) == dataclasses.replace(second, label=NAME)


@pytest.mark.parametrize(
    ("workload", "possible"),
    [
        (Workload(), True),
        (Workload(qp_type=QpType.UC), False),
        (Workload(qp_type=QpType.UC, opcode=Opcode.SEND), True),
        (Workload(qp_type=QpType.UC, opcode=Opcode.SEND, more_opcodes=(Opcode.WRITE,)), False),
        (Workload(qp_type=QpType.UC, opcode=Opcode.WRITE_WITH_IMM), True),
        (Workload(qp_type=QpType.UD, opcode=Opcode.SEND, messages=(1024,)), True),
    ],
)
def test_only_what_packets_count_has_no_victim(workload: Workload, possible: bool) -> None:
    assert (why_none(workload) == "") == possible


def test_ceilings_that_were_measured_alone_say_nothing_beside_a_victim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    testbed = FakeTestbed()
    kept = Calibration((CalibrationPoint(QpType.RC, Opcode.WRITE, 65536, 1e9),))
    calibrations.save(kept, calibrations.name_of(testbed.info.name, testbed.info.fingerprints, SPACE.base))
    alone, beside = TestbedChoice(hosts="h.yaml"), TestbedChoice(hosts="h.yaml", victim=True)
    assert testbeds.kept_calibration(ADAPTERS, alone, testbed, SPACE) == kept
    assert testbeds.kept_calibration(ADAPTERS, beside, testbed, SPACE) is None


@pytest.mark.parametrize("then", [True, False])
@pytest.mark.parametrize("now", [True, False])
def test_an_anomaly_is_reproduced_under_ceilings_of_runs_like_its_own(then: bool, now: bool) -> None:
    case = Case("c/a1", Workload(), Symptom.LOW_THROUGHPUT, Mfs(()))
    named = cases.NamedCase(case, SearchChoice(TestbedChoice(hosts="h.yaml", victim=then)), Calibration())
    ceilings = named.ceilings(TestbedChoice(hosts="h.yaml", victim=now))
    assert ceilings == (named.calibration if then == now else None)


def test_a_resumed_campaign_has_the_victim_that_it_began_with_and_an_old_one_none() -> None:
    settings = SearchChoice(TestbedChoice(hosts="h.yaml", victim=True)).to_settings()
    assert SearchChoice.from_settings(settings).testbed.victim
    del settings["testbed"]["victim"]
    assert not SearchChoice.from_settings(settings).testbed.victim
