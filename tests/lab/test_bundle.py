"""A bundle on machines that never saw Collie, started by a Python that cannot find it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from collie.agent.build import build
from collie.bundle import archive
from collie.bundle.catalogs import Catalogs
from collie.campaign.reproduce import Bundle, Plan
from collie.content.catalogs import load_catalog
from collie.content.recipes import load_recipe
from collie.content.spaces import load_space
from collie.detect.plain import plain_sibling
from collie.detect.symptom import Symptom
from collie.inventory.fingerprint import Fingerprint
from collie.inventory.hosts import Pair
from collie.ports import Remote
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.workload import Opcode

pytestmark = pytest.mark.lab

SPACE = load_space("soft-roce")
STORM = SPACE.base.with_(
    opcode=Opcode.SEND, messages=(4096,), send_wq_depth=128, wqe_batch=1, recv_wq_depth=1, min_rnr_timer=10, rnr_retry=7
)
"""A receive queue that is too short: every run of it is an RNR storm. With fewer retries than for ever it ends in
completion errors on kernel 6.12, where receivers are late (docs/explanation/emulated-machines.md)."""
ELSEWHERE = "6.99.0-nowhere"


def bundle(pair: Pair) -> Bundle:
    return Bundle(
        name="storm",
        collie_version="0",
        exported="2026-11-22T00:00:00Z",
        found_on="this lab, on another kernel",
        sentence="",
        likely="",
        symptom=Symptom.RNR_STORM,
        mfs=Mfs((Condition("recv_wq_depth", Op.AT_MOST, 1),)),
        plan=Plan(STORM),
        siblings={STORM: plain_sibling(STORM, SPACE)},
        thresholds=load_recipe("soft-roce").thresholds,
        fingerprints={host.name: Fingerprint({"software": {"kernel": ELSEWHERE}}) for host in pair.hosts},
    )


def hosts_file(pair: Pair, path: Path) -> Path:
    fields = ("address", "port", "user", "identity_file", "host_key", "data_address", "device", "gid_index", "python")
    hosts = {host.name: {field: getattr(host, field) for field in fields} for host in pair.hosts}
    path.write_text(json.dumps({"version": 1, "hosts": hosts}))
    return path


def test_a_bundle_reproduces_and_says_what_differs(pair: Pair, remotes: tuple[Remote, Remote], tmp_path: Path) -> None:
    made = bundle(pair)
    file = tmp_path / "storm.pyz"
    file.write_bytes(archive.build(made, Catalogs([load_catalog("rxe")]), build()))
    assert archive.read(file) == made
    for remote in remotes:
        assert remote.run(["rm", "-rf", ".cache/collie"], 20.0).status == 0
    hosts = hosts_file(pair, tmp_path / "hosts.json")
    argv = [sys.executable, "-I", "-S", str(file), "--hosts", str(hosts), "--repeat", "1", "--format", "json"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["reproduced"] == "yes"
    (verdict,) = answer["verdicts"]
    assert (verdict["outcome"], verdict["symptom"], verdict["host"]) == ("anomalous", "rnr_storm", "b")
    for host in answer["fingerprint_difference"]:
        (kernel,) = (each for each in host["differences"] if each["field"] == "software.kernel")
        assert kernel["known"]
        assert kernel["values"][0] == ELSEWHERE
    assert answer["safety"]["queue_pairs_left"] == {host.name: 0 for host in pair.hosts}
