"""The exported script on real verbs: perftest's own figure collapses where Collie's does."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from collie.content.spaces import load_space
from collie.detect.symptom import Symptom
from collie.inventory.hosts import Host, Pair
from collie.perftest.case import in_perftest
from collie.report.perftest import render_script
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.workload import Opcode

pytestmark = pytest.mark.lab

SPACE = load_space("soft-roce")
STORM = in_perftest(
    "storm",
    SPACE.base.with_(opcode=Opcode.SEND, messages=(4096,), send_wq_depth=128, wqe_batch=1, recv_wq_depth=2),
    Symptom.RNR_STORM,
    Mfs((Condition("recv_wq_depth", Op.AT_MOST, 2),)),
    SPACE,
)
"""Two receives for 128 messages under way: most are turned away and wait (RNR NAK)."""


def ssh(host: Host, folder: Path) -> str:
    """Return the words that reach a host with the key that the inventory pins."""
    known = folder / "known_hosts"
    with known.open("a") as file:
        file.write(f"[{host.address}]:{host.port} {host.host_key}\n")
    return f"ssh -i {host.identity_file} -o UserKnownHostsFile={known} -o BatchMode=yes"


def test_the_script_shows_the_collapse(pair: Pair, tmp_path: Path) -> None:
    assert not STORM.anomaly.lacks
    script = render_script(STORM, dict(zip("ab", pair.hosts, strict=False)))
    reached = [ssh(host, tmp_path) for host in (pair.a, pair.b)]
    gids = {"GID_A": "1", "GID_B": "1"}  # RoCE v2 over IPv4
    environment = {**os.environ, **gids, "SSH": reached[0], "ROUNDS": "1", "DURATION": "3"}
    argv = ["sh", "-c", script]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"anomaly, to host b: (\S+) Gbit/s, ratio (\S+)", done.stdout)
    assert found, done.stdout
    assert float(found[2]) < 0.8, done.stdout
