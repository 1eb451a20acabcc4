"""The command line as a user runs it, in processes of their own where processes are what is looked at."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collie.campaign.choice import SearchChoice
from collie.store.sqlite import SqliteStore
from collie.testing.store_suite import ANOMALY, HEADER
from tests.command import ARGV, answer, collie, process
from tests.integration.signals import heed_interrupts
from tests.support.command_lines import SEARCH, without_wall_time


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A directory with a finished campaign `one`, and what the search printed."""
    folder = tmp_path_factory.mktemp("searched")
    return folder, answer(*SEARCH, "--budget", "80m", "--campaign", "one", "--score", cwd=folder)


def test_an_application_is_checked_against_a_campaign(searched: tuple[Path, dict[str, Any]]) -> None:
    folder, result = searched
    (folder / "found.yaml").write_text(json.dumps(result["anomalies"][0]["workload"]))

    (checked,) = answer("check", "found.yaml", "--against", "one", cwd=folder, status=1)["checked"]

    assert f"one/{result['anomalies'][0]['id']}" in [hit["anomaly"] for hit in checked["hits"]]
    assert checked["remedy"]


def test_a_campaign_that_found_nothing_clears_no_application_in_silence(tmp_path: Path) -> None:
    collie("search", "--budget", "1runs", "--campaign", "none", cwd=tmp_path)
    assert "has found nothing" in process("check", "rpc-library", "--against", "none", cwd=tmp_path).stderr


def test_a_search_looks_inside_an_application(tmp_path: Path) -> None:
    words = ["search", "--space", "parameter-server", "--budget", "1h", "--campaign", "inside"]

    result = answer(*words, cwd=tmp_path)

    assert {anomaly["symptom"] for anomaly in result["anomalies"]} == {"pause"}
    assert all(anomaly["workload"]["direction"] == "bidirectional" for anomaly in result["anomalies"])
    resumed = answer("search", "--resume", "inside", "--budget", "65m", cwd=tmp_path)
    assert resumed["runs"] > result["runs"]


def test_search_prints_the_promised_object(searched: tuple[Path, dict[str, Any]]) -> None:
    _, result = searched
    assert list(result) == [
        "schema_version", "campaign", "testbed", "recipe", "seed", "dropped", "runs", "set_ups", "ended_by",
        "failed_runs", "elapsed_seconds", "wall_seconds", "next_hour_chance", "trust", "lost_machines", "path_killers",
        "pairs", "pairs_set_aside", "repeated_phases", "changed_phases", "known_elsewhere_not_confirmed",
        "unconfirmed", "anomalies", "score",
    ]  # fmt: skip
    assert result["testbed"] == {"kind": "simulated", "subsystem": "F"}
    assert 4800 <= result["elapsed_seconds"] < 4920
    assert result["score"]["false"] == 0
    assert result["anomalies"], "80 minutes on F find something"
    for anomaly in result["anomalies"]:
        assert {
            "id", "symptom", "severity", "workload", "features", "sentence", "found_at_run", "found_at_seconds",
            "extraction_runs", "mechanism",
        } <= set(anomaly)  # fmt: skip
        assert anomaly["sentence"].endswith(".")


def test_the_campaign_directory_holds_what_is_promised(searched: tuple[Path, dict[str, Any]]) -> None:
    folder, result = searched
    campaign = folder / "one"
    assert (campaign / "report.html").read_text().startswith("<!DOCTYPE html>")
    lines = (campaign / "results.jsonl").read_text().splitlines()
    assert len(lines) == result["runs"]
    assert json.loads(lines[0])["schema_version"] == 1
    assert {path.name for path in (campaign / "anomalies").iterdir()} == {a["id"] for a in result["anomalies"]}


def test_one_seed_gives_one_campaign(searched: tuple[Path, dict[str, Any]]) -> None:
    folder, result = searched
    words = [*SEARCH, "--budget", "80m", "--campaign", "two", "--score", "--format", "json"]
    again = json.loads(process(*words, cwd=folder).stdout)
    assert without_wall_time(again) == without_wall_time(result)
    other = answer("search", "--seed", "2", "--budget", "10runs", "--campaign", "three", cwd=folder)
    assert other["anomalies"] != result["anomalies"]


