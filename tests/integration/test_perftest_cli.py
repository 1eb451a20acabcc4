"""Exporting to perftest and importing from the released prototype, as a user does."""

from __future__ import annotations

import json
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
