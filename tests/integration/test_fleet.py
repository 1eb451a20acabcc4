"""`collie fleet`: planted faults are found and named, healthy fleets pass, and hosts that fail are said."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collie import ports, wiring
from collie.campaign.choice import SearchChoice, TestbedChoice
from collie.campaign.fleet import ATTEMPTS, Battery, fitted
from collie.campaign.safety import Guard
from collie.cli.main import run
from collie.counters.catalog import Catalog, Counter, Kind, Role, Unit
from collie.errors import HostUnreachable, TestbedError
from collie.fleet.battery import BATTERY, rounds
from collie.fleet.judge import judge
from collie.hosts import HostsTestbed, WindowPolicy
from collie.hosts.session import Archive
from collie.inventory.hosts import Host, Pair
from collie.inventory.safety import SafetyLimits
from collie.simulator.faults import COMPONENTS, FaultKind
from collie.ssh import LocalRemote
from collie.testing.fake_agent import fake_agent_program
from collie.testing.fakes import FakeTestbed
from collie.workloads.pruning import Capabilities, Restriction
from collie.workloads.workload import Workload

PLAIN = BATTERY[:1]


def _fleet(count: int, faults: Mapping[str, FaultKind], seed: int = 2001, **more: Any) -> wiring.FleetResult:
    choice = wiring.FleetChoice(SearchChoice(seed=seed, **more), count, faults)
    return wiring.fleet(choice, lambda _text: None)


@pytest.mark.parametrize("kind", list(FaultKind))
def test_each_kind_of_fault_is_found_and_named_on_a_small_fleet(kind: FaultKind) -> None:
    verdict = _fleet(6, {"host-002": kind}).verdict
    assert verdict is not None
    assert [(standing.host, standing.component) for standing in verdict.odd] == [("host-002", COMPONENTS[kind])]


def test_all_kinds_at_once_are_told_apart() -> None:
    faults = {f"host-{3 * index + 1:03d}": kind for index, kind in enumerate(FaultKind)}
    verdict = _fleet(40, faults).verdict
    assert verdict is not None
    found = {standing.host: standing.component for standing in verdict.odd}
    assert found == {host: COMPONENTS[kind] for host, kind in faults.items()}


def test_a_sound_fleet_is_not_accused_whatever_its_subsystem() -> None:
    for subsystem in ("B", "H"):
        verdict = _fleet(6, {}, testbed=TestbedChoice(subsystem=subsystem)).verdict
        assert verdict is not None
        assert verdict.odd == ()
        assert verdict.unjudged == ()


def test_the_command_ranks_and_exits_1(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page = tmp_path / "fleet.html"
    argv = ["fleet", "--count", "6", "--fault", "host-004=bit_errors", "-o", str(page), "--format", "json"]
    assert run(argv) == 1
    shown = json.loads(capsys.readouterr().out)
    assert shown["schema_version"] == 1
    assert shown["odd"] == ["host-004"]
    first = shown["ranking"][0]
    assert (first["host"], first["odd"], first["component"]) == ("host-004", True, "cable")
    sign = first["signs"][0]
    assert sign["metric"] == "rx_crc_errors"
    assert sign["value"] > sign["healthy_high"]
    assert [each["odd"] for each in shown["ranking"]] == [True] + 5 * [False]
    text = page.read_text()
    assert text.count("<rect") >= 6 * 10
    assert "host-004" in text


def test_a_sound_fleet_exits_0_and_a_small_one_4(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fleet", "--count", "6"]) == 0
    assert "no host is odd" in capsys.readouterr().out
    assert run(["fleet", "--count", "3"]) == 4
    assert "too few" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--fault", "host-001"], "HOST=KIND"),
        (["--fault", "host-001=gremlins"], "one of pcie_half_width"),
        (["--fault", "host-099=bit_errors"], "host-001 to host-016"),
        (["--fault", "host-001=bit_errors", "--fault", "host-001=pfc_off"], "has a fault already"),
        (["--subsystem", "H", "--fault", "host-001=old_firmware"], "no other firmware"),
        (["--hosts", "hosts.yaml", "--count", "9"], "simulated fleets"),
    ],
)
def test_what_cannot_be_meant_is_refused(argv: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fleet", *argv]) == 2
    assert said in capsys.readouterr().err


def test_names_are_escaped_in_the_page(tmp_path: Path) -> None:
    from collie.report.fleet import FleetReport, render_fleet

    result = _fleet(6, {"host-002": FaultKind.BIT_ERRORS})
    assert result.verdict is not None
    evil = "<script>alert(1)</script>"
    standings = tuple(replace(standing, host=evil) for standing in result.verdict.standings)
    report = FleetReport(evil, 6, replace(result.verdict, standings=standings), {evil: evil}, {evil: evil}, 1, 1.0)
    assert "<script" not in render_fleet(report)


def test_a_host_that_cannot_be_reached_is_left_out_and_said() -> None:
    hosts = tuple("abcdefgh")
    opened: list[FakeTestbed] = []

    def open_group(group: tuple[str, ...]) -> ports.Testbed:
        if "c" in group:
            raise HostUnreachable("c", "192.0.2.3", "no route")
        opened.append(FakeTestbed(noise=0.02, seed=len(opened)))
        return opened[-1]

    told: list[str] = []
    survey = Battery(open_group, Guard(), 2, told.append).run(rounds(hosts, PLAIN))
    assert list(survey.failures) == ["c"]
    assert len(told) == 1  # once gone, it is not asked again
    assert all(testbed.closed for testbed in opened)
    assert survey.catalog is not None
    verdict = judge(survey.readings, hosts, PLAIN, survey.catalog)
    assert verdict.unjudged == ("c",)
    assert len(verdict.standings) == 7


def test_a_run_that_cannot_be_set_up_is_tried_again_and_then_said() -> None:
    opened = FakeTestbed(setup_failure_ratio=1.0)
    told: list[str] = []
    survey = Battery(lambda _group: opened, Guard(), 1, told.append).run([rounds(("a", "b", "c", "d"), PLAIN)[0][:1]])
    assert survey.runs == opened.runs == ATTEMPTS == len(told)
    assert survey.readings == []
    assert set(survey.left_out) == {"stream"}


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
            Counter("rcvd_pkts", "hw_counters", Unit.PACKETS, Kind.PERFORMANCE, "software", role=Role.RX_PACKETS),
            Counter("send_err", "hw_counters", Unit.EVENTS, Kind.ERROR, "cable"),
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


def test_a_port_in_use_stops_its_group_alone() -> None:
    def open_group(group: tuple[str, ...]) -> ports.Testbed:
        if group == ("a", "b"):
            raise TestbedError("a port under test is in use")
        return FakeTestbed(noise=0.02)

    survey = Battery(open_group, Guard(), 1, lambda _text: None).run(rounds(tuple("abcdef"), PLAIN))
    assert set(survey.failures) == {"a,b"}
    assert {reading.host for reading in survey.readings} == set("abcdef")