@pytest.mark.parametrize("after_runs", [5, 80])
def test_a_killed_search_resumes_to_the_same_end(
    searched: tuple[Path, dict[str, Any]], tmp_path: Path, after_runs: int
) -> None:
    _, whole = searched
    argv = [*ARGV, *SEARCH, "--budget", "80m", "--campaign", "killed"]
    search = subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    database = tmp_path / "killed" / "campaign.sqlite"
    deadline = time.monotonic() + 60
    while _runs(database) < after_runs:
        assert search.poll() is None, "the search ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(search.pid, signal.SIGKILL)
    search.wait()
    resumed = answer("search", "--resume", "killed", "--score", cwd=tmp_path)
    assert without_wall_time(resumed) == without_wall_time(whole)


def test_a_hard_campaign_resumes_and_its_finds_run_where_they_are_from(tmp_path: Path) -> None:
    hard = ["--flaky", "all=0.6", "--outliers", "1/30:0.02", "--drift", "0.1"]
    begun = answer("search", "--seed", "1", "--budget", "30runs", *hard, "--campaign", "hard", cwd=tmp_path)
    assert answer("search", "--resume", "hard", "--budget", "60runs", cwd=tmp_path)["runs"] > begun["runs"]
    words = ["reproduce", "hard/a1", "--repeat", "1", "--flaky", "all=1"]
    [host] = answer(*words, cwd=tmp_path)["fingerprint_difference"]
    assert [(each["field"], each["values"]) for each in host["differences"]] == [
        ("subsystem.flaky", ["all=0.6", "all=1.0"])
    ]


def _runs(database: Path) -> int:
    try:
        with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
            return int(connection.execute("SELECT count(*) FROM runs").fetchone()[0])
    except sqlite3.Error:
        return 0


def test_a_found_anomaly_reproduces_with_its_controls(searched: tuple[Path, dict[str, Any]]) -> None:
    folder, result = searched
    name = f"one/{result['anomalies'][0]['id']}"
    found = answer("reproduce", name, "--repeat", "5", "--controls", cwd=folder)
    assert found["reproduced"] == "yes"
    assert all(control["normal"] >= 4 for control in found["controls"])
    assert found["signature"]["same"] is True
    assert found["shown_ratio_interval"]["low"] > 0.5


def test_an_exported_anomaly_is_read_as_the_same_and_runs_elsewhere(searched: tuple[Path, dict[str, Any]]) -> None:
    folder, result = searched
    anomaly = result["anomalies"][0]
    written = answer("export", f"one/{anomaly['id']}", "--as", "bundle", "-o", "given.pyz", cwd=folder)
    assert (written["form"], written["file"], written["text"]) == ("bundle", "given.pyz", None)
    again = answer("reproduce", "given.pyz", "--repeat", "2", cwd=folder)
    assert (again["reproduced"], again["workload"]) == ("yes", anomaly["workload"])
    assert again["signature"]["same"] is True
    assert [each["differences"] for each in again["fingerprint_difference"]] == [[]]
    about = subprocess.run(
        [sys.executable, "-I", "-S", "given.pyz", "--about"], cwd=folder, capture_output=True, text=True
    )
    assert about.returncode == 0, about.stderr
    assert "pause, found on simulated subsystem F" in about.stdout


@pytest.mark.parametrize("number", ["01", "03", "07", "08", "09", "13"])
def test_the_papers_anomalies_reproduce_on_f(number: str, tmp_path: Path) -> None:
    assert answer("reproduce", f"nsdi22-{number}", "--repeat", "3", cwd=tmp_path)["reproduced"] == "yes"


def test_measure_shows_measurement_and_verdict(tmp_path: Path) -> None:
    judged = answer("measure", "nsdi22-01", cwd=tmp_path)
    assert judged["verdict"]["outcome"] == "anomalous"
    assert judged["verdict"]["symptom"] == "pause"
    text = collie("measure", "nsdi22-01", cwd=tmp_path).stdout
    assert "anomalous" in text
    assert judged["measurement"]["latency"]["a-b"]["p99_seconds"] > 0
    assert "latency a-b  " in text


