"""Collie's rates on Soft-RoCE against what the `rdma` tool says of the same seconds, and what the generator counts."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, median

import pytest

from collie.content.catalogs import load_catalog
from collie.counters.catalog import Catalog
from collie.counters.series import rates
from collie.detect.measurement import Measurement
from collie.hosts.testbed import HostsTestbed
from collie.inventory.hosts import Host, Pair
from collie.ports import Measured
from collie.readings.delivery import Curve
from collie.readings.policy import WindowPolicy
from collie.readings.samples import AgentSample, snapshot
from collie.ssh.remote import SshRemote
from collie.workloads.workload import Workload

pytestmark = pytest.mark.lab

WITHIN = 0.02
FLAG = "/tmp/collie-reads-rdma-statistic"
READER = """
touch "$2"
while [ -e "$2" ]; do
    read before rest </proc/uptime
    rdma -j statistic show link "$1"
    read after rest </proc/uptime
    echo "@ $before $after"
    sleep 0.4
done
"""
"""The machine's uptime is the clock of the samples, as it never sleeps. Python would take the traffic's CPU."""
READING = re.compile(r"(?P<shown>[^@]+)@ (?P<before>\S+) (?P<after>\S+)\n")
"""What the tool shows is one line, or, by iproute2 6.15, several."""
WORKLOAD = Workload(messages=(4096,), mtu=1024, qps=2, send_wq_depth=16, sq_sig_all=True, timeout=18)
"""Every message is four packets and has a completion of its own, little is under way at any moment, nothing is late."""
POLICY = WindowPolicy(window_seconds=40.0, patience_seconds=0.0, averaging_seconds=0.0)
"""When a reading was made, nobody knows better than to some 200 ms; at either end of a window, that is 0.5 % of it."""
SHIFTS = 8
"""Windows to compare, each a sample later than the one before: a reading that came late tells on one or two of them."""
LONGEST_READING = 2.0
"""Of the usual duration: between its two looks at the clock, nobody knows when a longer one read the counters."""


class Tool(threading.Thread):
    """Reads `rdma -j statistic` on a host again and again, until it is stopped."""

    def __init__(self, host: Host) -> None:
        super().__init__()
        self._host, self._port = host, f"{host.device}/{host.ib_port}"
        self.readings: list[tuple[float, Mapping[str, int]]] = []

    def run(self) -> None:
        remote = SshRemote(self._host)
        # Under load, starting a process takes longer than what it reads: nothing keeps this one waiting.
        done = remote.run(["chrt", "--fifo", "1", "sh", "-c", READER, "sh", self._port, FLAG], 120)
        remote.close()
        assert done.status == 0, done.stderr
        read = [
            (float(found["before"]), float(found["after"]), found["shown"]) for found in READING.finditer(done.stdout)
        ]
        longest = LONGEST_READING * median(after - before for before, after, _ in read)
        self.readings = [
            ((before + after) / 2, json.loads(displayed)[0])
            for before, after, displayed in read
            if after - before <= longest
        ]

    def __enter__(self) -> Tool:
        self.start()
        self.wait_until_it_reads()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def wait_until_it_reads(self) -> None:
        remote = SshRemote(self._host)
        waited = remote.run(["sh", "-c", f"until [ -e {FLAG} ]; do sleep 0.1; done"], 60)
        remote.close()
        assert waited.status == 0

    def stop(self) -> None:
        remote = SshRemote(self._host)
        remote.run(["rm", "-f", FLAG], 30)
        remote.close()
        self.join()

    def rate(self, name: str, begin: float, end: float) -> float:
        """Per second between two moments of the host's clock, linear between readings."""
        advance = Curve([(moment, counters[name]) for moment, counters in self.readings]).advance(begin, end)
        assert advance is not None
        return advance / (end - begin)


@dataclass(frozen=True)
class Reading:
    """One run, as Collie saw it and as the tool did, by host."""

    measurement: Measurement
    samples: Mapping[str, Sequence[AgentSample]]
    tools: Mapping[str, Tool]


@pytest.fixture(scope="module")
def seen(pair: Pair) -> Reading:
    testbed = HostsTestbed(pair, SshRemote, load_catalog, policy=POLICY)
    assert testbed.info.catalog.driver == "rxe"  # the agents are up before anything is timed
    tools = {"a": Tool(pair.a), "b": Tool(pair.b)}
    try:
        with tools["a"], tools["b"]:
            result = testbed.measure(WORKLOAD, 1)
        assert isinstance(result, Measured), result
        samples = {role: testbed._sessions[role].client().take_samples() for role in tools}
    finally:
        testbed.close()
    return Reading(result.measurement, samples, tools)


def while_running(samples: Sequence[AgentSample], tool: Tool) -> list[AgentSample]:
    """Samples between the tool's first and last reading of those that it made while traffic ran.

    Of a sample between the last of these and the next, nobody knows what the tool would have said: traffic ended in
    between, so what it counted there is not linear.
    """
    warm = samples[0].clock + POLICY.warm_up_seconds
    inside = [moment for moment, _ in tool.readings if warm <= moment <= warm + POLICY.window_seconds]
    return [sample for sample in samples if inside[0] <= sample.clock <= inside[-1]]


def rate_of(name: str, catalog: Catalog, window: Sequence[AgentSample]) -> float:
    rate = rates(catalog, [snapshot(sample, catalog) for sample in window])[name]
    assert rate is not None
    return rate


def test_rates_agree_with_the_rdma_tool(seen: Reading) -> None:
    catalog = load_catalog("rxe")
    for role, tool in seen.tools.items():
        samples = while_running(seen.samples[role], tool)
        windows = [samples[shift : len(samples) - SHIFTS + shift] for shift in range(SHIFTS)]
        assert all(window[-1].clock - window[0].clock >= POLICY.window_seconds / 2 for window in windows)
        for name in ("sent_pkts", "rcvd_pkts"):
            displayed = [rate_of(name, catalog, window) for window in windows]
            reported = [tool.rate(name, window[0].clock, window[-1].clock) for window in windows]
            print(f"{role} {name}: Collie {mean(displayed):.1f}/s, rdma {mean(reported):.1f}/s")
            assert mean(reported) > 0
            assert mean(displayed) == pytest.approx(mean(reported), rel=WITHIN)


def test_rates_agree_with_what_the_generator_counted(seen: Reading) -> None:
    sink = seen.measurement.host("b")
    received, delivered = sink.counters["rcvd_pkts"], sink.delivered_pps
    assert received is not None
    assert delivered is not None
    print(f"b: {received:.1f} packets/s received, {delivered:.1f}/s delivered by the generator's count")
    assert sink.counters["duplicate_request"] == 0
    assert received == pytest.approx(delivered, rel=WITHIN)
