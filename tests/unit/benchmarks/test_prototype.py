"""The benchmark of the released prototype, with a stand-in for its checkout."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from benchmarks.prototype import MODES, main
from tests.support.results import Result, read_results

POINTS = """
def traffic(client, server, **changed):
    host = dict(numa_node=0, mr_num=1, buf_num=1, buf_size=65536, send_wq_depth=128, recv_wq_depth=128)
    ends = {"client": {**host, "ip": client, "send_batch": 1, "recv_batch": 0},
            "server": {**host, "ip": server, "send_batch": 0, "recv_batch": 1}}
    return {"process_num": 4, "qp_num": 2, "mtu": 5, "qp_type": "RC", "reqs": "w_1_65536,", **ends, **changed}

class Point:
    def __init__(self, *traffics):
        self.traffics = traffics
    def log_to_dict(self):
        return {"Traffics": list(self.traffics)}

PLAIN = Point(traffic("a", "b"))
SILENT = Point(traffic("a", "b", reqs=""))
UNLIKE = Point(traffic("a", "b", reqs="w_1_1048576,"), traffic("b", "b"))
"""
ANNEAL = """
import random
import subprocess
import logger
from engine import Engine
from hardware import Counters
from bone import Bones
from space import Space, PLAIN, SILENT, UNLIKE

class Director:
    def __init__(self, traffic_binary, hwmon_binary, config, ip_A, ip_B, usr_A, usr_B, logpath):
        logger.Init(logpath)
        self._bonemon, self._hwmon, self._engine = Bones(**config["bars"]), Counters(), Engine("")
        Space().update_numa()
    def simulated_annealing(self, iters):
        assert [self._sent(point) for point in (PLAIN, SILENT)] == [0, -1]
        print("what the prototype prints goes nowhere")
        random.randint(1, 8 / 2)
        subprocess.check_output("a folder of its log", shell=True)
        for _ in range(iters):
            self._sent(UNLIKE)
    def diag_simulated_annealing(self, iters):
        self._sent(UNLIKE)
        assert self._hwmon.monitor("")["loopback_back_pressure"] > 0
        self._engine.log_scripts(UNLIKE, "nowhere")
    def _sent(self, point):
        assert self._engine.clean_process() == 0
        return self._engine.set_up_traffic(point)
"""
STAND_IN: Mapping[str, str] = {
    "logger": "raise SystemExit('the log was imported')",
    "engine": "class Engine:\n    def __init__(self, binary):\n        raise SystemExit('traffic on hosts')\n",
    "hardware": "class Counters:\n    pass\n",
    "bone": """
class Bones:
    def __init__(self, bps_bar, pps_bar, tx_pfc_bar, rx_pfc_bar):
        self.pause, self.bps = tx_pfc_bar, bps_bar
    def check_bone(self, read):
        if max(read["tx_prio3_pause_duration"], read["rx_prio3_pause_duration"]) > self.pause:
            return -1
        return -2 if max(read[f"{way}_vport_rdma_unicast_bytes"] for way in ("tx", "rx")) < self.bps else 0
""",
    "space": f"{POINTS}\nclass Space:\n    def update_numa(self):\n        raise SystemExit('a host was asked')\n",
    "anneal": ANNEAL,
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "prototype" / "search"
    folder.mkdir(parents=True)
    for name, text in STAND_IN.items():
        (folder / f"{name}.py").write_text(text)
    return folder.parent


def searched(checkout: Path, mode: str) -> Result:
    output = checkout / "out.jsonl"
    main([str(checkout), "--modes", mode, "--seeds", "3", "--budget", "10m", "--jobs", "1", "--output", str(output)])
    (result,) = (one for one in read_results(output) if one["mode"] == mode)
    return result


def test_its_points_run_on_the_subsystem_until_the_budget_ends(
    checkout: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    result = searched(checkout, "perf")
    printed = capfd.readouterr().out
    assert "goes nowhere" not in printed
    assert "| prototype-perf | 1 |" in printed
    assert result["ended_by"] == "budget"
    assert result["budget_minutes"] == 10
    assert 10 < result["points"] <= 30  # 20 s or more each
    assert set(result["found"]) == {"loopback_incast"}
    assert 0.8 < result["found"]["loopback_incast"] < 2  # after a plain point and one that sends nothing
    assert result["anomalous"] == result["points"] - 1
    assert result["unfounded"] == 0


def test_its_second_mode_reads_diagnostic_counters_and_ends_by_itself(checkout: Path) -> None:
    result = searched(checkout, "diag")
    assert (result["ended_by"], result["points"]) == ("itself", 1)


def test_a_search_on_record_is_not_run_again(checkout: Path) -> None:
    before = searched(checkout, "diag")
    (checkout / "search" / "anneal.py").write_text("raise SystemExit('it has run again')")
    assert searched(checkout, "diag") == before


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["missing"], "no logger.py; give a checkout of github.com/bytedance/Collie"),
        ([".", "--modes", "perf,x"], f"no mode x; there is {', '.join(MODES)}"),
    ],
)
def test_a_wrong_command_line_is_refused(words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert complaint in capsys.readouterr().err