def test_several_workloads_are_phases_where_they_fit(tmp_path: Path) -> None:
    for name, mtu in (("wide", 4096), ("narrow", 1024)):
        (tmp_path / f"{name}.yaml").write_text(f"qps: 8\nmtu: {mtu}\nmessages: [4KiB]\n")
    words = ("measure", "wide.yaml", "wide.yaml", "narrow.yaml", "--noise", "0")
    runs = answer(*words, "--perftest", "ib_write_bw -s 4096 -m 1024", cwd=tmp_path)["measurements"]
    assert [(run["set_up"], run["phase"]) for run in runs] == [(1, 1), (1, 2), (2, 1), (3, 1)]
    assert [run["elapsed_seconds"] == 8 for run in runs] == [False, True, False, False]
    assert runs[0]["measurement"]["hosts"] == runs[1]["measurement"]["hosts"]
    assert "mtu" in runs[2]["new_set_up_because"]
    text = collie(*words, "--phases", "1", cwd=tmp_path).stdout
    assert "set-up 2, phase 1: a set-up has at most 1 phase\n" in text


def test_what_is_measured_together_needs_one_testbed(tmp_path: Path) -> None:
    said = collie("measure", "nsdi22-01", "nsdi22-14", cwd=tmp_path, status=2).stderr
    assert "nsdi22-01 and nsdi22-14 were found with another testbed; choose one with --subsystem or --hosts" in said
    both = answer("measure", "nsdi22-01", "nsdi22-14", "--subsystem", "H", cwd=tmp_path)["measurements"]
    assert [run["verdict"]["outcome"] for run in both] == ["normal", "anomalous"]
    assert "name a workload" in collie("measure", cwd=tmp_path, status=2).stderr
    line = "ib_write_bw -q 16384 -m 4096 -s 1073741824"
    assert f"--perftest '{line}': " in collie("measure", "--perftest", line, cwd=tmp_path, status=2).stderr


def test_a_tenth_of_the_line_is_normal_if_no_more_is_offered(tmp_path: Path) -> None:
    (tmp_path / "light.yaml").write_text("qps: 8\noffered_bps: 20Gbit\n")
    refused = collie("measure", "light.yaml", cwd=tmp_path, status=2).stderr
    said = "offered_bps is 0 in space nsdi22 and does not vary; --space names one where it does: control-verbs, "
    assert said in refused
    assert said in collie("measure", "nsdi22-01", "--fix", "offered_bps=20Gbit", cwd=tmp_path, status=2).stderr
    load = "offered_bps: {range: [0, 200Gbit], ladder: [0, 1Gbit, 20Gbit, 200Gbit], plain: 0}"
    (tmp_path / "loads.yaml").write_text(f"dimensions:\n  qps: {{ladder: [1, 8], plain: 8}}\n  {load}\n")
    judged = answer("measure", "light.yaml", "--space", "loads.yaml", cwd=tmp_path)
    assert judged["workload"]["offered_bps"] == 20_000_000_000
    assert judged["verdict"]["outcome"] == "normal"
    assert judged["measurement"]["hosts"][1]["delivered_bps"] == pytest.approx(20e9, rel=0.1)


