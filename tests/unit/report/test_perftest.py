"""perftest commands as text and as a script, which runs here against a perftest that only prints."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from collie.app import cases
from collie.content.spaces import load_space
from collie.detect.symptom import Symptom
from collie.perftest.case import PerftestCase, in_perftest
from collie.perftest.parse import workload_of
from collie.report.perftest import perftest_json, render_commands, render_script
from collie.wiring import ADAPTERS
from collie.workloads.feature import Mfs

SPACE = load_space("nsdi22")


def case(name: str) -> PerftestCase:
    named = cases.case_named(ADAPTERS, name).case
    return in_perftest(named.name, named.workload, named.symptom, named.mfs, SPACE)


@pytest.mark.parametrize("number", ["03", "08", "12", "13", "15", "18"])
def test_the_commands_can_be_pasted_back(number: str) -> None:
    exported = case(f"nsdi22-{number}")
    text = render_commands(exported)
    lines = [line for line in text.splitlines() if line.startswith("ib_")]
    of_anomaly = 2 * len(exported.anomaly.pairs)
    assert workload_of(*lines[:of_anomaly]) == exported.anomaly.runs
    assert workload_of(*lines[of_anomaly:]) == exported.sibling.runs
    assert all(line.startswith("#") or not line or "=" in line for line in text.splitlines() if line not in lines)


def test_what_perftest_lacks_is_comment_only() -> None:
    text = render_commands(case("nsdi22-09"))
    assert all(line.startswith("#") for line in text.splitlines())
    assert "sge_count 1 instead of 3: every work request has one scatter/gather entry" in text
    assert "sge_split even instead of [128 B, 64 KiB]" in text
    assert "--as bundle" in text


def test_the_same_as_json() -> None:
    reported = json.loads(json.dumps(perftest_json(case("nsdi22-11"))))
    assert reported["expressible"] is True
    assert [pair["flow"] for pair in reported["commands"]] == ["a-b", "b-a"]
    assert reported["commands"][0]["server"]["command"].startswith(
        "numactl -N $NODE_B -m $NODE_B ib_write_bw -d $DEVICE_B"
    )
    assert reported["settings"]["NODE_B"] == "1"
    assert perftest_json(case("nsdi22-04"))["commands"] == []


# Prints what perftest would: a tenth of the messages where the anomaly's MTU is asked for.
# It does so on a busy host: no clock, and so no rate.
PRINTS = """#!/bin/sh
echo "$0 $*" >>"$HEARD"
case "$*" in *"-m 1024"*) count=3000 ;; *) count=30000 ;; esac
echo " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]"
echo " $SIZE      $count             0.00               0.00               0.000000"
"""


@pytest.fixture
def hosts(tmp_path: Path) -> dict[str, str]:
    """An environment in which every host is this machine, and every perftest program only prints."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("ib_write_bw", "ib_send_bw", "ib_read_bw"):
        (programs / name).write_text(PRINTS)
    (programs / "here").write_text('#!/bin/sh\nshift\nexec sh -c "$*"\n')
    for program in programs.iterdir():
        program.chmod(0o755)
    heard = tmp_path / "heard"
    heard.touch()
    reached = {"SSH": "here", "A": "host-a", "B": "host-b", "ADDRESS_A": "10.0.0.1", "ADDRESS_B": "10.0.0.2"}
    short = {"ROUNDS": "2", "PAUSE": "0", "DURATION": "3", "DEVICE_B": "rxe0", "HEARD": str(heard)}
    return {"PATH": f"{programs}:{os.environ['PATH']}", **reached, **short}


def run(script: str, hosts: dict[str, str], size: int) -> subprocess.CompletedProcess[str]:
    argv = ["/bin/sh", "-c", script]
    return subprocess.run(
        argv, env={**hosts, "SIZE": str(size)}, capture_output=True, text=True, timeout=60, check=False
    )


