"""`collie diagnose` on the simulated testbed."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from collie.campaign.choice import SearchChoice
from collie.cli.main import run
from collie.store.sqlite import SqliteStore
from collie.testing.store_suite import ANOMALY, HEADER
from collie.wiring import ADAPTERS
from collie.workloads.workload import FIELD_NAMES


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_an_anomaly_of_the_paper_is_diagnosed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["diagnose", "nsdi22-01", "--noise", "0"]) == 0
    text = capsys.readouterr().out
    assert "anomalous: pause" in text
    assert "\nthe cheapest change takes the fewest steps from the values of this workload\n" in text
    assert "\nwith one change at a time, it is normal\n" in text
    assert "\nknown as nsdi22-01: " in text
    assert re.search(r"\nthe cheapest change that was tried: .* \(normal .*on two set-ups\)\n", text)
    assert "of testbed time" in text.splitlines()[-1]


def test_the_json_has_every_change_with_its_workload(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["diagnose", "nsdi22-01", "--noise", "0", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"]["outcome"] == "anomalous"
    assert [each["id"] for each in found["known"]] == ["nsdi22-01"]
    assert found["advised"] == found["changes"][0]
    assert found["advised"]["cures"]
    first = found["advised"]
    differing = {name for name in FIELD_NAMES if found["workload"].get(name) != first["workload"].get(name)}
    assert differing == {first["dimension"], *first["also"]}
    severities = [each["severity"] for each in found["changes"]]
    assert severities == sorted(severities)
    assert found["discriminating_counters"]
    assert found["runs"] >= len(found["changes"])


def test_a_normal_perftest_line_has_nothing_to_change(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["diagnose", "--perftest", "ib_write_bw -s 65536 -q 8", "--noise", "0"]) == 0
    said = capsys.readouterr()
    assert "\nnormal\n" in said.out
    assert "change" not in said.out
    assert said.err.count("assumed") <= 1  # what the line leaves open is said once


def test_the_hint_agrees_with_the_known_anomaly(capsys: pytest.CaptureFixture[str]) -> None:
    """Its verdict needs no plain traffic, so the counters are compared with the changes that cure."""
    assert run(["diagnose", "nsdi22-10", "--noise", "0"]) == 0
    text = capsys.readouterr().out
    assert "\nmoved most against healthy traffic: ack_engine_busy (acknowledgement unit" in text
    assert "\nlikely: answers to short messages hold up long ones that arrive, so" in text
    assert "\nknown as nsdi22-10: " in text


def test_plain_traffic_tells_why_where_the_cure_moves_the_same_counters(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["diagnose", "nsdi22-05", "--noise", "0"]) == 0
    text = capsys.readouterr().out
    assert "\nmoved most against healthy traffic: receive_wqe_cache_miss (receive WQE cache" in text
    assert "\nlikely: receives posted in large batches are not prefetched in time, so" in text


def test_an_anomaly_of_a_campaign_has_its_recorded_cause(capsys: pytest.CaptureFixture[str]) -> None:
    found = replace(ANOMALY, workload=ADAPTERS.content.reference("nsdi22-13").trigger, hint="what the search found")
    header = replace(HEADER, settings=SearchChoice().to_settings())
    with SqliteStore.create(Path("c"), header) as store:
        store.add_anomaly(found)
    assert run(["diagnose", "c/a1"]) == 0
    assert "\nlikely: what the search found\nin this run: loopback traffic competes" in capsys.readouterr().out
    assert run(["diagnose", "c/a1", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["recorded_hint"] == found.hint


def test_changes_that_are_left_out_are_named_and_tried_on_demand(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["diagnose", "nsdi22-04", "--noise", "0", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"opcode", "qps"} <= set(found["untried"])
    assert run(["diagnose", "nsdi22-04", "--noise", "0", "--every-change", "--format", "json"]) == 0
    every = json.loads(capsys.readouterr().out)
    assert every["untried"] == []
    assert set(found["untried"]) <= {each["dimension"] for each in every["changes"]}
    assert every["advised"]["workload"] == found["advised"]["workload"]
    assert every["runs"] > found["runs"]
    assert run(["diagnose", "nsdi22-04", "--noise", "0"]) == 0
    text = capsys.readouterr().out
    assert "\nnot tried, as it would likely cost more: qps, " in text
    assert "\n`--every-change` tries all\n" in text


def test_what_needs_another_set_up_may_be_cheaper_and_is_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["diagnose", "nsdi22-08", "--noise", "0"]) == 0
    text = capsys.readouterr().out
    assert "\nthe cheapest change that was tried: qps " in text
    assert "\nnot tried, as it needs another set-up: mtu, send_wq_depth, recv_wq_depth\n" in text
    assert "cost more" not in text
    assert run(["diagnose", "nsdi22-08", "--noise", "0", "--every-change"]) == 0
    text = capsys.readouterr().out
    assert "\nthe cheapest change that was tried: send_wq_depth 16 -> 32 " in text
    assert "not tried" not in text
    assert "tries all" not in text


def test_the_corners_of_an_application_are_measured_and_what_is_slow_is_diagnosed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["diagnose", "rpc-library", "--noise", "0"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("rpc-library: RPC library")
    assert any(re.match(r"    bulk, nsdi22-04 +anomalous: ", line) for line in lines)
    assert any(re.match(r"    control, heaviest, shortest messages +normal$", line) for line in lines)
    assert {"control, nsdi22-05", "bulk, nsdi22-04"} <= set(lines)
    assert run(["diagnose", "rpc-library", "--noise", "0", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["traffic"] for each in found["diagnoses"]] == ["control", "bulk"]
    for each in found["diagnoses"]:
        advised = each["advised"]
        assert advised["dimension"] not in {"direction", "qp_type", "mtu"}, "the application keeps these"
        for change in each["changes"]:
            assert change["workload"]["mtu"] == 1024
            assert change["workload"]["qps"] <= 128, "changes stay within the values of the application"


def test_an_application_that_is_fast_everywhere_is_told_so(capsys: pytest.CaptureFixture[str]) -> None:
    Path("app.yaml").write_text("title: light\nspace: nsdi22\ntraffic:\n  all:\n    qps: {range: [1, 4]}\n")
    assert run(["diagnose", "app.yaml", "--noise", "0"]) == 0
    assert "no corner of its traffic is slow" in capsys.readouterr().out
    assert run(["diagnose", "app.yaml", "--space", "nsdi22"]) == 2
    assert "app.yaml is an application" in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["nsdi22-01", "--perftest", "ib_write_bw"]])
def test_one_workload_is_to_be_named(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["diagnose", *words]) == 2
    assert "name one workload, or paste one command line" in capsys.readouterr().err


def test_advice_is_applied_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["measure", "nsdi22-08", "--noise", "0"]) == 0
    assert "anomalous: low throughput" in capsys.readouterr().out
    assert run(["measure", "nsdi22-08", "--noise", "0", "--fix", "qps=64"]) == 0
    text = capsys.readouterr().out
    assert "qps 64" in text.splitlines()[0]
    assert "\nnormal\n" in text
    assert run(["measure", "nsdi22-08", "--fix", "message_bytes=1MiB"]) == 2
    assert "--fix: message" in capsys.readouterr().err
