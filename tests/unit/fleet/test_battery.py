"""The purpose of each probe, as other traffic would judge a fleet by other things, and the groups that run it."""

from __future__ import annotations

import pytest

from collie.app.fleets import by_rail
from collie.content.anomalies import load_reference
from collie.content.subsystems import load_subsystem
from collie.fleet.battery import BATTERY, Stage, repeats, rounds
from collie.fleet.fault import Fault, FaultKind
from collie.inventory.hosts import MAX_HOSTS, host_of
from collie.simulator.faults import faulty, tuned
from collie.simulator.model import evaluate, evaluate_between
from collie.simulator.subsystem import SubsystemFile
from collie.workloads.workload import EVEN, Direction, Workload

WORKLOADS = {probe.name: probe.workload for probe in BATTERY}
STREAM, SMALL = WORKLOADS["stream"], WORKLOADS["small messages"]
SIMULATED = {probe.name: probe.workload for probe in BATTERY if probe.stage is not Stage.ALL_TO_ONE}
SOUND = tuned(load_subsystem("F", SubsystemFile))


def test_probes_come_from_plain_to_special_with_what_they_stress() -> None:
    assert [(probe.name, probe.stage, probe.stresses) for probe in BATTERY] == [
        ("stream", Stage.RING, None),
        ("small messages", Stage.RING, None),
        ("segments", Stage.RING, "PCIe"),
        ("mixed sizes", Stage.RING, "acknowledgement unit"),
        ("one at a time", Stage.RING, "latency"),
        ("loopback", Stage.LOOPBACK, "receive buffer"),
        ("all to one", Stage.ALL_TO_ONE, "receive buffer"),
    ]


def test_probes_that_load_a_part_of_the_nic_need_one() -> None:
    parts = {probe.name for probe in BATTERY if probe.stresses not in (None, "latency")}
    assert {probe.name for probe in BATTERY if probe.needs_hardware} == parts


@pytest.mark.parametrize(("name", "anomaly"), [("segments", "09"), ("mixed sizes", "10"), ("loopback", "13")])
def test_a_probe_of_a_known_anomaly_is_its_trigger(name: str, anomaly: str) -> None:
    """Except for the number of memory regions, which is no condition of any of the three."""
    assert WORKLOADS[name] == load_reference(f"nsdi22-{anomaly}").trigger.with_(mrs_per_qp=1)


def test_a_probe_differs_from_a_plain_one_only_in_what_it_is_about() -> None:
    assert WORKLOADS["segments"].with_(sge_count=1, sge_split=EVEN, messages=(64 << 10,)) == STREAM
    assert SMALL.with_(qps=1, wqe_batch=1, send_wq_depth=1) == WORKLOADS["one at a time"]
    one_of_a_crowd = STREAM.with_(direction=Direction.UNIDIRECTIONAL, qps=2)
    assert WORKLOADS["all to one"] == one_of_a_crowd.with_(requesters=MAX_HOSTS - 1)
    both_ways = Workload(direction=Direction.BIDIRECTIONAL, mtu=4096)
    assert both_ways.with_(qps=16, wqe_batch=16, messages=(64,)) == SMALL


def test_long_messages_fill_the_link_and_small_ones_leave_it_to_the_packet_rate() -> None:
    long, small = (evaluate(SOUND.hardware, workload) for workload in (STREAM, SMALL))
    for state in (long, small):
        assert state.pause_ratio() == (0.0, 0.0)
    assert min(long.delivered_bps()) > 0.97 * SOUND.hardware.wire.line_rate_bps
    assert max(small.delivered_bps()) < 0.5 * SOUND.hardware.wire.line_rate_bps


@pytest.mark.parametrize(
    ("kind", "slower"),
    [
        (FaultKind.PCIE_HALF_WIDTH, {"stream", "segments", "mixed sizes", "loopback"}),
        (FaultKind.RELAXED_ORDERING_OFF, {"segments"}),
        (FaultKind.OLD_FIRMWARE, {"mixed sizes"}),
        (FaultKind.BUSY_MEMORY, {"mixed sizes"}),
    ],
)
def test_a_fault_slows_the_probes_that_stress_its_component(kind: FaultKind, slower: set[str]) -> None:
    bad = faulty(SOUND, Fault(kind)).hardware
    found = set()
    for name, workload in SIMULATED.items():
        plain, state = evaluate(SOUND.hardware, workload), evaluate_between(SOUND.hardware, bad, workload)
        if state.delivered_bps()[1] < 0.9 * plain.delivered_bps()[1]:
            found.add(name)
    assert found == slower


def test_only_loopback_needs_flow_control_of_a_sound_host() -> None:
    pausing = [name for name, each in SIMULATED.items() if max(evaluate(SOUND.hardware, each).pause_ratio()) > 0.1]
    assert pausing == ["loopback"]


@pytest.mark.parametrize("size", [*range(6, 18), 33])
def test_a_ring_takes_few_rounds(size: int) -> None:
    """Each host has four partners, so four rounds are the least."""
    hosts = [f"h{index:02}" for index in range(size)]
    assert len(rounds(hosts, BATTERY[:1])) <= 5


@pytest.mark.parametrize(("size", "together"), [(29, 0), (30, 3), (39, 3), (40, 4), (200, MAX_HOSTS)])
def test_a_crowd_is_a_tenth_of_the_fleet(size: int, together: int) -> None:
    hosts = [f"h{index}" for index in range(size)]
    crowds = [group.hosts for groups in rounds(hosts, BATTERY[-1:]) for group in groups]
    assert {len(crowd) for crowd in crowds} == ({together} if together else set())
    for sink in hosts if together else ():
        first, second = ({*crowd} - {sink} for crowd in crowds if crowd[1] == sink)
        assert first.isdisjoint(second), "an odd sender is in one of the two runs only"


def test_a_host_without_enough_senders_has_no_crowd() -> None:
    """A device of the large machine has two devices elsewhere, enough for one run and not for two."""
    hosts = by_rail(f"m{machine}/d{device}" for machine, count in enumerate((28, 1, 1)) for device in range(count))
    crowds = [group.hosts for groups in rounds(hosts, BATTERY[-1:]) for group in groups]
    assert {len(crowd) for crowd in crowds} == {3}
    assert sum(crowd[1] == "m0/d0" for crowd in crowds) == 1


@pytest.mark.parametrize("devices", [(1,) * 4, (1,) * 6, (1,) * 16, (4, 1, 1, 1), (8, 1, 1, 1, 1), (4,)])
def test_the_fewest_repeats_give_every_host_enough_peers(devices: tuple[int, ...]) -> None:
    hosts = by_rail(f"m{machine}/d{device}" for machine, count in enumerate(devices) for device in range(count))
    pairs = [group.hosts for groups in rounds(hosts, BATTERY[:1]) for group in groups]
    unit = host_of if len(devices) > 1 else str
    fewest = min(sum(apart not in map(unit, pair) for pair in pairs) for apart in map(unit, hosts))
    assert repeats(hosts) * fewest >= 12
    assert (repeats(hosts) - 1) * fewest < 12
