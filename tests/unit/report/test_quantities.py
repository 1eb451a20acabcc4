"""Numbers and counts as people read them."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from collie.campaign.choice import SearchChoice, TestbedChoice
from collie.campaign.progress import CampaignProgress, FailedRun
from collie.cli.progress import live_view, plain_line
from collie.detect.compare import Effect, Spread
from collie.report.figures.scale import engineering
from collie.report.json.objects import plain
from collie.report.quantities import (
    effort,
    name_testbed,
    packet_rate,
    percent,
    rate,
    rate as bit_rate,
    reading,
    relative,
    show,
    together,
)
from collie.report.terminal.gate import _effect, describe_effect
from collie.workloads.units import format_count, format_number
from collie.workloads.workload import Direction, Opcode, Workload
from tests.support.campaigns import HEADER


@pytest.mark.parametrize(
    ("value", "form", "written"),
    [
        (-0.04, ".1f", "0.0"),
        (-0.04, "+.1f", "0.0"),
        (0.004, "+.2f", "0.00"),
        (-0.0, ",.4g", "0"),
        (-0.001, ".0%", "0%"),
        (-0.06, "+.1f", "-0.1"),
        (0.006, "+.2f", "+0.01"),
        (-1234.5, ",.6g", "-1,234.5"),
        (float("-inf"), "+.1f", "-inf"),
    ],
)
def test_what_rounds_to_zero_has_no_sign(value: float, form: str, written: str) -> None:
    assert format_number(value, form) == written


def test_no_quantity_of_a_report_is_a_negative_zero() -> None:
    for write in (percent, rate, packet_rate, engineering):
        assert "-" not in write(-0.0)
    assert percent(-0.001) == "0%"
    assert str(plain({"severity": -0.0, "list": [-0.0]})) == "{'severity': 0.0, 'list': [0.0]}"


def test_an_effect_that_rounds_to_zero_has_no_sign() -> None:
    tiny = Spread(-0.0, -0.0, -0.0)
    effect = Effect(
        severity=Spread(-0.0001, -0.0004, 0.012), throughput_ratio=None, pause_difference=tiny, coverage=0.9
    )
    assert describe_effect(effect) == "pause 0.0 points, severity 0.0 (0.0 to +1.2) points"
    reported = _effect(effect)
    assert reported is not None
    assert str(reported["pause_ratio_difference"]) == "{'median': 0.0, 'low': 0.0, 'high': 0.0}"


@pytest.mark.parametrize(
    ("count", "noun", "written"),
    [
        (0, "run", "0 runs"),
        (1, "run", "1 run"),
        ("1", "run", "1 run"),
        (2, "run", "2 runs"),
        (1, "anomaly", "1 anomaly"),
        (3, "anomaly", "3 anomalies"),
        (2, "witness", "2 witnesses"),
        (2, "key", "2 keys"),
        (2, "queue pair", "2 queue pairs"),
        (1926, "measurement", "1,926 measurements"),
        ("2,287", "run", "2,287 runs"),
    ],
)
def test_things_are_counted(count: int | str, noun: str, written: str) -> None:
    assert format_count(count, noun) == written


@pytest.mark.parametrize(
    ("runs", "set_ups", "written"),
    [
        (1, 1, "1 run"),
        (412, 412, "412 runs"),
        (412, 97, "412 measurements on 97 set-ups"),
        (2, 1, "2 measurements on 1 set-up"),
    ],
)
def test_measurements_are_told_from_set_ups_where_they_shared_some(runs: int, set_ups: int, written: str) -> None:
    assert effort(runs, set_ups) == written
    line = plain_line(CampaignProgress(runs=runs, further_phases=runs - set_ups))
    assert line == f"{written}, 0 s; no anomaly yet"


def test_one_run_is_no_runs_on_the_live_view() -> None:
    standing = CampaignProgress(runs=1, failed_runs=1, last_failure=FailedRun(1, "qp timeout"), runs_per_minute=1.0)
    assert plain_line(standing) == "1 run, 0 s; no anomaly yet; 1 run per minute"
    console = Console(width=200)
    with console.capture() as displayed:
        console.print(live_view(standing))
    assert re.search(r"failed +1 run, last run 1: qp timeout", displayed.get())


@pytest.mark.parametrize(
    ("rate", "text"),
    [
        (None, "unknown"),
        (math.inf, "unbounded"),
        (2.5e8, "250 Mpps"),
        (12_345.0, "12.3 kpps"),
        (999_700.0, "1 Mpps"),
        (1.234e9, "1234 Mpps"),
        (7.0, "7 pps"),
    ],
)
def test_packet_rates_are_worded(rate: float | None, text: str) -> None:
    assert packet_rate(rate) == text


def test_values_are_worded_as_in_workload_files() -> None:
    assert show("messages", (64, 65536)) == "[64 B, 64 KiB]"
    assert show("mr_bytes", 2 << 20) == "2 MiB"
    assert show("srq", True) == "true"
    assert show("qps", 8) == "8"
    assert bit_rate(None) == percent(None) == "unknown"
    assert bit_rate(1e9) == "1 Gbit/s"


@pytest.mark.parametrize(
    ("testbed", "settings", "name"),
    [
        ({"kind": "fake"}, {}, "fake"),
        ({"kind": "hosts", "name": "alice and bob"}, {}, "hosts alice and bob"),
        ({"kind": "hosts", "name": "a,b", "pairs": ["a,b", "c,d"]}, {}, "hosts a,b; c,d"),
        (
            {"kind": "hosts", "name": "s/a,s/b", "loopback_across_ports": {"s": ["s/a", "s/b"]}},
            {},
            "hosts s/a,s/b (loopback across ports of s)",
        ),
        ({"kind": "simulated", "subsystem": "F", "pfc": "enabled"}, {}, "simulated subsystem F"),
        (
            {"kind": "simulated", "subsystem": "F"},
            {"firmware": "22.31", "pfc": "disabled"},
            "simulated subsystem F (firmware=22.31, pfc=disabled)",
        ),
    ],
)
def test_a_testbed_has_one_name_with_the_settings_of_its_campaign(
    testbed: dict[str, object], settings: dict[str, str], name: str
) -> None:
    chosen = TestbedChoice(settings=settings)
    header = replace(HEADER, testbed=testbed, settings=SearchChoice(chosen).to_settings())
    assert name_testbed(header) == name


@pytest.mark.parametrize("settings", [{"testbed": "F"}, {"testbed": {"settings": ["firmware"]}}])
def test_a_testbed_has_a_name_without_settings_that_can_be_read(settings: dict[str, object]) -> None:
    header = replace(HEADER, testbed={"kind": "simulated", "subsystem": "F"}, settings=settings)
    assert name_testbed(header) == "simulated subsystem F"


@pytest.mark.parametrize(
    ("per_second", "text"),
    [
        (None, "unknown"),
        (0.0, "0"),
        (-4e-15, "0"),
        (4.63e-15, "0"),
        (3e-7, "3e-07"),
        (0.0951, "0.0951"),
        (2e10, "20,000,000,000"),
    ],
)
def test_a_counter_that_computes_to_a_residue_did_not_move(per_second: float | None, text: str) -> None:
    assert reading(per_second) == text


@pytest.mark.parametrize(
    ("share", "part", "ratio"), [(0.996, "over 99%", "100%"), (1.0, "100%", "100%"), (0.994, "99%", "99%")]
)
def test_only_the_whole_is_100_percent_of_a_whole(share: float, part: str, ratio: str) -> None:
    assert (percent(share), relative(share)) == (part, ratio)
    assert (percent(None), relative(None)) == ("unknown", "unknown")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ""),
        ({"opcode": Opcode.READ}, ""),
        ({"direction": Direction.BIDIRECTIONAL}, ", both directions together"),
        ({"loopback": True}, ""),
        ({"responders": 2}, ", 2 hosts together"),
        ({"responders": 3}, ", 3 hosts together"),
    ],
)
def test_a_sum_over_hosts_is_named(changes: dict[str, Any], words: str) -> None:
    assert together(Workload(**changes)) == words
