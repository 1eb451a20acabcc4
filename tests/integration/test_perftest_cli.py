"""Exporting to perftest and importing from the released prototype, as a user does."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from collie.cli.main import run

HOSTS = str(Path(__file__).resolve().parents[2] / "hosts.example.yaml")
QUEUES = '"send_wq_depth": 1024, "recv_wq_depth": 1024, "send_batch": 8, "recv_batch": 8'
END = '"ip": "10.0.0.%d", "numa_node": 0, "mr_num": 20, "buf_num": 1, "buf_size": 65536, %s'
POINT = '{"Traffics": [{"process_num": 4, "qp_num": 20, "mtu": 3, "qp_type": "RC", "reqs": "s_2_512_512,", %s}]}\n\n%s'
ENDS = f'"client": {{{END % (1, QUEUES)}}}, "server": {{{END % (2, QUEUES)}}}'


def test_export_as_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["export", "nsdi22-08", "--as", "perftest", "--hosts", HOSTS]) == 0
    text = capsys.readouterr().out
    assert "ADDRESS_B=192.0.2.2" in text
    assert text.count("ib_write_bw -d $DEVICE_") == 4


def test_export_of_what_perftest_cannot_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["export", "nsdi22-10", "--as", "perftest", "--format", "json"]) == 1
    reported = json.loads(capsys.readouterr().out)
    assert (reported["schema_version"], reported["form"], reported["expressible"]) == (1, "perftest", False)
    assert [lack["field"] for lack in reported["lacks"]] == ["messages"]
    assert run(["export", "nsdi22-10", "--as", "script"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "all messages of a process have one size" in said.err


def test_export_as_script(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    script = tmp_path / "a.sh"
    assert run(["export", "nsdi22-08", "--as", "script", "-o", str(script), "--hosts", HOSTS]) == 0
    text = script.read_text()
    assert text.startswith("#!/bin/sh\n")
    assert "A=${A:-ssh://root@mgmt-1.example.com:22}" in text
    assert run(["export", "nsdi22-08", "--hosts", HOSTS]) == 2
    assert "a bundle is told its hosts when it is run" in capsys.readouterr().err


def test_a_point_of_the_prototype_is_run_again(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    point = tmp_path / "12"
    point.write_text(POINT % (ENDS, "tx_vport_rdma_unicast_packets:  1844352.0\ntx_prio3_pause_duration:  0.0\n"))
    assert run(["reproduce", str(point), "--repeat", "1", "--noise", "0", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["symptom"] == "low_throughput"
    point.write_text(POINT % (ENDS, ""))
    assert run(["reproduce", str(point)]) == 2
    assert f"`collie measure {point}` runs it and says what it shows" in capsys.readouterr().err
    assert run(["measure", str(point), "--noise", "0", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"]["symptom"] == "low_throughput"
    assert run(["measure", f"{point}#2"]) == 2
    assert "has no traffic #2; it has #1" in capsys.readouterr().err


def test_what_the_testbed_lacks_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", "nsdi22-12", "--subsystem", "A", "--repeat", "3", "--format", "json"]) == 4
    reported = json.loads(capsys.readouterr().out)
    assert reported["reproduced"] == "inconclusive"
    assert {verdict["reason"].partition(":")[0] for verdict in reported["verdicts"]} == {"unsupported"}
    assert reported["runs"] == 3


def test_a_workload_file_goes_to_perftest_and_back(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("{qp_type: RC, opcode: READ, qps: 4, wqe_batch: 8, messages: [4 KiB], mtu: 2048}\n")
    assert run(["export", str(file), "--as", "perftest"]) == 0
    lines = capsys.readouterr().out.splitlines()
    begin = lines.index("# The workload. All of it runs at the same time, servers first.")
    client = next(line for line in lines[begin:] if line.endswith("$ADDRESS_B"))
    assert run(["measure", "--perftest", client, "--noise", "0", "--format", "json"]) == 0
    workload = json.loads(capsys.readouterr().out)["workload"]
    wanted = {"opcode": "READ", "qps": 4, "wqe_batch": 8, "messages": [4096], "mtu": 2048}
    assert {name: workload[name] for name in wanted} == wanted
    assert run(["export", str(file), "--as", "bundle"]) == 2
    assert "is a workload without an anomaly to reproduce" in capsys.readouterr().err


def test_a_command_line_runs_here_and_gives_perftests_own_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["perftest", "ib_write_bw -q 8 -s 65536 -b --report_gbits", "--noise", "0"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].strip() == "RDMA_Write Bidirectional BW Test"
    head = next(number for number, line in enumerate(lines) if line.startswith(" #bytes"))
    assert "BW average[Gb/sec]" in lines[head]
    size, messages, peak, average, rate = lines[head + 1].split()
    assert (size, peak) == ("65536", "0.00")
    assert float(average) == pytest.approx(8 * 65536 * float(rate) / 1e3, rel=1e-3)
    assert int(messages) > 0
    assert "normal" in lines[head + 3 :]
    assert run(["perftest", "ib_write_bw -q 8 -s 65536 -b", "--noise", "0"]) == 0
    mebibytes = capsys.readouterr().out.splitlines()[head + 1].split()[3]
    assert float(mebibytes) == pytest.approx(float(average) * 1e9 / 8 / (1 << 20), rel=1e-3)


@pytest.mark.parametrize("option", ["-n 5000", "-D 60", "--iters=5000", "-D60"])
def test_what_would_end_perftests_run_is_said_to_have_no_say(caplog: pytest.LogCaptureFixture, option: str) -> None:
    assert run(["perftest", f"ib_write_bw -s 65536 {option}", "--noise", "0"]) == 0
    assert re.search(rf"Collie measures for .* s; {option.split()[0]} has no say in that$", caplog.text, re.MULTILINE)
    caplog.clear()
    assert run(["perftest", "ib_write_bw -s 65536", "--noise", "0"]) == 0
    assert "has no say" not in caplog.text


def test_all_sizes_run_in_order_and_end_where_the_transport_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["perftest", "ib_send_bw -a -c UD", "--noise", "0", "--format", "json"]) == 0
    runs = json.loads(capsys.readouterr().out)["measurements"]
    assert [each["workload"]["messages"] for each in runs] == [[1 << power] for power in range(1, 13)]
    assert {each["set_up"] for each in runs} == {1}
    assert run(["perftest", "ib_write_lat"]) == 2
    assert "keeps no queue full" in capsys.readouterr().err
    assert run(["perftest", "ib_write_bw -a '"]) == 2
    assert "No closing quotation in perftest line" in capsys.readouterr().err


def test_what_the_victim_beside_a_command_line_keeps_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["perftest", "ib_write_bw -q 64 -s 65536", "--victim", "--subsystem", "F"]) == 0
    assert re.search(r"^victim  keeps .* alone: \d+% lost$", capsys.readouterr().out, re.MULTILINE)
    assert run(["perftest", "ib_send_bw -a -c UD", "--victim", "--subsystem", "F"]) == 0
    text = capsys.readouterr().out
    assert len(re.findall(r"^\d+ bytes: the victim keeps ", text, re.MULTILINE)) > 5
    assert text.endswith("normal at every size\n")


def test_a_command_line_need_not_be_quoted(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    quoted = ["perftest", "ib_send_bw -c UD -s 8192 -q 16 -l 64", "--noise", "0"]
    assert run(quoted) == 0
    said = capsys.readouterr()
    assert run(["perftest", "ib_send_bw", "-c", "UD", "-s", "8192", "--noise", "0", "-q", "16", "-l", "64"]) == 0
    assert capsys.readouterr().out == said.out
    assert "A datagram is cut to the MTU of 4096 bytes, as perftest does." in caplog.text
    assert run(["perftest"]) == 2


def test_a_mistyped_program_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["measure", "--perftest", "ib_snd_bw -s 64"]) == 2
    assert "no perftest program is called ib_snd_bw; did you mean 'ib_send_bw'?" in capsys.readouterr().err
