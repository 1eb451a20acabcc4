"""Which counters tell of an anomaly."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from collie import ports, wiring
from collie.app import testbeds
from collie.campaign.choice import TestbedChoice
from collie.content.anomalies import load_reference
from collie.content.spaces import load_space
from collie.counters.catalog import Catalog, Counter, CounterKind, Role, Unit
from collie.detect.measurement import HostMeasurement, Measurement
from collie.detect.plain import plain_sibling
from collie.detect.symptom import Symptom
from collie.ports import Measured
from collie.search.discriminating_counters import MAX_DISCRIMINATING, rank
from collie.search.likely_cause import DiscriminatingCounter, component
from collie.simulator.subsystem import Witness
from collie.wiring import ADAPTERS
from collie.workloads.feature import Condition, Mfs, Op
from collie.workloads.workload import Workload

CATALOG = Catalog(
    "test",
    (
        Counter("arrived", "model", Unit.PACKETS, CounterKind.PERFORMANCE, "wire", role=Role.RX_PACKETS),
        Counter("paused", "model", Unit.MICROSECONDS, CounterKind.PAUSE, "receive buffer", role=Role.TX_PAUSE),
        Counter("buffer_full", "model", Unit.EVENTS, CounterKind.DIAGNOSTIC, "receive buffer"),
        Counter(
            "wqe_miss", "model", Unit.EVENTS, CounterKind.DIAGNOSTIC, "receive WQE cache", meaning="fetched receives"
        ),
        Counter("mtt_miss", "model", Unit.EVENTS, CounterKind.DIAGNOSTIC, "translation cache"),
        Counter("odd", "model", Unit.EVENTS, CounterKind.DIAGNOSTIC, "flux capacitor", meaning="jumps"),
        Counter("level", "model", Unit.PERCENT, CounterKind.DIAGNOSTIC, "PCIe", gauge=True),
    ),
)


def run(packets: float | None = 1e6, **counters: float | None) -> Measurement:
    readings: Mapping[str, float | None] = {"arrived": packets, **counters}
    return Measurement((HostMeasurement("b", counters=readings),), window_seconds=5.0)


PLAIN = [run(wqe_miss=0.0, mtt_miss=100.0 * k, level=10.0 + k, buffer_full=0.0, paused=0.0, odd=0.0) for k in (1, 2, 3)]


def names(telling: tuple[DiscriminatingCounter, ...]) -> list[str]:
    return [item.counter for item in telling]


def test_what_moved_most_comes_first_with_its_component_and_a_hint() -> None:
    telling, cause = rank(run(wqe_miss=5e5, mtt_miss=1e4, level=11.0), PLAIN, Symptom.PAUSE, CATALOG, Mfs(()))
    assert names(telling) == ["wqe_miss", "mtt_miss"]
    assert telling[0].factor == pytest.approx(501.0)
    first = DiscriminatingCounter("wqe_miss", "receive WQE cache", telling[0].factor, "fetched receives", 0.0, 3)
    assert telling[0] == first
    assert cause == "arrivals wait for their receive work requests to be fetched, so the host asks its peer to stop"


@pytest.mark.parametrize("plain", [(1e3,), (1e3, 1e6), (1e3, 1e4, 1e7), (0.0, 1e3, 1e6, 1e7)])
def test_the_median_of_plain_traffic_is_the_one_that_the_factor_is_taken_from(plain: tuple[float, ...]) -> None:
    """A report prints the factor in one place and both readings in another."""
    floor, here = 1e3, 1e12  # an event per thousand packets
    (item,), _ = rank(run(wqe_miss=here), [run(wqe_miss=value) for value in plain], Symptom.PAUSE, CATALOG, Mfs(()))
    assert item.plain is not None
    assert item.factor == pytest.approx((here + floor) / (item.plain + floor))
    assert item.plain_runs == len(plain)


def test_more_packets_are_no_advance() -> None:
    assert rank(run(1e8, mtt_miss=2e4), PLAIN, Symptom.LOW_THROUGHPUT, CATALOG, Mfs(())) == ((), "")


def test_fewer_packets_are_no_advance() -> None:
    assert rank(run(1e4, mtt_miss=200.0), PLAIN, Symptom.LOW_THROUGHPUT, CATALOG, Mfs(())) == ((), "")


def test_a_counter_too_rare_to_slow_traffic_does_not_discriminate() -> None:
    assert rank(run(wqe_miss=500.0), PLAIN, Symptom.PAUSE, CATALOG, Mfs(())) == ((), "")


def test_a_counter_that_restates_the_symptom_does_not_discriminate() -> None:
    paused = run(paused=2e5, buffer_full=9e5, wqe_miss=5e4)
    assert names(rank(paused, PLAIN, Symptom.PAUSE, CATALOG, Mfs(()))[0]) == ["wqe_miss"]
    assert "buffer_full" in names(rank(paused, PLAIN, Symptom.LOW_THROUGHPUT, CATALOG, Mfs(()))[0])


def test_an_advance_within_the_spread_of_plain_traffic_does_not_discriminate() -> None:
    plain = [run(mtt_miss=value) for value in (1e3, 1e4, 1e5, 1e6)]
    assert rank(run(mtt_miss=4e5), plain, Symptom.PAUSE, CATALOG, Mfs(())) == ((), "")


def test_a_level_is_compared_as_it_is() -> None:
    telling, _ = rank(run(1e7, level=90.0), PLAIN, Symptom.PAUSE, CATALOG, Mfs(()))
    assert names(telling) == ["level"]
    assert telling[0].factor == pytest.approx(7.0)


def test_only_the_most_discriminating_are_named() -> None:
    everything = run(wqe_miss=5e5, mtt_miss=5e5, odd=5e5, level=90.0)
    telling, _ = rank(everything, PLAIN, Symptom.PAUSE, CATALOG, Mfs(()))
    assert len(telling) == MAX_DISCRIMINATING
    assert [item.factor for item in telling] == sorted((item.factor for item in telling), reverse=True)


def test_the_counter_that_the_hint_relies_on_is_named_even_if_others_moved_more() -> None:
    everything = run(wqe_miss=5e5, mtt_miss=5e5, odd=5e5, level=90.0)
    looped = Mfs((Condition("loopback", Op.EQUAL, True),))
    telling, cause = rank(everything, PLAIN, Symptom.PAUSE, CATALOG, looped)
    assert "compete for PCIe" in cause
    assert [item.component for item in telling][-1] == "PCIe"
    assert component(telling, looped) == "PCIe"
    unlooped, _ = rank(everything, PLAIN, Symptom.PAUSE, CATALOG, Mfs(()))
    assert "PCIe" not in {item.component for item in unlooped}
    assert telling[:-1] == unlooped[: len(telling) - 1]


@pytest.mark.parametrize(
    ("here", "plain"),
    [
        (run(None, wqe_miss=5e5), PLAIN),
        (run(wqe_miss=5e5), []),
        (run(wqe_miss=5e5), [run(None)]),
        (run(wqe_miss=5e5), [run(wqe_miss=None)]),
        (run(wqe_miss=None), PLAIN),
        (run(wqe_miss=float("nan")), PLAIN),
    ],
)
def test_an_unknown_counter_does_not_discriminate(here: Measurement, plain: list[Measurement]) -> None:
    assert rank(here, plain, Symptom.PAUSE, CATALOG, Mfs(())) == ((), "")


def test_delivered_packets_serve_where_no_counter_counts_them() -> None:
    catalog = Catalog("poor", CATALOG.counters[2:])
    here = Measurement((HostMeasurement("b", delivered_pps=1e6, counters={"wqe_miss": 5e5}),), 5.0)
    plain = Measurement((HostMeasurement("b", delivered_pps=1e6, counters={"wqe_miss": 0.0}),), 5.0)
    assert names(rank(here, [plain], Symptom.PAUSE, catalog, Mfs(()))[0]) == ["wqe_miss"]


# --- the simulated subsystems -----------------------------------------------------------------------------------------

FITTING = {
    "datagram_prefetch": ("receive WQE cache", "receives posted in large batches"),
    "datagram_receive_cache": ("receive WQE cache", "the receives of many or long queues"),
    "read_slow_path": ("packet engine", "READ responses in many small packets"),
    "read_scatter_lists": ("send WQE cache", "scatter lists of READs"),
    "reliable_prefetch": ("receive WQE cache", "receives posted in large batches"),
    "reliable_receive_cache": ("receive WQE cache", "the receives of many or long queues"),
    "translation_cache": ("translation cache", "address translations"),
    "context_cache": ("QP context cache", "queue pair contexts"),
    "strict_ordering": ("PCIe", "strict ordering"),
    "acknowledgement_blocking": ("acknowledgement unit", "answers to short messages hold up long ones"),
    "socket_link": ("PCIe", "the link between the sockets"),
    "peer_to_peer_redirect": ("PCIe", "GPU memory"),
    "loopback_incast": ("loopback path", "loopback traffic"),
    "transmit_staging": ("transmit staging", "packets of several segments"),
    "pending_reads": ("READ request table", "pending READ requests"),
    "duplex_arbiter": ("packet engine", "between sending and receiving"),
}
"""The component of each mechanism, and words of the hint for its witness."""


def measure(testbed: ports.Testbed, workload: Workload, first: int) -> Measurement:
    results = (testbed.measure(workload, number) for number in range(first, first + 9))
    return next(result.measurement for result in results if isinstance(result, Measured))


def published(case: Witness) -> Mfs:
    """The conditions of the anomaly of the paper whose number the title names."""
    numbered = re.search(r"\(#(\d+)\)", case.title)
    assert numbered
    return load_reference(f"nsdi22-{int(numbered[1]):02}").conditions


@pytest.mark.parametrize(("name", "witnesses"), [("F", 13), ("G", 12), ("H", 5)])
def test_every_witness_gets_the_hint_of_its_mechanism(name: str, witnesses: int) -> None:
    space, choice = load_space("nsdi22"), TestbedChoice(subsystem=name)
    testbed = testbeds.open_testbed(ADAPTERS, choice, 1000)
    cases = wiring.subsystem_of(choice).witnesses
    plain = [measure(testbed, plain_sibling(case.trigger, space), 10 * index) for index, case in enumerate(cases)]
    right = 0
    for index, case in enumerate(cases):
        displayed = measure(testbed, case.trigger, 500 + 10 * index)
        paused = any((host.tx_pause_ratio or 0.0) > 0.001 for host in displayed.hosts)
        symptom = Symptom.PAUSE if paused else Symptom.LOW_THROUGHPUT
        telling, cause = rank(displayed, plain, symptom, testbed.info.catalog, published(case))
        component, words = FITTING[case.mechanism.value]
        assert words in cause, case.mechanism
        right += component in {item.component for item in telling[:2]}
    assert len(cases) == witnesses
    assert right >= witnesses - 1