def test_the_script_compares_the_anomaly_with_its_sibling(hosts: dict[str, str]) -> None:
    done = run(render_script(case("nsdi22-03")), hosts, 4 << 20)
    assert done.returncode == 0, done.stderr
    assert "plain sibling: 335.5 Gbit/s" in done.stdout  # 30,000 messages of 4 MiB in 3 s
    assert "anomaly, to host a: 33.55 Gbit/s, ratio 0.10" in done.stdout  # a READ delivers to its requester
    heard = Path(hosts["HEARD"]).read_text().splitlines()
    assert len(heard) == 2 * 2 * 2  # rounds, runs, ends
    assert sum("10.0.0.2" in line for line in heard) == 4
    assert all("-D 3" in line for line in heard)
    assert sum("-d rxe0" in line for line in heard) == 4


def test_the_script_distinguishes_directions_and_loopback(hosts: dict[str, str]) -> None:
    both = run(render_script(case("nsdi22-18")), hosts, 12288)
    assert "anomaly, to host a: 0.0983 Gbit/s, ratio 0.10" in both.stdout
    assert "anomaly, to host b: 0.0983 Gbit/s, ratio 0.10" in both.stdout
    itself = run(render_script(case("nsdi22-13")), hosts, 262144)
    assert [line for line in itself.stdout.splitlines() if "host b:" in line] == [
        "anomaly, to host b: 20.97 Gbit/s, ratio 1.00"
    ]


def test_the_script_wants_to_know_the_hosts_and_says_what_failed(hosts: dict[str, str]) -> None:
    script = render_script(case("nsdi22-03"))
    unknown = run(script, {**hosts, "B": ""}, 64)
    assert unknown.returncode != 0
    assert "host b as ssh takes it" in unknown.stderr
    (Path(hosts["PATH"].partition(":")[0]) / "ib_read_bw").write_text("#!/bin/sh\necho nothing\n")
    assert "ratio unknown" in run(script, {**hosts, "ROUNDS": "1"}, 64).stdout
    (Path(hosts["PATH"].partition(":")[0]) / "ib_read_bw").write_text("#!/bin/sh\necho no device >&2\nexit 1\n")
    broken = run(script, {**hosts, "ROUNDS": "1"}, 64)
    assert broken.returncode == 3
    assert "no answer on host-a" in broken.stderr
    assert "no device" in broken.stderr


def test_the_script_counts_in_the_window_of_perftest(hosts: dict[str, str]) -> None:
    script = render_script(case("nsdi22-03"))
    longer = run(script, {**hosts, "DURATION": "10", "ROUNDS": "1"}, 4 << 20)
    assert "plain sibling: 167.8 Gbit/s" in longer.stdout  # 30,000 messages of 4 MiB in 10 - 2 * 2 s


PLAIN = in_perftest("a2", SPACE.base, Symptom.PAUSE, Mfs(()), SPACE)


def test_plain_traffic_is_not_compared_with_itself(hosts: dict[str, str]) -> None:
    said = "# This is plain traffic itself: no healthy plain sibling exists to compare with."
    text = render_commands(PLAIN)
    assert text.splitlines()[-1] == said
    assert len([line for line in text.splitlines() if line.startswith("ib_")]) == 2
    assert "when nothing is wrong" not in text
    reported = perftest_json(PLAIN)
    assert len(reported["commands"]) == 1
    assert reported["sibling"] == []
    script = render_script(PLAIN)
    assert said in script
    done = run(script, hosts, 64 << 10)
    assert done.returncode == 0, done.stderr
    rate, verdict = done.stdout.splitlines()
    assert rate == "anomaly, to host b: 5.243 Gbit/s"
    assert verdict.startswith("It is plain traffic itself, so no ratio is known. It shows as pause that a host sends")
    assert len(Path(hosts["HEARD"]).read_text().splitlines()) == 2 * 2  # rounds, ends


def test_a_plain_workload_has_one_block_too() -> None:
    text = render_commands(in_perftest("w", SPACE.base, None, Mfs(()), SPACE))
    assert text.splitlines()[-1] == "# This is plain traffic itself: there is no other one to compare with."


def test_an_anomaly_whose_explanation_has_not_begun_says_so() -> None:
    bare = replace(case("nsdi22-03"), name="a1", mfs=Mfs(()), explanation_begun=False)
    assert render_commands(bare).startswith("# a1: pause, not explained yet: its explanation has not begun\n")


def test_a_name_cannot_leave_its_comment() -> None:
    named = replace(case("nsdi22-03"), name="a\nreboot")
    assert "a reboot: pause" in render_commands(named)
    assert "\nreboot" not in render_script(named)
