"""Each symptom provoked on real verbs and called what it is; a starved host and a changing link are no anomaly."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from collie.campaign.calibrate import plain_traffic
from collie.campaign.single_run import SingleRunSession
from collie.content.catalogs import load_catalog
from collie.content.recipes import load_recipe
from collie.content.spaces import load_space
from collie.detect.bounds import Bound, Calibration
from collie.detect.judge import judge
from collie.detect.symptom import Symptom, Verdict
from collie.hosts.testbed import HostsTestbed
from collie.inventory.hosts import Pair
from collie.ports import CampaignHeader, Measured, Remote
from collie.readings.policy import WindowPolicy
from collie.ssh.remote import SshRemote
from collie.store.memory import MemoryStore
from collie.testing.fakes import ListSink
from collie.workloads.workload import Opcode, QpType, Workload

pytestmark = pytest.mark.lab

SPACE = load_space("soft-roce")
PLAIN = SPACE.base
THRESHOLDS = load_recipe("soft-roce").thresholds
MUCH = Bound(1e9, 1e6, "specification")
"""More than an emulated machine ever delivers: a run that nothing else explains is judged low throughput."""
SECONDS = 20.0
MANY_QPS = PLAIN.with_(qps=8, messages=(4096,), send_wq_depth=16, wqe_batch=8)
SHORT_RECEIVES = PLAIN.with_(opcode=Opcode.SEND, messages=(4096,), send_wq_depth=128, wqe_batch=1, recv_wq_depth=1)


@pytest.fixture(scope="module")
def testbed(pair: Pair) -> Iterator[HostsTestbed]:
    testbed = HostsTestbed(pair, SshRemote, load_catalog, policy=WindowPolicy(window_seconds=3.0))
    yield testbed
    testbed.close()


def verdict(testbed: HostsTestbed, workload: Workload) -> Verdict:
    result = testbed.measure(workload, 1)
    assert isinstance(result, Measured), result
    return judge(workload, result.measurement, MUCH, THRESHOLDS)


def run(remote: Remote, script: str) -> str:
    done = remote.run(["sh", "-c", script], SECONDS)
    assert done.status == 0, f"{script}: {done.stdout}{done.stderr}"
    return done.stdout


@contextmanager
def in_background(remote: Remote, script: str) -> Iterator[None]:
    pid = run(remote, f"nohup setsid sh -c '{script}' >/dev/null 2>&1 </dev/null & echo $!").strip()
    try:
        yield
    finally:
        remote.run(["kill", "--", f"-{pid}"], SECONDS)


def netdev(remote: Remote) -> str:
    return run(remote, "cat /sys/class/infiniband/rxe0/ports/1/gid_attrs/ndevs/1").strip()


@pytest.mark.acceptance
def test_plain_traffic_is_not_anomalous(testbed: HostsTestbed) -> None:
    """The short form of scripts/acceptance/plain_workloads.py: sizes between those that were calibrated."""
    header = CampaignHeader("plain", {}, SPACE.name, "soft-roce", {}, 1, "2026-11-21T00:00:00Z")
    shapes = [(QpType.RC, Opcode.WRITE), (QpType.RC, Opcode.READ), (QpType.UC, Opcode.SEND), (QpType.UD, Opcode.SEND)]
    workloads = [plain_traffic(SPACE, *shape, 1500) for shape in shapes]
    opcodes = (Opcode.WRITE, Opcode.SEND, Opcode.READ)
    first = SingleRunSession(testbed, MemoryStore(header), SPACE, THRESHOLDS, Calibration(), ListSink())
    calibration = first.calibrate(1, (1024, 4096), opcodes)
    bench = SingleRunSession(testbed, MemoryStore(header), SPACE, THRESHOLDS, calibration, ListSink())
    judged = [bench.judge(workload) for workload in workloads if workload is not None]
    assert len(judged) == len(shapes)
    assert [run.verdict for run in judged if run.verdict is None or run.verdict.is_anomalous] == []


def test_a_receive_queue_that_is_too_short_is_an_rnr_storm(testbed: HostsTestbed) -> None:
    found = verdict(testbed, SHORT_RECEIVES.with_(rnr_retry=7, min_rnr_timer=10))
    assert (found.symptom, found.host) == (Symptom.RNR_STORM, "b"), found
    assert "RNR NAK" in found.reason


def test_queue_pairs_that_give_up_are_completion_errors(testbed: HostsTestbed) -> None:
    found = verdict(testbed, SHORT_RECEIVES.with_(rnr_retry=0, min_rnr_timer=20))
    assert found.symptom is Symptom.COMPLETION_ERRORS, found
    assert "RNR retry exceeded" in found.reason


def test_one_starved_queue_pair_among_eight_is_unfair(testbed: HostsTestbed, remotes: tuple[Remote, Remote]) -> None:
    device = netdev(remotes[1])
    # The low bits of the destination queue pair number, 32 bytes into the IP packet: one of eight consecutive numbers.
    dropped = f"tc filter add dev {device} ingress protocol ip u32 match u32 0x3 0x7 at 32 action drop"
    run(remotes[1], f"tc qdisc add dev {device} clsact && {dropped}")
    try:
        found = verdict(testbed, MANY_QPS)
    finally:
        run(remotes[1], f"tc qdisc del dev {device} clsact")
    assert found.symptom is Symptom.UNFAIRNESS, found
    assert verdict(testbed, MANY_QPS).symptom is not Symptom.UNFAIRNESS


def test_a_link_that_goes_down_and_comes_back_voids_the_run(
    testbed: HostsTestbed, remotes: tuple[Remote, Remote]
) -> None:
    device = netdev(remotes[1])
    wait = "until rdma resource show qp | grep -q pid; do sleep 0.2; done; sleep 1"
    with in_background(remotes[1], f"{wait}; ip link set {device} down; sleep 0.3; ip link set {device} up"):
        found = verdict(testbed, PLAIN)
    assert found.is_inconclusive, found
    assert "the link changed during the run: host b" in found.reason


@pytest.mark.parametrize("starved", [0, 1], ids=["requester", "responder"])
def test_a_host_whose_cpu_others_take_is_inconclusive_and_not_anomalous(
    testbed: HostsTestbed, remotes: tuple[Remote, Remote], starved: int
) -> None:
    with in_background(remotes[starved], "for i in 1 2; do while :; do :; done & done; wait"):
        found = verdict(testbed, PLAIN)
    assert found.is_inconclusive, found
    assert f"host {'ab'[starved]}: other processes took" in found.reason
    # The same workload unstarved: nothing but the bound, which no emulated machine reaches, is against it.
    assert "other processes" not in verdict(testbed, PLAIN).reason
