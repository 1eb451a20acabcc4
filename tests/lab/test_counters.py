"""Collie's rates on Soft-RoCE against what the `rdma` tool says of the same seconds, and what the generator counts."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from collie.content.catalogs import load_catalog
from collie.content.inventory import load_inventory
from collie.counters.catalog import Catalog
from collie.counters.series import rates
from collie.hosts import HostsTestbed
from collie.hosts.curve import Curve
from collie.hosts.samples import AgentSample, snapshot
from collie.inventory.hosts import Pair
from collie.ports import Measured
from collie.ssh import SshRemote
from collie.workloads.workload import Workload

pytestmark = pytest.mark.lab

WITHIN = 0.02
READER = """
import json, subprocess, sys, time
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    before = time.monotonic()
    shown = subprocess.run(["rdma", "-j", "statistic", "show", "link", sys.argv[2]], capture_output=True, check=True)
    print(json.dumps([(before + time.monotonic()) / 2, json.loads(shown.stdout)[0]]))
    time.sleep(0.1)
"""
WORKLOAD = Workload(messages=(4096,), mtu=1024, qps=2, send_wq_depth=16, sq_sig_all=True)
"""Every message is four packets and has a completion of its own, and little is under way at any moment."""


@pytest.fixture(scope="module")
def pair(request: pytest.FixtureRequest) -> Pair:
    named = os.environ.get("COLLIE_LAB_INVENTORY")
    inventory = Path(named) if named else Path(request.getfixturevalue("running_lab").inventory)
    return load_inventory(inventory).pairs[0]


class Tool(threading.Thread):
    """Reads `rdma -j statistic` on a host again and again, with the host's own clock."""

    def __init__(self, remote: SshRemote, python: str, port: str, seconds: float) -> None:
        super().__init__()
        self._remote, self._argv = remote, [python, "-c", READER, f"{seconds:g}", port]
        self.readings: list[tuple[float, Mapping[str, int]]] = []

    def run(self) -> None:
        done = self._remote.run(self._argv, 60)
        assert done.status == 0, done.stderr
        self.readings = [(moment, counters) for moment, counters in map(json.loads, done.stdout.splitlines())]

    def rate(self, name: str, begin: float, end: float) -> float:
        """Per second between two moments of the host's clock, linear between readings."""
        advance = Curve([(moment, counters[name]) for moment, counters in self.readings]).advance(begin, end)
        assert advance is not None
        return advance / (end - begin)


@pytest.fixture(scope="module")
def measured(pair: Pair) -> Iterator[tuple[Measured, Mapping[str, Sequence[AgentSample]], Mapping[str, Tool]]]:
    testbed = HostsTestbed(pair, SshRemote, load_catalog)
    remotes = {"a": SshRemote(pair.a), "b": SshRemote(pair.b)}
    try:
        assert testbed.info.catalog.driver == "rxe"  # the agents are up before anything is timed
        tools = {
            role: Tool(remotes[role], host.python, f"{host.device}/1", 9.0)
            for role, host in (("a", pair.a), ("b", pair.b))
        }
        for tool in tools.values():
            tool.start()
        result = testbed.measure(WORKLOAD, 1)
        for tool in tools.values():
            tool.join()
        assert isinstance(result, Measured)
        samples = {role: testbed._sessions[role].client().take_samples() for role in ("a", "b")}
        yield result, samples, tools
    finally:
        testbed.close()
        for remote in remotes.values():
            remote.close()


def in_window(samples: Sequence[AgentSample], seconds: float) -> list[AgentSample]:
    return [sample for sample in samples if sample.clock >= samples[-1].clock - seconds]


@pytest.mark.parametrize("role", ["a", "b"])
@pytest.mark.parametrize("name", ["sent_pkts", "rcvd_pkts"])
def test_rates_agree_with_the_rdma_tool(
    measured: tuple[Measured, Mapping[str, Sequence[AgentSample]], Mapping[str, Tool]], role: str, name: str
) -> None:
    result, samples, tools = measured
    catalog = load_catalog("rxe")
    window = in_window(samples[role], result.measurement.window_seconds)
    rate = rates(Catalog("rxe", catalog.counters), [snapshot(sample, catalog) for sample in window])[name]
    told = tools[role].rate(name, window[0].clock, window[-1].clock)
    print(f"{role} {name}: Collie {rate:.1f}/s, rdma {told:.1f}/s")
    assert told > 0
    assert rate == pytest.approx(told, rel=WITHIN)


def test_rates_agree_with_what_the_generator_counted(
    measured: tuple[Measured, Mapping[str, Sequence[AgentSample]], Mapping[str, Tool]],
) -> None:
    result, _, _ = measured
    sink = result.measurement.host("b")
    received, delivered = sink.counters["rcvd_pkts"], sink.delivered_pps
    assert received is not None
    assert delivered is not None
    again = sink.counters["duplicate_request"]
    print(f"b: {received:.1f} packets/s received, {delivered:.1f} delivered, {again} duplicates/s")
    assert received == pytest.approx(delivered, rel=WITHIN)
