"""Unlike hosts of a simulated fleet: each fault acts through the model, at its own host."""

from __future__ import annotations

from functools import cache

import pytest

from collie.content.subsystems import load_subsystem
from collie.errors import UsageError
from collie.fleet.battery import BATTERY, Stage
from collie.fleet.fault import Fault, FaultKind
from collie.simulator.faults import BIT_ERROR_RATIO, faulty, tuned
from collie.simulator.hardware import Subsystem
from collie.simulator.model import SteadyState, evaluate, evaluate_between
from collie.simulator.readings import COUNTERS, FLEET_COUNTERS, counters, counters_between
from collie.simulator.subsystem import SubsystemFile
from collie.workloads.workload import Direction, Opcode, Workload

PLAIN = tuned(load_subsystem("F", SubsystemFile))
SOUND = PLAIN.hardware
STREAM = next(probe.workload for probe in BATTERY if probe.name == "stream")
LOOPBACK = next(probe.workload for probe in BATTERY if probe.stage is Stage.LOOPBACK)


@cache
def _hardware(kind: FaultKind) -> Subsystem:
    return faulty(PLAIN, Fault(kind)).hardware


def _with_peer(kind: FaultKind, workload: Workload = STREAM) -> tuple[SteadyState, dict[str, float], dict[str, float]]:
    """Return a sound host a beside a faulty host b: the state, and what both read."""
    state = evaluate_between(SOUND, _hardware(kind), workload)
    a, b = counters_between(SOUND, _hardware(kind), state)
    names = COUNTERS + FLEET_COUNTERS
    return state, dict(zip(names, a, strict=True)), dict(zip(names, b, strict=True))


@pytest.mark.parametrize("probe", [probe for probe in BATTERY if probe.stage is not Stage.ALL_TO_ONE], ids=str)
def test_hosts_of_one_kind_read_what_they_read_without_the_word_unlike(probe: object) -> None:
    workload = getattr(probe, "workload")  # noqa: B009
    alike, between = evaluate(SOUND, workload), evaluate_between(SOUND, SOUND.model_copy(), workload)
    assert between.delivered_bps() == alike.delivered_bps()
    for one, other in zip(counters(SOUND, alike), counters_between(SOUND, SOUND.model_copy(), between), strict=True):
        assert list(other)[: len(COUNTERS)] == list(one)
        assert list(other)[len(COUNTERS) : -1] == [0.0] * (len(FLEET_COUNTERS) - 1)


@pytest.mark.parametrize("opcode", [Opcode.WRITE, Opcode.READ])
def test_a_fault_is_at_its_own_host_whatever_the_way_of_the_payload(opcode: Opcode) -> None:
    workload = Workload(direction=Direction.BIDIRECTIONAL, opcode=opcode, qps=8, mtu=4096, messages=(64 << 10,))
    bad = _hardware(FaultKind.BIT_ERRORS)
    at = (COUNTERS + FLEET_COUNTERS).index("rx_crc_errors")
    first = counters_between(bad, SOUND, evaluate_between(bad, SOUND, workload))
    second = counters_between(SOUND, bad, evaluate_between(SOUND, bad, workload))
    assert first[0][at] == second[1][at] > 0
    assert first[1][at] == second[0][at] == 0


def test_half_the_lanes_halve_what_the_host_takes() -> None:
    state, sound, narrow = _with_peer(FaultKind.PCIE_HALF_WIDTH)
    assert state.delivered_bps()[1] < 0.6 * SOUND.wire.line_rate_bps
    assert narrow["tx_pause_duration"] == sound["rx_pause_duration"] > 1e5
    assert narrow["pcie_internal_back_pressure"] > 2.0 * sound["pcie_internal_back_pressure"]


def test_the_lower_mtu_is_that_of_the_connection() -> None:
    state, sound, small = _with_peer(FaultKind.WRONG_MTU)
    plain = evaluate(SOUND, STREAM)
    assert state.traffic.mtu == 1024
    assert sound["rx_packets"] == pytest.approx(small["rx_packets"])
    assert state.traffic.packets == 4 * plain.traffic.packets


def test_wrong_bits_are_counted_where_they_arrive_and_repeated_by_both() -> None:
    state, sound, bad = _with_peer(FaultKind.BIT_ERRORS)
    share = 8.0 * state.traffic.wire / state.traffic.packets * BIT_ERROR_RATIO
    assert bad["rx_crc_errors"] == pytest.approx(bad["rx_packets"] * share, rel=0.05)
    assert sound["rx_crc_errors"] == 0
    assert sound["out_of_sequence"] == pytest.approx(bad["out_of_sequence"])
    assert min(sound["packets_sent_again"], bad["packets_sent_again"]) > bad["out_of_sequence"]
    assert state.delivered_bps()[0] < evaluate(SOUND, STREAM).delivered_bps()[0]


def test_a_side_without_flow_control_drops_what_its_peers_pause() -> None:
    plain = evaluate(SOUND, LOOPBACK)
    state, _sound, without = _with_peer(FaultKind.PFC_OFF, LOOPBACK)
    assert plain.pause_ratio()[1] > 0.1
    assert state.pauses() == (True, False)
    assert state.pause_ratio()[1] == 0
    assert state.loss_ratio()[1] > 0.1
    assert without["out_of_buffer"] > 1e5
    # It does not heed its peer either: what the sound side cannot take is lost as well.
    turned = evaluate_between(_hardware(FaultKind.PFC_OFF), SOUND, LOOPBACK)
    assert turned.pause_ratio()[1] > 0.1
    assert turned.loss_ratio()[1] > 0.1


def test_busy_memory_makes_its_nic_wait() -> None:
    _state, sound, busy = _with_peer(FaultKind.BUSY_MEMORY)
    assert busy["memory_stalled"] > 100.0 * sound["memory_stalled"]


def test_settings_fall_back() -> None:
    assert PLAIN.settings["firmware"].value == "22.31"
    assert faulty(PLAIN, Fault(FaultKind.OLD_FIRMWARE)).settings["firmware"].value == "22.28"
    assert _hardware(FaultKind.RELAXED_ORDERING_OFF).pcie.strict_ordering
    assert not SOUND.pcie.strict_ordering


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("H", FaultKind.OLD_FIRMWARE, "no other firmware"),
        ("H", FaultKind.RELAXED_ORDERING_OFF, "no other relaxed ordering"),
    ],
)
def test_a_fault_that_a_subsystem_cannot_have_is_refused(name: str, kind: FaultKind, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        faulty(tuned(load_subsystem(name, SubsystemFile)), Fault(kind))


def test_pfc_that_is_off_everywhere_is_not_off_on_one_side() -> None:
    with pytest.raises(UsageError, match="off on all"):
        faulty(PLAIN.with_settings({"pfc": "disabled"}), Fault(FaultKind.PFC_OFF))