def test_a_space_that_is_measured_completely_needs_no_larger_budget(tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text("dimensions:\n  qps: {ladder: [1, 8, 64], plain: 8}\n")
    words = ("search", "--subsystem", "F", "--space", "tiny.yaml", "--budget", "30runs")
    assert "space    tiny: 1 dimension, 3 workloads before" in collie(*words, "--dry-run", cwd=tmp_path).stdout
    found = collie(*words, "--campaign", "tiny", cwd=tmp_path).stdout
    assert "No anomaly" in found
    assert "look further" not in found


def test_spaces_and_counters_are_shown(tmp_path: Path) -> None:
    shown = answer("space", "show", "nsdi22", cwd=tmp_path)
    assert 35.5 <= shown["log10_size"] <= 36.5
    assert shown["limits"]["outstanding_bytes"] is None, "it has no limit"
    assert shown["limits"]["round_seconds"] is None
    assert answer("space", "show", "soft-roce-load", cwd=tmp_path)["limits"]["round_seconds"] == 0.6
    words = "at an offered load, a round at least every 600 ms"
    assert words in collie("space", "show", "soft-roce-load", cwd=tmp_path).stdout
    names = {counter["name"] for counter in answer("counters", "list", cwd=tmp_path)["counters"]}
    assert {"receive_wqe_cache_miss", "pcie_internal_back_pressure"} <= names
    assert "rcvd_pkts" in collie("counters", "list", "--driver", "rxe", cwd=tmp_path).stdout


def test_a_dry_run_runs_nothing(tmp_path: Path) -> None:
    done = process("search", "--dry-run", "--format", "json", cwd=tmp_path)
    assert json.loads(done.stdout)["strategy"] == "guided"
    assert done.stderr == ""
    assert list(tmp_path.iterdir()) == []


_NO_FOLDER = "collie: -o {} cannot be written: there is no directory absent"


@pytest.mark.parametrize("command", ["report", "runs"])
def test_no_output_makes_a_directory(searched: tuple[Path, dict[str, Any]], command: str) -> None:
    folder, _ = searched
    done = collie(command, "one", "-o", "absent/out", cwd=folder, status=2)
    assert done.stderr.strip() == _NO_FOLDER.format("absent/out")
    assert not (folder / "absent").exists()


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["search", "--budget", "soon"], 2, "neither a time nor a number"),
        (["search", "--space", "nsdi23"], 2, "did you mean 'nsdi22'"),
        (["search", "--recipe", "nope"], 2, "no recipe has this name"),
        (["search", "--subsystem", "Z"], 2, "no subsystem has this name"),
        (["search", "--fix", "qqs=1"], 2, "no dimension 'qqs'"),
        (["search", "--fix", "mtu=1500"], 2, "no path MTU"),
        (["search", "--limit", "qps<=none"], 2, "no whole number"),
        (["search", "--limit", "qp_type<=3"], 2, "qp_type is not an ordered dimension; --fix"),
        (["search", "--fix", "qps=1", "--fix", "qps=2"], 2, "qps has another value already"),
        (["search", "--limit", "qps<=1", "--limit", "qps<=2"], 2, "qps has another limit already"),
        (
            ["export", "nsdi22-08", "-o", "a.bundle"],
            2,
            "-o a.bundle: Collie knows a bundle by its name; end it in .pyz",
        ),
        (["search", "--set", "firmware=22.31", "--set", "firmware=22.28"], 2, "firmware has another value already"),
        (["search", "--set", "firmware"], 2, "is not KEY=VALUE"),
        (["search", "--set", "warp=9"], 2, "warp"),
        (["search", "--campaign", ""], 2, "it is empty; name a directory"),
        (["search", "--hosts", "absent.yaml"], 2, "absent.yaml"),
        (["search", "--hosts", "absent.yaml", "--subsystem", "F"], 2, "give one of them"),
        (["search", "--hosts", "absent.yaml", "--noise", "0"], 2, "--noise is for a simulated subsystem"),
        (["reproduce", "nsdi22-01", "--hosts", "absent.yaml", "--noise", "0"], 2, "--noise is for a simulated"),
        (
            ["search", "--hosts", "absent.yaml", "--drift", "0.1"],
            2,
            "--drift is for a simulated subsystem",
        ),
        (["reproduce", "nsdi22-01", "--hosts", "absent.yaml", "--flaky", "all=1"], 2, "--flaky is for a simulated"),
        (["search", "--flaky", "warp=1"], 2, "no mechanism 'warp'; one of all, datagram_prefetch, "),
        (["measure", "nsdi22-01", "--flaky", "warp=1"], 2, "no mechanism 'warp'; one of all, datagram_prefetch, "),
        (["fleet", "--count", "4", "--flaky", "warp=1"], 2, "no mechanism 'warp'; one of all, datagram_prefetch, "),
        (["search", "--flaky", "context_cache"], 2, "is not MECHANISM=SHARE, with a share from 0 to 1"),
        (["search", "--flaky", "all=1.1"], 2, "is not MECHANISM=SHARE, with a share from 0 to 1"),
        (["search", "--flaky", "all=0", "--flaky", "all=1"], 2, "all has another share already"),
        (["search", "--outliers", "1/30"], 2, "--outliers '1/30' is not SHARE:PAUSE"),
        (["search", "--outliers", "1/0:0.02"], 2, "--outliers '1/0:0.02' is not SHARE:PAUSE"),
        (["search", "--drift", "0.6"], 2, "'--drift': 0.6 is not in the range"),
        (["search", "--hosts", "absent.yaml", "--score"], 2, "real hosts have none"),
        (["search", "--score", "--victim", "--recipe", "isolate"], 2, "finds what holds up others"),
        (["search", "--resume", "absent"], 2, "holds no campaign"),
        (["search", "--resume", "absent", "--seed", "7", "--noise", "0"], 2, "leave out --seed, --noise"),
        (["search", "--resume", "absent", "--flaky", "all=1", "--drift", "0"], 2, "leave out --flaky, --drift"),
        (["search", "--space", f"{'x' * 300}.yaml"], 2, "no such file"),
        (["check", "x" * 300], 2, "no application has this name"),
        (["check", "rpc-library", "--against", "x" * 300], 2, "neither a campaign nor a collection"),
        (["search", "--subsystem", "~nobody-of-this-name/x.yaml"], 2, "no such file"),
        (["search", "--noise", "nan"], 2, "'--noise': nan is not a finite number"),
        (["search", "--frobnicate"], 2, "--frobnicate"),
        (["reproduce", "nsdi22-99"], 2, "no anomaly has this name"),
        (["reproduce", "absent.pyz"], 2, "absent.pyz: cannot be read: No such file"),
        (["export", "nsdi22-01", "-o", "absent/a.pyz"], 2, _NO_FOLDER.format("absent/a.pyz")),
        (["fleet", "-o", "absent/a.html"], 2, _NO_FOLDER.format("absent/a.html")),
        (["sweep", "--x", "qps", "-o", "absent/a.svg"], 2, _NO_FOLDER.format("absent/a.svg")),
        (["measure", "absent.yaml"], 2, "absent.yaml"),
        (["measure", "../"], 2, "../ holds no campaign"),
        (["diagnose", "/usr/lib"], 2, "/usr/lib holds no campaign"),
        (["diagnose", "absent/a1"], 2, "absent holds no campaign"),
        (["counters", "watch"], 2, "has no traffic to watch"),
        (["report", "absent"], 2, "holds no campaign"),
        (["hosts", "check", "--hosts", "absent.yaml"], 2, "absent.yaml"),
    ],
)
def test_bad_usage_is_one_message_and_its_exit_code(
    words: list[str], status: int, message: str, tmp_path: Path
) -> None:
    done = collie(*words, cwd=tmp_path, status=status)
    assert message in done.stderr
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("qp_type: UD\nopcode: READ\nmessages: [64]\n", ["bad.yaml:2", "cannot READ"]),
        ("wqe_batch: 64\nsend_wq_depth: 16\n", ["bad.yaml:", "deeper than send_wq_depth"]),
        ("qp_type: UD\nopcode: SEND\nmessages: [8KiB]\n", ["bad.yaml:", "do not fit mtu"]),
        ("qps: 1\nqps: 2\n", ["bad.yaml:2", "twice"]),
        ("qqs: 1\nmtu: 10 furlongs\n", ["bad.yaml:1", "did you mean 'qps'", "bad.yaml:2"]),
    ],
)
def test_a_wrong_workload_file_is_explained_line_by_line(text: str, messages: list[str], tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(text)
    done = collie("measure", "bad.yaml", cwd=tmp_path, status=2)
    for message in messages:
        assert message in done.stderr


def test_a_campaign_of_a_newer_schema_is_left_alone(searched: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    folder, _ = searched
    shutil.copytree(folder / "one", tmp_path / "newer")
    database = tmp_path / "newer" / "campaign.sqlite"
    with sqlite3.connect(database) as connection:
        connection.execute("PRAGMA user_version = 999")
    connection.close()
    before = {path: path.read_bytes() for path in sorted((tmp_path / "newer").rglob("*")) if path.is_file()}
    for words in (["search", "--resume", "newer"], ["report", "newer"], ["reproduce", "newer/a1"]):
        assert "newer" in collie(*words, cwd=tmp_path, status=2).stderr
    assert before == {path: path.read_bytes() for path in sorted((tmp_path / "newer").rglob("*")) if path.is_file()}


def test_a_campaign_is_never_written_over(searched: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = searched
    before = (folder / "one" / "campaign.sqlite").read_bytes()
    assert "--resume" in process(*SEARCH, "--campaign", "one", cwd=folder, status=2).stderr
    assert (folder / "one" / "campaign.sqlite").read_bytes() == before


def test_ctrl_c_keeps_everything_and_says_how_to_go_on(tmp_path: Path) -> None:
    argv = [*ARGV, *SEARCH, "--budget", "100000h", "--campaign", "long"]
    search = subprocess.Popen(
        argv,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_interrupts,
    )
    deadline = time.monotonic() + 60
    while _runs(tmp_path / "long" / "campaign.sqlite") < 20:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    search.send_signal(signal.SIGINT)
    _, stderr = search.communicate(timeout=30)
    assert search.returncode == 130
    assert "--resume long" in stderr
    assert "Traceback" not in stderr
    assert (tmp_path / "long" / "results.jsonl").exists()


def test_reproduction_says_what_has_changed_since_the_find(
    tmp_path: Path, searched: tuple[Path, dict[str, Any]]
) -> None:
    folder, _ = searched
    same = answer("reproduce", str(folder / "one" / "a1"), "--repeat", "1", cwd=tmp_path)
    assert [found["differences"] for found in same["fingerprint_difference"]] == [[]]
    words = ["reproduce", str(folder / "one" / "a1"), "--repeat", "1", "--noise", "0.5"]
    [found] = answer(*words, cwd=tmp_path)["fingerprint_difference"]
    assert [each["field"] for each in found["differences"]] == ["subsystem.noise"]
    words = ["reproduce", str(folder / "one" / "a1"), "--repeat", "1", "--flaky", "all=0", "--outliers", "1/30:0.02"]
    [found] = answer(*words, cwd=tmp_path, status=1)["fingerprint_difference"]
    assert [(each["field"], each["values"]) for each in found["differences"]] == [
        ("subsystem.flaky", [None, "all=0.0"]),
        ("subsystem.outliers", [None, "1/30:0.02"]),
    ]
    assert answer("reproduce", "nsdi22-01", "--repeat", "1", cwd=tmp_path)["fingerprint_difference"] is None


def test_an_anomaly_is_measured_where_it_is_from(tmp_path: Path, searched: tuple[Path, dict[str, Any]]) -> None:
    folder, result = searched
    found = next(each for each in result["anomalies"] if each["id"] == "a1")
    measured = answer("measure", str(folder / "one" / "a1"), cwd=tmp_path)
    assert measured["workload"] == found["workload"]
    assert measured["verdict"]["symptom"] == found["symptom"]
    assert answer("measure", "nsdi22-14", cwd=tmp_path)["verdict"]["outcome"] == "anomalous", "on H"
    assert answer("measure", "nsdi22-14", "--subsystem", "F", cwd=tmp_path)["verdict"]["outcome"] == "normal"


def test_controls_without_a_condition_are_not_passed_over_in_silence(tmp_path: Path) -> None:
    words = ["search", "--set", "firmware=22.31", "--budget", "120runs", "--seed", "1007", "--campaign", "short"]
    found = answer(*words, cwd=tmp_path)["anomalies"]
    assert {bool(each["features"]) for each in found} == {True, False}, "120 runs end before the second is explained"
    for each in found:
        done = collie("reproduce", f"short/{each['id']}", "--repeat", "1", "--controls", cwd=tmp_path)
        assert ("there are no controls" in done.stderr) == (not each["features"])
        assert "measured on simulated subsystem F\n" in done.stdout


def test_a_known_campaign_names_what_is_not_known_from_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    header = replace(HEADER, settings=SearchChoice().to_settings())
    with SqliteStore.create(tmp_path / "known", header) as store:
        for name, complete, same_as in (("a1", True, None), ("a2", False, None), ("a3", False, "a1")):
            store.add_anomaly(replace(ANOMALY, id=name, complete=complete, same_as=same_as))
    answer("search", "--known", "known", "--budget", "3runs", "--campaign", "next", cwd=tmp_path)
    assert [text for text in caplog.messages if "--known" in text] == [
        f"--known {tmp_path / 'known'}: not explained to the end, so they can be found anew: a2"
    ]


def test_a_batch_that_makes_plain_traffic_faster_than_plain_makes_no_other_traffic_slow(tmp_path: Path) -> None:
    """Two short work requests are fetched at once, one with 16 entries alone, which is as fast as plain traffic."""
    (tmp_path / "lists.yaml").write_text(
        "{qps: 1, messages: [64], sge_count: 16, wqe_batch: 2, send_wq_depth: 32, offered_bps: 20Gbit}\n"
    )
    words = ["measure", "lists.yaml", "--space", "offered-load", "--subsystem", "F-healthy"]
    judged = answer(*words, cwd=tmp_path)
    assert judged["verdict"]["outcome"] == "normal"
    assert judged["measurement"]["hosts"][1]["delivered_bps"] < 4e9
