"""`collie search --scheduler`: a real dask scheduler, worker processes, and one of them killed on the way."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from pickle import dumps
from socket import socket
from threading import Event
from time import sleep
from types import SimpleNamespace
from typing import Any

import dask
import distributed
import pytest

from collie.app import campaigns, testbeds
from collie.app.adapters import Adapters
from collie.campaign.choice import SearchChoice, TestbedChoice
from collie.campaign.events import RunBegun
from collie.campaign.safety import Guard
from collie.cli.main import run
from collie.content.anomalies import load_reference
from collie.detect.measurement import Measurement
from collie.errors import HostUnreachable, TestbedError, UsageError
from collie.inventory.safety import SafetyLimits
from collie.ports import Measured, PairLost, TestbedInfo
from collie.scheduler import worker as in_worker
from collie.scheduler.distributed import DistributedPairs, Patience
from collie.scheduler.worker import Open
from collie.testing.fakes import FakeTestbed, ListSink
from collie.wiring import ADAPTERS
from collie.workloads.workload import Workload

CHOICE = SearchChoice(budget="45runs", seed=1, pairs=3)


@pytest.fixture(scope="module")
def cluster() -> Iterator[distributed.LocalCluster]:
    """A scheduler of this process; workers come and go."""
    with distributed.LocalCluster(
        n_workers=0,
        processes=False,
        host="127.0.0.1",
        protocol="tcp",
        dashboard_address="127.0.0.1:0",
        silence_logs=logging.ERROR,
    ) as made:
        yield made


@contextmanager
def workers(cluster: distributed.LocalCluster, count: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Workers as a user starts them."""
    words = [cluster.scheduler_address, "--no-nanny", "--nthreads", "1", "--no-dashboard", "--host", "127.0.0.1"]
    command = [sys.executable, "-m", "distributed.cli.dask_worker", *words]
    with distributed.Client(cluster, set_as_default=False) as client:
        before = set(client.nthreads())
        started = [
            subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(count)
        ]
        try:
            client.wait_for_workers(len(before) + count, timeout=120)
            yield started
        finally:
            for process in started:
                process.kill()
                process.wait()
            while set(client.nthreads()) - before:
                sleep(0.05)


@dataclass
class Killer(ListSink):
    """Kills processes when a run begins."""

    run: int = 0
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def on_event(self, event: Any) -> None:
        super().on_event(event)
        if isinstance(event, RunBegun) and event.run == self.run:
            for process in self.processes:
                process.kill()


def searched(choice: SearchChoice, directory: Path, sink: ListSink, adapters: Adapters = ADAPTERS) -> bytes:
    opened = campaigns.begin(adapters, choice, directory)
    try:
        opened.run(sink)
    finally:
        opened.close()
    return (directory / "results.jsonl").read_bytes()


def waiting_for_workers(seconds: float) -> Adapters:
    """The adapters, but for the wait for a worker."""
    patience = Patience(worker_seconds=seconds)
    adapters = copy(ADAPTERS)
    vars(adapters)["testbeds"] = replace(
        ADAPTERS.testbeds,
        on_workers=lambda address, opens, absent_ok: DistributedPairs(
            address, opens, absent_ok=absent_ok, patience=patience
        ),
    )
    return adapters


def test_a_campaign_is_the_same_with_workers_one_of_which_is_killed(
    cluster: distributed.LocalCluster, tmp_path: Path
) -> None:
    alone = searched(CHOICE, tmp_path / "alone", ListSink())
    away = SearchChoice(**{**vars(CHOICE), "scheduler": cluster.scheduler_address})
    with workers(cluster, 2) as started:
        assert searched(away, tmp_path / "away", Killer(run=20, processes=started[:1])) == alone
        assert [process.poll() for process in started] == [-signal.SIGKILL, None]

        with pytest.raises(TestbedError, match=r"has had no worker for 0.1 s; start some by: dask worker tcp://"):
            searched(away, tmp_path / "cut", Killer(run=20, processes=started), waiting_for_workers(0.1))
    with pytest.raises(UsageError, match="can run code here: say --scheduler tcp://"):
        campaigns.resume(ADAPTERS, tmp_path / "cut", None)
    with workers(cluster, 1):
        opened = campaigns.resume(ADAPTERS, tmp_path / "cut", None, scheduler=cluster.scheduler_address)
        opened.run(ListSink())
        opened.close()
    assert (tmp_path / "cut" / "results.jsonl").read_bytes() == alone


