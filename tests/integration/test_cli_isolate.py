"""`collie isolate` on a simulated subsystem."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

from collie.content.spaces import load_space
from tests.command import collie


def test_an_aggressor_is_found_explained_and_reproduced(tmp_path: Path) -> None:
    search = (
        "isolate",
        "--subsystem",
        "F",
        "--budget",
        "150runs",
        "--seed",
        "2",
        "--campaign",
        "c",
        "--format",
        "json",
    )
    found = json.loads(collie(*search, cwd=tmp_path).stdout)
    symptoms = {anomaly["symptom"] for anomaly in found["anomalies"]}
    assert symptoms == {"victim_loss"}
    worst = max(found["anomalies"], key=lambda anomaly: anomaly["severity"])
    assert "a plain flow keeps" in worst["sentence"]
    again = collie("reproduce", f"c/{worst['id']}", "--repeat", "2", cwd=tmp_path)
    assert "victim loss" in again.stdout
    collie("export", f"c/{worst['id']}", "--as", "bundle", "-o", "a.pyz", cwd=tmp_path)
    about = subprocess.run(
        [sys.executable, "a.pyz", "--about"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "the victim, runs beside each" in about.stdout
    of_bundle = collie("reproduce", "a.pyz", "--repeat", "2", cwd=tmp_path)
    assert of_bundle.stdout.splitlines()[:2] == again.stdout.splitlines()[:2]
    refused = collie("export", f"c/{worst['id']}", "--as", "perftest", cwd=tmp_path, status=2)
    assert "use --as bundle" in refused.stderr
    dimensions = load_space("tenants").dimensions
    explained = next(anomaly for anomaly in found["anomalies"] if anomaly["complete"])
    traffic = {name: value for name, value in explained["workload"].items() if name in dimensions}
    application = {"title": "the aggressor", "space": "tenants", "traffic": {"one": traffic}}
    (tmp_path / "application.yaml").write_text(json.dumps(application))
    checked = collie("check", "application.yaml", "--against", "c", "--measure", cwd=tmp_path, status=1)
    assert "a plain flow keeps" in checked.stdout, "the victim runs beside the examples"


def test_an_aggressor_that_takes_nothing_makes_a_victim_with_a_load_late(tmp_path: Path) -> None:
    measure = ("measure", "nsdi22-08", "--format", "json", "--noise", "0", "--victim-load", "10Gbit/s")
    victim = json.loads(collie(*measure, cwd=tmp_path).stdout)["measurement"]["victim"]
    assert victim["offered_bps"] == 10**10
    assert victim["latency"]["p99_seconds"] > 0
    search = ("isolate", "--victim-load", "10Gbit/s", "--budget", "120runs", "--seed", "2", "--campaign", "c")
    narrow = ("--subsystem", "G", "--fix", "qp_type=RC", "--fix", "opcode=READ")
    found = json.loads(collie(*search, *narrow, "--format", "json", cwd=tmp_path).stdout)["anomalies"]
    late = [anomaly for anomaly in found if anomaly["symptom"] == "victim_latency"]
    assert late
    assert "of the messages of a plain flow complete within" in late[0]["sentence"]
    again = collie("reproduce", f"c/{late[0]['id']}", "--repeat", "2", cwd=tmp_path)
    assert "victim latency" in again.stdout


def test_what_a_victim_loses_is_reported_beside_any_workload(tmp_path: Path) -> None:
    reproduce = ("reproduce", "nsdi22-08", "--victim", "--repeat", "2")
    lost = json.loads(collie(*reproduce, "--format", "json", cwd=tmp_path).stdout)["victim_lost_ratio"]
    assert len(lost) == 2
    assert min(lost) > 0.8
    assert "; the victim loses 9" in collie(*reproduce, cwd=tmp_path).stdout
    sweep = ("sweep", "--x", "qps=1,8", "--victim", "-o", "s.csv")
    swept = collie(*sweep, cwd=tmp_path).stdout
    heads, one, eight = (line.split() for line in swept.splitlines()[1:4])
    assert " ".join(heads[-3:]) == "victim loses verdict"
    assert "\nthe victim loses a share of its throughput alone; the verdict is against " in swept
    assert (one[-2], eight[-2]) == ("50%", "89%"), "the fair share of a queue pair beside 1 and 8 others"
    with (tmp_path / "s.csv").open() as file:
        assert [float(row["victim_lost_ratio"]) > 0.4 for row in csv.DictReader(file)] == [True, True]
    without = collie("sweep", "--x", "qps=1,8", cwd=tmp_path).stdout
    assert "victim" not in without


@pytest.mark.parametrize("load", ["0Gbit", "fast"])
def test_a_load_that_is_none_is_refused(tmp_path: Path, load: str) -> None:
    refused = collie("isolate", "--dry-run", "--victim-load", load, cwd=tmp_path, status=2)
    assert "--victim-load" in refused.stderr


@pytest.mark.parametrize(
    "command", [("isolate", "--dry-run"), ("isolate", "--campaign", "c"), ("measure", "nsdi22-08")]
)
def test_a_load_that_no_port_carries_is_refused(tmp_path: Path, command: tuple[str, ...]) -> None:
    refused = collie(*command, "--victim-load", "999Gbit/s", cwd=tmp_path, status=2)
    said = "--victim-load 999 Gbit/s is more than a port carries: 196 Gbit/s of payload"
    assert refused.stderr == f"collie: {said}\n"
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--recipe", "guided"), "--recipe guided does not judge what the victim loses"),
        (("--space", "nsdi22"), "--space nsdi22 has no offered load to compare"),
    ],
)
def test_a_search_that_cannot_tell_what_the_victim_loses_is_refused(
    tmp_path: Path, options: tuple[str, str], said: str
) -> None:
    refused = collie("isolate", "--dry-run", *options, cwd=tmp_path, status=2)
    assert said in refused.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "--recipe guided does not judge what the victim loses"),
        (("--recipe", "isolate", "--victim"), "--space nsdi22 has no offered load to compare"),
    ],
)
def test_a_search_that_cannot_tell_what_the_victim_loses_is_not_resumed(
    tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    collie("search", "--budget", "2runs", "--campaign", "c", *options, cwd=tmp_path)
    refused = collie("isolate", "--resume", "c", "--budget", "4runs", cwd=tmp_path, status=2)
    go_on = "collie search --resume c"
    assert refused.stderr == f"collie: c began with this: {said}; go on with it by: {go_on}\n"
    collie(*go_on.split()[1:], "--budget", "4runs", cwd=tmp_path)


@pytest.mark.parametrize(
    "command",
    [
        ("search", "--dry-run"),
        ("search", "--campaign", "c"),
        ("measure", "nsdi22-08"),
        ("sweep", "--x", "qps", "--workload", "nsdi22-08"),
    ],
)
def test_a_recipe_that_judges_the_victim_needs_one(tmp_path: Path, command: tuple[str, ...]) -> None:
    refused = collie(*command, "--recipe", "isolate", cwd=tmp_path, status=2)
    assert refused.stderr == "collie: recipe isolate judges what a victim loses, and none runs; add --victim\n"
    assert not (tmp_path / "c").exists()


def test_an_isolation_is_resumed(tmp_path: Path) -> None:
    collie("isolate", "--budget", "2runs", "--campaign", "c", cwd=tmp_path)
    goes_on = collie("isolate", "--resume", "c", "--budget", "4runs", "--format", "json", cwd=tmp_path)
    assert json.loads(goes_on.stdout)["runs"] == 4


@pytest.mark.parametrize("space", ["tenants", "control-verbs", "soft-roce-load"])
def test_a_space_with_offered_loads_is_searched(tmp_path: Path, space: str) -> None:
    plan = json.loads(collie("isolate", "--dry-run", "--space", space, "--format", "json", cwd=tmp_path).stdout)
    assert "offered_bps" in plan["dimensions"]


def test_a_plan_names_what_is_compared(tmp_path: Path) -> None:
    plan = json.loads(collie("isolate", "--dry-run", "--format", "json", cwd=tmp_path).stdout)
    assert (plan["recipe"], plan["space"]) == ("isolate", "tenants")


def test_a_workload_is_measured_beside_a_victim(tmp_path: Path) -> None:
    done = collie("measure", "nsdi22-01", "--victim", cwd=tmp_path).stdout
    assert "victim  keeps" in done
