"""`collie fleet` on simulated fleets."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collie import ports
from collie.app import fleets
from collie.campaign.choice import SearchChoice, TestbedChoice
from collie.campaign.fleet import Battery, BatteryResults
from collie.campaign.safety import Guard
from collie.cli.fleet import exit_code_of
from collie.cli.main import run
from collie.errors import AgentError, HostUnreachable, TestbedError
from collie.fleet.battery import BATTERY, rounds
from collie.fleet.fault import Fault, FaultKind
from collie.report.fleet import fleet_json, fleet_text, render_fleet
from collie.simulator.faults import COMPONENTS
from collie.testing.fakes import FakeTestbed
from collie.wiring import ADAPTERS

PLAIN = BATTERY[:1]


def _fleet(count: int, faults: Mapping[str, FaultKind], seed: int = 2001, **more: Any) -> fleets.FleetResult:
    unlike = {host: Fault(kind) for host, kind in faults.items()}
    choice = fleets.FleetChoice(SearchChoice(seed=seed, **more), count, unlike)
    return fleets.fleet(ADAPTERS, choice, lambda _text: None)


@pytest.mark.parametrize("kind", list(FaultKind))
def test_each_kind_of_fault_is_found_and_named_on_a_small_fleet(kind: FaultKind) -> None:
    verdict = _fleet(6, {"host-002": kind}).verdict
    assert verdict is not None
    assert [(standing.host, standing.component) for standing in verdict.odd] == [("host-002", COMPONENTS[kind])]


def test_all_kinds_at_once_are_distinguished() -> None:
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
    displayed = json.loads(capsys.readouterr().out)
    assert displayed["schema_version"] == 1
    assert displayed["odd"] == ["host-004"]
    first = displayed["ranking"][0]
    assert (first["host"], first["odd"], first["component"]) == ("host-004", True, "cable")
    sign = first["signs"][0]
    assert sign["metric"] == "rx_crc_errors"
    assert sign["value"] > sign["healthy_high"]
    assert [each["odd"] for each in displayed["ranking"]] == [True] + 5 * [False]
    text = page.read_text()
    assert text.index("<h1>1 odd host: host-004</h1>") < text.index("host-004, cable:") < text.index("rx_crc_errors")
    components = text.count('class="component"')
    assert len(re.findall(r'<td class="(?:fault|follows|near|some|little|none)" title=', text)) == 6 * components
    assert components > 8


def test_the_map_shows_one_fault_per_odd_host_first_and_what_follows_from_it(tmp_path: Path) -> None:
    """Half of the PCIe lanes slow down whatever uses PCIe: eleven red columns would hide where to look."""
    page = tmp_path / "fleet.html"
    faults = ["--fault", "host-002=pcie_half_width", "--fault", "host-009=wrong_mtu"]
    assert run(["fleet", "--count", "12", *faults, "-o", str(page)]) == 1
    text = page.read_text()
    heads = re.findall(r'class="component" scope="col"><span>([^<]*)<', text)
    rows = re.findall(r'<th scope="row" class="odd">([^<]*)</th>(.*?)</tr>', text)
    assert len(rows) == 2
    for host, row in rows:
        cells = re.findall(r'<td class="(\w+)"', row)
        assert cells.count("fault") == 1
        assert cells.count("follows") > 1
        assert heads[cells.index("fault")] == {"host-002": "PCIe", "host-009": "path MTU"}[host]
        assert cells.index("fault") < 2, "the faulty components are the first columns"
    assert text.count('class="fault"') == 2
    assert "path_mtu (stream) 1024 bytes, healthy 3535 to 4747" in text


def test_an_odd_host_stands_beside_the_distribution_of_its_peers() -> None:
    result = _fleet(12, {"host-002": FaultKind.PCIE_HALF_WIDTH})
    assert result.verdict is not None
    page = render_fleet(result)
    (strip,) = re.findall(r'(?s)<div class="picture peers">.*?</div>', page)
    assert strip.count('class="peer"') == 11
    odd = float(re.findall(r'class="explained" cx="([\d.]+)%"', strip)[0])
    peers = [float(place) for place in re.findall(r'class="peer" cx="([\d.]+)%"', strip)]
    low, width = map(float, re.findall(r'class="healthy" x="([\d.]+)%" y="4" width="([\d.]+)%"', strip)[0])
    assert all(low <= peer <= low + width for peer in peers)
    assert not low <= odd <= low + width
    sound = render_fleet(_fleet(6, {}))
    assert "Nearest to being odd is" in sound
    assert sound.count('class="peer"') == 5
    assert 'class="fault" title' not in sound


def test_a_sound_fleet_exits_0_and_a_small_one_4(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fleet", "--count", "6"]) == 0
    assert "no host is odd" in capsys.readouterr().out
    assert run(["fleet", "--count", "3"]) == 4
    assert "too few" in capsys.readouterr().err


@pytest.mark.parametrize(("count", "seed"), [(6, 0), (6, 2), (16, 0), (16, 5)])
def test_a_small_fleet_names_the_component_of_missing_pause_too(
    count: int, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--count", str(count), "--seed", str(seed), "--fault", "host-003=pfc_off", "--format", "json"]
    assert run(["fleet", *words]) == 1
    reported = json.loads(capsys.readouterr().out)
    components = {each["host"]: each["component"] for each in reported["ranking"] if each["odd"]}
    assert components == {"host-003": "receive buffer"}


def test_a_fleet_in_which_nothing_differs_is_sound(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fleet", "--count", "6", "--noise", "0"]) == 0
    assert "no host is odd" in capsys.readouterr().out


def test_a_page_that_cannot_be_written_is_refused_before_anything_is_measured(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(["fleet", "-o", str(tmp_path)]) == 2
    reported = capsys.readouterr()
    assert "is a directory" in reported.err
    assert not reported.out


@pytest.mark.parametrize(
    ("found", "code"), [({"incomplete": {"host-002"}}, 3), ({"ended_by": "the pause budget"}, 3), ({}, 0)]
)
def test_a_fleet_passes_only_when_all_of_it_was_measured(found: dict[str, Any], code: int) -> None:
    result = _fleet(6, {})
    assert exit_code_of(replace(result, survey=replace(result.survey, **found))) == code


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--fault", "host-001"], "HOST=KIND"),
        (["--fault", "host-001=gremlins"], "one of pcie_half_width"),
        (["--fault", "host-001=pfc_off:0.5"], "comes in one size"),
        (["--fault", "host-001=bit_errors:many"], "'many' is no size of bit_errors"),
        (["--fault", "host-001=busy_memory:1"], "above 0 and below 1"),
        (["--fault", "host-099=bit_errors"], "host-001 to host-016"),
        (["--fault", "host-001=bit_errors", "--fault", "host-001=pfc_off"], "already has a fault"),
        (["--subsystem", "H", "--fault", "host-001=old_firmware"], "no other firmware"),
        (["--hosts", "hosts.yaml", "--count", "9"], "simulated fleets"),
        (["--pairs", "2"], "pairs of real hosts"),
        (["--false-alarm", "nan"], "is not a finite number"),
        (["--noise", "nan"], "is not a finite number"),
    ],
)
def test_what_cannot_be_meant_is_refused(argv: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fleet", *argv]) == 2
    assert said in capsys.readouterr().err


def test_attempts_that_fail_alike_are_one_line_and_each_is_in_the_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fleet", "--count", "100", "--repeat", "1", "--format", "json"]) == 0
    printed = capsys.readouterr()
    attempts = json.loads(printed.out)["failed_attempts"]
    by_reason = Counter(each["reason"] for each in attempts)
    assert len(by_reason) > 2
    assert by_reason.total() > 20
    for reason, count in by_reason.items():
        first, *further = [line for line in printed.err.splitlines() if reason in line]
        one = next(each for each in attempts if each["reason"] == reason)
        assert first == f"{','.join(one['hosts'])}, {one['probe']}: {reason}"
        if count > 1:
            (summary,) = further
            assert summary.startswith(f"{reason}: {count} attempts, ")
            assert f" pairs ({','.join(one['hosts'])}; " in summary


def test_hosts_that_fail_alike_are_one_line(tmp_path: Path) -> None:
    result = _fleet(6, {})
    assert result.verdict is not None
    names = [f"h{number}" for number in range(1, 401)]
    errors = {name: str(HostUnreachable(name, f"192.0.2.{name[1:]}", "no route")) for name in names}
    steps = {name: f"stream: {AgentError(name, 'create_qp', 'no memory')}" for name in ("r1/x", "r1", "r2")}
    alone = {"a,b": "a port under test is in use"}
    survey = replace(result.survey, failures=errors | steps | alone, incomplete={"r1"})
    result = replace(result, survey=survey, verdict=replace(result.verdict, unjudged=tuple(names)))
    expected = [
        "not judged: h1, h2, h3, h4, h5 and 395 more",
        "not measured in full: r1",
        "the host cannot be reached: no route: 400 hosts (h1, h2, h3, h4, h5 and 395 more)",
        "stream: the host: agent step create_qp: no memory: 3 hosts (r1/x, r1, r2)",
        "a,b: a port under test is in use",
    ]
    assert fleet_text(result).splitlines()[-2 - len(expected) : -2] == expected
    assert fleet_json(result)["failures"] == survey.failures
    page = render_fleet(result)
    assert all(f"<li>{line}</li>" in page for line in expected)


def test_names_are_escaped_in_the_page(tmp_path: Path) -> None:
    result = _fleet(6, {"host-002": FaultKind.BIT_ERRORS})
    assert result.verdict is not None
    evil = "<script>alert(1)</script>"
    standings = tuple(replace(standing, host=evil) for standing in result.verdict.standings)
    survey = BatteryResults(failures={evil: evil}, incomplete={evil}, left_out={evil: evil}, ended_by=evil, runs=1)
    result = replace(result, name=evil, survey=survey, verdict=replace(result.verdict, standings=standings))
    assert "<script" not in render_fleet(result)


def test_a_software_device_is_not_asked_for_units_that_it_does_not_have() -> None:
    class Software(FakeTestbed):
        @property
        def info(self) -> ports.TestbedInfo:
            found = super().info
            return replace(found, catalog=replace(found.catalog, driver="rxe"))

    survey = Battery(lambda _group: Software(noise=0.02), Guard(), 1, lambda _text: None).run(rounds(tuple("abcd")))
    assert {reading.probe for reading in survey.readings} == {"stream", "small messages", "one at a time"}
    assert survey.left_out["mixed sizes"] == "rxe is software and has no acknowledgement unit"
    assert survey.incomplete == set()


def test_a_port_in_use_stops_its_group_alone() -> None:
    def open_group(group: tuple[str, ...]) -> ports.Testbed:
        if group == ("a", "b"):
            raise TestbedError("a port under test is in use")
        return FakeTestbed(noise=0.02)

    survey = Battery(open_group, Guard(), 1, lambda _text: None).run(rounds(tuple("abcdef"), PLAIN))
    assert set(survey.failures) == {"a,b"}
    assert {reading.host for reading in survey.readings} == set("abcdef")