def measured(result: object) -> Measurement:
    assert isinstance(result, Measured)
    return result.measurement


@dataclass
class _Lasting(FakeTestbed):
    """Real hosts: nobody knows what is left on them without asking."""

    @property
    def info(self) -> TestbedInfo:
        return replace(super().info, virtual_time=False)


@dataclass
class _Gone(FakeTestbed):
    def measure(self, *_: object) -> Any:
        raise HostUnreachable("host-b", "192.0.2.7", "timed out")


def test_watches_act_in_the_worker_errors_come_as_words_and_pairs_move_to_a_worker_that_comes(
    cluster: distributed.LocalCluster,
) -> None:
    with workers(cluster, 1):
        testbed = testbeds.open_testbed(ADAPTERS, CHOICE.testbed, 1, 2, scheduler=cluster.scheduler_address)
        guard = Guard(SafetyLimits(pause_per_second=0.05))
        run = measured(testbed.measure(load_reference("nsdi22-01").trigger, 1, guard.watch()))
        testbed.close()
        assert run.stopped is not None
        assert "--max-pause-per-second" in run.stopped

        pairs = DistributedPairs(
            cluster.scheduler_address, {"one": FakeTestbed, "two": FakeTestbed, "three": partial(_Gone)}
        )
        with workers(cluster, 1):
            runs = [lane.begin(Workload(), 1, None, None).result() for lane in pairs.lanes]
            assert runs[:2] == [FakeTestbed().measure(Workload(), 1)] * 2
            assert runs[2] == PairLost("three", "host host-b (192.0.2.7) cannot be reached: timed out", 0.0)
            assert len(set(pairs._workers._driven_by.values())) > 1
        pairs.close()


@contextmanager
def hanging(cluster: distributed.LocalCluster, seconds: float) -> Iterator[None]:
    """Keep the scheduler from answering anybody for so long, or until the context ends."""
    goes_on = Event()
    assert cluster.loop is not None
    cluster.loop.add_callback(goes_on.wait, seconds)
    try:
        yield
    finally:
        goes_on.set()


def test_a_scheduler_that_is_slow_is_waited_for_and_one_that_hangs_is_named_and_asked_no_more(
    cluster: distributed.LocalCluster,
) -> None:
    opens: dict[str, Open] = {"one": partial(_Lasting), "two": FakeTestbed}
    with workers(cluster, 1):
        patient = DistributedPairs(cluster.scheduler_address, opens)
        with hanging(cluster, 1.0):
            assert measured(patient.measure(Workload(), 1))
        patient.close()
        deadlines = [10.0]
        pairs = DistributedPairs(cluster.scheduler_address, opens, patience=Patience(answer_seconds=deadlines))
        with hanging(cluster, 120.0):
            deadlines[:] = [0.25, 0.25]
            lost = pairs.lanes[0].begin(Workload(), 2, None, None).result()
            assert isinstance(lost, PairLost)
            assert lost.detail == f"scheduler {cluster.scheduler_address} does not answer within 0.5 s"
            deadlines[:] = [600.0]
            assert pairs.close() == dict.fromkeys(FakeTestbed().info.fingerprints), "the queue pairs left are unknown"


