"""What Collie owes a network, on real verbs: no start beside others, silence when its controller stops."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from collie.inventory.hosts import Pair
from collie.ports import Remote
from tests.command import ARGV, process

pytestmark = [pytest.mark.lab, pytest.mark.slow]

SOON = 30.0
SILENCE_SECONDS = 10.0
PERFTEST_PORT = 18515
WORKLOAD = "{qp_type: RC, opcode: WRITE, messages: [16KiB], qps: 2}\n"


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    file = tmp_path / "workload.yaml"
    file.write_text(WORKLOAD)
    return file


def queue_pairs(remote: Remote) -> list[dict[str, Any]]:
    """Queue pairs that belong to a process."""
    displayed = json.loads(remote.run(["rdma", "-j", "resource", "show", "qp"], SOON).stdout or "[]")
    return [pair for pair in displayed if pair.get("pid")]


def packets(remote: Remote) -> int:
    path = "/sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts"
    return int(remote.run(["cat", path], SOON).stdout)


def listens(remote: Remote) -> bool:
    """Whether a perftest server waits for its client."""
    listening = f":{PERFTEST_PORT:04X} [0-9A-F]*:0000 0A"
    return remote.run(["grep", "-q", listening, "/proc/net/tcp", "/proc/net/tcp6"], SOON).status == 0


def wait_for(condition: Callable[[], object], seconds: float) -> float:
    """Wait until a condition holds; return how long that took."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() < began + seconds, f"not within {seconds:g} s"
        time.sleep(0.2)
    return time.monotonic() - began


def test_traffic_of_another_process_makes_the_start_refuse(
    lab_inventory: Path, pair: Pair, remotes: tuple[Remote, Remote], workload: Path, tmp_path: Path
) -> None:
    # Of UC, as RC ends with an error when a busy machine holds up its acknowledgements.
    server = ["timeout", "200", "ib_write_bw", "-c", "UC", "-d", "rxe0", "-x", "1", "-F", "-D", "180"]
    stranger = threading.Thread(target=remotes[1].run, args=(server, 240), daemon=True)
    stranger.start()
    wait_for(lambda: listens(remotes[1]), SOON)  # a client that comes earlier gives up
    client = threading.Thread(target=remotes[0].run, args=([*server, pair.b.data_address], 240), daemon=True)
    client.start()
    try:
        before = packets(remotes[0])
        wait_for(lambda: packets(remotes[0]) > before + 1000, SOON)
        words = ["measure", str(workload), "--hosts", str(lab_inventory)]
        assert client.is_alive(), "the stranger ended before the start that must refuse"
        refused = process(*words, cwd=tmp_path, status=3)
        assert "ib_write_bw (pid " in refused.stderr
        assert "packets/s without our traffic" in refused.stderr
        assert f"host {pair.a.name}, rxe0" in refused.stderr
        assert "--shared-port" in refused.stderr
        assert refused.stdout == ""
    finally:
        for remote in remotes:
            for each in queue_pairs(remote):
                remote.run(["kill", str(each["pid"])], SOON)
        client.join(SOON)
        stranger.join(SOON)


def test_a_stopped_controller_leads_to_silence_within_ten_seconds(
    lab_inventory: Path, remotes: tuple[Remote, Remote], tmp_path: Path
) -> None:
    words = ["search", "--hosts", str(lab_inventory), "--budget", "40runs", "--campaign", "c"]
    argv = [*ARGV, *words]
    controller = subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        wait_for(lambda: all(queue_pairs(remote) for remote in remotes), 120.0)
        controller.send_signal(signal.SIGSTOP)
        stopped = time.monotonic()
        wait_for(lambda: not any(queue_pairs(remote) for remote in remotes), SILENCE_SECONDS)
        silent_after = time.monotonic() - stopped
        before = [packets(remote) for remote in remotes]
        time.sleep(1)
        assert [packets(remote) for remote in remotes] == before
        assert silent_after <= SILENCE_SECONDS
        print(f"silent {silent_after:.1f} s after SIGSTOP")
    finally:
        controller.send_signal(signal.SIGCONT)
        controller.send_signal(signal.SIGTERM)
        _, stderr = controller.communicate(timeout=120)
    assert "Traceback" not in stderr
    assert [queue_pairs(remote) for remote in remotes] == [[], []]


def test_a_search_keeps_fingerprints_and_proves_that_nothing_is_left(
    lab_inventory: Path, pair: Pair, remotes: tuple[Remote, Remote], tmp_path: Path
) -> None:
    words = ["search", "--hosts", str(lab_inventory), "--budget", "3runs", "--campaign", "c", "--format", "json"]
    done = process(*words, cwd=tmp_path)
    safety = json.loads(done.stdout)["safety"]
    names = [host.name for host in pair.hosts]
    assert safety["queue_pairs_left"] == dict.fromkeys(names, 0)
    assert "queue pairs left: 0 on" in done.stderr
    assert [queue_pairs(remote) for remote in remotes] == [[], []]
    kept = tmp_path / "c" / "fingerprint" / f"{names[0]}.json"
    assert json.loads(kept.read_text())["fingerprint"]["nic"]["driver"] == "rxe"
    same = process("hosts", "diff", "c", names[0], "--hosts", str(lab_inventory), cwd=tmp_path)
    assert "no known difference" in same.stdout

    kept.write_text(kept.read_text().replace('"netdev_mtu": 4200', '"netdev_mtu": 1500'))
    changed = process("hosts", "diff", "c", names[0], "--hosts", str(lab_inventory), cwd=tmp_path, status=1)
    assert "link.netdev_mtu" in changed.stdout
    refused = process("search", "--resume", "c", "--budget", "4runs", cwd=tmp_path, status=2)
    assert f"{names[0]}: link.netdev_mtu: 1500 and 4200" in refused.stderr
    process("search", "--resume", "c", "--budget", "4runs", "--accept-changes", cwd=tmp_path)
    assert (tmp_path / "c" / "fingerprint" / f"{names[0]}@2.json").exists()