@pytest.mark.parametrize("address", ["localhost", "http://a:1", "tcp://a b:1", "tcp://[::1]", "tls://a:123456"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="--scheduler"):
        DistributedPairs(address, {"one": FakeTestbed})


@pytest.mark.parametrize("address", ["foo", "tcp://", "http://127.0.0.1:8786", "tcp://127.0.0.1:99999", "tcp://a b:1"])
def test_a_dry_run_refuses_what_the_run_would(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["search", "--dry-run", "--scheduler", address]) == 2
    dry = capsys.readouterr().err
    assert "is no address; write tcp://HOST:8786" in dry
    assert run(["search", "--scheduler", address]) == 2
    assert capsys.readouterr().err == dry


def test_a_dry_run_asks_no_scheduler(capsys: pytest.CaptureFixture[str]) -> None:
    with socket() as port:
        port.bind(("127.0.0.1", 0))
        port.listen()
        port.setblocking(False)
        assert run(["search", "--dry-run", "--scheduler", f"tcp://127.0.0.1:{port.getsockname()[1]}"]) == 0
        assert "first workloads" in capsys.readouterr().out
        with pytest.raises(BlockingIOError):
            port.accept()


def test_an_address_that_the_settings_of_dask_do_not_go_with_is_refused() -> None:
    with pytest.raises(UsageError, match=r"dask has no certificate for it here.*distributed\.comm\.tls"):
        DistributedPairs("tls://127.0.0.1:9", {"one": FakeTestbed})
    encrypted = dask.config.set({"distributed.comm.require-encryption": True})
    with encrypted, pytest.raises(UsageError, match="require-encryption forbids it; give tls://"):
        DistributedPairs("tcp://127.0.0.1:9", {"one": FakeTestbed})


class Leaving(FakeTestbed):
    """A testbed that leaves queue pairs behind."""

    def close(self) -> dict[str, int | None]:
        return {"a": 2, "b": None}


def test_what_a_testbed_has_left_is_known_however_it_was_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(idle_seconds: float = 300.0) -> None:
        asked = in_worker.ask("pair", Leaving, lambda testbed: testbed.info.name, idle_seconds=idle_seconds)
        assert asked.error is None

    assert in_worker.close("pair").value is None, "nobody knows"
    ask()
    assert in_worker.close("pair").value == {"a": 2, "b": None}
    ask(idle_seconds=0.0)
    while "pair" not in in_worker._left:
        sleep(0.01)
    ask()
    assert in_worker.close("pair").value == {"a": 4, "b": None}
    assert in_worker.close("pair").value is None
    monkeypatch.setitem(in_worker._left, "pair", None)  # of one that was closed and could not tell
    ask()
    assert in_worker.close("pair").value is None, "what the next one tells is not all"


@pytest.mark.parametrize(("status", "stops"), [("running", False), ("closing", True)])
def test_a_worker_that_has_left_its_scheduler_stops_its_run(
    status: str, stops: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = SimpleNamespace(status=SimpleNamespace(name=status))
    monkeypatch.setattr(distributed, "get_worker", lambda: worker)
    testbed = testbeds.open_testbed(ADAPTERS, CHOICE.testbed, 1)
    stopped = measured(in_worker.measure(Workload(), 1, None, None, testbed)).stopped
    assert stopped == ("the worker has left its scheduler" if stops else None)


def test_what_workers_are_sent_names_a_key_file_and_holds_no_key(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("-----BEGIN OPENSSH PRIVATE KEY-----")
    host = "{{address: 10.0.0.{0}, data_address: 192.0.2.{0}, device: d, identity_file: key}}"
    hosts = tmp_path / "hosts.yaml"
    hosts.write_text(f"version: 1\nhosts:\n  a: {host.format(1)}\n  b: {host.format(2)}\n")
    sent = dumps(testbeds.openers(ADAPTERS, TestbedChoice(hosts=str(hosts)), 1, 1))
    assert str(tmp_path / "key").encode() in sent
    assert b"PRIVATE KEY" not in sent


def test_a_scheduler_that_does_not_answer_is_named() -> None:
    patience = Patience(connect_seconds=0.2)
    with pytest.raises(
        TestbedError, match=r"no scheduler answers at tcp://127.0.0.1:9: .* Start one by: dask scheduler"
    ):
        DistributedPairs("tcp://127.0.0.1:9", {"one": FakeTestbed}, patience=patience)


def test_without_the_library_the_command_that_installs_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UsageError, match=r"pip install 'collie-rdma\[scheduler\]'"):
        DistributedPairs("tcp://127.0.0.1:8786", {"one": FakeTestbed})
